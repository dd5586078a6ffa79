//! A histogram of how long requests took, out of the ranges in which they are counted.

use tidefs_fuse::Requests;

/// The powers of two of microseconds at which buckets end, from 16 us to 34 s: ranges end there as well, so that
/// no request is counted in the wrong bucket.
const POWERS: std::ops::RangeInclusive<u32> = 4..=25;

#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// Seconds at which each ends, and how many are in it.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    /// In seconds, as if each request had taken as long as the middle of its range.
    pub sum: f64,
}

impl From<&Requests> for Histogram {
    fn from(requests: &Requests) -> Histogram {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let ends: Vec<u64> = POWERS.map(|power| 1 << power).collect();
        let mut counts = vec![0; ends.len() + 1];
        let mut sum = 0.0;
        for (range, count) in requests.ranges() {
            counts[ends.partition_point(|&end| end < range.end)] += count;
            sum += count as f64 * (seconds(range.start) + seconds(range.end)) / 2.0;
        }
        let ends = ends.into_iter().map(seconds).chain([f64::INFINITY]);
        let count = counts.iter().sum();
        Histogram { buckets: ends.zip(counts).collect(), count, sum }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_request_is_in_the_bucket_that_it_belongs_to() {
        let mut requests = Requests::default();
        for micros in [3, 15, 16, 31, 32, 1_000, 1_000_000, 40_000_000, u64::MAX / 1_000] {
            requests.add(Duration::from_micros(micros));
        }
        let Histogram { buckets, count, .. } = Histogram::from(&requests);
        let some: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        let is = [(1.6e-5, 2), (3.2e-5, 2), (6.4e-5, 1), (0.001024, 1), (1.048576, 1)];
        assert_eq!(some, [&is[..], &[(f64::INFINITY, 2)]].concat());
        assert_eq!(count, 9);
    }

    #[test]
    fn the_sum_is_near_what_they_took() {
        let mut requests = Requests::default();
        let micros = (1..2_000_u64).map(|at| at * 37 % 50_000);
        micros.clone().for_each(|micros| requests.add(Duration::from_micros(micros)));
        let took = micros.sum::<u64>() as f64 / 1e6;
        let sum = Histogram::from(&requests).sum;
        assert!((sum / took - 1.0).abs() < 0.02, "{sum} of {took}");
        assert_eq!(Histogram::from(&Requests::default()).sum, 0.0);
    }
}
