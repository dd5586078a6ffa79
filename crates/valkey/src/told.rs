//! Failures that programs are told as a number: the log says which request failed, where, and why.
//!
//! A node that is gone makes requests fail by the thousand; a line a second is enough.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidefs_store::StoreError;

use crate::job::{Job, JobResult};
use crate::pool::Node;

const LINE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Failures(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    last: Option<Instant>,
    left_out: u64,
    /// The nodes are being ended, and whatever asks them still is no failure of theirs.
    is_over: bool,
}

impl Failures {
    /// `job` has the result that led to the error. A full node is what writers wait at, and whoever
    /// gives up there says so.
    pub fn tell(&self, job: &Job<'_>, error: &StoreError, begun: Instant) {
        if matches!(error, StoreError::Full { .. }) {
            return;
        }
        let Some(left_out) = self.turn(Instant::now()) else { return };
        tracing::warn!(
            endpoint = &*job.node.as_deref().map_or("no node".into(), Node::name),
            partition = job.partition.number(),
            request = &*job.request.name(),
            cause = &*cause(&job.result),
            losses = job.losses,
            elapsed = ?begun.elapsed(),
            left_out,
            "a request failed: {error}"
        );
    }

    /// There are no more lines.
    pub fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
    }

    /// Whether there is to be a line now; then how many were left out before it.
    fn turn(&self, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_over {
            return None;
        }
        if lines.last.is_some_and(|last| now.saturating_duration_since(last) < LINE_EVERY) {
            lines.left_out += 1;
            return None;
        }
        lines.last = Some(now);
        Some(std::mem::take(&mut lines.left_out))
    }
}

fn cause(result: &JobResult) -> Cow<'static, str> {
    match result {
        JobResult::Unreached(fault) => format!("not reached: {fault}").into(),
        JobResult::Lost { fault, sent: true } => format!("sent, and then: {fault}").into(),
        JobResult::Lost { fault, sent: false } => format!("not sent: {fault}").into(),
        JobResult::Unplaced => "nobody is known to hold the partition".into(),
        JobResult::Answered(crate::job::Answer::Reply(crate::wire::Reply::Error(text))) => {
            String::from_utf8_lossy(text).into_owned().into()
        }
        JobResult::Open => "the time was over".into(),
        JobResult::Answered(_) | JobResult::Failed(_) => "an answer".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_line_a_second_and_it_counts_those_left_out() {
        let (failures, begun) = (Failures::default(), Instant::now());
        let at = |millis| failures.turn(begun + Duration::from_millis(millis));
        assert_eq!(
            [at(0), at(1), at(999), at(1_000), at(1_001)],
            [Some(0), None, None, Some(2), None]
        );
        assert_eq!(at(5_000), Some(1));
        failures.end();
        assert_eq!(at(9_000), None);
    }
}
