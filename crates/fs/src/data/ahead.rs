//! Stripes that are read before anybody asks for them.
//!
//! A stripe read ahead lives as long as the reader that expects it, or an answer made of it. The
//! file finds it through a weak reference, and forgets it when the stripe is written. A reader that
//! comes before the pool has begun fetches the stripe itself.
//!
//! All of them together are within a budget. A reader that stopped half-way would keep its share
//! for ever, so what nobody came for in a while is given up when the budget is used.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidefs_model::Time;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// A reader at work comes for a stripe sooner than this.
const IDLE: Duration = Duration::from_secs(2);

/// Stripes that a mount may have read ahead.
pub(super) struct AheadBudget {
    stripes: usize,
    left: AtomicUsize,
    /// Oldest first; some are gone.
    made: Mutex<VecDeque<Weak<Ahead>>>,
}

/// Room for one stripe; given back when dropped.
struct Reservation(Arc<AheadBudget>);

impl AheadBudget {
    pub fn new(stripes: usize) -> Arc<AheadBudget> {
        let (left, made) = (AtomicUsize::new(stripes), Mutex::default());
        Arc::new(AheadBudget { stripes, left, made })
    }

    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Begins a stripe, unless the mount reads ahead as much as it may.
    pub fn begin(
        self: &Arc<AheadBudget>,
        index: u32,
        length: u32,
        now: Time,
    ) -> Option<Arc<Ahead>> {
        let room = self.reserve().or_else(|| self.take_from_idle(now))?;
        let slot = Mutex::new(Slot { content: Content::Queued, room: Some(room) });
        let ahead = Arc::new(Ahead { index, length, made: now, slot, settled: Condvar::new() });
        let mut made = self.made();
        if made.len() >= 2 * self.stripes {
            made.retain(|ahead| ahead.strong_count() > 0);
        }
        made.push_back(Arc::downgrade(&ahead));
        Some(ahead)
    }

    fn reserve(self: &Arc<AheadBudget>) -> Option<Reservation> {
        let less = |left: usize| left.checked_sub(1);
        let reserved = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        reserved.ok().map(|_| Reservation(Arc::clone(self)))
    }

    /// The room of the oldest stripe, if nobody came for it in a while.
    fn take_from_idle(&self, now: Time) -> Option<Reservation> {
        let mut made = self.made();
        loop {
            let Some(oldest) = made.front()?.upgrade() else {
                made.pop_front();
                continue;
            };
            if now - oldest.made < IDLE {
                return None;
            }
            made.pop_front();
            if let Some(room) = oldest.give_up() {
                return Some(room);
            }
        }
    }

    fn made(&self) -> MutexGuard<'_, VecDeque<Weak<Ahead>>> {
        self.made.lock().expect("no panic while the stripes read ahead are locked")
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// One stripe read ahead.
pub(super) struct Ahead {
    pub index: u32,
    /// Bytes of the stripe that are fetched: all of it, or up to the end of the file.
    pub length: u32,
    made: Time,
    slot: Mutex<Slot>,
    settled: Condvar,
}

struct Slot {
    content: Content,
    room: Option<Reservation>,
}

enum Content {
    Queued,
    Fetching,
    Fetched(Arc<Vec<u8>>),
    /// The fetch failed, or the stripe was given up.
    None,
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
    /// The first one to ask fetches; the others wait for it, as long as one call of the store.
    pub fn answer(&self) -> Answer {
        let mut slot = self.slot();
        if matches!(slot.content, Content::Queued) {
            slot.content = Content::Fetching;
            return Answer::Fetch;
        }
        let fetching = |slot: &mut Slot| matches!(slot.content, Content::Fetching);
        let slot = self.settled.wait_while(slot, fetching).expect("no panic in a slot");
        match &slot.content {
            Content::Fetched(bytes) => Answer::Bytes(Arc::clone(bytes)),
            _ => Answer::Failed,
        }
    }

    /// `true`: nobody has begun, so the caller fetches it.
    pub fn begin(&self) -> bool {
        let mut slot = self.slot();
        let queued = matches!(slot.content, Content::Queued);
        if queued {
            slot.content = Content::Fetching;
        }
        queued
    }

    /// Whoever began ends with this, also by dropping it unused.
    pub fn fetching(&self) -> Fetching<'_> {
        Fetching(self)
    }

    /// There are bytes in it, or there will be.
    pub fn is_promising(&self) -> bool {
        !matches!(self.slot().content, Content::None)
    }

    fn give_up(&self) -> Option<Reservation> {
        let mut slot = self.slot();
        if !matches!(slot.content, Content::Fetching) {
            slot.content = Content::None;
        }
        slot.room.take()
    }

    fn settle(&self, content: Content) {
        self.slot().content = content;
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
        self.0.settle(Content::Fetched(bytes));
        std::mem::forget(self);
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.settle(Content::None);
    }
}
