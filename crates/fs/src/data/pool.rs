//! The threads that move stripes between a mount and its store.
//!
//! Jobs wait in one bounded queue, first come, first served. A job never puts another one into the
//! queue and waits for room: with every thread doing so, nobody would be left to make room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, RwLock};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use crate::sync::begin_elsewhere;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait at most. Sends are bounded by the buffers there are; this bounds the rest.
const QUEUE_JOBS: usize = 64;

pub(super) struct Pool {
    queue: RwLock<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// `name` tells the threads of a mount's pools apart.
    pub fn new(name: &str, threads: usize) -> Pool {
        let (sender, receiver) = bounded(QUEUE_JOBS);
        let threads =
            (0..threads.max(1)).filter_map(|number| spawn(name, number, &receiver)).collect();
        Pool { queue: RwLock::new(Some(sender)), threads: Mutex::new(threads) }
    }

    /// Has the job done by a thread of the pool; waits while the queue is full. Without a thread
    /// left to do it the caller does it.
    pub fn push(&self, job: Job) {
        let Err(job) = begin_elsewhere(job) else { return };
        let refused = {
            let queue = self.queue.read().expect("no panic while the queue is locked");
            match &*queue {
                Some(sender) => sender.send(job).map_err(|refused| refused.0),
                None => Err(job),
            }
        };
        if let Err(job) = refused {
            job();
        }
    }

    /// The same without waiting; the job comes back where there is no room for it.
    pub fn try_push(&self, job: Job) -> Result<(), Job> {
        let Err(job) = begin_elsewhere(job) else { return Ok(()) };
        match &*self.queue.read().expect("no panic while the queue is locked") {
            Some(sender) => sender.try_send(job).map_err(TrySendError::into_inner),
            None => Err(job),
        }
    }

    /// Waits until all jobs are done and ends the threads.
    pub fn close(&self) {
        drop(self.queue.write().expect("no panic while the queue is locked").take());
        let threads = std::mem::take(
            &mut *self.threads.lock().expect("no panic while the threads are locked"),
        );
        for thread in threads {
            // Panics of jobs are caught and reported where they happen.
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, number: usize, jobs: &Receiver<Job>) -> Option<JoinHandle<()>> {
    let jobs = jobs.clone();
    let thread = std::thread::Builder::new().name(format!("tidefs-{name}-{number}"));
    let work = move || jobs.iter().for_each(run);
    match thread.spawn(work) {
        Ok(handle) => Some(handle),
        Err(error) => {
            tracing::warn!(%error, name, number, "no thread for moving stripes could be started");
            None
        }
    }
}

/// A job that panics must not take its thread along.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("moving a stripe panicked; its file reports an error");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counting(count: &Arc<AtomicUsize>) -> Job {
        let count = Arc::clone(count);
        Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    }

    #[test]
    fn closing_waits_for_every_job_and_later_ones_are_done_by_the_caller() {
        let pool = Pool::new("test", 2);
        let count = Arc::new(AtomicUsize::new(0));
        (0..200).for_each(|_| pool.push(counting(&count)));
        pool.close();
        assert_eq!(count.load(Ordering::SeqCst), 200);
        pool.push(counting(&count));
        assert_eq!(count.load(Ordering::SeqCst), 201);
        assert!(pool.try_push(counting(&count)).is_err());
    }

    #[test]
    fn a_job_that_panics_leaves_its_thread_at_work() {
        let pool = Pool::new("test", 1);
        let count = Arc::new(AtomicUsize::new(0));
        pool.push(Box::new(|| panic!("on purpose")));
        pool.push(counting(&count));
        pool.close();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_full_queue_gives_the_job_back() {
        let pool = Pool::new("test", 1);
        let count = Arc::new(AtomicUsize::new(0));
        let (release, gate) = bounded::<()>(0);
        pool.push(Box::new(move || assert!(gate.recv().is_err(), "the gate opens by vanishing")));
        let taken = (0..2 * QUEUE_JOBS).filter(|_| pool.try_push(counting(&count)).is_ok()).count();
        assert!((QUEUE_JOBS - 1..=QUEUE_JOBS + 1).contains(&taken), "{taken} jobs taken");
        drop(release);
        pool.close();
        assert_eq!(count.load(Ordering::SeqCst), taken);
    }
}
