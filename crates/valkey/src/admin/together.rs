//! One caller does for all who wait what each of them wants, and tells them how it came out. Those who
//! have said that they come are waited for, for a while. It does not know what it is that they want.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// `W` is what callers bring, and `D` what becomes of each.
pub struct Together<W, D> {
    state: Mutex<State<W, D>>,
    changed: Condvar,
}

struct State<W, D> {
    /// How many have come.
    came: u64,
    waiting: Vec<(u64, W)>,
    /// So many have said that they will come, and have not.
    expected: usize,
    /// One of them is at it.
    is_busy: bool,
    done: BTreeMap<u64, D>,
}

impl<W, D> Default for Together<W, D> {
    fn default() -> Together<W, D> {
        let (waiting, done) = (Vec::new(), BTreeMap::new());
        let state = State { came: 0, waiting, expected: 0, is_busy: false, done };
        Together { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<W, D> Together<W, D> {
    fn state(&self) -> MutexGuard<'_, State<W, D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody will join, or say that nobody comes.
    pub fn expect(&self) {
        self.state().expected += 1;
    }

    /// One who was expected does not come.
    pub fn expect_no_longer(&self) {
        let mut state = self.state();
        state.expected = state.expected.saturating_sub(1);
        self.changed.notify_all();
    }

    /// Waits while others are at it, and up to `wait` for those who are expected; whoever joins is one
    /// of them. `all` has as many answers as it is given, in the same order.
    pub fn join(&self, what: W, wait: Duration, all: impl Fn(&[W]) -> Vec<D>) -> D {
        let mut state = self.state();
        state.came += 1;
        let ticket = state.came;
        state.waiting.push((ticket, what));
        state.expected = state.expected.saturating_sub(1);
        self.changed.notify_all();
        state = self.until_all_came(state, wait);
        loop {
            if let Some(done) = state.done.remove(&ticket) {
                return done;
            }
            if state.is_busy {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let is_waiting = state.waiting.iter().any(|(waiting, _)| *waiting == ticket);
            // Before anybody else's is taken: those that came meanwhile go on without this one.
            assert!(is_waiting, "whoever was at it has panicked");
            state.is_busy = true;
            let (tickets, batch): (Vec<_>, Vec<_>) =
                std::mem::take(&mut state.waiting).into_iter().unzip();
            drop(state);
            let turn = Turn(self);
            let done = all(&batch);
            self.state().done.extend(tickets.into_iter().zip(done));
            drop(turn);
            state = self.state();
        }
    }

    fn until_all_came<'s>(
        &self,
        state: MutexGuard<'s, State<W, D>>,
        wait: Duration,
    ) -> MutexGuard<'s, State<W, D>> {
        let some_come = |state: &mut State<W, D>| state.expected > 0;
        let waited = self.changed.wait_timeout_while(state, wait, some_come);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Ends when it is dropped, also by a panic.
struct Turn<'t, W, D>(&'t Together<W, D>);

impl<W, D> Drop for Turn<'_, W, D> {
    fn drop(&mut self) {
        self.0.state().is_busy = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn those_who_come_while_one_is_at_it_are_served_at_one_time() {
        let (together, begun, times) =
            (Together::<u32, u32>::default(), Barrier::new(2), AtomicUsize::new(0));
        let double = |all: &[u32]| {
            times.fetch_add(1, Ordering::SeqCst);
            all.iter().map(|it| 2 * it).collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                together.join(1, Duration::ZERO, |all| {
                    begun.wait();
                    while together.state().waiting.len() < 5 {
                        thread::yield_now();
                    }
                    double(all)
                })
            });
            begun.wait();
            let (together, double) = (&together, &double);
            let joins = |it| (it, scope.spawn(move || together.join(it, Duration::ZERO, double)));
            let others: Vec<_> = (2..7).map(joins).collect();
            assert_eq!(first.join().unwrap(), 2);
            for (it, other) in others {
                assert_eq!(other.join().unwrap(), 2 * it);
            }
        });
        assert_eq!(times.load(Ordering::SeqCst), 2);
    }

    /// The first waits for the second, though the second comes only after the first has begun to wait, and
    /// not for the third, which does not come.
    #[test]
    fn those_who_are_expected_are_waited_for() {
        let (together, times) = (Together::<u32, usize>::default(), AtomicUsize::new(0));
        let all = |all: &[u32]| {
            times.fetch_add(1, Ordering::SeqCst);
            vec![all.len(); all.len()]
        };
        let join = |it| together.join(it, Duration::from_secs(600), all);
        let until_came = |count| {
            while together.state().came < count {
                thread::yield_now();
            }
        };
        (0..3).for_each(|_| together.expect());
        thread::scope(|scope| {
            let first = scope.spawn(|| join(1));
            until_came(1);
            let second = scope.spawn(|| join(2));
            until_came(2);
            together.expect_no_longer();
            assert_eq!((first.join().unwrap(), second.join().unwrap()), (2, 2));
        });
        assert_eq!((join(3), times.load(Ordering::SeqCst)), (1, 2), "nobody is expected any more");
        (0..2).for_each(|_| together.expect());
        assert_eq!(together.join(4, Duration::ZERO, all), 1, "the other one has not come in time");
    }

    #[test]
    fn who_comes_while_one_panics_is_served_by_himself() {
        let (together, begun) = (Together::<u32, u32>::default(), Barrier::new(2));
        let until_there_wait = |count| {
            while together.state().waiting.len() < count {
                thread::yield_now();
            }
        };
        let all = |all: &[u32]| match all {
            [1] => {
                begun.wait();
                until_there_wait(2);
                vec![1]
            }
            [_, _] => {
                begun.wait();
                until_there_wait(1);
                panic!("of two at a time")
            }
            _ => all.to_vec(),
        };
        thread::scope(|scope| {
            let (together, all) = (&together, &all);
            let joins = |it| scope.spawn(move || together.join(it, Duration::ZERO, all));
            let first = joins(1);
            begun.wait();
            let two = [joins(2), joins(3)];
            begun.wait();
            let late = joins(4);
            assert_eq!(first.join().unwrap(), 1);
            assert!(two.into_iter().all(|it| it.join().is_err()), "both were of that party");
            assert_eq!(late.join().unwrap(), 4);
        });
    }
}
