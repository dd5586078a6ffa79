//! A value split over a fixed number of locks, so that threads at work on different keys rarely
//! meet. A key's partition number picks the lane: it is a hash already.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Many more than the threads that a mount runs, few enough to visit all of them for a count.
pub const LANES: usize = 64;

#[derive(Debug)]
pub struct Lanes<T>(Box<[RwLock<T>]>);

impl<T: Default> Lanes<T> {
    pub fn new() -> Lanes<T> {
        Lanes((0..LANES).map(|_| RwLock::default()).collect())
    }

    /// A lane whose holder panicked is used on: nothing that runs under these locks can panic
    /// halfway through a change, since a failed allocation ends the process.
    pub fn read(&self, hash: u16) -> RwLockReadGuard<'_, T> {
        self.0[usize::from(hash) % LANES].read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self, hash: u16) -> RwLockWriteGuard<'_, T> {
        self.0[usize::from(hash) % LANES].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `measure` up over the lanes, one after the other.
    pub fn sum(&self, measure: impl Fn(&T) -> usize) -> u64 {
        (0..LANES as u16).map(|lane| measure(&self.read(lane)) as u64).sum()
    }
}
