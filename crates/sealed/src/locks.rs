//! Locks of stripes among the threads of one client.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidefs_model::StripeKey;

/// Keeps the threads of this client from changing the same stripes at the same time.
pub struct Locks(Vec<Mutex<()>>);

const LOCKS: usize = 256;

impl Locks {
    pub fn new() -> Locks {
        Locks((0..LOCKS).map(|_| Mutex::default()).collect())
    }

    pub fn lock(&self, keys: impl IntoIterator<Item = StripeKey>) -> Vec<MutexGuard<'_, ()>> {
        let number = |key: StripeKey| usize::from(key.partition().number()) % LOCKS;
        let mut numbers: Vec<_> = keys.into_iter().map(number).collect();
        // Everybody takes them in the same order.
        numbers.sort_unstable();
        numbers.dedup();
        let lock = |at: usize| self.0[at].lock().unwrap_or_else(PoisonError::into_inner);
        numbers.into_iter().map(lock).collect()
    }
}
