//! Who waits for a lock, so that a circle of programs of this mount that wait for each other is
//! found, and whose waiting may be over, so that they try again.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::Store;

use super::ranges::in_the_way;
use super::{Held, Locks};
use crate::error::Error;
use crate::fs::Fs;
use crate::ops::{Handle, Lock, LockFamily};

/// Requests of one mount that may wait at a time.
const WAITS_MAX: usize = 4_096;
/// Owners that are looked at in search of a circle; one that is longer is not found.
const CIRCLE_MAX: usize = 64;

/// A request that waits for a lock. Ended by [`Fs::end_wait`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Wait(u64);

#[derive(Debug, Default)]
pub(super) struct Waits {
    next: u64,
    waiting: HashMap<u64, (Ino, Lock)>,
}

/// Files of which a lock was given back while somebody waited.
#[derive(Debug, Default)]
pub(super) struct News {
    heard: Mutex<Heard>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Heard {
    files: HashSet<Ino>,
    /// Whoever listens is to look at those who wait, though nothing was given back.
    look: bool,
}

impl<S: Store> Fs<S> {
    /// Enters a request that was refused a lock and waits. [`Error::Deadlock`]: those whom it waits
    /// for wait for it.
    pub fn begin_to_wait(&self, handle: Handle, wanted: &Lock) -> Result<Wait, Error> {
        let ino = self.handles.file(handle)?.node.ino;
        let mut waits = self.locks.waits();
        if waits.waiting.len() >= WAITS_MAX {
            return Err(Error::TooManyLocks);
        }
        if self.locks.closes_circle(&waits, ino, wanted) {
            return Err(Error::Deadlock);
        }
        waits.next += 1;
        let number = waits.next;
        waits.waiting.insert(number, (ino, wanted.clone()));
        Ok(Wait(number))
    }

    /// Has [`Fs::files_unlocked`] answer as if a lock on a file had been given back.
    pub fn ring_for_lock(&self, ino: Ino) {
        self.locks.tell(Some(ino));
    }

    /// Has it answer at once.
    pub fn look_at_waits(&self) {
        self.locks.news.heard().look = true;
        self.locks.news.bell.notify_all();
    }

    pub fn end_wait(&self, wait: Wait) {
        self.locks.waits().waiting.remove(&wait.0);
    }

    /// Files of which a lock was given back since this was asked last, and that were waited for;
    /// waits for that, for a bounded time.
    pub fn files_unlocked(&self, at_most: Duration) -> HashSet<Ino> {
        let news = &self.locks.news;
        let is_quiet = |heard: &mut Heard| heard.files.is_empty() && !heard.look;
        let waited = news.bell.wait_timeout_while(news.heard(), at_most, is_quiet);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0).files
    }
}

impl News {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locks {
    /// A lock was given back.
    pub fn tell_waiting(&self, ino: Ino) {
        let waits = self.waits();
        let is_awaited = waits.waiting.values().any(|(file, _)| *file == ino);
        drop(waits);
        self.tell(is_awaited.then_some(ino));
    }

    fn tell(&self, ino: Option<Ino>) {
        if let Some(ino) = ino {
            self.news.heard().files.insert(ino);
            self.news.bell.notify_all();
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever would wait for `wanted` would wait for itself. As on a local disk, locks on whole
    /// files are not looked at.
    fn closes_circle(&self, waits: &Waits, ino: Ino, wanted: &Lock) -> bool {
        if wanted.family == LockFamily::Whole {
            return false;
        }
        let mut seen = HashSet::new();
        let mut next = vec![(ino, wanted.clone())];
        while let Some((ino, lock)) = next.pop() {
            for Held { lock: holder, .. } in in_the_way(&self.held_on(ino), &lock) {
                if holder.owner == wanted.owner {
                    return true;
                }
                if seen.len() < CIRCLE_MAX && seen.insert(holder.owner) {
                    let its = waits.waiting.values().filter(|(_, lock)| {
                        lock.owner == holder.owner && lock.family == LockFamily::Record
                    });
                    next.extend(its.cloned());
                }
            }
        }
        false
    }
}
