//! A bound on the bytes that move in a second, shared by all pairs of nodes.

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A longer sleep would let a request to stop wait.
const NAP_MAX: Duration = Duration::from_millis(50);

pub struct Limit {
    bytes_per_second: Option<u64>,
    /// When what was let through so far is due.
    due: Mutex<Instant>,
}

impl Limit {
    pub fn new(bytes_per_second: Option<u64>) -> Limit {
        Limit { bytes_per_second, due: Mutex::new(Instant::now()) }
    }

    /// Waits as long as bytes that have just moved should have taken.
    pub fn spend(&self, bytes: u64, is_stopped: impl Fn() -> bool) {
        let Some(rate) = self.bytes_per_second else { return };
        let due = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let seconds = bytes as f64 / rate.max(1) as f64;
            *due = (*due).max(Instant::now()) + Duration::from_secs_f64(seconds.min(3_600.0));
            *due
        };
        while !is_stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            sleep(left.min(NAP_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_time_that_they_are_given() {
        let begun = Instant::now();
        let limit = Limit::new(Some(1_000));
        limit.spend(50, || false);
        limit.spend(50, || false);
        assert!(begun.elapsed() >= Duration::from_millis(100));
        limit.spend(u64::MAX, || true);
        Limit::new(None).spend(u64::MAX, || false);
    }
}
