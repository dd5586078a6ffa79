//! The threads that serve a mount: a few ask the kernel for requests, and more do where all of those wait.
//!
//! The session starts all its threads at once, and the kernel gives requests to those that ask in turn,
//! so that each would run with cold caches. So all but a few rest at the end of a request. When every
//! thread has been in the middle of one for a while, which a node that does not answer brings about, resting
//! ones are woken, as many as wait: who wants something of another node, or frees memory, is served.
//!
//! Threads of rings do not rest: the kernel gives a request to the one that was the last to be free, and there is
//! another one before all are busy.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// How often it is looked whether all threads wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Threads that begin nothing more when all others are in the middle of a request: they hand it over.
const KEPT_FREE: u64 = 8;
/// In the counts: one that serves, and one that rests.
const SERVES: u64 = 1 << 32;
const RESTS: u64 = 1;

#[derive(Debug)]
pub struct Turns {
    /// Threads that there are, and that ask while nothing is amiss.
    all: AtomicU64,
    few: AtomicU64,
    /// Those in the middle of a request, in the upper half; those that rest, in the lower one.
    counts: AtomicU64,
    /// Requests that have been served.
    ended: AtomicU64,
    resting: Mutex<Resting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Resting {
    /// So many are to ask again.
    woken: u64,
    /// The mount is gone, and nobody rests any more.
    over: bool,
    /// The same for a time.
    kept_awake: bool,
}

/// Where nobody rests there are always more threads than serve.
const ENDLESS: u64 = u64::MAX;

/// A thread in the middle of a request. When it is dropped the request must have been answered.
pub struct Turn<'a>(&'a Turns);

impl Turns {
    pub fn new(all: usize, few: usize) -> Turns {
        let (all, few) = (AtomicU64::new(all as u64), AtomicU64::new(few as u64));
        let (counts, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Turns { all, few, counts, ended, resting: Mutex::default(), changed: Condvar::new() }
    }

    /// To be said before the first request.
    pub fn never_rest(&self) {
        self.all.store(ENDLESS, Ordering::Relaxed);
        self.few.store(ENDLESS, Ordering::Relaxed);
    }

    pub fn begin(&self) -> Turn<'_> {
        self.counts.fetch_add(SERVES, Ordering::AcqRel);
        Turn(self)
    }

    /// Whatever may wait is to be carried out elsewhere: who asks for something else is heard then.
    pub fn are_scarce(&self) -> bool {
        self.serving() + KEPT_FREE > self.all().max(KEPT_FREE)
    }

    fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    fn few(&self) -> u64 {
        self.few.load(Ordering::Relaxed)
    }

    fn serving(&self) -> u64 {
        self.counts.load(Ordering::Acquire) / SERVES
    }

    fn asking(&self, counts: u64) -> u64 {
        self.all().saturating_sub(counts / SERVES + counts % SERVES)
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let less = |counts: u64| {
            let ended = counts - SERVES;
            Some(if self.asking(ended) > self.few() { ended + RESTS } else { ended })
        };
        let before = self.counts.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        let before = before.unwrap_or_else(|counts| counts);
        if self.asking(before - SERVES) > self.few() {
            self.rest();
        }
    }

    fn rest(&self) {
        let resting = self.resting();
        let stays =
            |resting: &mut Resting| resting.woken == 0 && !resting.over && !resting.kept_awake;
        let woken = self.changed.wait_while(resting, stays);
        let mut resting = woken.unwrap_or_else(PoisonError::into_inner);
        resting.woken = resting.woken.saturating_sub(1);
        self.counts.fetch_sub(RESTS, Ordering::AcqRel);
    }

    /// As many more as wait.
    fn wake(&self) {
        let resting = self.counts.load(Ordering::Acquire) % SERVES;
        self.resting().woken = resting.min(self.serving());
        self.changed.notify_all();
    }

    /// The mount is gone, or served elsewhere: its threads have nothing to rest for.
    pub fn close(&self) {
        self.resting().over = true;
        self.changed.notify_all();
    }

    /// Has nobody rest for a time: all come back from where they are.
    pub fn keep_awake(&self, awake: bool) {
        self.resting().kept_awake = awake;
        self.changed.notify_all();
    }

