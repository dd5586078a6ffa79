//! Requests for locks that wait, on one thread for all of them, so that they take none of those
//! that serve requests.
//!
//! A request is tried again when a lock on its file was given back in this mount, and every few
//! milliseconds for what other mounts hold: the store wakes nobody. It ends when it has its lock,
//! when its program is sent a signal, or with the mount.

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

/// A look at what other mounts hold is a round to the store.
const FIRST_PAUSE: Duration = Duration::from_micros(250);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(32);
/// By what part pauses grow, so that nobody waits for much longer than a lock is held.
const GROWTH: u32 = 4;
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

/// What a request waits for.
enum Waits {
    /// Its lock.
    ForLock(Wait),
    /// Its lock, but not for long.
    Until(Instant),
    /// That the kernel has dropped what it keeps of the file.
    ForDrop,
}

struct Waiting {
    _counted: Counted,
    request: Request,
    waits: Waits,
    due: Instant,
    pause: Duration,
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
    arrived: Mutex<Arrived>,
    over: AtomicBool,
    count: Arc<AtomicUsize>,
    /// Whoever waits for a lock is left unanswered.
    leaves: AtomicBool,
}

#[derive(Default)]
struct Arrived {
    waiting: Vec<Waiting>,
    is_running: bool,
}

impl<S: Store> LockWaits<S> {
    pub fn new(fs: Arc<Fs<S>>, kernel: Arc<Kernel>) -> Arc<LockWaits<S>> {
        let (arrived, over) = (Mutex::default(), AtomicBool::new(false));
        let (count, leaves) = (Arc::default(), AtomicBool::new(false));
        Arc::new(LockWaits { fs, kernel, arrived, over, count, leaves })
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
        self.push(request, Waits::ForDrop);
    }

    fn push(self: &Arc<Self>, request: Request, waits: Waits) {
        let ino = request.ino;
        self.count.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(self.count.clone());
        let (due, pause) = (Instant::now(), FIRST_PAUSE);
        let waiting = Waiting { _counted: counted, request, waits, due, pause };
        let mut arrived = self.arrived();
        arrived.waiting.push(waiting);
        if !arrived.is_running {
            let waits = Arc::clone(self);
            let thread = std::thread::Builder::new().name("tidefs-locks".to_owned());
            match thread.spawn(move || waits.run_or_say_so()) {
                Ok(_) => arrived.is_running = true,
                Err(error) => {
                    tracing::error!(%error, "requests for locks cannot wait");
                    // What is dropped unanswered is answered with an error.
                    arrived.waiting.clear();
                }
            }
        }
        drop(arrived);
        self.fs.ring_for_lock(ino);
    }

    fn run_or_say_so(&self) {
        run_anywhere();
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            tracing::error!("requests for locks have ended with an error");
            let mut arrived = self.arrived();
            // What is dropped unanswered is answered with an error; the next one begins anew.
            *arrived = Arrived::default();
        }
    }

    fn run(&self) {
        let mut waiting = Vec::new();
        let mut idle_since = Instant::now();
        loop {
            let pause = next_due(&waiting).unwrap_or(IDLE);
            let unlocked = self.fs.files_unlocked(pause);
            waiting.append(&mut self.arrived().waiting);
            waiting = self.pass(waiting, &unlocked);
            if !waiting.is_empty() {
                idle_since = Instant::now();
            } else if idle_since.elapsed() >= IDLE || self.over.load(Ordering::SeqCst) {
                let mut arrived = self.arrived();
                if arrived.waiting.is_empty() {
                    arrived.is_running = false;
                    return;
                }
            }
        }
    }

    /// Tries each that is due; answers those that go on waiting, in the order in which they came.
    fn pass(&self, waiting: Vec<Waiting>, unlocked: &HashSet<Ino>) -> Vec<Waiting> {
        // Files whose records were read in this pass.
        let mut known = HashSet::new();
        let step = |waiting: Waiting| {
            let is_due = waiting.due <= Instant::now() || unlocked.contains(&waiting.request.ino);
            if is_due { self.step(waiting, &mut known) } else { Some(waiting) }
        };
        waiting.into_iter().filter_map(step).collect()
    }

    fn step(&self, waiting: Waiting, known: &mut HashSet<Ino>) -> Option<Waiting> {
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
        if let Waits::ForDrop = waiting.waits {
            self.drop_old_pages(&waiting.request);
            self.end(waiting, Ok(()));
            return None;
        }
        let request = &waiting.request;
        if is_interrupted(request.thread) {
            // The kernel makes of it what the program asked for: a call that is begun again or not.
            self.end(waiting, Err(Errno::INTR));
            return None;
        }
        if !self.fs.is_known_to_others() {
            return self.go_on(waiting);
        }
        let is_known = !known.insert(request.ino);
        // This thread is everybody's, so it does not wait for room: bytes that find none are still to be
        // stored when it comes again.
        let nobody = Caller { number: 0, has_gone: |_| true, begins_again: || true };
        let lock = || match is_known {
            true => self.fs.lock_as_known(request.handle, &request.wanted),
            false => self.fs.lock(request.handle, &request.wanted),
        };
        let tried = catch_unwind(AssertUnwindSafe(|| caller::serve(Some(nobody), lock)));
        match tried {
            Ok(Ok(Taken { with_company })) => {
                if with_company {
                    self.drop_old_pages(request);
                }
                self.end(waiting, Ok(()));
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

    /// One that came while another one's were dropped finds none that are left.
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
        waiting.due = Instant::now() + waiting.pause;
        waiting.pause = (waiting.pause + waiting.pause / GROWTH).min(PAUSE_MAX);
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

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long until the next one has to be tried.
fn next_due(waiting: &[Waiting]) -> Option<Duration> {
    let now = Instant::now();
    waiting.iter().map(|waiting| waiting.due.saturating_duration_since(now)).min()
}
