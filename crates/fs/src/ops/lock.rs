//! Taking locks, giving them back, and asking who holds them.
//!
//! With company a lock also orders bytes, as programs on one machine expect: what was written
//! before a lock is given back is in the store, and whoever takes one sees it.

use tidefs_model::Ino;
use tidefs_store::{Bytes, Store, StoreError, caller};

use crate::data::{ErrorCursor, OldPages};
use crate::error::Error;
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::inode::Inode;
use crate::locks::{Change, Held, Known, LockedFile, State};
use crate::ops::{Handle, Lock, LockFamily};

/// What a lock that was taken brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Other mounts are there: what the kernel keeps of the file's bytes may be out of date.
    pub with_company: bool,
}

impl<S: Store> Fs<S> {
    /// Takes a lock. [`Error::WouldBlock`]: somebody else has one that is in the way.
    pub fn lock(&self, handle: Handle, wanted: &Lock) -> Result<Taken, Error> {
        self.try_lock(handle, wanted, Known::Before)
    }

    /// The same for one of several who wait for locks on the same file, of whom another one was
    /// refused a moment ago.
    pub fn lock_as_known(&self, handle: Handle, wanted: &Lock) -> Result<Taken, Error> {
        self.try_lock(handle, wanted, Known::Lately)
    }

    /// Whether a lock would be refused for what programs of this mount hold; says so without waiting for anybody. `false`:
    /// it has to be tried.
    pub fn is_refused_here(&self, handle: Handle, wanted: &Lock) -> bool {
        let file = self.handles.file(handle);
        file.is_ok_and(|file| self.locks.are_in_the_way(file.node.ino, handle, wanted))
    }

    fn try_lock(&self, number: Handle, wanted: &Lock, known: Known) -> Result<Taken, Error> {
        let handle = self.handles.file(number)?;
        let term = self.term_of(number, &handle)?;
        self.is_open(&handle);
        caller::in_term(term, || self.try_lock_on(number, &handle, wanted, known))
    }

    fn try_lock_on(
        &self,
        number: Handle,
        handle: &FileHandle<S>,
        wanted: &Lock,
        known: Known,
    ) -> Result<Taken, Error> {
        self.store_bytes(handle)?;
        // What only reads may be closed without a word.
        let may_be_over = !handle.mode.write;
        let take = Change::Take(Held { lock: wanted.clone(), handle: number, may_be_over });
        let node = &handle.node;
        let mut eases = false;
        let taken = self.locks.with(node.ino, node.home, |file, state| {
            eases = state.has_other_kind(wanted);
            if eases && wanted.family == LockFamily::Whole {
                // As flock(2) says, it is lost even if the other kind cannot be had.
                self.change_locks_of(file, state, &Change::Give(wanted.clone()), known)?;
            }
            state.inode = None;
            let with_company = self.change_locks_of(file, state, &take, known)?;
            Ok::<_, Error>((with_company, state.inode.take()))
        });
        if eases {
            // What was exclusive may be shared now, or gone.
            self.locks.tell_waiting(node.ino);
        }
        let (with_company, inode) = taken?;
        if with_company && let Err(error) = self.look_or_take(handle, inode) {
            self.unlock(number, wanted)?;
            return Err(error);
        }
        Ok(Taken { with_company })
    }

    /// What others did to the file before they gave the lock back.
    fn look_or_take(&self, handle: &FileHandle<S>, inode: Option<Bytes>) -> Result<(), Error> {
        match inode {
            Some(record) => {
                handle.file.refresh(&Inode::decode(handle.node.ino, &record)?);
                Ok(())
            }
            None => self.look_again(handle),
        }
    }

    /// What the kernel is to drop of a file that others have changed since it did so last, before the program goes
    /// on: to be asked when a lock was taken with company. Each that asks is told until it
    /// [has been dropped](Fs::has_dropped_old).
    pub fn old_pages(&self, handle: Handle) -> Option<OldPages> {
        self.handles.file(handle).ok()?.file.old_pages()
    }

