//! Having the threads of a session stop, and go on: before somebody else goes on with its connection no
//! thread may ask the kernel for another request, or be in the middle of one.
//!
//! A thread that waits for a request sleeps in the kernel until one comes. It is called away by a signal that
//! does nothing else, and that is sent to threads alone that wait so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// One that nobody hears of who does not ask for it.
const SIGNAL: i32 = libc::SIGURG;
/// A call that comes just before a thread begins to wait is lost on it.
const CALL_EVERY: Duration = Duration::from_millis(1);

/// Threads that serve a session.
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_wanted: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    threads: Vec<Arc<Place>>,
    stopped: usize,
    /// Those that are stopped end.
    ends: bool,
}

#[derive(Debug)]
struct Place {
    /// The kernel's number of the thread.
    thread: libc::pid_t,
    /// It waits for a request.
    asks: AtomicBool,
}

/// A thread among them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'h> {
    halt: &'h Inner,
    place: Arc<Place>,
}

impl Halt {
    /// Stops all threads, each at the end of its request. `false`: after `at_most` some are still in the
    /// middle of one, and all go on.
    pub fn stop(&self, at_most: Duration) -> bool {
        take_signal();
        let mut left = at_most;
        self.0.is_wanted.store(true, Ordering::SeqCst);
        let mut state = self.0.state();
        while state.stopped < state.threads.len() {
            if left.is_zero() {
                drop(state);
                self.go_on();
                return false;
            }
            state.threads.iter().for_each(|place| place.call());
            let waited = self.0.changed.wait_timeout(state, CALL_EVERY);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            if waited.timed_out() {
                left = left.saturating_sub(CALL_EVERY);
            }
        }
        true
    }

    /// They ask for requests again.
    pub fn go_on(&self) {
        let _state = self.0.state();
        self.0.is_wanted.store(false, Ordering::SeqCst);
        self.0.changed.notify_all();
    }

    /// Those that are stopped end: somebody else serves the connection.
    pub fn end(&self) {
        self.0.state().ends = true;
        self.0.changed.notify_all();
    }

    /// The thread that calls serves from here on.
    pub(crate) fn enter(&self) -> Entered<'_> {
        // SAFETY: gettid does nothing but answer.
        let thread = unsafe { libc::gettid() };
        let place = Arc::new(Place { thread, asks: AtomicBool::new(false) });
        self.0.state().threads.push(place.clone());
        Entered { halt: &self.0, place }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Calls it away where it waits for a request.
    fn call(&self) {
        if self.asks.load(Ordering::SeqCst) {
            let process = std::process::id() as libc::pid_t;
            // SAFETY: tgkill takes numbers alone; the signal has a handler.
            unsafe { libc::syscall(libc::SYS_tgkill, process, self.thread, SIGNAL) };
        }
    }
}

impl Entered<'_> {
    /// Stops here while that is wanted. `false`: for good.
    pub fn may_ask(&self) -> bool {
        let is_wanted = || self.halt.is_wanted.load(Ordering::SeqCst);
        if !is_wanted() {
            return true;
        }
        let mut state = self.halt.state();
        state.stopped += 1;
        self.halt.changed.notify_all();
        let state = self.halt.changed.wait_while(state, |state| is_wanted() && !state.ends);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.stopped -= 1;
        !state.ends
    }

    /// Asks for a request, from where it may be called away.
    pub fn asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.place.asks.store(true, Ordering::Release);
        let asked = ask();
        self.place.asks.store(false, Ordering::Release);
        asked
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.halt.state();
        state.threads.retain(|place| !Arc::ptr_eq(place, &self.place));
        self.halt.changed.notify_all();
    }
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// Without a handler it would be dropped, and with restarts no call would end for it.
fn take_signal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the action is all zeros but for a handler that does nothing, and the old one is not asked for.
        let taken = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(SIGNAL, &action, std::ptr::null_mut())
        };
        if taken != 0 {
            tracing::error!("threads that wait for requests cannot be called away");
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::thread::JoinHandle;

    use super::*;
    use crate::device::{Device, Read};
    use crate::testing::Kernel;

    /// A thread that reads requests and counts them.
    fn reader(halt: &Halt, connection: OwnedFd) -> JoinHandle<usize> {
        let (halt, device) = (halt.clone(), Device::new(connection));
        std::thread::spawn(move || {
            let (mut buffer, mut count) = (Vec::with_capacity(4096), 0);
            let thread = halt.enter();
            while thread.may_ask() {
                match thread.asking(|| device.read(&mut buffer)).unwrap() {
                    Read::Gone => break,
                    Read::Nothing => {}
                    Read::Request => count += 1,
                }
            }
            count
        })
    }

    fn entered(halt: &Halt, count: usize) {
        while halt.0.state().threads.len() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_waits_for_a_request_stops_goes_on_and_ends() {
        let halt = Halt::default();
        let (kernel, connection) = Kernel::pair();
        let thread = reader(&halt, connection);
        entered(&halt, 1);
        for turn in 1..=20 {
            assert!(halt.stop(Duration::from_secs(20)), "in turn {turn}");
            kernel.ask(1, turn, 1, b"name\0");
            halt.go_on();
        }
        assert!(halt.stop(Duration::from_secs(20)));
        kernel.ask(1, 99, 1, b"name\0");
        halt.end();
        let read = thread.join().unwrap();
        assert!(read <= 20, "one that came when all had stopped was read");
        drop(kernel);
    }

    #[test]
    fn who_is_in_the_middle_of_a_request_is_waited_for_and_all_go_on_if_that_takes_long() {
        let halt = Halt::default();
        let (kernel, connection) = Kernel::pair();
        let idle = reader(&halt, connection);
        entered(&halt, 1);
        let busy = halt.enter();
        assert!(!halt.stop(Duration::from_millis(20)));
        assert!(busy.may_ask(), "nothing is wanted any more");
        drop(busy);
        assert!(halt.stop(Duration::from_secs(20)));
        halt.go_on();
        kernel.ask(1, 1, 1, b"name\0");
        drop(kernel);
        assert_eq!(idle.join().unwrap(), 1);
    }
}
