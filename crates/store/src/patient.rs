//! A store whose writers wait for room instead of failing.
//!
//! What meets a full node asks a [`Room`], which may have room made and says whether to hope; until
//! there is some, it waits in a [line](crate::line). Only calls that change nothing when they are
//! refused, or the same when they are repeated, wait: a batch on one shard and a write of stripes.
//! What is made of both at once does not wait: a caller repeats the part that failed.

use std::sync::Arc;

use tidefs_model::{Ino, Partition, Run, ShardKey, StripeKey};

use crate::caller;
use crate::line::{Kind, Lines, Next, Place};
use crate::room::Room;
use crate::{
    Batch, Cursor, Cut, KeyPage, Location, Outcome, Overview, Page, Pin, Store, StoreError,
    StripeRead, StripeWrite,
};

/// Any store, with patience.
pub struct Patient<S> {
    inner: S,
    room: Arc<dyn Room>,
    lines: Lines,
}

impl<S: Store> Patient<S> {
    pub fn new(inner: S, room: Arc<dyn Room>) -> Patient<S> {
        Patient { inner, room, lines: Lines::default() }
    }

    /// Another on the same store, with lines of its own.
    pub fn again(&self) -> Patient<S>
    where
        S: Clone,
    {
        Patient::new(self.inner.clone(), Arc::clone(&self.room))
    }

    /// The store inside, which has none.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn wait_for<T>(
        &self,
        kind: Kind,
        work: impl Fn(&S) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !caller::may_wait() {
            return work(&self.inner);
        }
        let mut place: Option<Place<'_>> = None;
        loop {
            // What changes while it is tried is news to whoever was refused.
            let shape = self.lines.shape();
            let done = work(&self.inner);
            let Err(StoreError::Full { endpoint }) = &done else {
                if let Some(place) = place {
                    place.leave();
                }
                return done;
            };
            let here = place.take().filter(|place| place.is_at(endpoint));
            let here = here.unwrap_or_else(|| self.lines.stand(endpoint, kind, shape));
            match place.insert(here).wait(&*self.room) {
                Next::Try => {}
                Next::GiveUp => return done,
                Next::Leave => {
                    return Err(StoreError::Interrupted { endpoint: endpoint.clone() });
                }
            }
        }
    }
}

