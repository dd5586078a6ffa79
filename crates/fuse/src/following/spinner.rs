//! Sees where a program is, and keeps a processor from looking idle.
//!
//! What proc(5) tells of a program may have to wait for the program itself, which may wait for the
//! file system. So no thread that serves requests asks.
//!
//! Linux moves a thread that it wakes to a processor that idles, also where the thread's own is about
//! to be free: to the one where it ran before its last move, and on a machine of two to the other one.
//! Where that one is busy while a program is answered, the program stays.
//!
//! What stands there does so at the lowest priority, while calls follow each other without a pause.
//! It steps aside as soon as it notices that somebody else wants the processor, or that it may not run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use rustix::thread::gettid;

use super::threads::{keep_to, processor_of};

/// How long one order lasts: longer than a call and the pause after it.
const MOMENT: Duration = Duration::from_micros(300);
/// Who did not run for so long waits for others. A server's work on one small request is less.
const GAP: Duration = Duration::from_millis(5);
/// How long it stays away then: at first, and after several times.
const AWAY_MIN: Duration = Duration::from_millis(200);
const AWAY_MAX: Duration = Duration::from_secs(60);
const LOWEST_PRIORITY: i32 = 19;

/// A thread that sleeps but for these moments.
#[derive(Debug)]
pub struct Spinner {
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Post {
    begun: Instant,
    orders: Mutex<Orders>,
    called: Condvar,
    /// Has been called, and has not gone since.
    stands: AtomicBool,
    /// Until when to stand, and until when to stay away, in nanoseconds since it began.
    until: AtomicU64,
    away: AtomicU64,
    /// The thread to look for; 0 for none.
    asked: AtomicU32,
    /// The thread that was looked for, and 1 more than its processor, or 0 where that is not to be
    /// seen, in 32 bits each; 0 before there is an answer.
    answer: AtomicU64,
}

enum Order {
    Look,
    Stand(usize),
}

#[derive(Debug, Default)]
struct Orders {
    processor: Option<usize>,
    is_over: bool,
}

impl Spinner {
    pub fn new() -> std::io::Result<Spinner> {
        let post = Arc::new(Post::new());
        let its = post.clone();
        let name = "tidefs-spin".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || its.stand())?;
        Ok(Spinner { post, thread: Some(thread) })
    }

    /// Has the processor busy for a moment from now.
    pub fn call(&self, processor: usize, now: Instant) {
        if self.post.since(now) < self.post.away.load(Ordering::Relaxed) {
            return;
        }
        self.post.until.store(self.post.since(now + MOMENT), Ordering::Relaxed);
        self.post.stands.store(true, Ordering::Relaxed);
        self.post.lock().processor = Some(processor);
        self.post.called.notify_one();
    }

    /// A moment from now, if it stands there still; whether it does.
    pub fn stay(&self, now: Instant) -> bool {
        let stands = self.post.stands.load(Ordering::Relaxed);
        if stands {
            self.post.until.store(self.post.since(now + MOMENT), Ordering::Relaxed);
        }
        stands
    }

    /// Has it look for a thread, unless it is looking for one; the number is not 0.
    pub fn ask(&self, thread: u32) {
        let (asked, relaxed) = (&self.post.asked, Ordering::Relaxed);
        if asked.compare_exchange(0, thread, Ordering::AcqRel, relaxed).is_err() {
            return;
        }
        if !self.post.stands.load(Ordering::Relaxed) {
            // It is asked under the lock whether there is anything to do.
            drop(self.post.lock());
            self.post.called.notify_one();
        }
    }

    /// What it has seen since this was called last: the thread, and where it is.
    pub fn answer(&self) -> Option<(u32, Option<usize>)> {
        if self.post.answer.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let answer = self.post.answer.swap(0, Ordering::AcqRel);
        let thread = u32::try_from(answer >> 32).expect("32 bits are left");
        (thread != 0).then(|| (thread, (answer as u32).checked_sub(1).map(|at| at as usize)))
    }

    pub fn relieve(&self) {
        self.post.until.store(0, Ordering::Relaxed);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.relieve();
        self.post.lock().is_over = true;
        self.post.called.notify_one();
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and would have said so.
            let _ = thread.join();
        }
    }
}

impl Post {
    fn new() -> Post {
        Post {
            begun: Instant::now(),
            orders: Mutex::default(),
            called: Condvar::new(),
            stands: AtomicBool::new(false),
            until: AtomicU64::new(0),
            away: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            answer: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_nanos()).unwrap_or(u64::MAX)
    }

