//! A store that fails by count: the third write, every fifth batch. For exact tests of what a
//! caller does about a failure, and of races: calls can be held until the test lets them go.
//!
//! Each call of the trait counts as one operation, however many keys it takes; `batch` and
//! `batches` are both [`Operation::Batch`]. A write and a batch at the same time count as one of
//! each. A store without faults behaves as the one inside.

mod gate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_model::{Ino, Partition, Run, ShardKey, StripeKey};

use self::gate::Gate;
pub use self::gate::Pause;
use crate::{
    Batch, Cursor, KeyPage, Location, Outcome, Overview, Page, Pin, Store, StoreError, StripeRead,
    StripeWrite, caller,
};

/// What a call of a store does. Pins are not counted: they cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Batch,
    List,
    DeleteShards,
    Read,
    Write,
    Trim,
    Lengths,
    Overview,
    Keys,
    Fence,
}

const OPERATIONS: usize = Operation::Fence as usize + 1;

/// Which calls of an operation are meant, counted from 1 since the store was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Nth(u64),
    /// Every multiple of it.
    Every(u64),
}

impl Turn {
    fn is(self, count: u64) -> bool {
        match self {
            Turn::Nth(nth) => count == nth,
            Turn::Every(step) => count.is_multiple_of(step),
        }
    }
}

/// On which side of the work something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing was done.
    Before,
    /// It was done, but the caller does not learn that: the reply is lost.
    After,
}

/// A failure to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub operation: Operation,
    pub turn: Turn,
    pub error: StoreError,
    pub when: When,
}

impl Fault {
    /// The `nth` call fails without doing anything.
    pub fn nth(operation: Operation, nth: u64, error: StoreError) -> Fault {
        Fault { operation, turn: Turn::Nth(nth), error, when: When::Before }
    }

    /// Each call whose number is a multiple of `step` fails without doing anything.
    pub fn every(operation: Operation, step: u64, error: StoreError) -> Fault {
        Fault { operation, turn: Turn::Every(step), error, when: When::Before }
    }

    /// Has the call do its work before it fails.
    pub fn after(self) -> Fault {
        Fault { when: When::After, ..self }
    }
}

pub struct Faulty<S> {
    inner: S,
    plan: Mutex<Plan>,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Plan {
    faults: Vec<Fault>,
    counts: [u64; OPERATIONS],
    pairs: u64,
    near: Option<Run>,
    is_full: bool,
    /// The client's term, and whether work that belongs to none is served.
    term: Option<(u64, bool)>,
    /// What was asked for in a term before is refused.
    oldest_asked: u64,
}

impl<S: Store> Faulty<S> {
    /// Where several faults fall on one call, the first in the list counts.
    pub fn new(inner: S, faults: Vec<Fault>) -> Faulty<S> {
        let plan = Plan { faults, ..Plan::default() };
        Faulty { inner, plan: Mutex::new(plan), gate: Arc::default() }
    }

    /// The store inside, which does not fail.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Adds a fault while the store is in use; turns still count from the beginning.
    pub fn add(&self, fault: Fault) {
        self.plan().faults.push(fault);
    }

    /// No call fails from now on. What is paused stays paused.
    pub fn heal(&self) {
        self.plan().faults.clear();
    }

    /// Work of another term is refused from now on, as by nodes that have expelled the client, and work of
    /// no term where this one is not open.
    pub fn set_term(&self, term: u64, is_open: bool) {
        self.plan().term = Some((term, is_open));
    }

    /// What programs asked for before a term is refused from now on.
    pub fn refuse_asked_before(&self, term: u64) {
        self.plan().oldest_asked = term;
    }

    /// These partitions are near from now on, whoever asks.
    pub fn set_near(&self, near: Option<Run>) {
        self.plan().near = near;
    }

    /// There is no room from now on, or there is again: only what reads or declares that it frees memory
    /// gets through.
    pub fn set_full(&self, is_full: bool) {
        self.plan().is_full = is_full;
    }

