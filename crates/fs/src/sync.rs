//! The locks of the data path.
//!
//! In a program they are the standard library's. In tests each of them is a place where a
//! [`Schedule`](schedule::Schedule) may let another thread go on, so that orders of events are explored
//! and not hoped for; threads that no schedule runs lock as ever.

#[cfg(test)]
mod locks;
#[cfg(test)]
pub(crate) mod schedule;

#[cfg(test)]
pub use locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(test))]
pub use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Lets a moment pass. In a schedule that is as long as others can go on.
pub fn pause(moment: std::time::Duration) {
    #[cfg(test)]
    if schedule::is_scheduled() {
        // Nobody wakes it there.
        schedule::wait(std::ptr::from_ref(&moment).addr(), true);
        return;
    }
    std::thread::sleep(moment);
}

/// Work for a thread of a pool. In a schedule it is a thread of its own, which begins at any time.
#[cfg(test)]
pub fn begin_elsewhere(work: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>> {
    schedule::begin(work)
}

#[cfg(not(test))]
pub fn begin_elsewhere(work: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>> {
    Err(work)
}