impl<S: Store> Store for Patient<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.wait_for(Kind::Batches, |store| store.batch(shard, batch))
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
        self.wait_for(Kind::Bytes, |store| store.write(writes))
    }

    fn read_cut(&self, reads: &mut [StripeRead<'_>], cut: Cut) -> Result<(), StoreError> {
        self.inner.read_cut(reads, cut)
    }

    fn write_cut(&self, writes: &[StripeWrite<'_>], cut: Cut) -> Result<(), StoreError> {
        self.wait_for(Kind::Bytes, |store| store.write_cut(writes, cut))
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

    fn fence(&self, stripes: &[StripeKey]) -> Result<(), StoreError> {
        self.inner.fence(stripes)
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

    fn patiently(&self, work: &dyn Fn() -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.wait_for(Kind::Bytes, |_| caller::without_waiting(work))
    }

    fn stop_waiting(&self) {
        self.lines.end();
        self.inner.stop_waiting();
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.inner.near(asker, chance)
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        self.inner.places(partitions)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    use std::thread::{scope, sleep};
    use std::time::Duration;

    use tidefs_model::{ByteSize, StripeSize};

    use super::*;
    use crate::caller::{Caller, serve};
    use crate::{Embedded, Fault, Faulty, Operation};

    /// Hopes so often, and notes where.
    struct Hope {
        times: usize,
        asked: Mutex<Vec<String>>,
        shape: AtomicU64,
    }

    impl Hope {
        fn asked(&self) -> usize {
            self.asked.lock().unwrap().len()
        }
    }

    impl Room for Hope {
        fn hope(&self, endpoint: &str) -> bool {
            let mut asked = self.asked.lock().unwrap();
            asked.push(endpoint.to_owned());
            asked.len() <= self.times
        }

        fn shape(&self) -> u64 {
            self.shape.load(Ordering::SeqCst)
        }
    }

    const SHARD: ShardKey = ShardKey { directory: Ino(1), index: 0 };
    const STRIPE: StripeKey = StripeKey { ino: Ino(2), index: 0 };

    fn full() -> StoreError {
        StoreError::Full { endpoint: "a node".into() }
    }

    fn empty() -> Embedded {
        Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT)
    }

    fn full_at_first(operation: Operation, times: u64) -> Faulty<Embedded> {
        let faults = (1..=times).map(|nth| Fault::nth(operation, nth, full())).collect();
        Faulty::new(empty(), faults)
    }

    fn patient<S: Store>(store: S, times: usize) -> (Patient<S>, Arc<Hope>) {
        let hope = Arc::new(Hope { times, asked: Mutex::default(), shape: AtomicU64::new(0) });
        (Patient::new(store, Arc::clone(&hope) as Arc<dyn Room>), hope)
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..30_000 {
            if is_so() {
                return;
            }
            sleep(Duration::from_millis(1));
        }
        panic!("not after 30 s: {what}");
    }

    #[test]
    fn a_batch_and_a_write_wait_until_there_is_room() {
        let (store, hope) = patient(full_at_first(Operation::Batch, 2), 9);
        assert!(store.batch(SHARD, &Batch::new().add("n", 0, 1)).unwrap().applied());
        let read = store.batch(SHARD, &Batch::new().read("n")).unwrap();
        assert_eq!(read.values, [Some(1_u64.to_be_bytes().to_vec())], "it was made once");
        assert_eq!(*hope.asked.lock().unwrap(), ["a node", "a node"]);

        let (store, hope) = patient(full_at_first(Operation::Write, 1), 9);
        store.write(&[StripeWrite { key: STRIPE, offset: 0, bytes: b"bytes" }]).unwrap();
        assert_eq!(store.lengths(&[STRIPE]).unwrap(), [5]);
        assert_eq!(hope.asked(), 1);
        assert_eq!(store.lines.waiting(), 0);
    }

    #[test]
    fn without_hope_the_writer_is_told_that_the_node_is_full() {
        let (store, hope) = patient(full_at_first(Operation::Write, 9), 3);
        let write = [StripeWrite { key: STRIPE, offset: 0, bytes: b"bytes" }];
        assert!(matches!(store.write(&write), Err(StoreError::Full { .. })));
        assert_eq!(hope.asked(), 4);
        assert_eq!(store.inner().count(Operation::Write), 4);
    }

    #[test]
    fn other_failures_are_told_at_once() {
        let gone = StoreError::Unavailable { endpoint: "a node".into() };
        let store = Faulty::new(empty(), vec![Fault::nth(Operation::Write, 1, gone.clone())]);
        let (store, hope) = patient(store, 3);
        let write = [StripeWrite { key: STRIPE, offset: 0, bytes: b"bytes" }];
        assert_eq!(store.write(&write), Err(gone));
        assert_eq!(hope.asked(), 0);
    }

    #[test]
    fn of_many_who_wait_one_tries() {
        const WRITERS: usize = 8;
        let (store, hope) = patient(empty(), usize::MAX);
        let is_full = AtomicBool::new(true);
        let tries: [AtomicU32; WRITERS] = Default::default();
        let write = |writer: usize| {
            tries[writer].fetch_add(1, Ordering::SeqCst);
            if is_full.load(Ordering::SeqCst) { Err(full()) } else { Ok(()) }
        };
        let (store, write) = (&store, &write);
        scope(|scope| {
            let patiently = |writer| move || store.wait_for(Kind::Bytes, |_| write(writer));
            let writers: Vec<_> = (0..WRITERS).map(|at| scope.spawn(patiently(at))).collect();
            until("all wait", || store.lines.waiting() == WRITERS);
            let begun = hope.asked();
            until("three more tries", || hope.asked() >= begun + 3);
            let again = tries.iter().filter(|tries| tries.load(Ordering::SeqCst) > 1).count();
            assert_eq!(again, 1, "{tries:?}");
            is_full.store(false, Ordering::SeqCst);
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
        });
        assert_eq!(store.lines.waiting(), 0);
    }

    #[test]
    fn who_has_its_key_elsewhere_by_now_does_not_wait_for_the_first_in_line() {
        let (store, hope) = patient(empty(), usize::MAX);
        let is_over = AtomicBool::new(false);
        let stuck = || if is_over.load(Ordering::SeqCst) { Ok(()) } else { Err(full()) };
        let moved = || if hope.shape() > 0 { Ok(()) } else { Err(full()) };
        scope(|scope| {
            let first = scope.spawn(|| store.wait_for(Kind::Bytes, |_| stuck()));
            until("the first waits", || hope.asked() > 0);
            let second = scope.spawn(|| store.wait_for(Kind::Bytes, |_| moved()));
            until("both wait", || store.lines.waiting() == 2);
            hope.shape.store(1, Ordering::SeqCst);
            second.join().unwrap().unwrap();
            assert!(!first.is_finished());
            is_over.store(true, Ordering::SeqCst);
            first.join().unwrap().unwrap();
        });
    }

    #[test]
    fn metadata_does_not_wait_behind_bytes() {
        let (store, hope) = patient(empty(), usize::MAX);
        let is_over = AtomicBool::new(false);
        let stuck = || if is_over.load(Ordering::SeqCst) { Ok(()) } else { Err(full()) };
        scope(|scope| {
            scope.spawn(|| store.wait_for(Kind::Bytes, |_| stuck()));
            until("bytes wait", || hope.asked() > 0);
            let tries = AtomicU32::new(0);
            let once =
                || if tries.fetch_add(1, Ordering::SeqCst) == 0 { Err(full()) } else { Ok(()) };
            store.wait_for(Kind::Batches, |_| once()).unwrap();
            assert_eq!(store.lines.waiting(), 1);
            is_over.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn who_is_not_wanted_any_more_leaves_the_line() {
        static GONE: AtomicBool = AtomicBool::new(false);
        let (store, hope) = patient(empty(), usize::MAX);
        let store = &store;
        let has_gone = |_| GONE.load(Ordering::SeqCst);
        let caller = Caller { number: 7, has_gone, begins_again: || false };
        let never = || Err::<(), _>(full());
        scope(|scope| {
            let wait = move || store.wait_for(Kind::Bytes, |_| never());
            let stays = scope.spawn(wait);
            until("the first waits", || hope.asked() > 0);
            let leaves = scope.spawn(move || serve(Some(caller), wait));
            until("both wait", || store.lines.waiting() == 2);
            GONE.store(true, Ordering::SeqCst);
            let interrupted = Err(StoreError::Interrupted { endpoint: "a node".into() });
            assert_eq!(leaves.join().unwrap(), interrupted);
            assert_eq!(store.lines.waiting(), 1);
            store.stop_waiting();
            assert_eq!(stays.join().unwrap(), interrupted);
        });
    }
}
