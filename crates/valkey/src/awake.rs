//! Time in which this process was running.
//!
//! A whole job may be stopped and go on later: a scheduler suspends it, a machine sleeps, a virtual
//! one is moved. Servers that were stopped with it have not been silent, so no time-out counts it.
//! Whoever waits looks at this clock twice a second; where nobody looked for longer, the process
//! slept. Between looks of one thread others may look, or nobody may wait: a time that is too short
//! makes a wait longer, never shorter.

use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// No wait goes on for longer without a look.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A busy machine may delay a look by as much.
const GAP_MAX: Duration = Duration::from_secs(1);

/// An instant, counted from the first that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Awake(Duration);

impl Awake {
    pub fn now() -> Awake {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        static METER: Meter = Meter::new();
        METER.look(BEGUN.elapsed())
    }

    /// How long it is until then, at most until the next look.
    pub fn until(self, later: Awake) -> Duration {
        later.0.saturating_sub(self.0).min(LOOK_EVERY)
    }

    pub fn since(self, earlier: Awake) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// When something happened last, for several threads.
#[derive(Debug, Default)]
pub struct Last(AtomicU64);

impl Last {
    pub fn note(&self, now: Awake) {
        self.0.fetch_max(now.0.as_nanos() as u64, Ordering::Relaxed);
    }

    /// `false` where it has never happened.
    pub fn is_within(&self, time: Duration, now: Awake) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        last > 0 && now.since(Awake(Duration::from_nanos(last))) < time
    }
}

impl Add<Duration> for Awake {
    type Output = Awake;

    fn add(self, time: Duration) -> Awake {
        Awake(self.0 + time)
    }
}

/// Nanoseconds, all of them.
struct Meter {
    last_look: AtomicU64,
    slept: AtomicU64,
    /// Held while a gap is counted, so that it counts once.
    counting: Mutex<()>,
}

impl Meter {
    const fn new() -> Meter {
        let (last_look, slept) = (AtomicU64::new(0), AtomicU64::new(0));
        Meter { last_look, slept, counting: Mutex::new(()) }
    }

    fn look(&self, at: Duration) -> Awake {
        let at = at.as_nanos() as u64;
        if self.gap(at).is_some() {
            let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(gap) = self.gap(at) {
                // Before the look itself: until it is noted, others see the gap and wait here.
                self.slept.fetch_add(gap, Ordering::SeqCst);
                self.last_look.fetch_max(at, Ordering::SeqCst);
            }
        } else {
            self.last_look.fetch_max(at, Ordering::SeqCst);
        }
        Awake(Duration::from_nanos(at.saturating_sub(self.slept.load(Ordering::SeqCst))))
    }

    /// What is too long between the last look and this one.
    fn gap(&self, at: u64) -> Option<u64> {
        let since = at.saturating_sub(self.last_look.load(Ordering::SeqCst));
        since.checked_sub(GAP_MAX.as_nanos() as u64).filter(|gap| *gap > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_does_not_count_and_waiting_does() {
        let meter = Meter::new();
        let look = |millis| meter.look(Duration::from_millis(millis)).0.as_millis();
        assert_eq!([look(0), look(500), look(1_000), look(1_400)], [0, 500, 1_000, 1_400]);
        assert_eq!(look(61_400), 2_400, "a minute's sleep counts as a second");
        assert_eq!([look(61_900), look(62_400)], [2_900, 3_400]);
        assert_eq!(look(62_000), 3_000, "a thread that was late");
    }

    #[test]
    fn a_gap_that_many_threads_see_counts_once() {
        for _ in 0..100 {
            let meter = Meter::new();
            meter.look(Duration::from_millis(500));
            let seen: Vec<_> = std::thread::scope(|scope| {
                let look = || scope.spawn(|| meter.look(Duration::from_secs(100)));
                let threads: Vec<_> = (0..4).map(|_| look()).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(seen, [Awake(Duration::from_millis(1_500)); 4]);
        }
    }

    #[test]
    fn what_happened_last_counts() {
        let (last, at) = (Last::default(), |seconds| Awake(Duration::from_secs(seconds)));
        assert!(!last.is_within(Duration::from_secs(9), at(1)), "it has never happened");
        last.note(at(5));
        last.note(at(4));
        assert!(last.is_within(Duration::from_secs(2), at(6)));
        assert!(!last.is_within(Duration::from_secs(2), at(7)));
    }

    #[test]
    fn nobody_waits_longer_than_until_the_next_look() {
        let now = Awake(Duration::from_secs(9));
        assert_eq!(now.until(now + Duration::from_secs(10)), LOOK_EVERY);
        assert_eq!(now.until(now + Duration::from_millis(20)), Duration::from_millis(20));
        assert_eq!((now + Duration::from_secs(1)).until(now), Duration::ZERO);
    }
}
