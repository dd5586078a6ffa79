//! Memory in which stripes are sealed, used again and again: the first touch of fresh memory costs
//! more than the copy into it.

use std::sync::{Mutex, PoisonError};

/// More are given back to the system: as many as threads that send.
const KEPT_MAX: usize = 8;

#[derive(Default)]
pub struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// A buffer of so many bytes at least, with anything in them.
    pub fn take(&self, bytes: usize) -> Buffer<'_> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = kept.unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        Buffer { bytes: buffer, home: self }
    }
}

/// Goes back when it is dropped.
pub struct Buffer<'b> {
    pub bytes: Vec<u8>,
    home: &'b Buffers,
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let mut kept = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(std::mem::take(&mut self.bytes));
        }
    }
}
