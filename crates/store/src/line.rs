//! Those who wait for room, in a line for each full node.
//!
//! Only the first of a line tries, with longer and longer pauses, so that a full node is not sent
//! the same bytes again and again by everybody. When it got through, the next tries at once. When
//! keys may have come to lie elsewhere, all try at once, since each one's key may be among them.
//!
//! Bytes of files wait in other lines than metadata, which may use a node's head-room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::caller;
use crate::room::Room;

/// Those who wait look this often whether they are still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The first pause between two tries, and the longest, in looks.
const FIRST_LOOKS: u32 = 1;
const MOST_LOOKS: u32 = 10;

/// What waits in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Bytes,
    Batches,
}

#[derive(Debug, Default)]
pub struct Lines {
    state: Mutex<State>,
    changed: Condvar,
    /// What [`Room::shape`] said last.
    shape: AtomicU64,
}

type Key = (Box<str>, Kind);

#[derive(Debug, Default)]
struct State {
    lines: BTreeMap<Key, Line>,
    /// Counts those who came.
    tickets: u64,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<u64>,
    /// How many got through.
    through: u64,
    /// The pause before the next try.
    looks: u32,
}

/// What somebody in a line is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Try,
    /// There will be no room.
    GiveUp,
    /// Nobody wants it any more.
    Leave,
}

/// A place in a line, given up when it is dropped.
pub struct Place<'l> {
    lines: &'l Lines,
    key: Key,
    ticket: u64,
    /// As they were at the last try.
    through: u64,
    shape: u64,
    /// It has tried since it came to be the first.
    tried_as_first: bool,
    got_through: bool,
}

impl Lines {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everybody leaves, now and from now on.
    pub fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Another number when keys may have come to lie elsewhere.
    pub fn shape(&self) -> u64 {
        self.shape.load(Ordering::Acquire)
    }

    /// Joins the end of a line, after a try that met a full node, and that began at this shape.
    pub fn stand(&self, endpoint: &str, kind: Kind, shape: u64) -> Place<'_> {
        let key = (endpoint.into(), kind);
        let mut state = self.state();
        state.tickets += 1;
        let ticket = state.tickets;
        let line = state.lines.entry(key.clone()).or_default();
        line.waiting.push_back(ticket);
        line.looks = line.looks.max(FIRST_LOOKS);
        let (through, tried_as_first) = (line.through, line.waiting.len() == 1);
        drop(state);
        Place { lines: self, key, ticket, through, shape, tried_as_first, got_through: false }
    }

    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.state().lines.values().map(|line| line.waiting.len()).sum()
    }
}

impl Place<'_> {
    pub fn is_at(&self, endpoint: &str) -> bool {
        *self.key.0 == *endpoint
    }

    /// The try succeeded, or failed for another reason.
    pub fn leave(mut self) {
        self.got_through = true;
    }

    /// Waits until it is time to try again.
    pub fn wait(&mut self, room: &dyn Room) -> Next {
        loop {
            if let Some(next) = self.look() {
                return next;
            }
            if self.is_first() {
                // Whoever was first before may have wanted more than there is room for.
                if !std::mem::replace(&mut self.tried_as_first, true) {
                    return Next::Try;
                }
                return self.wait_as_first(room);
            }
            self.pause(LOOK_EVERY);
        }
    }

    /// Whether there is anything to do without waiting.
    fn look(&mut self) -> Option<Next> {
        if caller::has_gone() {
            return Some(Next::Leave);
        }
        let state = self.lines.state();
        if state.is_over {
            return Some(Next::Leave);
        }
        let line = state.lines.get(&self.key)?;
        let next_in_line =
            line.through != self.through && line.waiting.front() == Some(&self.ticket);
        let shape = self.lines.shape();
        let elsewhere = shape != self.shape;
        (self.through, self.shape) = (line.through, shape);
        (next_in_line || elsewhere).then_some(Next::Try)
    }

    fn is_first(&self) -> bool {
        let state = self.lines.state();
        state.lines.get(&self.key).is_none_or(|line| line.waiting.front() == Some(&self.ticket))
    }

    /// The first asks for room, and pauses before it tries.
    fn wait_as_first(&mut self, room: &dyn Room) -> Next {
        if !room.hope(&self.key.0) {
            return Next::GiveUp;
        }
        let looks = {
            let mut state = self.lines.state();
            let line = state.lines.entry(self.key.clone()).or_default();
            let looks = line.looks;
            line.looks = (looks * 2).min(MOST_LOOKS);
            looks
        };
        for _ in 0..looks {
            // Others are woken, too, for reasons of their own.
            let until = Instant::now() + LOOK_EVERY;
            while !until.saturating_duration_since(Instant::now()).is_zero() && !self.is_over() {
                self.pause(until.saturating_duration_since(Instant::now()));
            }
            self.note_shape(room.shape());
            if let Some(next) = self.look() {
                return next;
            }
        }
        Next::Try
    }

    /// Wakes everybody where keys may have come to lie elsewhere.
    fn note_shape(&self, shape: u64) {
        let _state = self.lines.state();
        if self.lines.shape.swap(shape, Ordering::AcqRel) != shape {
            self.lines.changed.notify_all();
        }
    }

    fn is_over(&self) -> bool {
        self.lines.state().is_over
    }

    fn pause(&self, at_most: Duration) {
        let state = self.lines.state();
        if !state.is_over {
            let woken = self.lines.changed.wait_timeout(state, at_most);
            drop(woken.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.lines.state();
        if let Some(line) = state.lines.get_mut(&self.key) {
            line.waiting.retain(|ticket| *ticket != self.ticket);
            if self.got_through {
                line.through += 1;
                line.looks = FIRST_LOOKS;
            }
            if line.waiting.is_empty() {
                state.lines.remove(&self.key);
            }
        }
        self.lines.changed.notify_all();
    }
}
