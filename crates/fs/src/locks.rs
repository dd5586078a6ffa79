//! The locks that programs of this mount hold: `flock` and `fcntl`, of processes and of open files.
//!
//! While the mount is alone they are kept here and nowhere else. With company each file's locks of
//! all mounts are one record in the file's home shard, changed only by conditional batches
//! ([`shared`]), and what is here is this mount's part of it. Before a second mount starts to work
//! the first has put its locks there. A mount's locks end with the mount: whoever they are in the
//! way of removes those of one that left or has been silent for [`SILENCE_MAX`].
//!
//! Who waits, waits outside of this crate and tries again; [`waiting`] knows of it, so that programs
//! of one mount that wait for each other in a circle are told.
//!
//! [`SILENCE_MAX`]: crate::membership::SILENCE_MAX

mod ranges;
mod record;
mod shared;
mod upkeep;
mod waiting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tidefs_model::{Ino, MountId, ShardKey, Time};

use crate::identity::Identity;
use crate::ops::{Handle, Lock};
pub(crate) use ranges::{Change, Held};
pub(crate) use shared::Known;
pub use waiting::Wait;
use waiting::{News, Waits};

/// The locks of one mount.
#[derive(Debug)]
pub(crate) struct Locks {
    identity: Arc<Identity>,
    files: Mutex<HashMap<Ino, Arc<LockedFile>>>,
    /// How many there are, for whoever looks whether there are any.
    count: AtomicUsize,
    waits: Mutex<Waits>,
    news: News,
    /// Mounts that have locks in a record and no registration, and since when that is
    /// known, in the time in which this mount looked.
    absent: Mutex<HashMap<MountId, Time>>,
    checked: Mutex<Time>,
}

/// A file that has locks of this mount, here or in the store.
#[derive(Debug)]
pub(crate) struct LockedFile {
    ino: Ino,
    home: ShardKey,
    identity: Arc<Identity>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    held: Vec<Held>,
    /// The file's record as it was last seen.
    record: Option<Vec<u8>>,
    /// The record has locks of this mount, or may have.
    is_flushed: bool,
    /// The file's inode as it was when its locks were put last, for whoever put them.
    pub inode: Option<Vec<u8>>,
    /// The term in which all that was so.
    term: u64,
    /// Handles whose locks were lost with an earlier one, until they are closed.
    lost: Vec<Handle>,
    /// It is in the table no more, so nothing may be put here.
    is_over: bool,
}

impl LockedFile {
    /// Locks of an earlier term are others' to take.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let term = self.identity.term();
        if state.term != term {
            state.begin_term(term);
        }
        state
    }
}

impl State {
    fn begin_term(&mut self, term: u64) {
        let held = std::mem::take(&mut self.held);
        self.lost.extend(held.iter().map(|held| held.handle));
        (self.record, self.is_flushed, self.term) = (None, false, term);
    }

    /// The handle is closed.
    pub fn forget_lost(&mut self, handle: Handle) {
        self.lost.retain(|lost| *lost != handle);
    }

    /// Locks of other owners in this mount that are in the way.
    pub fn in_the_way<'s>(&'s self, wanted: &'s Lock) -> impl Iterator<Item = &'s Held> + 's {
        ranges::in_the_way(&self.held, wanted)
    }

    /// There are locks of which the store does not know.
    pub fn is_unflushed(&self) -> bool {
        !self.is_over && !self.is_flushed && !self.held.is_empty()
    }

    /// The owner has a lock of the other kind there.
    pub fn has_other_kind(&self, wanted: &Lock) -> bool {
        ranges::has_other_kind(&self.held, wanted)
    }
}

