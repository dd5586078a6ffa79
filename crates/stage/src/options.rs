//! How a tree is copied, as the caller says it.

use std::num::NonZero;

/// How a tree is copied.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that copy files.
    pub workers: NonZero<usize>,
    /// Read what was written and compare it; compare files that look unchanged byte by byte.
    pub checksum: bool,
    /// Have each file on the disk before it gets its name.
    pub sync: bool,
}
