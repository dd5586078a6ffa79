//! Failures of writes that nobody waited for, until everyone who has the file open has heard of
//! them.
//!
//! A log keeps the latest failure and counts them; a cursor remembers how far its handle has been
//! told. One report therefore stands for all failures before it, as in the kernel's own files.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    failures: u64,
    /// Failures that some handle has reported.
    told: u64,
    latest: Option<Error>,
}

/// What one handle has been told of a file's write errors.
#[derive(Debug, Default)]
pub struct ErrorCursor(AtomicU64);

impl ErrorCursor {
    /// How far its handle has been told.
    pub fn told(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// What was reported since then is reported again: nobody heard of it.
    pub fn tell_since(&self, told: u64) {
        self.0.store(told, Ordering::Relaxed);
    }
}

impl ErrorLog {
    pub fn record(&mut self, error: Error) {
        self.failures += 1;
        self.latest = Some(error);
    }

    /// For a handle that is opened now: it hears of a failure only when nobody has yet.
    pub fn cursor(&self) -> ErrorCursor {
        ErrorCursor(AtomicU64::new(self.told))
    }

    /// A failure is left for this handle to report.
    pub fn owes(&self, cursor: &ErrorCursor) -> bool {
        cursor.told() != self.failures
    }

    /// The failure that this handle has to report, once.
    pub fn report(&mut self, cursor: &ErrorCursor) -> Result<(), Error> {
        if cursor.0.swap(self.failures, Ordering::Relaxed) == self.failures {
            return Ok(());
        }
        self.told = self.failures;
        self.latest.clone().map_or(Ok(()), Err)
    }

    /// Nobody will ask any more.
    pub fn forgive(&mut self) {
        self.told = self.failures;
    }

    /// The failure that no handle has reported.
    pub fn untold(&self) -> Option<&Error> {
        self.latest.as_ref().filter(|_| self.told < self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handle_reports_a_failure_once_and_a_later_one_only_if_nobody_has() {
        let mut log = ErrorLog::default();
        let (first, second) = (log.cursor(), log.cursor());
        assert_eq!(log.report(&first), Ok(()));
        log.record(Error::Stale);
        let unheard = log.cursor();
        assert_eq!(log.report(&first), Err(Error::Stale));
        assert_eq!(log.report(&first), Ok(()));
        assert_eq!(log.report(&second), Err(Error::Stale));
        assert_eq!(log.report(&unheard), Err(Error::Stale));
        assert_eq!(log.untold(), None);
        assert_eq!(log.report(&log.cursor()), Ok(()));
    }

    #[test]
    fn what_nobody_heard_is_reported_again() {
        let mut log = ErrorLog::default();
        let cursor = log.cursor();
        let told = cursor.told();
        log.record(Error::Stale);
        assert_eq!(log.report(&cursor), Err(Error::Stale));
        cursor.tell_since(told);
        assert_eq!(log.report(&cursor), Err(Error::Stale));
        assert_eq!(log.report(&cursor), Ok(()));
    }

    #[test]
    fn two_failures_before_a_report_are_one_report() {
        let mut log = ErrorLog::default();
        let cursor = log.cursor();
        log.record(Error::Stale);
        log.record(Error::FileTooLarge);
        assert_eq!(log.untold(), Some(&Error::FileTooLarge));
        assert_eq!(log.report(&cursor), Err(Error::FileTooLarge));
        assert_eq!(log.report(&cursor), Ok(()));
    }
}
