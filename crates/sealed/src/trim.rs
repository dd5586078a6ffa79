//! Cutting stripes: the seals go first, so that what is cut off reads as zeros from then on; a block
//! that is cut in its middle keeps its bytes, and less of them is seen.
//!
//! Between both steps nobody may write what the second one would cut off. A client that is alone keeps
//! its own threads away; one with company leaves a mark, which is an announcement that nothing opens.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::StripeKey;
use tidefs_store::{Batch, Store, StoreError};

use crate::change::Change;
use crate::layout::{by_shard, field_of};
use crate::record::{Geometry, Record, Seal};
use crate::sealed::{Sealed, Seals};

const ATTEMPTS: u32 = 1_000;

/// To how many bytes each stripe is cut.
type Cuts = Vec<(StripeKey, u32)>;

impl<S: Store> Sealed<S> {
    pub(crate) fn trim_sealed(
        &self,
        seals: &Seals,
        trims: &[(StripeKey, u32)],
    ) -> Result<(), StoreError> {
        let mut least: BTreeMap<StripeKey, u32> = BTreeMap::new();
        for &(key, length) in trims {
            let known = least.entry(key).or_insert(length);
            *known = length.min(*known);
        }
        let (whole, parts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            least.into_iter().partition(|(_, length)| *length == 0);
        let _locks = seals.locks.lock(whole.keys().chain(parts.keys()).copied());
        let leave = seals.go_unannounced();
        let mark = leave.is_none().then(|| seals.mark());
        let mut marked = self.remove_seals(seals, whole.keys().copied(), mark)?;
        let done = self.cut_seals(seals, &parts, mark).and_then(|(mut cuts, changes)| {
            marked.extend(changes);
            cuts.extend(whole);
            self.inner.trim(&cuts)
        });
        match (mark, &done) {
            (None, _) => {}
            (Some(_), Err(error)) => self.withdraw(seals, &marked, error),
            (Some(_), Ok(())) => self.take_away(seals, &marked),
        }
        done
    }

    /// Whatever the seals are, also where somebody has announced others: they begin anew.
    fn remove_seals(
        &self,
        seals: &Seals,
        keys: impl Iterator<Item = StripeKey> + Clone,
        mark: Option<Seal>,
    ) -> Result<Vec<Change>, StoreError> {
        let mut left = Record::default();
        left.announced.extend(mark.map(|mark| (0, mark)));
        let remove = |(shard, stripes): (_, Vec<(StripeKey, ())>)| {
            let fields = stripes.into_iter().map(|(key, ())| field_of(key));
            let batch = fields.fold(Batch::new().reclaims(), |batch, field| match mark {
                Some(_) => batch.put(field, left.encode()),
                None => batch.delete(field),
            });
            (shard, batch)
        };
        let batches: Vec<_> =
            by_shard(keys.clone().map(|key| (key, ()))).into_iter().map(remove).collect();
        let removed = match &batches[..] {
            [] => Ok(()),
            [(shard, batch)] => self.inner.batch(*shard, batch).map(drop),
            batches => self.inner.batches(batches).map(drop),
        };
        for key in keys.clone() {
            match (&removed, mark) {
                (Ok(()), None) => seals.cache.remove(key),
                _ => seals.cache.forget(key),
            }
        }
        let marked: Vec<_> =
            keys.map(|key| Change::new(key, &Arc::default(), left.clone())).collect();
        if let (Err(error), Some(_)) = (&removed, mark) {
            self.withdraw(seals, &marked, error);
        }
        removed.map(|()| marked)
    }

    /// What is left to be cut of the bytes, and the changes that were made.
    fn cut_seals(
        &self,
        seals: &Seals,
        trims: &BTreeMap<StripeKey, u32>,
        mark: Option<Seal>,
    ) -> Result<(Cuts, Vec<Change>), StoreError> {
        let keys: Vec<_> = trims.keys().copied().collect();
        if keys.is_empty() {
            return Ok(Default::default());
        }
        for _ in 0..ATTEMPTS {
            let held = self.claim(seals, &keys)?;
            let mut cuts = Vec::with_capacity(keys.len());
            let mut changes = Vec::new();
            for ((&key, &length), held) in trims.iter().zip(&held) {
                let mut record = cut(&held.record, length, seals.geometry);
                cuts.push((key, end_of(&record, length, seals.geometry)));
                record.announced.extend(mark.map(|mark| (0, mark)));
                if record != held.record {
                    changes.push(Change::new(key, held, record));
                }
            }
            match self.change(seals, &changes, true) {
                Ok(true) => return Ok((cuts, changes)),
                Ok(false) => {}
                Err(error) => {
                    self.withdraw(seals, &changes, &error);
                    return Err(error);
                }
            }
        }
        Err(StoreError::Unavailable { endpoint: "a stripe that others keep changing".into() })
    }

    /// The bytes are cut, so others may go on. Where that cannot be said now, it is said later, and
    /// the cut is done all the same.
    fn take_away(&self, seals: &Seals, marked: &[Change]) {
        let clear = |marked: &Change| {
            let mut record = marked.after.record.clone();
            record.announced.clear();
            Change::new(marked.key, &marked.after, record)
        };
        let cleared: Vec<_> = marked.iter().map(clear).collect();
        // Refused where another one has cut the stripe meanwhile: the mark is its own then.
        if let Err(error) = self.change(seals, &cleared, true) {
            self.withdraw(seals, marked, &error);
        }
    }
}

fn cut(record: &Record, length: u32, geometry: Geometry) -> Record {
    let mut cut = record.clone();
    for block in 0..record.count() {
        cut.cut(block, length.saturating_sub(geometry.start_of(block)));
    }
    cut
}

/// Where the bytes end that the last block needs to open, with whichever seal.
fn end_of(record: &Record, length: u32, geometry: Geometry) -> u32 {
    record.last().map_or(length, |(last, _)| geometry.start_of(last) + record.sealed(last))
}
