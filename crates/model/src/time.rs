//! Time as a value, and clocks that a test can own.

use std::cmp::Ordering as Order;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOSECONDS: u64 = 1_000_000_000;
/// Seconds of the first and the last time, those of ext4: 1901-12-13 and 2446-05-10.
const FIRST: i64 = -(1 << 31);
const LAST: i64 = (1 << 34) - (1 << 31) - 1;
/// Brings the first time to zero and the others in order.
const TO_ZERO: u64 = FIRST.unsigned_abs() * NANOSECONDS;

/// Nanoseconds since 1970-01-01 UTC. Those before it are the largest numbers, as in two's
/// complement: a time of a clock is an ordinary number, which the store compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Time(pub u64);

impl Time {
    pub const MIN: Time = Time(TO_ZERO.wrapping_neg());
    pub const MAX: Time = Time(LAST as u64 * NANOSECONDS);

    /// What lies outside becomes the first or the last time, without a fraction, as Linux does it
    /// for a file system of this range.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Time {
        match seconds {
            ..=FIRST => Time::MIN,
            LAST.. => Time::MAX,
            _ => {
                let whole = (seconds as u64).wrapping_mul(NANOSECONDS);
                Time(whole.wrapping_add(u64::from(nanoseconds)))
            }
        }
    }

    /// Whole seconds since 1970; 0 before it.
    pub fn seconds(self) -> u64 {
        if self < Time(0) { 0 } else { self.0 / NANOSECONDS }
    }

    /// That much earlier; the first time when it lies before.
    fn less(self, earlier: Duration) -> Time {
        if earlier < self - Time::MIN {
            Time(self.0.wrapping_sub(whole(earlier)))
        } else {
            Time::MIN
        }
    }

    fn since_first(self) -> u64 {
        self.0.wrapping_add(TO_ZERO)
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Order {
        self.since_first().cmp(&other.since_first())
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Time {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Time(0) + since,
            Err(before) => Time(0).less(before.duration()),
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> SystemTime {
        UNIX_EPOCH - Duration::from_nanos(TO_ZERO) + (time - Time::MIN)
    }
}

/// How long after `earlier`; zero when it is not after.
impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.since_first().saturating_sub(earlier.since_first()))
    }
}

/// That much later; the last time when it lies beyond.
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        if later < Time::MAX - self { Time(self.0.wrapping_add(whole(later))) } else { Time::MAX }
    }
}

/// Of a duration that is shorter than all of time.
fn whole(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Where an object reads the time, so that a simulator and a test can own it.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;

    /// For how long something takes: nobody sets it, and it goes on while the machine sleeps. It
    /// begins anywhere, so it says nothing to other machines, nor after a restart.
    fn steady(&self) -> Time {
        self.now()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_AND_A_HALF: Duration = Duration::from_millis(1500);

    #[test]
    fn times_before_1970_are_times_like_others() {
        let before = Time::from_unix(-2, 500_000_000);
        assert_eq!(SystemTime::from(before), UNIX_EPOCH - ONE_AND_A_HALF);
        assert_eq!(Time::from(UNIX_EPOCH - ONE_AND_A_HALF), before);
        assert_eq!(before + ONE_AND_A_HALF, Time(0));
        assert_eq!(Time(0) - before, ONE_AND_A_HALF);
        assert_eq!(before - Time(0), Duration::ZERO);
        assert_eq!(before.seconds(), 0);
        let order = [Time::MIN, Time::from_unix(-3, 0), before, Time(0), Time(1), Time::MAX];
        assert!(order.is_sorted_by(|earlier, later| earlier < later));
    }

    #[test]
    fn a_time_outside_of_the_range_becomes_its_end() {
        for (seconds, end) in [(FIRST, Time::MIN), (LAST, Time::MAX)] {
            let at = Time::from_unix(seconds, 999_999_999);
            assert_eq!(at, end, "without a fraction");
            let beyond = Time::from_unix(seconds.saturating_mul(4), 1);
            assert_eq!(beyond, end);
            let most = if seconds < 0 { i64::MIN } else { i64::MAX };
            assert_eq!(Time::from_unix(most, 0), end);
            let inside = seconds - seconds.signum();
            let inside = (inside, Time::from_unix(inside, 999_999_999));
            let seconds = inside.0.unsigned_abs();
            let as_system = match inside.0 < 0 {
                true => {
                    UNIX_EPOCH - Duration::from_secs(seconds) + Duration::from_nanos(999_999_999)
                }
                false => UNIX_EPOCH + Duration::new(seconds, 999_999_999),
            };
            assert_eq!(SystemTime::from(inside.1), as_system);
            assert_eq!(Time::from(as_system), inside.1);
        }
        let age = Duration::from_secs(1 << 40);
        assert_eq!(Time::from(UNIX_EPOCH - age), Time::MIN);
        assert_eq!(Time::from(UNIX_EPOCH + age), Time::MAX);
        assert_eq!(Time::MIN + Duration::MAX, Time::MAX);
    }
}
