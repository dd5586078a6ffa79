//! How far a transfer is, for whoever looks on from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts that only rise, and a wish to stop.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    files_found: AtomicU64,
    bytes_found: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Files and bytes that are done, copied or found unchanged.
    pub fn done(&self) -> (u64, u64) {
        (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Files and bytes that were found in the source so far.
    pub fn found(&self) -> (u64, u64) {
        (self.files_found.load(Ordering::Relaxed), self.bytes_found.load(Ordering::Relaxed))
    }

    /// Ends the transfer: what is under way is given up, what is whole stays.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn find(&self, bytes: u64) {
        self.files_found.fetch_add(1, Ordering::Relaxed);
        self.bytes_found.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }
}
