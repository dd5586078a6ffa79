//! Changes that wait, and those that are on their way to the store, by shard.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidefs_model::{Ino, ShardKey};

use super::{Change, GROUP};

/// Changes that are not yet made, at most; whoever comes then makes its own at once.
const CHANGES_MAX: usize = 16 * GROUP;

#[derive(Debug, Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    /// Changes on their way have come to their end.
    ended: Condvar,
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    shards: HashMap<ShardKey, Vec<Slot>>,
    waiting: usize,
    /// Numbers changes in the order in which they came.
    last: u64,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    change: Arc<Change>,
    under_way: bool,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// How many wait with this one. `None`: it is not taken.
    pub fn add(&self, change: Change) -> Option<usize> {
        let mut state = self.state();
        if self.count.load(Ordering::SeqCst) >= CHANGES_MAX {
            return None;
        }
        let same = |slot: &Slot| slot.change.place().name == change.place().name;
        if state.shards.get(&change.place().shard).is_some_and(|slots| slots.iter().any(same)) {
            return None;
        }
        state.last += 1;
        state.waiting += 1;
        let slot = Slot { number: state.last, change: Arc::new(change), under_way: false };
        let shard = slot.change.place().shard;
        state.shards.entry(shard).or_default().push(slot);
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(state.waiting)
    }

    /// The number of the change of a shard that came last.
    pub fn last_of(&self, shard: ShardKey) -> Option<u64> {
        self.state().shards.get(&shard)?.last().map(|slot| slot.number)
    }

    /// Takes all that wait.
    pub fn take_all(&self) -> Group<'_> {
        let mut state = self.state();
        state.waiting = 0;
        let slots = state.shards.values_mut().flatten().filter(|slot| !slot.under_way);
        let changes = slots.map(|slot| {
            slot.under_way = true;
            Arc::clone(&slot.change)
        });
        Group { changes: changes.collect(), pending: self }
    }

    /// Takes the change that makes this file, if it still waits.
    pub fn take_creation(&self, shard: ShardKey, ino: Ino) -> Option<Group<'_>> {
        let mut state = self.state();
        let slots = state.shards.get_mut(&shard)?;
        let makes = |slot: &&mut Slot| {
            !slot.under_way
                && slot.change.ino() == ino
                && matches!(*slot.change, Change::Creation(_))
        };
        let slot = slots.iter_mut().find(makes)?;
        slot.under_way = true;
        let changes = vec![Arc::clone(&slot.change)];
        state.waiting -= 1;
        Some(Group { changes, pending: self })
    }

    /// Waits for the end of all changes of a shard that came no later than number `last` and are
    /// on their way. Each has an end, since calls of the store have one.
    pub fn wait(&self, shard: ShardKey, last: u64) {
        let under_way = |state: &mut State| {
            let slots = state.shards.get(&shard).into_iter().flatten();
            slots.into_iter().any(|slot| slot.under_way && slot.number <= last)
        };
        drop(self.ended.wait_while(self.state(), under_way));
    }

    fn end(&self, changes: &[Arc<Change>]) {
        let mut state = self.state();
        for change in changes {
            let shard = change.place().shard;
            let Some(slots) = state.shards.get_mut(&shard) else { continue };
            slots.retain(|slot| !Arc::ptr_eq(&slot.change, change));
            if slots.is_empty() {
                state.shards.remove(&shard);
            }
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        drop(state);
        self.ended.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes on their way to the store; they have come to their end when this is dropped.
pub(super) struct Group<'p> {
    pub changes: Vec<Arc<Change>>,
    pending: &'p Pending,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !self.changes.is_empty() {
            self.pending.end(&self.changes);
        }
    }
}
