//! A count of bytes in use that stays within a limit, shared by many threads without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts only: no other memory is published through these numbers, so relaxed order suffices.
const ORDER: Ordering = Ordering::Relaxed;

#[derive(Debug)]
pub struct Budget {
    used_bytes: AtomicU64,
    limit_bytes: AtomicU64,
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Budget {
        Budget { used_bytes: AtomicU64::new(0), limit_bytes: AtomicU64::new(limit_bytes) }
    }

    /// Takes `bytes` if they fit within the limit. Taking nothing always succeeds.
    pub fn reserve(&self, bytes: u64) -> bool {
        let limit = self.limit_bytes();
        let fits = |used: u64| used.checked_add(bytes).filter(|&sum| bytes == 0 || sum <= limit);
        self.used_bytes.fetch_update(ORDER, ORDER, fits).is_ok()
    }

    /// Takes `bytes` whether they fit or not.
    pub fn force(&self, bytes: u64) {
        self.used_bytes.fetch_add(bytes, ORDER);
    }

    pub fn release(&self, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, ORDER);
        debug_assert!(before >= bytes, "{bytes} bytes released of {before} in use");
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(ORDER)
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(ORDER)
    }

    pub fn set_limit_bytes(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, ORDER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let budget = Budget::new(100);
        assert!(budget.reserve(100));
        assert!(!budget.reserve(1));
        assert!(budget.reserve(0));
        budget.force(20);
        assert_eq!(budget.used_bytes(), 120);
        assert!(budget.reserve(0), "nothing fits also beyond the limit");
        budget.release(120);
        assert!(!budget.reserve(u64::MAX));
        assert_eq!(budget.used_bytes(), 0);
    }
}
