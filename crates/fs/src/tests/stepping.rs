//! Two mounts whose calls of the store are made one at a time, in an order that the test chooses.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{ManualClock, MountId, ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Embedded, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead,
    StripeWrite,
};

use super::bed::Bed;
use crate::{Config, Fs, keys};

/// So many calls in a row are another's turn: whoever makes them waits for the other one.
const RUN_MAX: usize = 60;

/// Who makes calls, and for how long.
#[derive(Default)]
struct Turns {
    /// `None`: everybody goes on.
    current: Option<usize>,
    left: usize,
    /// The lengths of the runs to come.
    plan: VecDeque<usize>,
    over: [bool; 2],
    /// How many calls each has made.
    made: [usize; 2],
}

impl Turns {
    fn pass(&mut self) {
        let Some(current) = self.current else { return };
        self.left = self.plan.pop_front().unwrap_or(RUN_MAX).max(1);
        if !self.over[1 - current] {
            self.current = Some(1 - current);
        } else if self.over[current] {
            self.current = None;
        }
    }
}

/// What the two share.
#[derive(Clone)]
pub struct Order {
    turns: Arc<(Mutex<Turns>, Condvar)>,
    clock: Arc<ManualClock>,
    /// How much time each call takes.
    per_call: Duration,
}

impl Order {
    pub fn new(bed: &Bed, per_call: Duration) -> Order {
        Order { turns: Arc::default(), clock: bed.clock.clone(), per_call }
    }

    pub fn mount(&self, bed: &Bed, number: usize) -> Fs<Stepping> {
        let store = Stepping { store: bed.store.clone(), number, order: self.clone() };
        let config = Config { io_threads: 1, ..Config::new(MountId(number as u64 + 1)) };
        Fs::mount(Arc::new(store), config, bed.clock.clone()).expect("mounted")
    }

    /// Does the work of both: `first` begins, and after each run of so many calls it is the other's
    /// turn. Answers what they answered, and how many calls each made.
    pub fn run<T: Send>(
        &self,
        first: usize,
        plan: &[usize],
        works: [&(dyn Fn() -> T + Sync); 2],
    ) -> ([T; 2], [usize; 2]) {
        let mut plan: VecDeque<_> = plan.iter().copied().collect();
        let left = plan.pop_front().unwrap_or(RUN_MAX).max(1);
        *self.lock() = Turns { current: Some(first), left, plan, ..Turns::default() };
        let work = |number: usize| {
            let answer = works[number]();
            let mut turns = self.lock();
            turns.over[number] = true;
            if turns.current == Some(number) {
                turns.pass();
            }
            self.turns.1.notify_all();
            answer
        };
        let answers = std::thread::scope(|scope| {
            let other = scope.spawn(|| work(1));
            [work(0), other.join().expect("no panic")]
        });
        let made = self.lock().made;
        *self.lock() = Turns::default();
        (answers, made)
    }

    /// Where time stands still, whoever waits for the other one would wait for ever.
    fn wait_for_other(&self, number: usize) {
        let mut turns = self.lock();
        if turns.current == Some(number) && self.per_call.is_zero() {
            turns.pass();
            self.turns.1.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, number: usize, work: impl FnOnce() -> T) -> T {
        let is_others = |turns: &mut Turns| {
            turns.current.is_some_and(|current| current != number) && !turns.over[number]
        };
        let turns = self.turns.1.wait_while(self.lock(), is_others);
        let mut turns = turns.unwrap_or_else(PoisonError::into_inner);
        let answer = work();
        if turns.current == Some(number) {
            self.clock.advance(self.per_call);
            turns.made[number] += 1;
            turns.left -= 1;
            if turns.left == 0 {
                turns.pass();
                self.turns.1.notify_all();
            }
        }
        answer
    }
}

/// The store as one of the two reaches it.
pub struct Stepping {
    store: Arc<Embedded>,
    number: usize,
    order: Order,
}

impl Stepping {
    fn call<T>(&self, work: impl FnOnce(&Embedded) -> T) -> T {
        self.order.call(self.number, || work(&self.store))
    }
}

impl Store for Stepping {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        let outcome = self.call(|store| store.batch(shard, batch));
        let is_refused = outcome.as_ref().is_ok_and(|outcome| !outcome.applied());
        if is_refused && shard == keys::SUPERBLOCK {
            self.order.wait_for_other(self.number);
        }
        outcome
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.call(|store| store.batches(batches))
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.call(|store| store.list(shards))
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.call(|store| store.keys(cursor))
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.call(|store| store.delete_shards(shards))
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.call(|store| store.read(reads))
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        self.call(|store| store.write(writes))
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.call(|store| store.trim(trims))
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.call(|store| store.lengths(stripes))
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.store.overview()
    }
}
