//! What one handle has been reading, and how far ahead that makes it worth reading.
//!
//! A run is a stretch that was read from front to back. The kernel reads ahead itself and hands
//! its requests to several threads, so they may arrive slightly out of order; a few such strays do
//! not end a run. Anything else does, and scattered reads never begin one.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ahead::Ahead;
use crate::sync::{Mutex, MutexGuard};

/// A run counts as one after so many reads in a row, or so many bytes.
const READS_MIN: u32 = 3;
const BYTES_MIN: u64 = 256 << 10;
/// Reads near the expected place in a row, none of them at it, that a run outlives.
const STRAYS_MAX: u32 = 8;
/// How far from the expected place a stray may be, in stripes.
const STRAY_STRIPES: u64 = 2;
/// Stripes ahead of a young run; it doubles as the run goes on.
const WINDOW_MIN: u64 = 2;
const WINDOW_MAX: u64 = 8;

/// One handle's read-ahead.
#[derive(Default)]
pub struct ReadAhead(Mutex<Run>);

#[derive(Default)]
pub(super) struct Run {
    /// Where the next read of the run is expected.
    next: u64,
    reads: u32,
    bytes: u64,
    strays: u32,
    /// Stripes read ahead for this run, in order.
    held: VecDeque<Arc<Ahead>>,
}

impl ReadAhead {
    pub(super) fn run(&self) -> MutexGuard<'_, Run> {
        self.0.lock().expect("no panic while a run is locked")
    }
}

impl Run {
    /// Takes note of a read. The answer is how many stripes beyond it to read ahead.
    pub fn observe(&mut self, offset: u64, length: u64, stripe_bytes: u64) -> u64 {
        let end = offset + length;
        if offset == self.next {
            self.reads += 1;
            self.bytes += length;
            self.strays = 0;
        } else if self.is_established() && self.is_stray(offset, stripe_bytes) {
            self.strays += 1;
        } else {
            *self = Run { next: end, ..Run::default() };
            return 0;
        }
        self.next = self.next.max(end);
        if !self.is_established() {
            return 0;
        }
        (self.bytes / stripe_bytes).clamp(WINDOW_MIN, WINDOW_MAX)
    }

    fn is_established(&self) -> bool {
        self.reads >= READS_MIN || self.bytes >= BYTES_MIN
    }

    fn is_stray(&self, offset: u64, stripe_bytes: u64) -> bool {
        self.strays < STRAYS_MAX && self.next.abs_diff(offset) <= STRAY_STRIPES * stripe_bytes
    }

    pub fn hold(&mut self, ahead: Arc<Ahead>) {
        self.held.push_back(ahead);
    }

    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The run has passed the stripes before `index`.
    pub fn release_before(&mut self, index: u32) {
        self.held.retain(|ahead| ahead.index >= index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_run_begins_at_the_third_small_read_in_a_row_and_its_window_grows() {
        let mut run = Run::default();
        let windows: Vec<_> = (0..4).map(|at| run.observe(at * 4096, 4096, MIB)).collect();
        assert_eq!(windows, [0, 0, 2, 2]);
        let windows: Vec<_> =
            (0..10).map(|at| run.observe(4 * 4096 + at * MIB, MIB, MIB)).collect();
        assert_eq!(windows, [2, 2, 3, 4, 5, 6, 7, 8, 8, 8]);
    }

    #[test]
    fn a_large_first_read_at_the_start_begins_a_run_and_elsewhere_it_does_not() {
        assert_eq!(Run::default().observe(0, MIB, MIB), 2);
        let mut run = Run::default();
        assert_eq!(run.observe(7 * MIB, MIB, MIB), 0);
        assert_eq!(run.observe(8 * MIB, MIB, MIB), 2);
    }

    #[test]
    fn scattered_reads_never_begin_a_run() {
        let mut run = Run::default();
        for at in [900, 13, 512, 77, 400, 3, 1000] {
            assert_eq!(run.observe(at * 4096, 4096, MIB), 0);
        }
    }

    #[test]
    fn a_run_outlives_reads_that_overtake_each_other() {
        let mut run = Run::default();
        run.observe(0, MIB, MIB);
        for at in [2, 1, 3, 5, 4, 6] {
            assert!(run.observe(at * MIB, MIB, MIB) > 0, "read {at}");
        }
        assert_eq!(run.observe(900 * MIB, MIB, MIB), 0);
    }

    #[test]
    fn reads_that_stay_near_without_going_on_end_a_run() {
        let mut run = Run::default();
        run.observe(0, MIB, MIB);
        let windows: Vec<_> = (0..9).map(|at| run.observe(at * 8192 + 17, 100, MIB)).collect();
        assert_eq!(windows, [2, 2, 2, 2, 2, 2, 2, 2, 0]);
    }
}
