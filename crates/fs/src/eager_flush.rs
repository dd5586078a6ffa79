//! Making a new small file before it is closed.
//!
//! Most programs write a small file with one call and close it right after. Whoever carried that
//! write out goes on to make the file once the program has its answer, so that the close finds most
//! of the way to the store behind it. Where another write follows, a round was made for nothing; so
//! what followed lately decides whether to do so. One thread does it at a time: a store that does not
//! answer holds it up, and those that serve requests are few.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use tidefs_store::Store;

use crate::data::LITTLE_BYTES_MAX;
use crate::fs::Fs;
use crate::ops::Handle;

/// How well the past is remembered, either way.
const SCORE_MAX: i32 = 8;
/// A round for nothing counts more than one that a close did not wait for gained.
const MISS: i32 = 3;

/// What follows the first write of a new file, by experience. Threads that count at the same time
/// may lose a count: it is a guess anyway.
#[derive(Debug, Default)]
pub(crate) struct ClosePredictor {
    score: AtomicI32,
    seat: Mutex<()>,
}

impl ClosePredictor {
    pub fn expects_close(&self) -> bool {
        self.score.load(Ordering::Relaxed) >= 0
    }

    /// The right to make a file early, until it is dropped; `None`: somebody has it.
    fn seat(&self) -> Option<MutexGuard<'_, ()>> {
        match self.seat.try_lock() {
            Ok(seat) => Some(seat),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub fn was_closed(&self) {
        self.count(1);
    }

    pub fn was_written_again(&self) {
        self.count(-MISS);
    }

    fn count(&self, by: i32) {
        let score = self.score.load(Ordering::Relaxed) + by;
        self.score.store(score.clamp(-SCORE_MAX, SCORE_MAX), Ordering::Relaxed);
    }
}

impl<S: Store> Fs<S> {
    /// To be called after a write was answered: makes the file if the write was the first of a new
    /// small one that is likely to be closed now. What fails is told when it is closed.
    pub fn make_eagerly(&self, handle: Handle, offset: u64, length: usize) {
        if offset != 0 || length > LITTLE_BYTES_MAX as usize || self.store.is_settled() {
            return;
        }
        let Ok(handle) = self.handles.file(handle) else { return };
        if !self.store.waits_to_make(handle.node.home, handle.node.ino) {
            return;
        }
        handle.wrote_once.store(true, Ordering::Relaxed);
        if !self.close_predictor.expects_close() || handle.node.slot().unlinked {
            return;
        }
        if let Some(_seat) = self.close_predictor.seat() {
            handle.file.flush_eagerly(&self.membership);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_seat() {
        let close_predictor = ClosePredictor::default();
        let seat = close_predictor.seat();
        assert!(seat.is_some() && close_predictor.seat().is_none());
        drop(seat);
        assert!(close_predictor.seat().is_some());
    }

    #[test]
    fn a_few_files_that_grow_end_it_and_as_many_closes_as_that_weighs_begin_it_anew() {
        let close_predictor = ClosePredictor::default();
        assert!(close_predictor.expects_close());
        (0..100).for_each(|_| close_predictor.was_closed());
        (0..2).for_each(|_| close_predictor.was_written_again());
        assert!(close_predictor.expects_close());
        close_predictor.was_written_again();
        assert!(!close_predictor.expects_close());
        (0..100).for_each(|_| close_predictor.was_written_again());
        (0..SCORE_MAX - 1).for_each(|_| close_predictor.was_closed());
        assert!(!close_predictor.expects_close());
        close_predictor.was_closed();
        assert!(close_predictor.expects_close());
    }
}
