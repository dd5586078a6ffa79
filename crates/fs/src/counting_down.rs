//! Inodes of which the kernel takes a name from its own count.
//!
//! When the kernel hears that a name was removed it lowers its count of the inode's names by one. Where it has
//! heard of the lower count before, from an answer that was given after the removal and before the kernel had
//! dealt with its reply, it ends one too low; at zero nothing can be linked any more. So it is known of an inode that
//! the kernel may be about to do so: what it is told then of the inode has no lifetime, and it asks anew before it
//! answers a program from that. This is about the kernel's count alone: what the store has is right at all times.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tidefs_model::{Clock, Time};

/// A program that has its reply runs within this time, on a machine that does much else. Until then the kernel keeps
/// neither the inode's attributes nor its names.
const TAKEN_IN_MAX: Duration = Duration::from_secs(10);

/// Of one inode.
#[derive(Debug, Default)]
pub(crate) struct CountingDown {
    /// Removals under way.
    removals: AtomicU32,
    /// Until when the kernel may still have to take a name from its own count, by the steady clock; 0: it has.
    until: AtomicU64,
}

/// A removal is under way.
pub(crate) struct Removal<'a> {
    of: &'a CountingDown,
    clock: &'a dyn Clock,
}

impl CountingDown {
    /// To be held from before the store's count is lowered until the removal is about to be answered.
    pub fn begin<'a>(&'a self, clock: &'a dyn Clock) -> Removal<'a> {
        self.removals.fetch_add(1, Ordering::SeqCst);
        Removal { of: self, clock }
    }

    /// `now` is asked for where it may be.
    pub fn is_under_way(&self, now: impl FnOnce() -> Time) -> bool {
        if self.removals.load(Ordering::SeqCst) > 0 {
            return true;
        }
        let until = self.until.load(Ordering::SeqCst);
        until != 0 && now() < Time(until)
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        let until = self.clock.steady() + TAKEN_IN_MAX;
        self.of.until.fetch_max(until.0, Ordering::SeqCst);
        self.of.removals.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::ManualClock;

    use super::*;

    #[test]
    fn it_is_under_way_until_a_while_after_the_last_of_several_removals() {
        let (clock, counting_down) = (ManualClock::at(Time(1)), CountingDown::default());
        let is_under_way = || counting_down.is_under_way(|| clock.steady());
        assert!(!is_under_way());
        let (first, second) = (counting_down.begin(&clock), counting_down.begin(&clock));
        drop(first);
        clock.advance(2 * TAKEN_IN_MAX);
        assert!(is_under_way(), "the second one may not have lowered the count yet");
        drop(second);
        assert!(is_under_way());
        clock.advance(TAKEN_IN_MAX);
        assert!(!is_under_way());
    }
}