impl Locks {
    pub fn new(identity: Arc<Identity>) -> Locks {
        Locks {
            identity,
            files: Mutex::default(),
            count: AtomicUsize::new(0),
            waits: Mutex::default(),
            news: News::default(),
            absent: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// A lock that was taken through a handle was lost with an earlier term.
    pub fn has_lost(&self, ino: Ino, handle: Handle) -> bool {
        let file = self.files().get(&ino).cloned();
        file.is_some_and(|file| file.state().lost.contains(&handle))
    }

    /// Programs of this mount have locks on a file, or had them while there was company.
    pub fn are_on(&self, ino: Ino) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.files().contains_key(&ino)
    }

    /// Works on the locks of a file, which is entered for it and leaves when it has none.
    pub fn with<T>(
        &self,
        ino: Ino,
        home: ShardKey,
        work: impl FnOnce(&LockedFile, &mut State) -> T,
    ) -> T {
        loop {
            let file = {
                let mut files = self.files();
                let new = || {
                    Arc::new(LockedFile {
                        ino,
                        home,
                        identity: Arc::clone(&self.identity),
                        state: Mutex::default(),
                    })
                };
                let file = files.entry(ino).or_insert_with(new).clone();
                self.count.store(files.len(), Ordering::SeqCst);
                file
            };
            let mut state = file.state();
            if state.is_over {
                continue;
            }
            let done = work(&file, &mut state);
            self.leave_if_free(&file, &mut state);
            return done;
        }
    }

    fn leave_if_free(&self, file: &LockedFile, state: &mut State) {
        let is_free = state.held.is_empty() && state.lost.is_empty() && !state.is_flushed;
        if is_free && !state.is_over {
            state.is_over = true;
            let mut files = self.files();
            files.remove(&file.ino);
            self.count.store(files.len(), Ordering::SeqCst);
        }
    }

    /// A descriptor of a handle was closed, perhaps the last one: then word of it comes a moment
    /// later.
    pub fn doubt(&self, ino: Ino, handle: Handle) {
        let file = self.files().get(&ino).cloned();
        if let Some(file) = file {
            let mut state = file.state();
            let through = state.held.iter_mut().filter(|held| held.handle == handle);
            through.for_each(|held| held.may_be_over = true);
        }
    }

    /// Whether programs of this mount have what is in the way of a lock. Does not wait: what cannot be looked at now, or
    /// is otherwise for the handle, is not.
    pub fn are_in_the_way(&self, ino: Ino, handle: Handle, wanted: &Lock) -> bool {
        let Some(file) = self.files().get(&ino).cloned() else { return false };
        let Ok(state) = file.state.try_lock() else { return false };
        let is_current = state.term == self.identity.term() && !state.is_over;
        is_current && !state.lost.contains(&handle) && state.in_the_way(wanted).next().is_some()
    }

    /// What programs of this mount hold on a file.
    fn held_on(&self, ino: Ino) -> Vec<Held> {
        let file = self.files().get(&ino).cloned();
        file.map_or(Vec::new(), |file| file.state().held.clone())
    }

    /// All that programs of this mount hold, file by file.
    pub fn held_by_file(&self) -> Vec<(Ino, ShardKey, Vec<Held>)> {
        let all = self.all().into_iter();
        let each = all.map(|file| (file.ino, file.home, file.state().held.clone()));
        each.filter(|(_, _, held)| !held.is_empty()).collect()
    }

    /// Does a program of this mount hold anything? Does not wait: who takes or gives a lock back at this moment, perhaps
    /// at a node that is silent, counts as one that holds it.
    pub fn may_hold_any(&self) -> bool {
        let holds =
            |file: &LockedFile, it: &State| it.term == file.identity.term() && !it.held.is_empty();
        self.all().iter().any(|file| match file.state.try_lock() {
            Ok(state) => holds(file, &state),
            Err(TryLockError::Poisoned(state)) => holds(file, &state.into_inner()),
            Err(TryLockError::WouldBlock) => true,
        })
    }

    /// Locks that the store has as this mount's already.
    pub fn restore(&self, ino: Ino, home: ShardKey, held: Vec<Held>) {
        self.with(ino, home, |_, state| (state.held, state.is_flushed) = (held, true));
    }

    /// A handle whose lock was lost before.
    pub fn restore_lost(&self, ino: Ino, home: ShardKey, handle: Handle) {
        self.with(ino, home, |_, state| state.lost.push(handle));
    }

    /// No file has any.
    #[cfg(test)]
    pub fn all_are_free(&self) -> bool {
        self.files().is_empty()
    }

    fn all(&self) -> Vec<Arc<LockedFile>> {
        self.files().values().cloned().collect()
    }

    fn absent(&self) -> MutexGuard<'_, HashMap<MountId, Time>> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never held while a state is waited for.
    fn files(&self) -> MutexGuard<'_, HashMap<Ino, Arc<LockedFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{LockFamily, LockKind};

    /// Whoever has the state of a file may wait for a silent node with it.
    #[test]
    fn whether_there_are_locks_is_said_without_waiting_for_who_takes_one() {
        let locks = Locks::new(Arc::new(Identity::new(MountId(1))));
        assert!(!locks.may_hold_any());
        let home = ShardKey { directory: Ino::ROOT, index: 0 };
        locks.with(Ino(7), home, |_, _| assert!(locks.may_hold_any(), "one may be taken now"));
        assert!(!locks.may_hold_any());
    }

    #[test]
    fn what_is_in_the_way_here_is_said_without_waiting_for_who_takes_a_lock() {
        let locks = Locks::new(Arc::new(Identity::new(MountId(1))));
        let (ino, home) = (Ino(7), ShardKey { directory: Ino::ROOT, index: 0 });
        let (family, kind) = (LockFamily::Whole, LockKind::Exclusive);
        let lock = |owner| Lock { family, kind, owner, start: 0, last: u64::MAX, pid: 1 };
        let [one, another] = [1, 2].map(Handle);
        assert!(!locks.are_in_the_way(ino, another, &lock(2)));
        let held = Held { lock: lock(1), handle: one, may_be_over: false };
        locks.restore(ino, home, vec![held]);
        assert!(locks.are_in_the_way(ino, another, &lock(2)));
        assert!(!locks.are_in_the_way(ino, one, &lock(1)), "its own");
        locks.with(ino, home, |_, state| {
            assert!(!locks.are_in_the_way(ino, another, &lock(2)), "it may be given back now");
            state.lost.push(another);
        });
        assert!(!locks.are_in_the_way(ino, another, &lock(2)), "it is refused for what it lost");
    }
}