    fn stand(&self) {
        if let Err(error) = setpriority_process(Some(gettid()), LOWEST_PRIORITY) {
            tracing::debug!(%error, "an idle-processor spinner keeps its priority");
        }
        let mut away = AWAY_MIN;
        while let Some(order) = self.next() {
            let Order::Stand(processor) = order else {
                self.look();
                continue;
            };
            keep_to(processor);
            let disturbed = self.keep_busy();
            self.stands.store(false, Ordering::Relaxed);
            match disturbed {
                None => away = AWAY_MIN,
                Some(noticed) => {
                    self.away.store(self.since(noticed + away), Ordering::Relaxed);
                    away = (2 * away).min(AWAY_MAX);
                }
            }
        }
    }

    /// Looks for whom it was asked for, if anybody.
    fn look(&self) {
        let thread = self.asked.load(Ordering::Acquire);
        if thread != 0 {
            let place = processor_of(thread).map_or(0, |at| at as u64 + 1);
            self.answer.store(u64::from(thread) << 32 | place, Ordering::Release);
            self.asked.store(0, Ordering::Release);
        }
    }

    /// Until the moment is over; when it noticed before that it does not get the processor.
    fn keep_busy(&self) -> Option<Instant> {
        let mut last = Instant::now();
        while self.since(last) < self.until.load(Ordering::Relaxed) {
            self.look();
            std::hint::spin_loop();
            let now = Instant::now();
            if now - last > GAP {
                return Some(now);
            }
            last = now;
        }
        None
    }

    /// What to do next; `None` when that is over.
    fn next(&self) -> Option<Order> {
        let mut orders = self.lock();
        loop {
            if orders.is_over {
                return None;
            }
            if self.asked.load(Ordering::Relaxed) != 0 {
                return Some(Order::Look);
            }
            if let Some(processor) = orders.processor.take() {
                return Some(Order::Stand(processor));
            }
            orders = self.called.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whom nobody relieves but the test.
    fn of_wood() -> Spinner {
        Spinner { post: Arc::new(Post::new()), thread: None }
    }

    #[test]
    fn it_is_told_to_stay_where_it_was_called_and_only_there() {
        let (spinner, now) = (of_wood(), Instant::now());
        assert!(!spinner.stay(now), "nobody called it");
        spinner.call(1, now);
        assert_eq!(spinner.post.lock().processor, Some(1));
        assert!(spinner.stay(now + MOMENT));
        assert_eq!(
            spinner.post.until.load(Ordering::Relaxed),
            spinner.post.since(now + 2 * MOMENT)
        );
    }

    #[test]
    fn it_is_not_called_while_others_want_the_processor() {
        let (spinner, now) = (of_wood(), Instant::now());
        spinner.post.away.store(spinner.post.since(now + AWAY_MIN), Ordering::Relaxed);
        spinner.call(0, now);
        assert!(!spinner.stay(now) && spinner.post.lock().processor.is_none());
        spinner.call(0, now + AWAY_MIN);
        assert!(spinner.stay(now + AWAY_MIN));
    }

    #[test]
    fn it_says_where_a_thread_is_and_of_one_that_is_not_there_that_it_cannot_be_seen() {
        let spinner = Spinner::new().unwrap();
        assert_eq!(spinner.answer(), None);
        let own = gettid().as_raw_nonzero().get() as u32;
        for (thread, is_there) in [(own, true), (i32::MAX as u32, false)] {
            spinner.ask(thread);
            let begun = Instant::now();
            let (found, place) = loop {
                if let Some(answer) = spinner.answer() {
                    break answer;
                }
                assert!(begun.elapsed().as_secs() < 30, "no answer");
                std::thread::yield_now();
            };
            assert_eq!((found, place.is_some()), (thread, is_there));
        }
    }

    #[test]
    fn it_goes_when_its_moment_is_over_or_it_is_relieved() {
        let spinner = Spinner::new().unwrap();
        for relieved in [false, true] {
            let begun = Instant::now();
            spinner.call(0, begun + Duration::from_secs(u64::from(relieved) * 3600));
            if relieved {
                spinner.relieve();
            }
            while spinner.post.stands.load(Ordering::Relaxed) {
                assert!(begun.elapsed().as_secs() < 30, "it stands there still");
                std::thread::yield_now();
            }
            spinner.post.away.store(0, Ordering::Relaxed);
        }
    }
}
