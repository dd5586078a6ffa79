//! What went through this mount since it started, for people.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the mount. Bytes that the kernel reads and writes in a pinned file by itself are
/// not among them.
#[derive(Debug, Default)]
pub struct Counters {
    files_made: AtomicU64,
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
}

impl Counters {
    pub fn files_made(&self) -> u64 {
        self.files_made.load(Ordering::Relaxed)
    }

    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    pub(crate) fn made_file(&self) {
        self.files_made.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
