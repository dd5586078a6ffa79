//! The losses that a mount hears of with its heartbeat.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many numbers of inodes had been granted at the last loss that this mount heard of; 0 for none.
#[derive(Debug, Default)]
pub(crate) struct LostAt(AtomicU64);

impl LostAt {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Where the register was lost itself it says nothing for a moment.
    pub(super) fn heard(&self, granted: u64) {
        self.0.fetch_max(granted, Ordering::SeqCst);
    }
}
