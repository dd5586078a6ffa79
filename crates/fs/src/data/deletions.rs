//! How many removed files still hold memory in the store.
//!
//! A program that removes a file and writes another expects the room of the first. Bytes are freed
//! in the background, so whoever finds the store full waits for that before it gives up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Freeing the largest file takes longer, but then there is room long before its end.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Deletions {
    under_way: Mutex<u64>,
    changed: Condvar,
}

impl Deletions {
    pub fn begin(&self) {
        *self.count() += 1;
    }

    fn end(&self) {
        *self.count() -= 1;
        self.changed.notify_all();
    }

    /// Waits for what is under way, for a bounded time. `false`: there was nothing to wait for.
    pub fn wait(&self) -> bool {
        let under_way = self.count();
        if *under_way == 0 {
            return false;
        }
        let waited = self.changed.wait_timeout_while(under_way, PATIENCE, |count| *count > 0);
        drop(waited);
        true
    }

    fn count(&self) -> MutexGuard<'_, u64> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One removal; over when it is dropped, also by a panic.
pub(super) struct UnderWay<'a>(pub &'a Deletions);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_nothing_is_under_way() {
        let deletions = Deletions::default();
        assert!(!deletions.wait());
        deletions.begin();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| deletions.wait());
            deletions.end();
            // Either it saw the deletion and its end, or it came after both.
            let _ = waiter.join().expect("the waiter returns");
        });
        assert!(!deletions.wait());
    }
}
