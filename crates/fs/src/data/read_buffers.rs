//! Buffers for bytes from the store, each of one stripe's size, lent to readers as shared slices.
//!
//! A reader's answer is a range of such a buffer and says nothing when it is dropped; so a copy of
//! each reference stays here, and a buffer is free again when that copy is the only one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::ReadBytes;

/// Buffers kept beside those for reading ahead: answers that are on their way to the kernel.
const ANSWERS_KEPT: usize = 8;
/// How many buffers are looked at for a free one; it bounds the time under the lock.
const LOOKED_AT: usize = 16;

pub(super) struct ReadBuffers {
    buffer_bytes: usize,
    kept_max: usize,
    kept: Mutex<VecDeque<Arc<Vec<u8>>>>,
}

impl ReadBuffers {
    pub fn new(buffer_bytes: usize, ahead: usize) -> ReadBuffers {
        ReadBuffers { buffer_bytes, kept_max: ahead + ANSWERS_KEPT, kept: Mutex::default() }
    }

    /// A buffer that nobody else refers to, with anything in it.
    pub fn take(&self) -> Arc<Vec<u8>> {
        self.reuse().unwrap_or_else(|| Arc::new(vec![0; self.buffer_bytes]))
    }

    /// A buffer for an answer of so many bytes, with anything in it: exact while that is cheap,
    /// otherwise one that was used before.
    pub fn lend(&self, length: usize) -> Arc<Vec<u8>> {
        if self.is_lent(length) { self.take() } else { Arc::new(vec![0; length]) }
    }

    /// Makes an answer of a buffer that was lent for it.
    pub fn answer(&self, buffer: Arc<Vec<u8>>, length: usize) -> ReadBytes {
        if self.is_lent(length) {
            self.keep(&buffer);
        }
        ReadBytes { buffer, range: 0..length, has_gaps: false }
    }

    fn is_lent(&self, length: usize) -> bool {
        (self.buffer_bytes / 4..=self.buffer_bytes).contains(&length)
    }

    /// The buffer is filled; keep it for later use.
    pub fn keep(&self, buffer: &Arc<Vec<u8>>) {
        let mut kept = self.kept.lock().expect("no panic while the read buffers are locked");
        if kept.len() < self.kept_max {
            kept.push_back(Arc::clone(buffer));
        }
    }

    /// Those kept first are looked at first: their readers are the likeliest to be done. Others go
    /// to the end, so that no idle reader stays in the way.
    fn reuse(&self) -> Option<Arc<Vec<u8>>> {
        let mut kept = self.kept.lock().expect("no panic while the read buffers are locked");
        for _ in 0..kept.len().min(LOOKED_AT) {
            let mut buffer = kept.pop_front()?;
            // Also orders the last reader's use of the bytes before ours.
            if Arc::get_mut(&mut buffer).is_some() {
                return Some(buffer);
            }
            kept.push_back(buffer);
        }
        None
    }
}

/// The bytes of a buffer that only its taker refers to.
///
/// # Panics
/// When somebody else does.
pub(super) fn unshared(buffer: &mut Arc<Vec<u8>>) -> &mut [u8] {
    Arc::get_mut(buffer).expect("a buffer that only its taker refers to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_its_last_reader_is_gone() {
        let buffers = ReadBuffers::new(16, 0);
        let first = buffers.take();
        buffers.keep(&first);
        let second = buffers.take();
        assert_ne!(first.as_ptr(), second.as_ptr());
        let address = first.as_ptr();
        drop(first);
        assert_eq!(buffers.take().as_ptr(), address);
    }
}
