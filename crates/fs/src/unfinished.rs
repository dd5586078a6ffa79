//! Since when this mount has seen renames and removals under way that others began.
//!
//! Hosts' clocks differ, and people set them, so a record does not say when its operation began. What
//! counts is how long this mount itself has seen it there, on a clock that nobody sets: no operation is
//! younger than that.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidefs_model::Time;

/// Operations that are remembered; beyond it the one that was seen first is forgotten, and whoever
/// meets it again waits for it anew.
const REMEMBERED_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Unfinished(Mutex<VecDeque<Seen>>);

#[derive(Clone, Copy, Debug)]
struct Seen {
    transaction: u64,
    first: Time,
}

impl Unfinished {
    /// How long the operation has been seen to be under way; it is seen now.
    pub fn age(&self, transaction: u64, now: Time) -> Duration {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.iter().find(|known| known.transaction == transaction) {
            return now - known.first;
        }
        if seen.len() == REMEMBERED_MAX {
            seen.pop_front();
        }
        seen.push_back(Seen { transaction, first: now });
        Duration::ZERO
    }
}

#[cfg(test)]
impl Unfinished {
    /// How many operations are remembered.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_as_old_as_it_was_seen_first() {
        let (unfinished, at) =
            (Unfinished::default(), |seconds: u64| Time(seconds * 1_000_000_000));
        assert_eq!(unfinished.age(7, at(10)), Duration::ZERO);
        assert_eq!(unfinished.age(8, at(11)), Duration::ZERO);
        assert_eq!(unfinished.age(7, at(13)), Duration::from_secs(3));
        for other in 0..REMEMBERED_MAX as u64 {
            unfinished.age(100 + other, at(14));
        }
        assert_eq!(unfinished.age(7, at(15)), Duration::ZERO, "it was forgotten");
    }
}
