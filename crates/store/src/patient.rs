//! A store whose writers wait for room instead of failing.
//!
//! What meets a full node asks a [`Room`], which may make room and says whether to try again. Only
//! calls that change nothing when they are refused, or the same when they are repeated, wait: a
//! batch on one shard and a write of stripes. What is made of both at once does not wait: a caller
//! repeats the part that failed.

use std::sync::Arc;

use tidefs_model::{Ino, Run, ShardKey, StripeKey};

use crate::{
    Batch, Cursor, KeyPage, Outcome, Overview, Page, Pin, Store, StoreError, StripeRead,
    StripeWrite,
};

/// Who can make room.
pub trait Room: Send + Sync + 'static {
    /// Called when a node was full, again and again for as long as the caller may hope. Waits for
    /// a moment. `false`: there will be no room. `attempt` counts from 0 for each call that waits.
    fn wait(&self, endpoint: &str, attempt: u32) -> bool;
}

/// Any store, with patience.
pub struct Patient<S> {
    inner: S,
    room: Arc<dyn Room>,
}

impl<S: Store> Patient<S> {
    pub fn new(inner: S, room: Arc<dyn Room>) -> Patient<S> {
        Patient { inner, room }
    }

    /// The store inside, which has none.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn patiently<T>(&self, work: impl Fn(&S) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut attempt = 0;
        loop {
            match work(&self.inner) {
                Err(StoreError::Full { endpoint }) if self.room.wait(&endpoint, attempt) => {
                    attempt = attempt.saturating_add(1);
                }
                done => return done,
            }
        }
    }
}

impl<S: Store> Store for Patient<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.patiently(|store| store.batch(shard, batch))
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.inner.batches(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.inner.list(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.inner.keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.inner.delete_shards(shards)
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.inner.read(reads)
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        self.patiently(|store| store.write(writes))
    }

    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        self.inner.write_and_batch(writes, shard, batch)
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.inner.trim(trims)
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.inner.lengths(stripes)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.inner.overview()
    }

    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        self.inner.remove(ino)
    }

    fn pin(&self, ino: Ino) -> Option<Pin> {
        self.inner.pin(ino)
    }

    fn unpin(&self, ino: Ino) {
        self.inner.unpin(ino);
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.inner.near(asker, chance)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidefs_model::{ByteSize, StripeSize};

    use super::*;
    use crate::{Embedded, Fault, Faulty, Operation};

    /// Hopes for so many attempts, and notes what it was asked.
    struct Hope {
        attempts: u32,
        asked: Mutex<Vec<(String, u32)>>,
    }

    impl Room for Hope {
        fn wait(&self, endpoint: &str, attempt: u32) -> bool {
            self.asked.lock().unwrap().push((endpoint.to_owned(), attempt));
            attempt < self.attempts
        }
    }

    const SHARD: ShardKey = ShardKey { directory: Ino(1), index: 0 };
    const STRIPE: StripeKey = StripeKey { ino: Ino(2), index: 0 };

    fn full_at_first(operation: Operation, times: u64) -> Faulty<Embedded> {
        let full = StoreError::Full { endpoint: "a node".into() };
        let faults = (1..=times).map(|nth| Fault::nth(operation, nth, full.clone())).collect();
        Faulty::new(Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT), faults)
    }

    fn patient(store: Faulty<Embedded>, attempts: u32) -> (Patient<Faulty<Embedded>>, Arc<Hope>) {
        let hope = Arc::new(Hope { attempts, asked: Mutex::default() });
        (Patient::new(store, Arc::clone(&hope) as Arc<dyn Room>), hope)
    }

    #[test]
    fn a_batch_and_a_write_wait_until_there_is_room() {
        let (store, hope) = patient(full_at_first(Operation::Batch, 2), 9);
        assert!(store.batch(SHARD, &Batch::new().add("n", 0, 1)).unwrap().applied());
        let read = store.batch(SHARD, &Batch::new().read("n")).unwrap();
        assert_eq!(read.values, [Some(1_u64.to_be_bytes().to_vec())], "it was made once");
        let asked = [("a node".to_owned(), 0), ("a node".to_owned(), 1)];
        assert_eq!(*hope.asked.lock().unwrap(), asked);

        let (store, hope) = patient(full_at_first(Operation::Write, 1), 9);
        store.write(&[StripeWrite { key: STRIPE, offset: 0, bytes: b"bytes" }]).unwrap();
        assert_eq!(store.lengths(&[STRIPE]).unwrap(), [5]);
        assert_eq!(hope.asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn without_hope_the_writer_is_told_that_the_node_is_full() {
        let (store, hope) = patient(full_at_first(Operation::Write, 9), 3);
        let write = [StripeWrite { key: STRIPE, offset: 0, bytes: b"bytes" }];
        assert!(matches!(store.write(&write), Err(StoreError::Full { .. })));
        assert_eq!(hope.asked.lock().unwrap().len(), 4);
        assert_eq!(store.inner().count(Operation::Write), 4);
    }

    #[test]
    fn other_failures_are_told_at_once() {
        let gone = StoreError::Unavailable { endpoint: "a node".into() };
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        let store = Faulty::new(store, vec![Fault::nth(Operation::Write, 1, gone.clone())]);
        let (store, hope) = patient(store, 3);
        let write = [StripeWrite { key: STRIPE, offset: 0, bytes: b"bytes" }];
        assert_eq!(store.write(&write), Err(gone));
        assert!(hope.asked.lock().unwrap().is_empty());
    }
}
