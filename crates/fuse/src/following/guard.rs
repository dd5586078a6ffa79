//! Keeps a processor from looking idle for a moment.
//!
//! When Linux wakes a thread it first offers it the processor where it ran before its last move
//! (`recent_used_cpu`), if that is idle. A program that was moved once is so moved back by the first
//! answer from its new processor, and so on with each. Where its former processor is busy while it
//! is answered, it stays, and stays from then on, until something else moves it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::threads::keep_to;

/// As long as some calls take at most.
const MOMENT: Duration = Duration::from_micros(300);

/// A thread that sleeps but for these moments.
#[derive(Debug)]
pub struct Guard {
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Post {
    orders: Mutex<Orders>,
    called: Condvar,
    relieved: AtomicBool,
}

#[derive(Debug, Default)]
struct Orders {
    processor: Option<usize>,
    is_over: bool,
}

impl Guard {
    pub fn new() -> std::io::Result<Guard> {
        let post = Arc::new(Post::default());
        let its = post.clone();
        let name = "tidefs-guard".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || its.stand())?;
        Ok(Guard { post, thread: Some(thread) })
    }

    /// Has the processor busy until [`Guard::relieve`] is called, or the moment is over.
    pub fn call(&self, processor: usize) {
        self.post.relieved.store(false, Ordering::Relaxed);
        self.post.lock().processor = Some(processor);
        self.post.called.notify_one();
    }

    pub fn relieve(&self) {
        self.post.relieved.store(true, Ordering::Relaxed);
    }
}

impl Drop for Guard {
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
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stand(&self) {
        while let Some(processor) = self.next() {
            keep_to(processor);
            let begun = Instant::now();
            while !self.relieved.load(Ordering::Relaxed) && begun.elapsed() < MOMENT {
                std::hint::spin_loop();
            }
        }
    }

    /// Where to stand next; `None` when that is over.
    fn next(&self) -> Option<usize> {
        let mut orders = self.lock();
        loop {
            if orders.is_over {
                return None;
            }
            if let Some(processor) = orders.processor.take() {
                return Some(processor);
            }
            orders = self.called.wait(orders).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
