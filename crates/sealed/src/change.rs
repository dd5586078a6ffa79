//! Changing records of seals: each only if it is what it was thought to be.

use std::sync::Arc;

use tidefs_model::StripeKey;
use tidefs_store::{Batch, Store, StoreError};

use crate::layout::{Held, by_shard, field_of};
use crate::record::Record;
use crate::sealed::{Sealed, Seals};

/// A change of one stripe's record.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: StripeKey,
    pub before: Arc<Held>,
    pub after: Arc<Held>,
}

impl Change {
    pub fn new(key: StripeKey, before: &Arc<Held>, after: Record) -> Change {
        Change { key, before: Arc::clone(before), after: Arc::new(Held::of(after)) }
    }

    fn apply(&self, batch: Batch) -> Batch {
        let field = field_of(self.key);
        let batch = match self.before.is_absent {
            true => batch.absent(field.clone()),
            false => batch.equals(field.clone(), self.before.record.encode()),
        };
        match self.after.is_absent {
            true => batch.delete(field),
            false => batch.put(field, self.after.record.encode()),
        }
    }
}

impl<S: Store> Sealed<S> {
    /// Makes changes, those in one shard together. `false`: some were refused, since others had
    /// changed a record.
    pub(crate) fn change(
        &self,
        seals: &Seals,
        changes: &[Change],
        reclaims: bool,
    ) -> Result<bool, StoreError> {
        let before = seals.time_alone();
        let changed = self.change_all(changes, reclaims);
        // Others that came or went meanwhile may have changed the records since.
        let alone = before.filter(|_| before == seals.time_alone());
        for Change { key, after, .. } in changes {
            match (&changed, alone) {
                (Ok(true), Some(_)) if after.is_absent => seals.cache.remove(*key),
                (Ok(true), Some(alone)) => seals.cache.put(*key, after, alone),
                _ => seals.cache.forget(*key),
            }
        }
        changed
    }

    fn change_all(&self, changes: &[Change], reclaims: bool) -> Result<bool, StoreError> {
        let shards = by_shard(changes.iter().map(|change| (change.key, change)));
        let batches = shards.into_iter().map(|(shard, changes)| {
            let batch = Batch { reclaims, ..Batch::new() };
            (shard, changes.into_iter().fold(batch, |batch, (_, change)| change.apply(batch)))
        });
        let batches: Vec<_> = batches.collect();
        match &batches[..] {
            [] => Ok(true),
            [(shard, batch)] => Ok(self.inner.batch(*shard, batch)?.applied()),
            batches => Ok(self.inner.batches(batches)?.iter().all(|outcome| outcome.applied())),
        }
    }
}
