//! How long requests took: counts in ranges of time, each an eighth of a power of two wide.
//!
//! Counting takes one addition, so every request is counted, when it ends. Two snapshots tell what
//! happened between them. Slow ones are kept one by one for a while, since a request may end long
//! after what held it up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Below this many microseconds each has a range of its own.
const EXACT: u64 = 16;
const PARTS: u64 = 8;
/// Two to this power of microseconds, some nineteen hours, and more.
const POWER_MAX: u64 = 36;
const RANGES: usize = (EXACT + (POWER_MAX - 4) * PARTS) as usize;
/// What takes longer is slow.
const SLOW: Duration = Duration::from_millis(20);
/// The last of the slow ones.
const SLOW_MOST: usize = 1_024;

/// Counts as they grow.
#[derive(Debug)]
pub struct Latencies {
    counts: Box<[AtomicU64]>,
    failed: AtomicU64,
    slow: Mutex<VecDeque<Slow>>,
}

/// A request that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    pub begun: Instant,
    pub ended: Instant,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            counts: (0..RANGES).map(|_| AtomicU64::new(0)).collect(),
            failed: AtomicU64::new(0),
            slow: Mutex::default(),
        }
    }
}

impl Latencies {
    /// A request ends that began then.
    pub fn count(&self, begun: Instant, ended: Instant) {
        let took = ended.saturating_duration_since(begun);
        self.counts[range_of(micros(took))].fetch_add(1, Ordering::Relaxed);
        if took > SLOW {
            let mut slow = self.slow();
            if slow.len() == SLOW_MOST {
                slow.pop_front();
            }
            slow.push_back(Slow { begun, ended });
        }
    }

    fn slow(&self) -> std::sync::MutexGuard<'_, VecDeque<Slow>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program was told that the file system could not do what it should have.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> Requests {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let slow = self.slow().iter().copied().collect();
        Requests { counts, failed: self.failed.load(Ordering::Relaxed), slow }
    }
}

/// Requests that a mount served: until now, or between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    counts: Vec<u64>,
    /// Answered with an input/output error, or that there is no room.
    pub failed: u64,
    /// The last of those that took long, of a snapshot.
    pub slow: Vec<Slow>,
}

impl Requests {
    /// What has ended since an earlier snapshot of the same mounts.
    pub fn since(&self, earlier: &Requests) -> Requests {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(now, then)| now.saturating_sub(then));
        let failed = self.failed.saturating_sub(earlier.failed);
        Requests { counts: counts.collect(), failed, slow: Vec::new() }
    }

    /// Both together, of two mounts.
    pub fn and(mut self, other: &Requests) -> Requests {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.failed += other.failed;
        self.slow.extend(&other.slow);
        self
    }

    /// One more, which took so long.
    pub fn add(&mut self, took: Duration) {
        self.counts.resize(self.counts.len().max(RANGES), 0);
        self.counts[range_of(micros(took))] += 1;
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many took how long: each range of microseconds in which there are some, without its end.
    pub fn ranges(&self) -> impl Iterator<Item = (std::ops::Range<u64>, u64)> {
        let some = self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        some.map(|(range, count)| {
            let begin = range.checked_sub(1).map_or(0, |before| longest_of(before) + 1);
            (begin..longest_of(range) + 1, count)
        })
    }

    /// No more than this part (0 to 1) of the requests took longer; an eighth too long at most.
    /// `None` when there were none.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = (self.total() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let range = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        range.map(|range| Duration::from_micros(longest_of(range)))
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

fn range_of(micros: u64) -> usize {
    if micros < EXACT {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2()).min(POWER_MAX - 1);
    let part = (micros >> (power - 3)).min(2 * PARTS - 1) - PARTS;
    (EXACT + (power - 4) * PARTS + part) as usize
}

/// The longest time of a range, in microseconds.
fn longest_of(range: usize) -> u64 {
    let range = range as u64;
    if range < EXACT {
        return range;
    }
    let (power, part) = ((range - EXACT) / PARTS + 4, (range - EXACT) % PARTS);
    ((PARTS + part + 1) << (power - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_range_that_ends_with_or_behind_it() {
        let times = (0..2_000).chain((11..POWER_MAX).flat_map(|power| {
            let start = 1_u64 << power;
            [start - 1, start, start + 1, start + start / 3]
        }));
        for micros in times {
            let range = range_of(micros);
            let longest = longest_of(range);
            assert!(micros <= longest && longest - micros <= micros / PARTS, "{micros} {longest}");
            assert!(range == 0 || longest_of(range - 1) < micros, "{micros}");
        }
        assert_eq!(range_of(u64::MAX), RANGES - 1);
    }

    #[test]
    fn quantiles_come_from_what_lies_between_two_snapshots() {
        let latencies = Latencies::default();
        let begun = Instant::now();
        let count = |took| latencies.count(begun, begun + took);
        count(Duration::from_secs(9));
        let before = latencies.snapshot();
        for micros in 1..=100 {
            count(Duration::from_micros(micros * 10));
        }
        latencies.failed();
        let between = latencies.snapshot().since(&before);
        assert_eq!((between.total(), between.failed), (100, 1));
        let within = |part: f64, micros: u64| {
            let found = between.quantile(part).unwrap().as_micros() as u64;
            assert!((micros..=micros + micros / PARTS).contains(&found), "{found} of {micros}");
        };
        within(0.5, 500);
        within(0.99, 990);
        within(1.0, 1_000);
        assert_eq!(before.since(&before).quantile(1.0), None);
        let ranges: Vec<_> = between.ranges().collect();
        assert_eq!(ranges.iter().map(|(_, count)| count).sum::<u64>(), 100);
        assert_eq!(ranges[0], (10..11, 1));
        assert!(ranges.iter().all(|(range, _)| range.start < range.end));
        assert!(ranges.is_sorted_by(|(one, _), (next, _)| one.end <= next.start));
        let twice = between.clone().and(&between);
        assert_eq!((twice.total(), twice.quantile(1.0)), (200, between.quantile(1.0)));
        let mut more = between.clone();
        more.add(Duration::from_secs(1));
        assert_eq!((more.total(), more.quantile(1.0) > between.quantile(1.0)), (101, true));
    }

    #[test]
    fn the_last_slow_ones_are_kept_one_by_one() {
        let latencies = Latencies::default();
        let begun = Instant::now();
        let slow = |number| Slow { begun, ended: begun + SLOW * (number + 2) };
        latencies.count(begun, begun + SLOW);
        assert_eq!(latencies.snapshot().slow, []);
        let most = SLOW_MOST as u32;
        (0..most + 2).for_each(|number| latencies.count(begun, slow(number).ended));
        let kept = latencies.snapshot().slow;
        assert_eq!((kept.len(), kept[0]), (SLOW_MOST, slow(2)));
        assert_eq!(kept.last(), Some(&slow(most + 1)));
    }
}
