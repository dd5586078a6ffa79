//! Serving threads follow the program that calls to its processor.
//!
//! A program that makes one small call after the other and the threads that serve it never work at
//! the same time. On two processors each call wakes one that sleeps, and each answer the other; that
//! takes longer than the call, on virtual machines several times as long. The kernel leaves a thread
//! where it ran last, and hands each request to another thread, so it does not end by itself.
//!
//! So while one program calls, the threads keep to its processor. That ends with the first call that
//! comes beside another, from another program, or with many bytes: such calls are served on all
//! processors. A program that Linux moves with every answer is not followed.

mod habit;
mod spinner;
mod threads;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use habit::{Habit, Turn};
use threads::Threads;
pub use threads::run_anywhere;

/// Calls with more than that keep a processor busy for long enough to use another one meanwhile.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Calls that follow each other sooner are worth a processor's time.
const DENSE: Duration = Duration::from_micros(100);

/// Of one mount.
#[derive(Debug)]
pub struct Following {
    begun: Instant,
    under_way: AtomicUsize,
    /// When the last call ended, in nanoseconds since it began.
    answered: AtomicU64,
    habit: Mutex<Habit>,
    is_on: AtomicBool,
    threads: Threads,
}

/// A call that is being served.
pub struct Served<'a>(&'a Following);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let answered = u64::try_from(self.0.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.answered.store(answered, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Following {
    pub fn new() -> Following {
        Following {
            begun: Instant::now(),
            under_way: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            habit: Mutex::default(),
            is_on: AtomicBool::new(false),
            threads: Threads::default(),
        }
    }

    /// To be called by the thread that serves it before a call that a program waits for is served,
    /// with the number of the program's thread and of the bytes that go either way. `None`: nobody
    /// waits for this one (number 0).
    pub fn serve(&self, caller: u32, bytes: usize, now: Instant) -> Option<Served<'_>> {
        if caller == 0 {
            return None;
        }
        self.threads.enlist();
        let beside = self.under_way.fetch_add(1, Ordering::Relaxed);
        let served = Served(self);
        // Whoever is in there looks at a call beside this one.
        if let Ok(mut habit) = self.habit.try_lock() {
            let alone = beside == 0 && bytes <= SMALL_BYTES_MAX;
            let pause = self.since_answer(now);
            let turn = habit.call(caller, alone, pause);
            self.take(turn, caller, now, &mut habit);
            self.is_on.store(habit.follows(), Ordering::Relaxed);
            if habit.follows() && pause < DENSE {
                self.threads.hold(now);
            }
        }
        Some(served)
    }

    /// A program is followed: what a thread does beside it keeps it from running.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn since_answer(&self, now: Instant) -> Duration {
        let answered = Duration::from_nanos(self.answered.load(Ordering::Relaxed));
        now.saturating_duration_since(self.begun).saturating_sub(answered)
    }

    fn take(&self, turn: Turn, caller: u32, now: Instant, habit: &mut Habit) {
        match turn {
            Turn::Stay => self.threads.catch_up(),
            Turn::LetGo => self.threads.let_go(),
            Turn::Look => self.threads.look_for(caller),
        }
        let found = self.threads.found().filter(|_| habit.follows());
        let Some((_, place)) = found.filter(|(thread, _)| *thread == caller) else { return };
        let then = match self.threads.follow(place, now) {
            Some(moved) => habit.looked(moved),
            None => habit.cannot_follow(),
        };
        if then == Turn::LetGo {
            self.threads.let_go();
        }
    }
}
