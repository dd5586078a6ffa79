//! Requests for locks that wait, in a [list](list), so that they take none of the threads that serve
//! requests.
//!
//! A request is tried again when a lock on its file was given back in this mount, and every few
//! milliseconds for what other mounts hold: the store wakes nobody. It ends when it has its lock,
//! when its program is sent a signal, or with the mount.
//!
//! One thread knows when each is due and hears signals. It waits for nobody: what asks the store or the kernel is done
//! where other requests wait for a node that does not answer, in a room of its own. Of each file one is
//! tried at a time, so a node that is silent keeps only those from their locks whose records it has.

mod list;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidefs_fs::{Error, Fs, Handle, Lock, Taken, Wait};
use tidefs_model::Ino;
use tidefs_session::{Errno, INodeNo, ReplyEmpty};
use tidefs_store::caller::{self, Caller};
use tidefs_store::{Store, StoreError};

use crate::errno;
use crate::following::run_anywhere;
use crate::interrupted::is_interrupted;
use crate::kernel::Kernel;
use crate::waiting_room::WaitingRoom;
use list::{List, Waiting};

/// The thread ends when nobody has waited for so long.
const IDLE: Duration = Duration::from_secs(1);
/// A lock that is about to be given back is waited for also by those who do not wait.
const GRACE: Duration = Duration::from_millis(10);

/// A request for a lock.
pub struct Request {
    pub ino: Ino,
    pub handle: Handle,
    pub wanted: Lock,
    /// The thread that asks.
    pub thread: u32,
    pub reply: ReplyEmpty,
}

/// For how long a request waits for its lock.
enum Waits {
    ForLock(Wait),
    /// Not for long.
    Until(Instant),
}

/// One of those who wait, until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub struct LockWaits<S: Store> {
    fs: Arc<Fs<S>>,
    kernel: Arc<Kernel>,
    list: Mutex<List>,
    /// Where locks are tried, and pages dropped.
    tries: WaitingRoom,
    over: AtomicBool,
    count: Arc<AtomicUsize>,
    /// Whoever waits for a lock is left unanswered.
    leaves: AtomicBool,
}

impl<S: Store> LockWaits<S> {
    pub fn new(fs: Arc<Fs<S>>, kernel: Arc<Kernel>) -> Arc<LockWaits<S>> {
        let (list, over, tries) =
            (Mutex::default(), AtomicBool::new(false), WaitingRoom::for_crowds());
        let (count, leaves) = (Arc::default(), AtomicBool::new(false));
        Arc::new(LockWaits { fs, kernel, list, tries, over, count, leaves })
    }

    /// Requests that wait for locks are left unanswered while that is so, for whoever has the kernel send
    /// them again.
    pub fn leave_all(&self, leaves: bool) {
        self.leaves.store(leaves, Ordering::SeqCst);
    }

