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

    /// The buffer is being sent, or its bytes are not wanted any more.
    pub fn remove(&self, birth: u64) {
        self.waiting().remove(&birth);
    }

    /// The stripe that has waited longest; it is not among them any more.
    pub fn take_oldest(&self) -> Option<(Arc<F>, u32)> {
        loop {
            let (_, (file, index)) = self.waiting().pop_first()?;
            if let Some(file) = file.upgrade() {
                return Some((file, index));
            }
        }
    }

    pub fn count(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, (Weak<F>, u32)>> {
        self.waiting.lock().expect("no panic while the unsent buffers are locked")
    }
}
