//! Changes that wait, and those that are on their way to the store, by shard.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tidefs_model::{Ino, ShardKey};

use super::{Change, Creation, GROUP};

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
    /// A node may not answer, so that each shard goes by itself and holds up no other.
    apart: bool,
    /// Numbers changes in the order in which they came.
    last: u64,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    change: Arc<Change>,
    under_way: bool,
}

impl Slot {
    fn waits_to_make(&self, ino: Ino) -> bool {
        !self.under_way && self.change.ino() == ino && matches!(*self.change, Change::Creation(_))
    }
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

    /// Takes all that wait, of all shards; while those go apart, of none.
    pub fn take_all(&self, term: u64) -> Group<'_> {
        let mut state = self.state();
        let shards = if state.apart { Vec::new() } else { state.shards.keys().copied().collect() };
        self.take(&mut state, &shards, term)
    }

    /// Takes all that wait, whether they go apart or not.
    pub fn take_whatever(&self, term: u64) -> Group<'_> {
        let mut state = self.state();
        let shards: Vec<_> = state.shards.keys().copied().collect();
        self.take(&mut state, &shards, term)
    }

    /// Takes all that wait of a shard.
    pub fn take_of(&self, shard: ShardKey, term: u64) -> Group<'_> {
        self.take(&mut self.state(), &[shard], term)
    }

    /// `term`: in which they were waiting at the latest.
    fn take(&self, state: &mut State, shards: &[ShardKey], term: u64) -> Group<'_> {
        let mut changes = Vec::new();
        for shard in shards {
            for slot in state.shards.get_mut(shard).into_iter().flatten() {
                if !std::mem::replace(&mut slot.under_way, true) {
                    changes.push(Arc::clone(&slot.change));
                }
            }
        }
        state.waiting -= changes.len();
        Group { changes, term, pending: self }
    }

    /// The shards of which something waits or is on its way.
    pub fn held(&self) -> Vec<ShardKey> {
        self.state().shards.keys().copied().collect()
    }

    /// The shards of which something waits.
    pub fn shards(&self) -> Vec<ShardKey> {
        let state = self.state();
        let waits = |slots: &Vec<Slot>| slots.iter().any(|slot| !slot.under_way);
        state.shards.iter().filter(|(_, slots)| waits(slots)).map(|(shard, _)| *shard).collect()
    }

    /// The change that makes this file still waits.
    pub fn has_creation(&self, shard: ShardKey, ino: Ino) -> bool {
        let state = self.state();
        let mut slots = state.shards.get(&shard).into_iter().flatten();
        slots.any(|slot| slot.waits_to_make(ino))
    }

    /// Has a file that still waits to be made made otherwise; `then` is given how before anybody can make it.
    /// `false`: it is made, or being made.
    pub fn amend(
        &self,
        shard: ShardKey,
        ino: Ino,
        amend: impl FnOnce(&mut Creation),
        then: impl FnOnce(&Change),
    ) -> bool {
        let mut state = self.state();
        let mut slots = state.shards.get_mut(&shard).into_iter().flatten();
        let Some(slot) = slots.find(|slot| slot.waits_to_make(ino)) else { return false };
        let Change::Creation(creation) = &*slot.change else { return false };
        let mut creation = creation.clone();
        amend(&mut creation);
        slot.change = Arc::new(Change::Creation(creation));
        then(&slot.change);
        true
    }

    /// Takes the change that makes this file, if it still waits.
    pub fn take_creation(&self, shard: ShardKey, ino: Ino, term: u64) -> Option<Group<'_>> {
        let mut state = self.state();
        let slots = state.shards.get_mut(&shard)?;
        let slot = slots.iter_mut().find(|slot| slot.waits_to_make(ino))?;
        slot.under_way = true;
        let changes = vec![Arc::clone(&slot.change)];
        state.waiting -= 1;
        Some(Group { changes, term, pending: self })
    }

    /// Waits for the end of all changes of a shard that came no later than number `last` and are
    /// on their way. Each has an end, since calls of the store have one. `false`: some wait again.
    pub fn wait(&self, shard: ShardKey, last: u64) -> bool {
        let under_way = |state: &mut State| {
            let slots = state.shards.get(&shard).into_iter().flatten();
            slots.into_iter().any(|slot| slot.under_way && slot.number <= last)
        };
        let waited = self.ended.wait_while(self.state(), under_way);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        let slots = state.shards.get(&shard);
        slots.is_none_or(|slots| slots.iter().all(|slot| slot.number > last))
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
        state.apart &= !state.shards.is_empty();
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
    /// To which they belong.
    pub term: u64,
    pending: &'p Pending,
}

impl Group<'_> {
    pub fn is_of_one_shard(&self) -> bool {
        let mut shards = self.changes.iter().map(|change| change.place().shard);
        let first = shards.next();
        shards.all(|shard| Some(shard) == first)
    }

    /// All wait again, and each shard goes by itself now.
    pub fn put_back(mut self) {
        let changes = std::mem::take(&mut self.changes);
        let mut state = self.pending.state();
        state.apart = true;
        state.waiting += changes.len();
        for slot in state.shards.values_mut().flatten() {
            slot.under_way &= !changes.iter().any(|change| Arc::ptr_eq(change, &slot.change));
        }
        drop(state);
        self.pending.ended.notify_all();
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !self.changes.is_empty() {
            self.pending.end(&self.changes);
        }
    }
}
