//! Directories that other mounts moved, and kernels have where they were.
//!
//! A kernel has a directory in one place, and moves it there when a look-up finds it elsewhere. It only tries, though:
//! where somebody makes or removes names in the directory in which it was, or any directory of the mount gets
//! another parent, the look-up fails with `ESTALE`, and the path is walked once more. So the kernel is asked to give up a
//! directory that is found elsewhere: if it has, there is nothing to move. It keeps what a program uses, or has
//! something below it that it knows; all that is given up, too, when the same thread looks for it once more.
//! None of that takes a lock in the kernel that a program may have. Names are not taken from the kernel: that would wait for
//! the lock of the directory, and a mount that is killed meanwhile would never end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, Time};
use tidefs_store::{Store, caller};

use crate::attr::Kind;
use crate::entry::{Place, Reference};
use crate::fs::Fs;

/// A thread that looks again later had no error.
const LOOKS_AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// Threads that are remembered.
const THREADS_MAX: usize = 1_024;
/// Inodes that the kernel is asked to give up with a directory.
const BELOW_MAX: usize = 4_096;
/// Directories above one, as far as it is asked.
const DEPTH_MAX: usize = 256;

/// Threads that were told of a directory elsewhere than the kernel has it.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    count: AtomicUsize,
    by_thread: Mutex<HashMap<u32, Doubt>>,
}

/// What one was told last.
#[derive(Debug)]
struct Doubt {
    directory: Ino,
    place: Place,
    at: Time,
}

impl Doubts {
    /// `true`: the thread was told the same a moment ago.
    fn enter(&self, thread: u32, doubt: Doubt) -> bool {
        let mut doubts = self.doubts();
        let now = doubt.at;
        if doubts.len() >= THREADS_MAX {
            doubts.retain(|_, old| now - old.at < LOOKS_AGAIN_WITHIN);
        }
        let again = doubts.get(&thread).is_some_and(|old| {
            (old.directory, &old.place) == (doubt.directory, &doubt.place)
                && now - old.at < LOOKS_AGAIN_WITHIN
        });
        if doubts.len() < THREADS_MAX {
            doubts.insert(thread, doubt);
        }
        self.count.store(doubts.len(), Ordering::Relaxed);
        again
    }

    /// What the thread was told, if it goes on below that directory.
    fn take(&self, thread: u32, directory: Ino) -> Option<Doubt> {
        let mut doubts = self.doubts();
        let doubt = doubts.remove(&thread).filter(|doubt| doubt.directory == directory);
        self.count.store(doubts.len(), Ordering::Relaxed);
        doubt
    }

    fn has(&self, thread: u32, directory: Ino) -> bool {
        let is_any = self.count.load(Ordering::Relaxed) > 0;
        is_any && self.doubts().get(&thread).is_some_and(|doubt| doubt.directory == directory)
    }

    fn doubts(&self) -> MutexGuard<'_, HashMap<u32, Doubt>> {
        self.by_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Fs<S> {
    /// The kernel puts a directory there itself: it had it made, or moved.
    pub(crate) fn was_placed(&self, reference: Reference, place: &Place) {
        if reference.kind == Kind::Directory
            && let Some(node) = self.table.find(reference.ino)
        {
            node.set_parent(place.shard.directory);
            node.is_only_at(place);
        }
    }

    /// A look-up has found a directory there, and tells the kernel.
    pub(crate) fn was_found(&self, reference: Reference, place: &Place) {
        if reference.kind != Kind::Directory {
            return;
        }
        let Some(node) = self.table.find(reference.ino) else { return };
        if !node.may_be_at(place) {
            return;
        }
        let directory = reference.ino;
        let is_again = caller::number().is_some_and(|thread| {
            let doubt = Doubt { directory, place: place.clone(), at: self.steady() };
            self.doubts.enter(thread, doubt)
        });
        let most = if is_again { BELOW_MAX } else { 1 };
        // What is not given up at the second look is in use, and is moved as soon as nobody holds its locks: to ask for
        // that at each look would cost more than it gains.
        if self.is_given_up(directory, most) || is_again {
            node.is_only_at(place);
        }
    }

    /// Whether the kernel gives up a directory, with so many of those that it knows below.
    fn is_given_up(&self, directory: Ino, most: usize) -> bool {
        self.kernel_cache.get().is_some_and(|kernel| {
            kernel.prune(&self.table.with_all_below(directory, most));
            !kernel.forget(directory)
        })
    }

    /// Somebody looks for a name in a directory that was found elsewhere: so the kernel has moved it.
    pub(crate) fn is_gone_through(&self, directory: Ino) {
        if let Some(thread) = caller::number()
            && self.doubts.has(thread, directory)
            && let Some(doubt) = self.doubts.take(thread, directory)
            && let Some(node) = self.table.find(directory)
        {
            node.is_only_at(&doubt.place);
        }
    }

    /// The kernel has the place of a directory below that directory, since it has not looked up where its parents are.
    pub(crate) fn is_loop_for_kernel(&self, reference: Reference, place: &Place) -> bool {
        let is_directory = reference.kind == Kind::Directory;
        let node = is_directory.then(|| self.table.find(reference.ino)).flatten();
        if node.is_none_or(|node| node.is_surely_at(place)) {
            return false;
        }
        let above = |ino: &Ino| self.table.find(*ino)?.surely_lies_in();
        let way = std::iter::successors(Some(place.shard.directory), above).take(DEPTH_MAX);
        way.take_while(|ino| *ino != Ino::ROOT).any(|ino| ino == reference.ino)
    }
}
