//! Reads pages of 4 KiB of one file in an order that repeats none, each with its own `pread`.
//!
//! The kernel forgets the file's pages first, and no page is read twice, so that a page cache
//! never answers.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::{REQUEST_BYTES, SMALL_BYTES, payload, sequential};
use crate::caches;
use crate::figures::Figure;

const NAME: &str = "pages";

pub fn measure(bytes: u64, reads: u64) -> anyhow::Result<Vec<(Figure, f64)>> {
    sequential::make(NAME, bytes, &payload(REQUEST_BYTES))?;
    let file = File::open(NAME)?;
    caches::forget_pages(&file)?;
    let mut page = vec![0; SMALL_BYTES];
    let mut order = Pages::new(bytes / SMALL_BYTES as u64);
    let started = Instant::now();
    for _ in 0..reads {
        file.read_exact_at(&mut page, order.next_page() * SMALL_BYTES as u64)?;
    }
    let rate = reads as f64 / started.elapsed().as_secs_f64();
    drop(file);
    fs::remove_file(NAME)?;
    Ok(vec![(Figure::RandomRead, rate)])
}

/// Walks through all pages of a file in a scattered order.
struct Pages {
    count: u64,
    at: u64,
}

impl Pages {
    /// # Panics
    /// When `count` is not a power of two: only then does the walk visit every page.
    fn new(count: u64) -> Pages {
        assert!(count.is_power_of_two(), "{count} pages are not a power of two");
        Pages { count, at: 0 }
    }

    /// A linear congruential generator of full period: multiplier 1 modulo 4, odd increment.
    fn next_page(&mut self) -> u64 {
        let next =
            self.at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x3c6e_f372_fe94_f82b);
        self.at = next % self.count;
        // Low bits of such a generator alternate; swapping the halves scatters them.
        let half = self.count.trailing_zeros() / 2;
        (self.at >> half) | ((self.at & ((1 << half) - 1)) << (self.count.trailing_zeros() - half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_visited_once() {
        for count in [4, 8, 1024, 65_536] {
            let mut pages = Pages::new(count);
            let mut seen: Vec<u64> = (0..count).map(|_| pages.next_page()).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }
}