    /// Somebody waits.
    pub fn are_used(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// No request waits any more.
    pub fn close(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Waits for a lock that was refused.
    pub fn wait(self: &Arc<Self>, request: Request) {
        match self.fs.begin_to_wait(request.handle, &request.wanted) {
            Ok(wait) => self.push(request, Waits::ForLock(wait)),
            Err(error) => request.reply.error(errno::of(&error)),
        }
    }

    /// A lock was refused to one who does not wait. If it may be free in a moment, so long it takes
    /// to say so.
    pub fn refuse(self: &Arc<Self>, request: Request) {
        match self.fs.may_soon_lock(request.handle, &request.wanted) {
            Ok(true) => self.push(request, Waits::Until(Instant::now() + GRACE)),
            _ => request.reply.error(Errno::WOULDBLOCK),
        }
    }

    /// A lock was taken: the program goes on when the kernel has forgotten what may be out of date.
    /// Forgetting waits for reads, so no thread that serves them may do it.
    pub fn drop_pages(self: &Arc<Self>, request: Request) {
        self.answer_after_drop(request, self.counted());
    }

    fn counted(&self) -> Counted {
        self.count.fetch_add(1, Ordering::SeqCst);
        Counted(self.count.clone())
    }

    fn push(self: &Arc<Self>, request: Request, waits: Waits) {
        let ino = request.ino;
        let waiting = Waiting::new(request, waits, self.counted());
        let mut list = self.list();
        list.enter(waiting);
        self.start(&mut list);
        drop(list);
        self.fs.ring_for_lock(ino);
    }

    /// Somebody waits, so there has to be the thread.
    fn start(self: &Arc<Self>, list: &mut List) {
        if list.is_attended {
            return;
        }
        let waits = Arc::clone(self);
        let thread = std::thread::Builder::new().name("tidefs-locks".to_owned());
        match thread.spawn(move || waits.run_or_say_so()) {
            Ok(_) => list.is_attended = true,
            Err(error) => {
                tracing::error!(%error, "requests for locks cannot wait");
                // What is dropped unanswered is answered with an error.
                list.clear();
            }
        }
    }

    fn run_or_say_so(self: &Arc<Self>) {
        run_anywhere();
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            tracing::error!("requests for locks have ended with an error");
            // What is dropped unanswered is answered with an error; the next one begins anew.
            self.list().clear();
        }
    }

    fn run(self: &Arc<Self>) {
        let mut idle_since = Instant::now();
        loop {
            let pause = self.list().next_due().unwrap_or(IDLE);
            let unlocked = self.fs.files_unlocked(pause);
            self.pass(&unlocked);
            let mut list = self.list();
            if !list.is_empty() {
                idle_since = Instant::now();
            } else if idle_since.elapsed() >= IDLE || self.over.load(Ordering::SeqCst) {
                list.is_attended = false;
                return;
            }
        }
    }

    /// Looks at each that is due, and has those tried that may get their lock.
    fn pass(self: &Arc<Self>, unlocked: &HashSet<Ino>) {
        let due = self.list().take_due(unlocked);
        let left: Vec<_> = due.into_iter().filter_map(|waiting| self.look(waiting)).collect();
        let mut list = self.list();
        left.into_iter().for_each(|waiting| list.put(waiting));
        let files = list.begin_tries();
        drop(list);
        for ino in files {
            let waits = Arc::clone(self);
            self.elsewhere(move || waits.try_all_of(ino));
        }
    }

    /// Has done what may wait for a node, or for the kernel.
    fn elsewhere(&self, work: impl FnOnce() + Send + 'static) {
        match self.tries.enter(0) {
            Some(place) => place.wait(0, work),
            None => work(),
        }
    }

    /// Whether it goes on waiting, and whether it is to be tried. Asks nobody who may be silent.
    fn look(&self, mut waiting: Waiting) -> Option<Waiting> {
        let under_way = self.kernel.begin().filter(|_| !self.over.load(Ordering::SeqCst));
        if under_way.is_none() {
            self.end(waiting, Err(errno::MOUNT_OVER));
            return None;
        }
        if self.leaves.load(Ordering::SeqCst)
            && let Waits::ForLock(_) = waiting.waits
        {
            self.leave(waiting);
            return None;
        }
        let request = &waiting.request;
        if is_interrupted(request.thread) {
            // The kernel makes of it what the program asked for: a call that is begun again or not.
            self.end(waiting, Err(Errno::INTR));
            return None;
        }
        let is_over = matches!(waiting.waits, Waits::Until(end) if Instant::now() >= end);
        let is_known = self.fs.is_known_to_others();
        if is_over || !is_known || self.fs.is_refused_here(request.handle, &request.wanted) {
            return self.go_on(waiting);
        }
        waiting.is_to_be_tried = true;
        waiting.put_off();
        Some(waiting)
    }

    /// Tries those of a file, in the order in which they came.
    fn try_all_of(self: &Arc<Self>, ino: Ino) {
        let _end = EndOfTries(self, ino);
        let (mut last, mut is_known) = (0, false);
        let next = |last| self.list().next_to_try(ino, last);
        while let Some(waiting) = next(last) {
            last = waiting.number;
            if let Some(refused) = self.try_one(waiting, is_known) {
                self.list().put_tried(refused);
            }
            is_known = true;
        }
    }

    /// `is_known`: the file's record was read for another one a moment ago.
    fn try_one(self: &Arc<Self>, waiting: Waiting, is_known: bool) -> Option<Waiting> {
        let Some(_under_way) = self.kernel.begin() else {
            self.end(waiting, Err(errno::MOUNT_OVER));
            return None;
        };
        let request = &waiting.request;
        // Others wait for the same file, so this does not wait for room: bytes that find none are still to be
        // stored when it comes again.
        let nobody = Caller { number: 0, has_gone: |_| true, begins_again: || true };
        let lock = || match is_known {
            true => self.fs.lock_as_known(request.handle, &request.wanted),
            false => self.fs.lock(request.handle, &request.wanted),
        };
        match catch_unwind(AssertUnwindSafe(|| caller::serve(Some(nobody), lock))) {
            Ok(Ok(Taken { with_company })) => {
                match with_company && self.fs.old_pages(request.handle).is_some() {
                    true => self.answer_after_drop_of(waiting),
                    false => self.end(waiting, Ok(())),
                }
                None
            }
            Ok(Err(Error::WouldBlock | Error::Contended)) => self.go_on(waiting),
            Ok(Err(Error::Store(StoreError::Interrupted { .. }))) => self.go_on(waiting),
            Ok(Err(error)) => {
                self.end(waiting, Err(errno::of(&error)));
                None
            }
            Err(_) => {
                self.end(waiting, Err(errno::PANICKED));
                None
            }
        }
    }

    /// The same for one that has waited. Whoever is next is not kept waiting by it.
    fn answer_after_drop_of(self: &Arc<Self>, waiting: Waiting) {
        let Waiting { waits, request, counted, .. } = waiting;
        if let Waits::ForLock(wait) = waits {
            self.fs.end_wait(wait);
        }
        self.answer_after_drop(request, counted);
    }

    fn answer_after_drop(self: &Arc<Self>, request: Request, counted: Counted) {
        let waits = Arc::clone(self);
        self.elsewhere(move || {
            match waits.kernel.begin() {
                Some(_under_way) => {
                    waits.drop_old_pages(&request);
                    request.reply.ok();
                }
                None => request.reply.error(errno::MOUNT_OVER),
            }
            drop(counted);
        });
    }

    /// One that came while another one's were dropped may find none that are left.
    fn drop_old_pages(&self, request: &Request) {
        if let Some(old) = self.fs.old_pages(request.handle) {
            self.kernel.drop_pages(INodeNo(request.ino.0));
            self.fs.has_dropped_old(request.handle, old);
        }
    }

    fn go_on(&self, mut waiting: Waiting) -> Option<Waiting> {
        if let Waits::Until(end) = waiting.waits
            && Instant::now() >= end
        {
            self.end(waiting, Err(Errno::WOULDBLOCK));
            return None;
        }
        waiting.put_off();
        Some(waiting)
    }

    fn leave(&self, waiting: Waiting) {
        if let Waits::ForLock(wait) = waiting.waits {
            self.fs.end_wait(wait);
        }
        waiting.request.reply.leave();
    }

    fn end(&self, waiting: Waiting, answer: Result<(), Errno>) {
        if let Waits::ForLock(wait) = waiting.waits {
            self.fs.end_wait(wait);
        }
        match answer {
            Ok(()) => waiting.request.reply.ok(),
            Err(error) => waiting.request.reply.error(error),
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the next one be tried for a file, also when a try panicked.
struct EndOfTries<'a, S: Store>(&'a Arc<LockWaits<S>>, Ino);

impl<S: Store> Drop for EndOfTries<'_, S> {
    fn drop(&mut self) {
        let EndOfTries(waits, ino) = self;
        let mut list = waits.list();
        if list.end_tries(*ino) {
            waits.start(&mut list);
            drop(list);
            waits.fs.look_at_waits();
        }
    }
}
