//! Writing: announce, write, settle.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::{ShardKey, StripeKey};
use tidefs_store::{Batch, Cut, Outcome, Store, StoreError, StripeRead, StripeWrite};

use crate::change::Change;
use crate::draft::{Canvas, Draft};
use crate::plan::forged;
use crate::sealed::{Sealed, Seals};

/// How often others may change a record between a look at it and the change.
const ATTEMPTS: u32 = 1_000;

/// The writes of one call, by stripe, each stripe's in order.
type Groups<'w> = BTreeMap<StripeKey, Vec<StripeWrite<'w>>>;
/// How a call's writes and its batch ended, each for itself.
type Both = (Result<(), StoreError>, Result<Outcome, StoreError>);

impl<S: Store> Sealed<S> {
    pub(crate) fn write_sealed(
        &self,
        seals: &Seals,
        writes: &[StripeWrite<'_>],
        cut: Option<Cut>,
    ) -> Result<(), StoreError> {
        let groups = groups(seals, writes)?;
        let _locks = seals.locks.lock(groups.keys().copied());
        for _ in 0..ATTEMPTS {
            if self.try_write(seals, &groups, cut)? {
                return Ok(());
            }
        }
        Err(StoreError::Unavailable { endpoint: "a stripe that others keep changing".into() })
    }

    /// New blocks of a client that is alone go together with the batch; anything else goes first.
    pub(crate) fn write_sealed_and_batch(
        &self,
        seals: &Seals,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> Both {
        match self.try_new_with(seals, writes, shard, batch) {
            Ok(Some(both)) => both,
            Ok(None) => (self.write_sealed(seals, writes, None), self.inner.batch(shard, batch)),
            Err(error) => (Err(error), self.inner.batch(shard, batch)),
        }
    }

    fn try_new_with(
        &self,
        seals: &Seals,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> Result<Option<Both>, StoreError> {
        let groups = groups(seals, writes)?;
        let _locks = seals.locks.lock(groups.keys().copied());
        let Some(_leave) = seals.go_unannounced() else { return Ok(None) };
        let mut drafts = self.drafts(seals, &groups, None)?;
        if !drafts.iter().all(Draft::is_new) {
            return Ok(None);
        }
        let settled = seal_all(seals, &mut drafts)?;
        let runs: Vec<_> = drafts.iter().flat_map(Draft::runs).collect();
        let (written, outcome) = self.inner.write_and_batch(&runs, shard, batch);
        let others_came =
            || StoreError::Indeterminate { endpoint: "a stripe others changed".into() };
        let written =
            written.and_then(|()| self.change(seals, &settled, false)).and_then(|settled| {
                match settled {
                    true => Ok(()),
                    false => Err(others_came()),
                }
            });
        Ok(Some((written, outcome)))
    }

    /// `false`: somebody else has changed a stripe first.
    fn try_write(
        &self,
        seals: &Seals,
        groups: &Groups<'_>,
        cut: Option<Cut>,
    ) -> Result<bool, StoreError> {
        let leave = seals.go_unannounced();
        let mut drafts = self.drafts(seals, groups, cut)?;
        if !self.read_bases(seals, &mut drafts)? {
            return Ok(false);
        }
        let settled = seal_all(seals, &mut drafts)?;
        let runs: Vec<_> = drafts.iter().flat_map(Draft::runs).collect();
        if leave.is_some() && drafts.iter().all(Draft::is_new) {
            self.put(&runs, cut)?;
            return self.change(seals, &settled, false);
        }
        drop(leave);
        let announced: Vec<_> = drafts.iter().map(Draft::announcement).collect();
        match self.change(seals, &announced, false) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                self.withdraw(seals, &announced, &error);
                return Err(error);
            }
        }
        let of_announced = |(announced, settled): (&Change, Change)| Change {
            before: Arc::clone(&announced.after),
            ..settled
        };
        let settled: Vec<_> = announced.iter().zip(settled).map(of_announced).collect();
        // Refused where others cut the stripe meanwhile: then this write comes after that.
        let done = self.put(&runs, cut).and_then(|()| self.change(seals, &settled, true));
        if let Err(error) = &done {
            self.withdraw(seals, &announced, error);
        }
        done
    }

    /// Where bytes were lost that were cut since, the store is told so: it would leave no gap there.
    fn put(&self, runs: &[StripeWrite<'_>], cut: Option<Cut>) -> Result<(), StoreError> {
        match cut {
            Some(cut) => self.inner.write_cut(runs, cut),
            None => self.inner.write(runs),
        }
    }

    fn drafts<'s>(
        &self,
        seals: &'s Seals,
        groups: &Groups<'_>,
        cut: Option<Cut>,
    ) -> Result<Vec<Draft<'s>>, StoreError> {
        let keys: Vec<_> = groups.keys().copied().collect();
        let held = self.claim(seals, &keys)?;
        // A cut before the last loss of seals says nothing of what is absent. Looked up after the seals, as these may
        // have been lost while they were asked for.
        let cut_from = match cut {
            Some(cut) if self.is_before_cut(seals, cut)? => Some(cut.from),
            _ => None,
        };
        groups
            .iter()
            .zip(held)
            .map(|((key, writes), held)| {
                let on = Canvas { geometry: seals.geometry, buffers: &seals.buffers, cut_from };
                Draft::new(on, *key, held, writes)
            })
            .collect()
    }

    /// Completes blocks of which only a part is written. `false`: somebody else has changed one.
    fn read_bases(&self, seals: &Seals, drafts: &mut [Draft<'_>]) -> Result<bool, StoreError> {
        let mut reads: Vec<StripeRead<'_>> = drafts.iter_mut().flat_map(Draft::bases).collect();
        if reads.is_empty() {
            return Ok(true);
        }
        self.inner.read(&mut reads)?;
        drop(reads);
        let keyring = seals.keyring()?;
        for draft in drafts {
            if draft.open_bases(keyring) {
                continue;
            }
            let now = self.fetch(seals, &[draft.key], 1)?;
            if now.first() == Some(&draft.before) {
                if draft.before.record.in_doubt().is_empty() {
                    return Err(forged(draft.key));
                }
                // Something that was given up has come after all.
                self.resolve(seals, draft.key, &draft.before)?;
            }
            seals.cache.forget(draft.key);
            return Ok(false);
        }
        Ok(true)
    }
}

fn groups<'w>(seals: &Seals, writes: &[StripeWrite<'w>]) -> Result<Groups<'w>, StoreError> {
    let mut groups = Groups::new();
    for write in writes.iter().filter(|write| !write.bytes.is_empty()) {
        seals.geometry.check_range(write.offset, write.bytes.len())?;
        groups.entry(write.key).or_default().push(*write);
    }
    Ok(groups)
}

/// Seals what is drafted. The changes make the new seals hold.
fn seal_all(seals: &Seals, drafts: &mut [Draft<'_>]) -> Result<Vec<Change>, StoreError> {
    let keyring = seals.keyring()?;
    Ok(drafts.iter_mut().map(|draft| draft.seal(keyring)).collect())
}
