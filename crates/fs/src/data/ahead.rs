//! Stripes that are read before anybody asks for them.
//!
//! A stripe read ahead lives as long as the reader that expects it, or an answer made of it. The
//! file finds it through a weak reference, and forgets it when the stripe is written. A reader that
//! comes before the pool has begun fetches the stripe itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Stripes of a mount that may yet be read ahead.
pub(super) struct AheadBudget(AtomicUsize);

/// Room for one stripe; given back when dropped.
struct Reservation(Arc<AheadBudget>);

impl AheadBudget {
    pub fn new(stripes: usize) -> Arc<AheadBudget> {
        Arc::new(AheadBudget(AtomicUsize::new(stripes)))
    }

    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn reserve(self: &Arc<AheadBudget>) -> Option<Reservation> {
        let less = |left: usize| left.checked_sub(1);
        let reserved = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        reserved.ok().map(|_| Reservation(Arc::clone(self)))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One stripe read ahead.
pub(super) struct Ahead {
    pub index: u32,
    /// Bytes of the stripe that are fetched: all of it, or up to the end of the file.
    pub length: u32,
    slot: Mutex<Slot>,
    settled: Condvar,
    _room: Reservation,
}

enum Slot {
    Queued,
    Fetching,
    Fetched(Arc<Vec<u8>>),
    Failed,
}

/// What a reader does about a stripe that is read ahead.
pub(super) enum Answer {
    /// Fetch it: nobody has begun.
    Fetch,
    Bytes(Arc<Vec<u8>>),
    /// Read without it, which also finds out what is wrong.
    Failed,
}

impl Ahead {
    /// `None` when the mount reads ahead as much as it may.
    pub fn new(budget: &Arc<AheadBudget>, index: u32, length: u32) -> Option<Arc<Ahead>> {
        let (slot, settled) = (Mutex::new(Slot::Queued), Condvar::new());
        budget.reserve().map(|room| Arc::new(Ahead { index, length, slot, settled, _room: room }))
    }

    /// The first one to ask fetches; the others wait for it, as long as one call of the store.
    pub fn answer(&self) -> Answer {
        let mut slot = self.slot();
        if matches!(*slot, Slot::Queued) {
            *slot = Slot::Fetching;
            return Answer::Fetch;
        }
        let fetching = |slot: &mut Slot| matches!(slot, Slot::Fetching);
        let slot = self.settled.wait_while(slot, fetching).expect("no panic in a slot");
        match &*slot {
            Slot::Fetched(bytes) => Answer::Bytes(Arc::clone(bytes)),
            _ => Answer::Failed,
        }
    }

    /// `true`: nobody has begun, so the caller fetches it.
    pub fn begin(&self) -> bool {
        let mut slot = self.slot();
        let queued = matches!(*slot, Slot::Queued);
        if queued {
            *slot = Slot::Fetching;
        }
        queued
    }

    /// Whoever began ends with this, also by dropping it unused.
    pub fn fetching(&self) -> Fetching<'_> {
        Fetching(self)
    }

    fn settle(&self, bytes: Option<Arc<Vec<u8>>>) {
        *self.slot() = bytes.map_or(Slot::Failed, Slot::Fetched);
        self.settled.notify_all();
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().expect("no panic in a slot")
    }
}

/// A fetch under way. Readers wait for its end, so it has one even when the fetch panics.
pub(super) struct Fetching<'a>(&'a Ahead);

impl Fetching<'_> {
    pub fn done(self, bytes: Arc<Vec<u8>>) {
        self.0.settle(Some(bytes));
        std::mem::forget(self);
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.settle(None);
    }
}
