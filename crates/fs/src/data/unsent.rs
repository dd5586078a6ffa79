//! Buffers of all files of a mount that hold bytes nobody has started to send, oldest first.
//!
//! A buffer gets its number, its birth, when it takes its first bytes. Births grow, so within a
//! file they also tell what was written before a given moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

pub(super) struct Unsent<F> {
    births: AtomicU64,
    waiting: Mutex<BTreeMap<u64, (Weak<F>, u32)>>,
}

impl<F> Unsent<F> {
    pub fn new() -> Unsent<F> {
        Unsent { births: AtomicU64::new(1), waiting: Mutex::new(BTreeMap::new()) }
    }

    /// Enters the buffer of a stripe; the answer is its birth.
    pub fn add(&self, file: &Weak<F>, index: u32) -> u64 {
        let birth = self.births.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(birth, (Weak::clone(file), index));
        birth
    }

    /// Enters a buffer again that was being sent, and has its birth still.
    pub fn put_back(&self, birth: u64, file: &Weak<F>, index: u32) {
        self.waiting().insert(birth, (Weak::clone(file), index));
    }

    /// The buffer is being sent, or its bytes are not wanted any more.
    pub fn remove(&self, birth: u64) {
        self.waiting().remove(&birth);
    }

    /// The stripes that have waited longest, at most `count`; they are not among them any more.
    pub fn take_oldest(&self, count: usize) -> Vec<(Arc<F>, u32)> {
        let mut waiting = self.waiting();
        let oldest = std::iter::from_fn(|| waiting.pop_first());
        let live = oldest.filter_map(|(_, (file, index))| Some((file.upgrade()?, index)));
        live.take(count).collect()
    }

    /// The stripes that wait and were entered first, at most `count`; they stay among them.
    pub fn oldest(&self, after: u64, count: usize) -> Vec<(u64, Arc<F>, u32)> {
        let waiting = self.waiting();
        let later = waiting.range(after + 1..);
        let live =
            later.filter_map(|(birth, (file, index))| Some((*birth, file.upgrade()?, *index)));
        live.take(count).collect()
    }

    pub fn count(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, (Weak<F>, u32)>> {
        self.waiting.lock().expect("no panic while the unsent buffers are locked")
    }
}
