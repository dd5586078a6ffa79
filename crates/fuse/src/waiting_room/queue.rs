//! The threads on which requests wait, and those that wait for one of them.
//!
//! A request in the queue has nothing but its bytes. Its program may be asked to end meanwhile: one
//! more thread looks for that, and carries such a request out, which then ends at once where it would
//! have to wait.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::following::run_anywhere;
use crate::interrupted::is_ending;

/// Requests that are carried out at a time, each on a thread of its own, unless said otherwise.
const THREADS_MAX: usize = 256;
/// What a request needs is far less.
const STACK_BYTES: usize = 512 << 10;
/// How often programs of requests in the queue are looked at, and that looking takes no more than a
/// tenth of a processor's time.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_SHARE: u32 = 10;

/// A request; what it does ends with its answer.
pub struct Queued {
    /// The thread that asks.
    pub asker: u32,
    pub work: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("asker", &self.asker).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Queue {
    threads_max: usize,
    /// Who is asked to end need not wait for a thread: what it waits for then ends at once.
    ends_waits: bool,
    state: Mutex<State>,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { threads_max: THREADS_MAX, ends_waits: true, state: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Queued>,
    threads: usize,
    /// Somebody looks whether programs in the queue are ending.
    is_watched: bool,
}

impl Queue {
    /// For requests that end by themselves, and no sooner when their programs do.
    pub fn of_bounded_waits(threads_max: usize) -> Queue {
        Queue { threads_max, ends_waits: false, state: Mutex::default() }
    }

    /// Has a request carried out, on a thread of its own while there are any.
    pub fn add(self: &Arc<Queue>, request: Queued) {
        let mut state = self.state();
        state.queue.push_back(request);
        if state.threads < self.threads_max {
            state.threads += 1;
            drop(state);
            if !self.start("tidefs-waits", Queue::serve) {
                self.serve_without();
            }
        } else if self.ends_waits && !std::mem::replace(&mut state.is_watched, true) {
            drop(state);
            // Without it the next one that comes tries again.
            if !self.start("tidefs-ends", Queue::watch) {
                self.state().is_watched = false;
            }
        }
    }

    fn start(self: &Arc<Queue>, name: &str, work: fn(&Queue)) -> bool {
        let queue = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            run_anywhere();
            work(&queue);
        });
        if let Err(error) = &begun {
            tracing::warn!(%error, name, "no thread for requests that wait could be started");
        }
        begun.is_ok()
    }

    /// There could be no thread. Those that there are come to the request; without any, the caller does.
    fn serve_without(&self) {
        let mut state = self.state();
        state.threads -= 1;
        let request = if state.threads == 0 { state.queue.pop_front() } else { None };
        drop(state);
        request.into_iter().for_each(carry_out);
    }

    /// Carries requests out until none is left.
    fn serve(&self) {
        while let Some(request) = self.next() {
            carry_out(request);
        }
    }

    fn next(&self) -> Option<Queued> {
        let mut state = self.state();
        let next = state.queue.pop_front();
        state.threads -= usize::from(next.is_none());
        next
    }

    /// Carries out those whose programs are ending, until nobody stands in the queue.
    fn watch(&self) {
        let mut pause = LOOK_EVERY;
        loop {
            std::thread::sleep(pause);
            let Some(askers) = self.askers() else { return };
            let begun = Instant::now();
            let ending: Vec<_> = askers.into_iter().filter(|asker| is_ending(*asker)).collect();
            pause = LOOK_EVERY.max(begun.elapsed() * LOOK_SHARE);
            self.take(&ending).into_iter().for_each(carry_out);
        }
    }

    /// Who stands in the queue; `None`: nobody, and nobody looks any more.
    fn askers(&self) -> Option<Vec<u32>> {
        let mut state = self.state();
        state.is_watched = !state.queue.is_empty();
        state.is_watched.then(|| state.queue.iter().map(|request| request.asker).collect())
    }

    fn take(&self, askers: &[u32]) -> Vec<Queued> {
        if askers.is_empty() {
            return Vec::new();
        }
        let mut state = self.state();
        let all = std::mem::take(&mut state.queue);
        let (taken, left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|request| askers.contains(&request.asker));
        state.queue = left.into();
        taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What panics is answered as it is dropped, and takes no thread along.
fn carry_out(request: Queued) {
    if catch_unwind(AssertUnwindSafe(request.work)).is_err() {
        tracing::error!("a request that waited panicked");
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// As many as there are threads, that wait until the answer is dropped.
    fn crowded() -> (Arc<Queue>, Sender<()>) {
        let queue = Arc::new(Queue::default());
        let (let_go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..THREADS_MAX {
            let wait = Arc::clone(&wait);
            let work = Box::new(move || {
                let _ = wait.lock().unwrap().recv();
            });
            queue.add(Queued { asker: 0, work });
        }
        (queue, let_go)
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "not within a minute: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn more_than_there_are_threads_stand_in_the_queue_and_all_have_their_turn() {
        let (queue, let_go) = crowded();
        let (done, all_done) = channel();
        for number in 0..1_000 {
            let done = done.clone();
            queue.add(Queued { asker: 0, work: Box::new(move || done.send(number).unwrap()) });
        }
        until("all threads have one", || queue.state().queue.len() == 1_000);
        assert_eq!(queue.state().threads, THREADS_MAX);
        drop(let_go);
        let mut numbers: Vec<_> = all_done.iter().take(1_000).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1_000));
        until("no thread is left", || queue.state().threads == 0);
    }

    #[test]
    fn who_waits_for_what_ends_by_itself_is_not_looked_at() {
        let queue = Arc::new(Queue::of_bounded_waits(1));
        let (let_go, wait) = channel::<()>();
        queue.add(Queued {
            asker: 0,
            work: Box::new(move || {
                let _ = wait.recv();
            }),
        });
        let (done, is_done) = channel();
        queue.add(Queued { asker: 0, work: Box::new(move || done.send(()).unwrap()) });
        until("one waits for the other", || queue.state().queue.len() == 1);
        assert!(!queue.state().is_watched);
        drop(let_go);
        is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn who_is_ending_does_not_wait_for_a_thread() {
        let (queue, _let_go) = crowded();
        let mut sleeps = sleeper();
        // One that is stopped takes no signal, so it stays pending.
        let signal = |child: &Child, signal| {
            let pid = rustix::process::Pid::from_child(child);
            rustix::process::kill_process(pid, signal).unwrap();
        };
        signal(&sleeps, rustix::process::Signal::STOP);
        let stat = format!("/proc/{}/stat", sleeps.id());
        until("it is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
        let (done, is_done) = channel();
        for asker in [sleeps.id(), std::process::id()] {
            let done = done.clone();
            queue.add(Queued { asker, work: Box::new(move || done.send(asker).unwrap()) });
        }
        signal(&sleeps, rustix::process::Signal::TERM);
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(sleeps.id()));
        assert!(queue.state().queue.iter().any(|it| it.asker == std::process::id()));
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap()
    }
}
