//! An open file whose bytes lie in stripes: what its operations share.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tidefs_model::{Ino, StripeKey};
use tidefs_store::{Store, caller};

use super::DataPath;
use super::append::Appends;
use super::record::Record;
use super::state::{State, Stored};
use crate::Error;
use crate::inode::Inode;
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::terms::EXPELLED;

pub(super) struct Striped<S: Store> {
    pub path: Arc<DataPath<S>>,
    pub record: Record<S>,
    pub appends: Arc<Mutex<Appends>>,
    /// Reads and writes share it; what takes bytes away has it alone, across its calls of the
    /// store: a stripe that is written while it is trimmed would lose the write.
    gate: RwLock<()>,
    /// Held across each change of the inode's record: a size that was measured before a truncation
    /// must not be committed after it.
    committing: Mutex<()>,
    state: Mutex<State>,
    /// Something that was on its way has arrived, or failed.
    pub settled: Condvar,
    /// How many wait for sends to be called off.
    pub calls_off: AtomicUsize,
    /// Since it was opened a program may have mapped it for writing.
    pub may_be_mapped: AtomicBool,
    /// Regions that this file has marked.
    marked: Mutex<HashSet<u32>>,
}

impl<S: Store> Striped<S> {
    pub fn new(path: Arc<DataPath<S>>, record: Record<S>, inode: &Inode) -> Striped<S> {
        let state = Mutex::new(State::new(path.stripe_size, inode, path.store.term()));
        Striped {
            path,
            record,
            appends: Arc::default(),
            gate: RwLock::new(()),
            committing: Mutex::new(()),
            state,
            settled: Condvar::new(),
            calls_off: AtomicUsize::new(0),
            may_be_mapped: AtomicBool::new(false),
            marked: Mutex::default(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().expect("no panic while a file's state is locked");
        let term = self.path.store.term();
        if state.term != term {
            state.begin_term(term, &self.path.unsent);
        }
        state
    }

    /// Does something that belongs to a term: the one of whoever asks for it, or this one.
    pub fn in_a_term<T>(&self, work: impl FnOnce() -> T) -> T {
        caller::in_term(caller::term().unwrap_or_else(|| self.path.store.term()), work)
    }

    /// Whoever works for an earlier term adds nothing to this one.
    pub fn check_term(&self, state: &State) -> Result<(), Error> {
        let is_of_another = caller::term().is_some_and(|term| term != state.term);
        if is_of_another { Err(EXPELLED) } else { Ok(()) }
    }

    pub fn with_others(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().expect("no panic while a file is truncated")
    }

    pub fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().expect("no panic while a file is truncated")
    }

    pub fn committing(&self) -> MutexGuard<'_, ()> {
        self.committing.lock().expect("no panic while a record is changed")
    }

    pub fn marked(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.marked.lock().expect("no panic while the marked regions are locked")
    }

    pub fn ino(&self) -> Ino {
        self.record.ino
    }

    pub fn key(&self, index: u32) -> StripeKey {
        StripeKey { ino: self.record.ino, index }
    }

    pub fn overlay(&self, inode: &mut Inode) {
        let state = self.state();
        state.stored.overlay(inode);
        inode.size = inode.size.max(state.pending_end());
        inode.sparse |= self.record.is_to_be_sparse();
        if let Some(changed) = state.changed {
            inode.mtime = changed;
            inode.ctime = inode.ctime.max(changed);
        }
    }

    /// A record that is no newer than what is known says nothing new: it was read before this
    /// file's own last change.
    pub fn refresh(&self, inode: &Inode) {
        let mut state = self.state();
        if inode.version > state.stored.version {
            state.adopt(Stored::of(inode), true);
            self.record.saw(inode.version);
            drop(state);
            self.forget_marks();
        }
    }

    /// The record was changed from here and read `stored` then; it may be known as of later by now.
    pub fn adopt(&self, state: &mut State, stored: Stored) {
        if stored.version < state.stored.version {
            return;
        }
        let by_others = stored.version != state.stored.version.wrapping_add(1);
        state.adopt(stored, by_others);
        if by_others {
            self.forget_marks();
        }
    }

    /// The record was read, or changed in a way that its version does not count.
    pub fn learn(&self, state: &mut State, stored: Stored) {
        if stored.version > state.stored.version {
            state.adopt(stored, true);
            self.forget_marks();
        }
    }

    /// Another mount may have truncated the file and removed marks.
    fn forget_marks(&self) {
        self.marked().clear();
    }
}

/// Nobody is left to report to.
impl<S: Store> Drop for Striped<S> {
    fn drop(&mut self) {
        let ino = self.ino();
        let state = self.state.get_mut().expect("no panic while a file's state is locked");
        if let Some(error) = state.errors.untold() {
            tracing::error!(%error, %ino, "written bytes were lost and no program was told");
        }
        let unsent = state.stripes.len();
        if unsent > 0 {
            tracing::error!(unsent, %ino, "stripes of a file were given up before they were sent");
        }
        for dirty in state.stripes.values().filter_map(|stripe| stripe.dirty.as_ref()) {
            self.path.unsent.remove(dirty.birth);
        }
    }
}
