//! The line between one mount and its store, which fails at a call that is chosen by its number;
//! once, or from then on. The store itself goes on, and other mounts reach it by their own lines.
//!
//! A call that takes several keys counts once for each, and fails in between: what came before
//! is done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidefs_model::{ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead, StripeWrite,
    When,
};

/// Which call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Counted from 1 since the line was [cut](Line::cut).
    pub call: u64,
    /// Whether the store got the request.
    pub when: When,
    /// No later call gets through either, as if the mount had died.
    pub for_good: bool,
}

pub struct Line<S> {
    store: Arc<S>,
    calls: AtomicU64,
    cut: Mutex<Option<Cut>>,
}

impl<S: Store> Line<S> {
    pub fn new(store: Arc<S>) -> Line<S> {
        Line { store, calls: AtomicU64::new(0), cut: Mutex::new(None) }
    }

    pub fn cut(&self, cut: Cut) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
        self.calls.store(0, Ordering::SeqCst);
    }

    /// Every call gets through again.
    pub fn mend(&self) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Calls since the line was cut.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn call<T>(&self, work: impl FnOnce(&S) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let endpoint = || "the store behind a cut line".into();
        match *self.cut.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Cut { call, when: When::Before, .. }) if number == call => {
                Err(StoreError::Unavailable { endpoint: endpoint() })
            }
            Some(Cut { call, when: When::After, .. }) if number == call => {
                work(&self.store).and(Err(StoreError::Indeterminate { endpoint: endpoint() }))
            }
            Some(Cut { call, for_good: true, .. }) if number > call => {
                Err(StoreError::Unavailable { endpoint: endpoint() })
            }
            _ => work(&self.store),
        }
    }
}

impl<S: Store> Store for Line<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.call(|store| store.batch(shard, batch))
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        batches.iter().map(|(shard, batch)| self.batch(*shard, batch)).collect()
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.call(|store| store.list(shards))
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.call(|store| store.keys(cursor))
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        shards.iter().try_for_each(|shard| self.call(|store| store.delete_shards(&[*shard])))
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.call(|store| store.read(reads))
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        writes.iter().try_for_each(|write| self.call(|store| store.write(&[*write])))
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        trims.iter().try_for_each(|trim| self.call(|store| store.trim(&[*trim])))
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.call(|store| store.lengths(stripes))
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.store.overview()
    }
}
