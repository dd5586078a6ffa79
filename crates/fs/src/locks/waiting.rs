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

/// By its number: who waits for a lock on a file.
type Waiting = (u64, Ino, Lock);

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
        self.locks.begin_to_wait(ino, wanted)
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
        self.locks.end_wait(&wait);
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

impl Waits {
    /// Those among whom who wants a lock may close a circle.
    fn of_records(&self, wanted: &Lock) -> Vec<Waiting> {
        let is_asked = wanted.family == LockFamily::Record;
        let all = self.waiting.iter().map(|(number, (ino, lock))| (*number, *ino, lock.clone()));
        all.filter(|(_, _, lock)| is_asked && lock.family == LockFamily::Record).collect()
    }
}

impl News {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locks {
    fn begin_to_wait(&self, ino: Ino, wanted: &Lock) -> Result<Wait, Error> {
        let mut waits = self.waits();
        if waits.waiting.len() >= WAITS_MAX {
            return Err(Error::TooManyLocks);
        }
        // Of a circle the last one to come sees all others.
        let before = waits.of_records(wanted);
        waits.next += 1;
        let wait = Wait(waits.next);
        waits.waiting.insert(wait.0, (ino, wanted.clone()));
        drop(waits);
        match self.circle(&before, ino, wanted) {
            Some(others) if self.still_wait(&others) => {
                self.end_wait(&wait);
                Err(Error::Deadlock)
            }
            _ => Ok(wait),
        }
    }

    /// The search may have waited for a node, and those in a circle have got what they waited for.
    fn still_wait(&self, numbers: &[u64]) -> bool {
        let waits = self.waits();
        numbers.iter().all(|number| waits.waiting.contains_key(number))
    }

    fn end_wait(&self, wait: &Wait) {
        self.waits().waiting.remove(&wait.0);
    }

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
    /// files are not looked at. Whoever takes or gives one back on a file, perhaps at a node that is silent, is waited
    /// for, so nobody else may wait for who asks this. Answers the waits of the others in the circle.
    fn circle(&self, waits: &[Waiting], ino: Ino, wanted: &Lock) -> Option<Vec<u64>> {
        if wanted.family == LockFamily::Whole {
            return None;
        }
        let mut seen = HashSet::new();
        let mut next = vec![(Vec::new(), ino, wanted)];
        while let Some((way, ino, lock)) = next.pop() {
            for Held { lock: holder, .. } in in_the_way(&self.held_on(ino), lock) {
                if holder.owner == wanted.owner {
                    return Some(way);
                }
                if seen.len() < CIRCLE_MAX && seen.insert(holder.owner) {
                    let its = waits.iter().filter(|(_, _, lock)| lock.owner == holder.owner);
                    let further = |number: u64| way.iter().copied().chain([number]).collect();
                    next.extend(its.map(|(number, ino, lock)| (further(*number), *ino, lock)));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use tidefs_model::{MountId, ShardKey};

    use super::*;
    use crate::identity::Identity;
    use crate::ops::LockKind;

    fn record(owner: u64) -> Lock {
        let (family, kind) = (LockFamily::Record, LockKind::Exclusive);
        Lock { family, kind, owner, start: 0, last: 9, pid: 1 }
    }

    /// Whoever has the state of a file may wait for a silent node with it.
    #[test]
    fn who_begins_to_wait_for_a_file_that_is_held_up_keeps_nobody_from_others() {
        let locks = Locks::new(Arc::new(Identity::new(MountId(1))));
        let home = ShardKey { directory: Ino::ROOT, index: 0 };
        std::thread::scope(|scope| {
            let begins = locks.with(Ino(7), home, |_, _| {
                let begins = scope.spawn(|| locks.begin_to_wait(Ino(7), &record(1)));
                let end = Instant::now() + Duration::from_secs(60);
                let has_come = || locks.waits.try_lock().is_ok_and(|it| !it.waiting.is_empty());
                while !has_come() {
                    assert!(Instant::now() < end, "nobody else can wait, or end");
                    std::thread::yield_now();
                }
                locks.tell_waiting(Ino(8));
                let other = locks.begin_to_wait(Ino(8), &record(2)).unwrap();
                locks.end_wait(&other);
                begins
            });
            locks.end_wait(&begins.join().unwrap().unwrap());
        });
        assert!(locks.waits().waiting.is_empty());
    }

    #[test]
    fn the_last_of_a_circle_is_refused_and_does_not_wait() {
        let locks = Locks::new(Arc::new(Identity::new(MountId(1))));
        let home = ShardKey { directory: Ino::ROOT, index: 0 };
        for owner in [1, 2] {
            let held = Held { lock: record(owner), handle: Handle(owner), may_be_over: false };
            locks.restore(Ino(owner), home, vec![held]);
        }
        let first = locks.begin_to_wait(Ino(2), &record(1)).unwrap();
        assert!(matches!(locks.begin_to_wait(Ino(1), &record(2)), Err(Error::Deadlock)));
        assert_eq!(locks.waits().waiting.len(), 1);
        locks.end_wait(&first);
        let second = locks.begin_to_wait(Ino(1), &record(2)).unwrap();
        locks.end_wait(&second);
    }

    #[test]
    fn a_circle_of_which_somebody_waits_no_more_is_none() {
        let locks = Locks::new(Arc::new(Identity::new(MountId(1))));
        let home = ShardKey { directory: Ino::ROOT, index: 0 };
        for owner in [1, 2, 3] {
            let held = Held { lock: record(owner), handle: Handle(owner), may_be_over: false };
            locks.restore(Ino(owner), home, vec![held]);
        }
        let first = locks.begin_to_wait(Ino(2), &record(1)).unwrap();
        let second = locks.begin_to_wait(Ino(3), &record(2)).unwrap();
        let waits = locks.waits().of_records(&record(3));
        let circle = locks.circle(&waits, Ino(1), &record(3)).expect("a circle");
        assert_eq!(circle, [first.0, second.0]);
        assert!(locks.still_wait(&circle));
        locks.end_wait(&second);
        assert!(!locks.still_wait(&circle));
    }
}