    /// The kernel has dropped them.
    pub fn has_dropped_old(&self, handle: Handle, old: OldPages) {
        if let Ok(handle) = self.handles.file(handle) {
            self.pages_dropped(&handle, old);
        }
    }

    /// Gives back what an owner has in a lock's range, of either kind.
    pub fn unlock(&self, handle: Handle, lock: &Lock) -> Result<(), Error> {
        let handle = self.handles.file(handle)?;
        self.store_bytes(&handle)?;
        self.give_back(&handle, &Change::Give(lock.clone()))
    }

    /// A program has closed a descriptor: all its record locks on the file end.
    pub fn end_locks(&self, number: Handle, owner: u64) -> Result<(), Error> {
        let handle = self.handles.file(number)?;
        if !self.locks.are_on(handle.node.ino) {
            return Ok(());
        }
        let given = self.give_back(&handle, &Change::End { owner });
        self.locks.doubt(handle.node.ino, number);
        given
    }

    /// A handle goes, and all locks that were taken through it.
    pub(crate) fn end_locks_through(&self, number: Handle) -> Result<(), Error> {
        let handle = self.handles.file(number)?;
        if !self.locks.are_on(handle.node.ino) {
            return Ok(());
        }
        let node = &handle.node;
        self.locks.with(node.ino, node.home, |_, state| state.forget_lost(number));
        self.give_back(&handle, &Change::Leave(number))
    }

    /// The first lock in the file that is in the way, if there is one; of another mount without its
    /// process.
    pub fn find_lock(&self, number: Handle, wanted: &Lock) -> Result<Option<Lock>, Error> {
        let handle = self.handles.file(number)?;
        let node = &handle.node;
        let wanted = Held { lock: wanted.clone(), handle: number, may_be_over: false };
        let find = |file: &LockedFile, state: &mut State| {
            let own = state.in_the_way(&wanted.lock).map(|held| held.lock.clone());
            let own = own.min_by_key(|lock| lock.start);
            if self.is_alone() {
                return Ok(own);
            }
            let foreign = self.foreign_lock(file, state, &wanted)?;
            let foreign = foreign.map(|lock| Lock { pid: 0, ..lock });
            Ok(own.into_iter().chain(foreign).min_by_key(|lock| lock.start))
        };
        self.in_this_term(|| self.locks.with(node.ino, node.home, find))
    }

    /// Whoever was just refused a lock may get it in a moment: it is held on another mount, or
    /// through handles that may be closed already.
    pub fn may_soon_lock(&self, handle: Handle, wanted: &Lock) -> Result<bool, Error> {
        let node = &self.handles.file(handle)?.node;
        let is_soon = |held: &Held| held.may_be_over;
        Ok(self.locks.with(node.ino, node.home, |_, state| state.in_the_way(wanted).all(is_soon)))
    }

    /// Programs of this mount have locks on a file, or had them while there was company.
    pub fn has_locks(&self, ino: Ino) -> bool {
        self.locks.are_on(ino)
    }

    fn give_back(&self, handle: &FileHandle<S>, change: &Change) -> Result<(), Error> {
        let node = &handle.node;
        let given = self.in_this_term(|| {
            self.locks.with(node.ino, node.home, |file, state| {
                self.change_locks_of(file, state, change, Known::Before)
            })
        });
        self.locks.tell_waiting(node.ino);
        given.map(drop)
    }

    /// What was written through this mount is in the store before others may have the lock. A
    /// failure is told to the program at its next write, `fsync` or `close`.
    ///
    /// # Errors
    /// When whoever asked does not want to wait until there is room: no lock changes then.
    fn store_bytes(&self, handle: &FileHandle<S>) -> Result<(), Error> {
        if self.is_alone() {
            return Ok(());
        }
        let errors = ErrorCursor::new(&handle.file);
        match handle.file.flush_at_once(&errors, &self.membership) {
            Err(error @ Error::Store(StoreError::Interrupted { .. })) => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "bytes are not in the store when their lock changes");
            }
            Ok(()) => {}
        }
        Ok(())
    }
}