    fn room_for(&self, mut batches: impl Iterator<Item = bool>) -> Result<(), StoreError> {
        match self.plan().is_full && batches.any(|needs_room| needs_room) {
            true => Err(StoreError::Full { endpoint: "a full store".into() }),
            false => Ok(()),
        }
    }

    /// How many calls of an operation have begun.
    pub fn count(&self, operation: Operation) -> u64 {
        self.plan().counts[operation as usize]
    }

    /// How many writes and batches were made at the same time.
    pub fn pairs(&self) -> u64 {
        self.plan().pairs
    }

    /// Holds every call of an operation, before or after its work, until the answer is dropped.
    pub fn pause(&self, operation: Operation, when: When) -> Pause {
        Pause::new(&self.gate, (operation, when), usize::MAX)
    }

    /// The same for no more than so many calls at a time: others go on meanwhile.
    pub fn pause_at_most(&self, operation: Operation, when: When, calls: usize) -> Pause {
        Pause::new(&self.gate, (operation, when), calls)
    }

    fn call<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&S) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.begin(operation);
        self.gate.pass(operation, When::Before)?;
        self.check_term()?;
        if let Some(Fault { when: When::Before, error, .. }) = fault {
            return Err(error);
        }
        let done = work(&self.inner);
        self.gate.pass(operation, When::After)?;
        match fault {
            Some(Fault { error, .. }) => done.and(Err(error)),
            None => done,
        }
    }

    fn check_term(&self) -> Result<(), StoreError> {
        let (Some((term, is_open)), oldest) = ({
            let plan = self.plan();
            (plan.term, plan.oldest_asked)
        }) else {
            return Ok(());
        };
        match caller::term() {
            Some(wanted) if wanted != term => Err(StoreError::Expelled),
            None if caller::asked_term().is_some_and(|asked| asked < oldest) => {
                Err(StoreError::Expelled)
            }
            None if !is_open => Err(StoreError::Unavailable { endpoint: "a node".into() }),
            _ => Ok(()),
        }
    }

    fn begin(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan();
        plan.counts[operation as usize] += 1;
        let count = plan.counts[operation as usize];
        let falls = |fault: &&Fault| fault.operation == operation && fault.turn.is(count);
        plan.faults.iter().find(falls).cloned()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn needs_room(batch: &Batch) -> bool {
    !batch.reclaims && !batch.only_reads()
}

impl<S: Store> Store for Faulty<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.call(Operation::Batch, |store| {
            self.room_for([needs_room(batch)].into_iter())?;
            store.batch(shard, batch)
        })
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.call(Operation::Batch, |store| {
            self.room_for(batches.iter().map(|(_, batch)| needs_room(batch)))?;
            store.batches(batches)
        })
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.call(Operation::List, |store| store.list(shards))
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.call(Operation::Keys, |store| store.keys(cursor))
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.call(Operation::DeleteShards, |store| store.delete_shards(shards))
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.call(Operation::Read, |store| store.read(reads))
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        self.call(Operation::Write, |store| {
            self.room_for(writes.iter().map(|write| !write.bytes.is_empty()))?;
            store.write(writes)
        })
    }

    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        self.plan().pairs += 1;
        (self.write(writes), self.batch(shard, batch))
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.call(Operation::Trim, |store| store.trim(trims))
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.call(Operation::Lengths, |store| store.lengths(stripes))
    }

    fn fence(&self, stripes: &[StripeKey]) -> Result<(), StoreError> {
        self.call(Operation::Fence, |store| store.fence(stripes))
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.call(Operation::Overview, |store| store.overview())
    }

    fn pin(&self, ino: Ino) -> Option<Pin> {
        self.inner.pin(ino)
    }

    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        self.inner.remove(ino)
    }

    fn unpin(&self, ino: Ino) {
        self.inner.unpin(ino);
    }

    fn stop_waiting(&self) {
        self.inner.stop_waiting();
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.plan().near.or_else(|| self.inner.near(asker, chance))
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        self.inner.places(partitions)
    }
}

#[cfg(test)]
mod tests;
