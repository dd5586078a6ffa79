//! How the seals of stripes are read.

use std::sync::Arc;

use tidefs_model::{Granted, StripeKey};
use tidefs_store::{Batch, Cut, Store, StoreError};

use crate::layout::{Held, by_shard, field_of, shard_of};
use crate::record::Record;
use crate::sealed::{Sealed, Seals};

/// Stripes whose seals are read together with those asked for, by a client that may keep them.
const STRIPES_AHEAD: u32 = 15;

impl<S: Store> Sealed<S> {
    /// The seals of stripes, remembered ones where that may be.
    pub(crate) fn seals_of(
        &self,
        seals: &Seals,
        keys: &[StripeKey],
    ) -> Result<Vec<Arc<Held>>, StoreError> {
        let Some(alone) = seals.time_alone() else { return self.fetch(seals, keys, keys.len()) };
        let known: Vec<_> = keys.iter().map(|key| seals.cache.get(*key, alone)).collect();
        let unknown = keys.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(key, _)| *key).collect();
        if unknown.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let asked = with_next(&unknown);
        let stamps: Vec<_> = asked.iter().map(|key| seals.cache.ask(*key)).collect();
        let fetched = self.fetch(seals, &asked, unknown.len())?;
        for (at, ((key, held), stamp)) in asked.iter().zip(&fetched).zip(stamps).enumerate() {
            if at < unknown.len() || !held.is_absent {
                seals.cache.learn(*key, held, alone, stamp);
            }
        }
        let mut fetched = fetched.into_iter();
        Ok(known.into_iter().filter_map(|known| known.or_else(|| fetched.next())).collect())
    }

    /// The seals of stripes as the store has them now. Of those after the first `wanted`, what is
    /// absent may be lost.
    pub(crate) fn fetch(
        &self,
        seals: &Seals,
        keys: &[StripeKey],
        wanted: usize,
    ) -> Result<Vec<Arc<Held>>, StoreError> {
        let shards = by_shard(keys.iter().enumerate().map(|(at, key)| (*key, at)));
        let batch = |stripes: &[(StripeKey, usize)]| {
            stripes.iter().fold(Batch::new(), |batch, (key, _)| batch.read(field_of(*key)))
        };
        let batches: Vec<_> =
            shards.iter().map(|(shard, stripes)| (*shard, batch(stripes))).collect();
        let outcomes = match &batches[..] {
            [] => return Ok(Vec::new()),
            [(shard, batch)] => vec![self.inner.batch(*shard, batch)?],
            batches => self.inner.batches(batches)?,
        };
        let mut held = vec![Held::default(); keys.len()];
        let values = outcomes.into_iter().flat_map(|outcome| outcome.values);
        for ((key, at), value) in shards.into_values().flatten().zip(values) {
            if let Some(value) = value {
                let record =
                    Record::decode(&value, seals.geometry).ok_or_else(|| malformed(key))?;
                held[at] = Held { record, is_absent: false };
            }
        }
        if held[..wanted].iter().any(|held| held.is_absent) {
            let lost_below = self.lost_below(seals)?;
            for (key, held) in keys.iter().zip(&mut held[..wanted]) {
                held.record.rests_lost |= held.is_absent && lost_below.covers(key.ino);
            }
        }
        Ok(held.into_iter().map(Arc::new).collect())
    }

    /// Seals as they are for whoever looks at what was cut: what is absent there was not lost before the cut.
    pub(crate) fn less_what_was_cut(
        &self,
        seals: &Seals,
        mut held: Vec<Arc<Held>>,
        cut: Option<Cut>,
    ) -> Result<Vec<Arc<Held>>, StoreError> {
        let may_be_lost = held.iter().any(|held| held.record.rests_lost);
        let Some(cut) = cut.filter(|_| may_be_lost) else { return Ok(held) };
        if self.is_before_cut(seals, cut)? {
            held.iter_mut().for_each(|held| Arc::make_mut(held).record.rests_lost = false);
        }
        Ok(held)
    }

    /// No seals were lost after a cut.
    pub(crate) fn is_before_cut(&self, seals: &Seals, cut: Cut) -> Result<bool, StoreError> {
        Ok(self.lost_below(seals)?.inos <= cut.as_of)
    }

    /// Inodes that this covers may have lost seals. To be read after the seals: it is set before
    /// others hold what was lost.
    fn lost_below(&self, seals: &Seals) -> Result<Granted, StoreError> {
        let (shard, field) = &seals.circumstances.losses;
        let value = self.inner.batch(*shard, &Batch::new().read(field.clone()))?.take(0);
        let Some(value) = value else { return Ok(Granted::default()) };
        Granted::decode(&value)
            .ok_or_else(|| StoreError::Malformed { endpoint: "the bound of losses".into() })
    }
}

/// The stripes, then those that come after the last one in its shard.
fn with_next(keys: &[StripeKey]) -> Vec<StripeKey> {
    let mut all = keys.to_vec();
    if let Some(last) = keys.iter().max() {
        let after = (1..=STRIPES_AHEAD).filter_map(|step| last.index.checked_add(step));
        let after = after.map(|index| StripeKey { ino: last.ino, index });
        all.extend(after.filter(|key| shard_of(*key) == shard_of(*last)));
    }
    all
}

fn malformed(key: StripeKey) -> StoreError {
    let StripeKey { ino, index } = key;
    StoreError::Malformed { endpoint: format!("the seals of stripe {index} of inode {ino}").into() }
}
