//! Whether a mount is alone.

use std::sync::atomic::{AtomicU64, Ordering};

use tidefs_model::Time;

use super::LIFETIME_ALONE;

/// Whether a mount is alone. Whoever relies on that asks for it again on the way, so it is read
/// without a lock.
#[derive(Debug, Default)]
pub struct Solitude {
    /// Which time of being alone this is, from 1 on; 0 with company.
    pub(super) time: AtomicU64,
    /// When the store said last that nobody had come.
    pub(super) seen: AtomicU64,
}

impl Solitude {
    pub(super) fn time_alone(&self) -> Option<u64> {
        Some(self.time.load(Ordering::SeqCst)).filter(|time| *time > 0)
    }

    /// Which time of being alone this is, unless so much time has passed since the store said so
    /// that others may soon take this mount for dead.
    pub fn time_alone_for_sure(&self, now: Time) -> Option<u64> {
        let alone = self.time_alone()?;
        let seen = Time(self.seen.load(Ordering::SeqCst));
        (now - seen < LIFETIME_ALONE).then_some(alone)
    }
}
