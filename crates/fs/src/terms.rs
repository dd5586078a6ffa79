//! A mount that was expelled and goes on: it comes back as another one, and begins a term.
//!
//! Nothing that it had begun is done any more: the store refuses what belongs to an earlier term, and what
//! is remembered from then is dropped where it is met next. Bytes that had not arrived are reported lost by
//! each handle of their file, once. A handle whose lock was lost, and one of a file that is gone, answer
//! nothing else until they are closed. All others go on, but for calls that waited meanwhile where any lock was
//! lost: their programs may have counted on it, whichever file they wrote to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

use tidefs_model::Ino;
use tidefs_store::{Store, StoreError, caller};

use crate::error::Error;
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::ops::Handle;

pub(crate) const EXPELLED: Error = Error::Store(StoreError::Expelled);

/// The last term that was opened to programs, and what was lost since.
pub(crate) struct LastOpened {
    term: AtomicU64,
    has_lost_locks: AtomicBool,
    /// What programs asked for in a term before may have counted on locks that were lost.
    oldest_asked: AtomicU64,
}

impl LastOpened {
    pub fn from(term: u64) -> LastOpened {
        LastOpened {
            term: AtomicU64::new(term),
            has_lost_locks: AtomicBool::new(false),
            oldest_asked: AtomicU64::new(0),
        }
    }

    /// Whether the work of this thread was asked for before locks were lost.
    fn refuses_this_work(&self) -> bool {
        let oldest = self.oldest_asked.load(Ordering::SeqCst);
        caller::asked_term().is_some_and(|asked| asked < oldest)
    }
}

impl<S: Store> Fs<S> {
    /// The term in which a program asks for what it asks for now, for
    /// [`caller::asked_in`](tidefs_store::caller::asked_in).
    pub fn asked_term(&self) -> u64 {
        self.last_opened.term.load(Ordering::SeqCst)
    }

    pub(crate) fn term(&self) -> u64 {
        self.store.term()
    }

    /// Does work that belongs to this term.
    pub(crate) fn in_this_term<T>(&self, work: impl FnOnce() -> T) -> T {
        caller::in_term(self.term(), work)
    }

    /// The store lets this mount in no more. Comes back as another one; answers as [`Fs::beat`] does.
    pub(crate) fn begin_term(&self) -> Result<bool, Error> {
        let Some(admission) = &self.admission else { return Err(EXPELLED) };
        let mount = admission.begin_term().map_err(|why| {
            tracing::info!(why, "this mount was expelled and is not let in again yet");
            EXPELLED
        })?;
        tracing::warn!(
            "this mount was silent for too long and was expelled: what it had not stored, and its \
             locks, are lost; it goes on"
        );
        let open = self.handles.all_files();
        *self.stale_pages() = open.iter().map(|handle| handle.node.ino).collect();
        self.membership.assume_company();
        // The store lets nobody take one in the term before any more.
        if self.locks.may_hold_any() {
            self.last_opened.has_lost_locks.store(true, Ordering::SeqCst);
            self.last_opened.oldest_asked.store(admission.term(), Ordering::SeqCst);
        }
        self.store.begin_term(mount, admission.term());
        self.opened.forget_all();
        self.in_this_term(|| self.membership.rejoin(&self.store, self.steady()))
    }

    /// Serves everybody in this term once all other mounts know of it.
    pub(crate) fn open_term(&self) {
        let term = self.term();
        let Some(admission) = &self.admission else { return };
        if self.membership.is_back() || self.asked_term() == term {
            return;
        }
        admission.open(self.last_opened.has_lost_locks.swap(false, Ordering::SeqCst));
        self.last_opened.term.store(term, Ordering::SeqCst);
    }

    /// Open files of which the kernel may have pages from an earlier term, or of what was refused since, once this mount is
    /// back.
    pub fn take_stale_pages(&self) -> BTreeSet<Ino> {
        match self.membership.is_back() {
            true => BTreeSet::new(),
            false => std::mem::take(&mut *self.stale_pages()),
        }
    }

    pub(crate) fn stale_pages(&self) -> MutexGuard<'_, BTreeSet<Ino>> {
        self.stale_pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a program does to a file through a handle: not where a lock that was taken through it is lost, and in no
    /// later term than this one.
    pub(crate) fn through<T>(
        &self,
        number: Handle,
        work: impl FnOnce(&Arc<FileHandle<S>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let handle = self.handles.file(number)?;
        let term = self.term_of(number, &handle)?;
        caller::in_term(term, || work(&handle))
    }

    /// The same through two of them.
    pub(crate) fn through_both<T>(
        &self,
        numbers: [Handle; 2],
        work: impl FnOnce([&FileHandle<S>; 2]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let [first, second] = [self.handles.file(numbers[0])?, self.handles.file(numbers[1])?];
        // Terms only rise, and seldom.
        let term = loop {
            let term = self.term_of(numbers[0], &first)?;
            if self.term_of(numbers[1], &second)? == term {
                break term;
            }
        };
        caller::in_term(term, || work([&first, &second]))
    }

    /// The term to which what is done through a handle belongs.
    ///
    /// # Errors
    /// When what the handle relied on was lost with an earlier term, or what the program may have relied on that
    /// asks: bytes are read and taken in memory as well, where no store refuses that.
    pub(crate) fn term_of(&self, number: Handle, handle: &FileHandle<S>) -> Result<u64, Error> {
        let term = self.term();
        // Only now: what a term refuses is set before it begins.
        if self.last_opened.refuses_this_work() {
            return Err(EXPELLED);
        }
        if handle.term.load(Ordering::Acquire) != term {
            self.look_what_is_left(number, handle)?;
            handle.term.store(term, Ordering::Release);
        }
        Ok(term)
    }

    /// The first use of a handle in a term.
    fn look_what_is_left(&self, number: Handle, handle: &FileHandle<S>) -> Result<(), Error> {
        let node = &handle.node;
        if self.locks.has_lost(node.ino, number) {
            // What it stored through a map is in pages of the kernel, and in no store.
            self.stale_pages().insert(node.ino);
            return Err(EXPELLED);
        }
        // Others may have freed a file without a name: they took nobody to have it open.
        let record = self.record_as_stored(node)?.filter(|inode| inode.nlink > 0);
        let Some(inode) = record.filter(|_| !node.slot().unlinked) else { return Err(EXPELLED) };
        handle.file.refresh(&inode);
        Ok(())
    }
}
