//! Which of several threads goes on, decided by a number: the same number, the same order of events.
//!
//! One thread runs at a time. At each lock, and wherever else it [steps](step), it hands on to one that
//! is drawn among those that can go on. Nothing here waits for time: who waits with a limit is woken when
//! nobody else can go on, and where nobody can at all the threads wait for each other in a circle, which
//! fails the test.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A thread that has not come to its end after so many steps never will.
const STEPS_MAX: u64 = 1_000_000;

pub type Work = Box<dyn FnOnce() + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// Until somebody wakes those who wait for this address.
    Waits {
        on: usize,
        limited: bool,
    },
    Ended,
}

struct State {
    threads: Vec<Status>,
    /// Whose limit was reached.
    timed_out: Vec<bool>,
    current: usize,
    random: u64,
    /// Of 256: how often the thread that runs goes on running.
    stays: u64,
    steps: u64,
    /// A thread failed, and all others end.
    is_over: bool,
    failure: Option<Box<dyn Any + Send>>,
}

pub struct Schedule {
    state: Mutex<State>,
    moved: Condvar,
}

/// Why a thread ends where another one failed.
struct Quietly;

thread_local! {
    static OWN: RefCell<Option<(Arc<Schedule>, usize)>> = const { RefCell::new(None) };
}

/// Runs threads to their end in the order that a number stands for.
///
/// # Panics
/// When one of them does, or when they wait for each other.
pub fn run(number: u64, programs: Vec<Work>) {
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let stays = next(&mut random) % 256;
    let state = State {
        threads: Vec::new(),
        timed_out: Vec::new(),
        current: usize::MAX,
        random,
        stays,
        steps: 0,
        is_over: false,
        failure: None,
    };
    let schedule = Arc::new(Schedule { state: Mutex::new(state), moved: Condvar::new() });
    programs.into_iter().for_each(|program| schedule.add(program));
    schedule.hand_on(&mut schedule.state());
    let is_over = |state: &mut State| state.threads.iter().any(|it| *it != Status::Ended);
    let state = schedule.moved.wait_while(schedule.state(), is_over);
    let failure = state.unwrap_or_else(PoisonError::into_inner).failure.take();
    if let Some(failure) = failure {
        resume_unwind(failure);
    }
}

/// A place where another thread may go on.
pub fn step() {
    with_own(|schedule, own| schedule.step(own));
}

/// Begins a thread of this schedule; the work comes back where there is none.
pub fn begin(work: Work) -> Result<(), Work> {
    match OWN.with_borrow(|own| own.as_ref().map(|(schedule, _)| Arc::clone(schedule))) {
        Some(schedule) => {
            schedule.add(work);
            Ok(())
        }
        None => Err(work),
    }
}

pub fn is_scheduled() -> bool {
    OWN.with_borrow(Option::is_some)
}

/// Waits until somebody [wakes](wake) those who wait there. `true`: nobody did, and there was a limit.
pub fn wait(on: usize, limited: bool) -> bool {
    with_own(|schedule, own| schedule.wait(own, on, limited)).unwrap_or(false)
}

pub fn wake(on: usize) {
    with_own(|schedule, _| {
        for thread in &mut schedule.state().threads {
            if matches!(*thread, Status::Waits { on: waits, .. } if waits == on) {
                *thread = Status::Ready;
            }
        }
    });
}

fn with_own<T>(work: impl FnOnce(&Schedule, usize) -> T) -> Option<T> {
    let own = OWN.with_borrow(|own| own.as_ref().map(|(s, own)| (Arc::clone(s), *own)));
    own.map(|(schedule, own)| work(&schedule, own))
}

impl Schedule {
    fn add(self: &Arc<Self>, program: Work) {
        let own = {
            let mut state = self.state();
            state.threads.push(Status::Ready);
            state.timed_out.push(false);
            state.threads.len() - 1
        };
        let schedule = Arc::clone(self);
        std::thread::spawn(move || {
            OWN.set(Some((Arc::clone(&schedule), own)));
            let done = catch_unwind(AssertUnwindSafe(|| {
                schedule.wait_for_turn(schedule.state(), own);
                program();
            }));
            OWN.set(None);
            let mut state = schedule.state();
            state.threads[own] = Status::Ended;
            if let Err(failure) = done
                && !failure.is::<Quietly>()
            {
                state.is_over = true;
                state.failure.get_or_insert(failure);
            }
            schedule.hand_on(&mut state);
        });
    }

    fn step(&self, own: usize) {
        // Whoever unwinds gives back what it has, whoever's turn it is.
        if std::thread::panicking() {
            return;
        }
        let mut state = self.state();
        state.steps += 1;
        assert!(state.steps < STEPS_MAX, "the threads come to no end");
        if next(&mut state.random) % 256 < state.stays {
            return;
        }
        self.hand_on(&mut state);
        self.wait_for_turn(state, own);
    }

    fn wait(&self, own: usize, on: usize, limited: bool) -> bool {
        let mut state = self.state();
        if std::thread::panicking() {
            // Whoever has what this thread wants lets go of it, since all end now.
            state.is_over = true;
            self.moved.notify_all();
            drop(state);
            std::thread::yield_now();
            return false;
        }
        state.threads[own] = Status::Waits { on, limited };
        state.timed_out[own] = false;
        self.hand_on(&mut state);
        self.wait_for_turn(state, own);
        self.state().timed_out[own]
    }

    fn wait_for_turn(&self, state: MutexGuard<'_, State>, own: usize) {
        let waits = |state: &mut State| state.current != own && !state.is_over;
        let state = self.moved.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        let is_over = state.is_over;
        drop(state);
        if is_over {
            // Without a word: another thread says why.
            resume_unwind(Box::new(Quietly));
        }
    }

    fn hand_on(&self, state: &mut State) {
        let is_ready = |status: &Status| *status == Status::Ready;
        let is_limited = |status: &Status| matches!(status, Status::Waits { limited: true, .. });
        if let Some(ready) = draw(state, is_ready) {
            state.current = ready;
        } else if let Some(limited) = draw(state, is_limited) {
            state.threads[limited] = Status::Ready;
            state.timed_out[limited] = true;
            state.current = limited;
        } else if state.threads.iter().any(|it| *it != Status::Ended) && !state.is_over {
            state.is_over = true;
            state.failure = Some(Box::new("threads wait for each other"));
        }
        self.moved.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn draw(state: &mut State, which: impl Fn(&Status) -> bool) -> Option<usize> {
    let count = state.threads.iter().filter(|status| which(status)).count() as u64;
    let nth = next(&mut state.random).checked_rem(count)? as usize;
    let of_kind = state.threads.iter().enumerate().filter(|(_, status)| which(status));
    of_kind.map(|(thread, _)| thread).nth(nth)
}

/// xorshift64*.
fn next(random: &mut u64) -> u64 {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}
