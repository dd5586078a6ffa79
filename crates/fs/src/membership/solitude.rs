//! Whether a mount is alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidefs_model::Time;

use super::LIFETIME_ALONE;

/// Whether a mount is alone. Whoever relies on that asks for it again on the way, so it is read
/// without a lock.
#[derive(Debug, Default)]
pub struct Solitude {
    /// Which time of being alone this is, from 1 on; 0 with company.
    time: AtomicU64,
    /// When the store said last that nobody had come.
    seen: AtomicU64,
}

impl Solitude {
    /// Which time of being alone this is; `None` with company, and where so much time has passed since
    /// the store said so that others may soon take this mount for dead.
    pub fn time_alone(&self, now: Time) -> Option<u64> {
        self.claimed().filter(|_| !self.left(now).is_zero())
    }

    /// For how long nobody takes this mount for dead.
    pub fn left(&self, now: Time) -> Duration {
        let seen = Time(self.seen.load(Ordering::SeqCst));
        LIFETIME_ALONE.saturating_sub(now - seen)
    }

    /// The same as [`Solitude::time_alone`], also where this mount may be taken for dead by now.
    pub(super) fn claimed(&self) -> Option<u64> {
        Some(self.time.load(Ordering::SeqCst)).filter(|time| *time > 0)
    }

    pub(super) fn set(&self, time: u64) {
        self.time.store(time, Ordering::SeqCst);
    }

    /// The store said that nobody had come.
    pub(super) fn confirm(&self, now: Time) {
        self.seen.store(now.0, Ordering::SeqCst);
    }
}