    fn resting(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that looks after them until the connection with the kernel ends.
    pub fn watch(self: &Arc<Turns>, connection: OwnedFd) -> io::Result<()> {
        let watched = Arc::downgrade(self);
        let close = CloseAtEnd(self.clone());
        let watch = move || {
            let _close = close;
            watch(&watched, &connection);
        };
        std::thread::Builder::new().name("tidefs-turns".to_owned()).spawn(watch)?;
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Nobody rests when nobody could wake them.
struct CloseAtEnd(Arc<Turns>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn watch(turns: &Weak<Turns>, connection: &OwnedFd) {
    let mut stuck_at = None;
    while !is_over(connection) {
        std::thread::sleep(LOOK_EVERY);
        let Some(turns) = turns.upgrade().filter(|turns| !turns.resting().over) else { return };
        let is_stuck = turns.asking(turns.counts.load(Ordering::Acquire)) == 0;
        let ended = is_stuck.then(|| turns.ended.load(Ordering::Relaxed));
        if ended.is_some() && ended == stuck_at {
            turns.wake();
        }
        stuck_at = ended;
    }
}

/// The kernel has ended the connection: the mount is gone.
fn is_over(connection: &OwnedFd) -> bool {
    // Without a wait; one would be woken at each request.
    let mut asked = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::empty())];
    let polled = poll(&mut asked, Some(&Timespec::default()));
    polled.is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{JoinHandle, spawn};
    use std::time::Instant;

    use super::*;

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "not within a minute: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A thread that serves one request, which ends when it is told so.
    fn serves(turns: &Arc<Turns>) -> (Sender<()>, JoinHandle<()>) {
        let (end, ended): (_, Receiver<()>) = channel();
        let turns = Arc::clone(turns);
        let thread = spawn(move || {
            let _turn = turns.begin();
            let _ = ended.recv();
        });
        (end, thread)
    }

    #[test]
    fn nobody_rests_where_nobody_is_to() {
        let turns = Arc::new(Turns::new(4, 2));
        turns.never_rest();
        let all: Vec<_> = (0..16).map(|_| serves(&turns)).collect();
        until("all serve", || turns.serving() == 16);
        assert!(!turns.are_scarce());
        for (end, thread) in all {
            drop(end);
            thread.join().unwrap();
        }
        assert_eq!(turns.counts.load(Ordering::Acquire), 0);
    }

    #[test]
    fn nobody_rests_who_is_kept_awake() {
        let turns = Arc::new(Turns::new(4, 2));
        let first: Vec<_> = (0..4).map(|_| serves(&turns)).collect();
        until("all serve", || turns.serving() == 4);
        let (ends, threads): (Vec<_>, Vec<_>) = first.into_iter().unzip();
        drop(ends);
        until("two rest", || turns.counts.load(Ordering::Acquire) == 2 * RESTS);
        turns.keep_awake(true);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (end, thread) = serves(&turns);
        until("it serves", || turns.serving() == 1);
        drop(end);
        thread.join().unwrap();
        turns.keep_awake(false);
        assert_eq!(turns.counts.load(Ordering::Acquire), 0);
    }

    #[test]
    fn all_but_a_few_rest_and_as_many_as_wait_are_woken() {
        let turns = Arc::new(Turns::new(8, 2));
        let first: Vec<_> = (0..8).map(|_| serves(&turns)).collect();
        until("all serve", || turns.serving() == 8);
        assert!(turns.are_scarce());
        drop(first.into_iter().map(|(_, thread)| thread).collect::<Vec<_>>());
        until("six rest", || turns.counts.load(Ordering::Acquire) == 6 * RESTS);
        let waiting: Vec<_> = (0..2).map(|_| serves(&turns)).collect();
        until("two wait", || turns.asking(turns.counts.load(Ordering::Acquire)) == 0);
        turns.wake();
        until("two more ask", || turns.asking(turns.counts.load(Ordering::Acquire)) == 2);
        drop(waiting);
        until("they rest again", || turns.serving() == 0);
        turns.close();
        until("nobody rests", || turns.counts.load(Ordering::Acquire) == 0);
    }
}
