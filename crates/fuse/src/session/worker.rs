//! A thread whose end can be waited for, for a bounded time.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Worker {
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct End {
    over: Mutex<bool>,
    changed: Condvar,
}

/// Tells of the end also when the thread panics.
struct TellAtEnd(Arc<End>);

impl Drop for TellAtEnd {
    fn drop(&mut self) {
        *self.0.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Worker {
    pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Worker> {
        let end = Arc::new(End::default());
        let tell = TellAtEnd(end.clone());
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _tell = tell;
            work();
        })?;
        Ok(Worker { end })
    }

    pub fn is_over(&self) -> bool {
        *self.end.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false` when the thread still runs after `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        let over = self.end.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.changed.wait_timeout_while(over, at_most, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_end_too() {
        let worker = Worker::spawn("panics", || panic!("on purpose")).unwrap();
        assert!(worker.wait(Duration::from_secs(5)));
        assert!(worker.is_over());
    }

    #[test]
    fn waiting_ends_before_the_thread_does() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let worker = Worker::spawn("waits", move || {
            let _ = stopped.recv_timeout(Duration::from_secs(5));
        })
        .unwrap();
        assert!(!worker.wait(Duration::from_millis(10)));
        drop(stop);
        assert!(worker.wait(Duration::from_secs(5)));
    }
}
