//! How long requests took: counts in ranges of time, each an eighth of a power of two wide.
//!
//! Counting takes one addition, so every request is counted. Two snapshots tell what happened
//! between them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Below this many microseconds each has a range of its own.
const EXACT: u64 = 16;
const PARTS: u64 = 8;
/// Two to this power of microseconds, some nineteen hours, and more.
const POWER_MAX: u64 = 36;
const RANGES: usize = (EXACT + (POWER_MAX - 4) * PARTS) as usize;

/// Counts as they grow.
#[derive(Debug)]
pub struct Latencies {
    counts: Box<[AtomicU64]>,
    failed: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            counts: (0..RANGES).map(|_| AtomicU64::new(0)).collect(),
            failed: AtomicU64::new(0),
        }
    }
}

impl Latencies {
    pub fn count(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counts[range_of(micros)].fetch_add(1, Ordering::Relaxed);
    }

    /// A program was told that the file system could not do what it should have.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> Requests {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Requests { counts, failed: self.failed.load(Ordering::Relaxed) }
    }
}

/// Requests that a mount served: until now, or between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    counts: Vec<u64>,
    /// Answered with an input/output error, or that there is no room.
    pub failed: u64,
}

impl Requests {
    /// What has come since an earlier snapshot of the same mounts.
    pub fn since(&self, earlier: &Requests) -> Requests {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(now, then)| now.saturating_sub(then));
        Requests { counts: counts.collect(), failed: self.failed.saturating_sub(earlier.failed) }
    }

    /// Both together, of two mounts.
    pub fn and(mut self, other: &Requests) -> Requests {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.failed += other.failed;
        self
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
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
        latencies.count(Duration::from_secs(9));
        let before = latencies.snapshot();
        for micros in 1..=100 {
            latencies.count(Duration::from_micros(micros * 10));
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
        let twice = between.clone().and(&between);
        assert_eq!((twice.total(), twice.quantile(1.0)), (200, between.quantile(1.0)));
    }
}
