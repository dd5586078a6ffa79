//! Stripe buffers for bytes on their way to the store. Their number is the mount's budget for
//! dirty bytes: who has a buffer may fill it, who has none waits for one.
//!
//! Buffers are used again and again, because the first touch of fresh memory costs more than the
//! copy into it. They keep what was in them; only ranges known to be written may be looked at.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use crate::sync::{Condvar, Mutex, MutexGuard};

#[derive(Debug)]
pub(super) struct Buffers {
    buffer_bytes: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug)]
struct State {
    /// Used last, given out first: its bytes may still be in the processor's cache.
    free: Vec<Vec<u8>>,
    /// Buffers that may yet be made.
    unmade: usize,
}

/// A buffer of one stripe's size; it goes back when it is dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    home: Arc<Buffers>,
}

impl Buffers {
    pub fn new(buffer_bytes: usize, count: usize) -> Arc<Buffers> {
        Arc::new(Buffers {
            buffer_bytes,
            state: Mutex::new(State { free: Vec::with_capacity(count), unmade: count }),
            returned: Condvar::new(),
        })
    }

    /// Waits at most `patience` for a buffer to come back.
    pub fn take_within(self: &Arc<Buffers>, patience: Duration) -> Option<Buffer> {
        let none_left = |state: &mut State| state.free.is_empty() && state.unmade == 0;
        let (mut state, _) = self
            .returned
            .wait_timeout_while(self.state(), patience, none_left)
            .expect("no panic while the buffers are locked");
        self.take(&mut state)
    }

    fn take(self: &Arc<Buffers>, state: &mut State) -> Option<Buffer> {
        let bytes = match state.free.pop() {
            Some(bytes) => bytes,
            None => {
                state.unmade = state.unmade.checked_sub(1)?;
                vec![0; self.buffer_bytes]
            }
        };
        Some(Buffer { bytes, home: Arc::clone(self) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the buffers are locked")
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.state().free.push(std::mem::take(&mut self.bytes));
        self.home.returned.notify_one();
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_as_many_as_the_budget_and_are_used_again() {
        let buffers = Buffers::new(16, 2);
        let mut first = buffers.take_within(Duration::ZERO).unwrap();
        first.fill(7);
        let second = buffers.take_within(Duration::ZERO).unwrap();
        assert!(buffers.take_within(Duration::from_millis(1)).is_none());
        drop(first);
        let again = buffers.take_within(Duration::from_secs(10)).unwrap();
        assert_eq!(*again, [7; 16], "the same memory");
        drop((again, second));
        assert_eq!(buffers.state().free.len(), 2);
    }
}
