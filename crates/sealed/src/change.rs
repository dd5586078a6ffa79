//! Changing records of seals: each only if it is what it was thought to be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_model::StripeKey;
use tidefs_store::{Batch, Store, StoreError};

use crate::record::Record;
use crate::sealed::{Sealed, Seals};
use crate::table::{Held, by_shard, field_of};

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

/// Keeps the threads of this client from changing the same stripes at the same time.
pub struct Locks(Vec<Mutex<()>>);

const LOCKS: usize = 256;

impl Locks {
    pub fn new() -> Locks {
        Locks((0..LOCKS).map(|_| Mutex::default()).collect())
    }

    pub fn lock(&self, keys: impl IntoIterator<Item = StripeKey>) -> Vec<MutexGuard<'_, ()>> {
        let number = |key: StripeKey| usize::from(key.partition().number()) % LOCKS;
        let mut numbers: Vec<_> = keys.into_iter().map(number).collect();
        // Everybody takes them in the same order.
        numbers.sort_unstable();
        numbers.dedup();
        let lock = |at: usize| self.0[at].lock().unwrap_or_else(PoisonError::into_inner);
        numbers.into_iter().map(lock).collect()
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
