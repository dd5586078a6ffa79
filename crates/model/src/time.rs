//! Time as a value: nanoseconds since the Unix epoch, and clocks that a test can own.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970-01-01 UTC; reaches to the year 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Before 1970 becomes 1970 and after 2554 becomes 2554.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Time {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        Time(seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(nanoseconds)))
    }

    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    pub fn nanoseconds(self) -> u32 {
        (self.0 % 1_000_000_000) as u32
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(time.0)
    }
}

/// How long after `earlier`; zero when it is not after.
impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// That much later; the end of time when it lies beyond.
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        let nanoseconds = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanoseconds))
    }
}

/// Where an object reads the time, so that a simulator and a test can own it.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn at(time: Time) -> ManualClock {
        ManualClock(AtomicU64::new(time.0))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }
}
