//! What is under way, as programs read it and as people do: how far it is, and what went wrong.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_control::count_of_nodes;
use tidefs_manager::{Progress, RecoveryStatus};
use tidefs_model::ByteSize;

/// A reconfiguration under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReconfigurationView {
    /// `commission`, `decommission` or `rebalance`.
    pub kind: String,
    pub reason: String,
    /// Nanoseconds since 1970; no two of one file system have the same.
    #[serde(default)]
    pub started_unix_ns: u64,
    pub nodes_before: u16,
    /// What is being done, in words: `moving partitions`.
    #[serde(default)]
    pub phase: String,
    pub bytes_moved: u64,
    /// As planned now; more may follow while files are written.
    pub bytes_planned: u64,
    /// Since the first move began; null while nothing has moved.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
    /// While partitions move: at the speed so far and not above the limit; null where neither is known.
    pub seconds_left: Option<f64>,
    /// What went wrong last and is being tried again.
    pub last_failure: Option<String>,
    /// Until the next try; null while nothing waits for one.
    #[serde(default)]
    pub seconds_to_retry: Option<f64>,
}

/// Putting right what nodes that died left, or a manager that was killed, has failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryView {
    /// In a row.
    pub failures: u32,
    pub last_failure: String,
    /// Until the next try; null while it is being tried.
    pub seconds_to_retry: Option<f64>,
}

fn seconds(duration: Option<Duration>) -> Option<f64> {
    duration.map(|it| it.as_secs_f64())
}

impl From<&Progress> for ReconfigurationView {
    fn from(progress: &Progress) -> ReconfigurationView {
        ReconfigurationView {
            kind: progress.kind.name().to_owned(),
            reason: progress.reason.clone(),
            started_unix_ns: progress.started_at.0,
            nodes_before: progress.nodes_before,
            phase: progress.phase.name().to_owned(),
            bytes_moved: progress.bytes_moved,
            bytes_planned: progress.bytes_planned,
            bytes_per_second: progress.bytes_per_second,
            seconds_left: seconds(progress.left),
            last_failure: progress.last_failure.clone(),
            seconds_to_retry: seconds(progress.retry_in),
        }
    }
}

impl From<&RecoveryStatus> for RecoveryView {
    fn from(status: &RecoveryStatus) -> RecoveryView {
        RecoveryView {
            failures: status.failures,
            last_failure: status.last_failure.clone(),
            seconds_to_retry: seconds(status.retry_in),
        }
    }
}

fn next_try(f: &mut fmt::Formatter<'_>, seconds_to_retry: Option<f64>) -> fmt::Result {
    match seconds_to_retry {
        Some(seconds) => write!(f, "trying again in {seconds:.1} s"),
        None => f.write_str("trying again"),
    }
}

/// What people look for first comes first: a row of a terminal is cut at its end.
impl fmt::Display for ReconfigurationView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = count_of_nodes(self.nodes_before);
        write!(f, "{} from {nodes}: {}", self.kind, self.phase)?;
        if let Some(left) = self.seconds_left {
            write!(f, ", {left:.0} s left")?;
        }
        if self.bytes_planned > 0 {
            let (moved, planned) = (ByteSize(self.bytes_moved), ByteSize(self.bytes_planned));
            write!(f, ", {moved} of {planned} moved")?;
        }
        if let Some(rate) = self.bytes_per_second {
            write!(f, " at {}/s", ByteSize(rate))?;
        }
        if let Some(failure) = &self.last_failure {
            f.write_str("; ")?;
            next_try(f, self.seconds_to_retry)?;
            write!(f, " after: {failure}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RecoveryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveryView { failures, last_failure, .. } = self;
        match failures {
            1 => f.write_str("failed once, ")?,
            many => write!(f, "failed {many} times in a row, ")?,
        }
        next_try(f, self.seconds_to_retry)?;
        write!(f, ": {last_failure}\n           nothing else is changed before it has succeeded")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_what_is_done_how_far_it_is_and_how_fast() {
        let under_way = ReconfigurationView {
            kind: "decommission".to_owned(),
            nodes_before: 1,
            phase: "moving partitions".to_owned(),
            bytes_moved: 1 << 20,
            bytes_planned: 2 << 20,
            bytes_per_second: Some(512 << 10),
            seconds_left: Some(3.2),
            ..ReconfigurationView::default()
        };
        let said = "decommission from 1 node: moving partitions, 3 s left, 1 MiB of 2 MiB moved \
                    at 512 KiB/s";
        assert_eq!(under_way.to_string(), said);
        let starting = ReconfigurationView {
            kind: "commission".to_owned(),
            nodes_before: 3,
            phase: "starting nodes".to_owned(),
            last_failure: Some("no port is free".to_owned()),
            seconds_to_retry: Some(0.5),
            ..ReconfigurationView::default()
        };
        let said =
            "commission from 3 nodes: starting nodes; trying again in 0.5 s after: no port is free";
        assert_eq!(starting.to_string(), said);
        let json = serde_json::to_value(&starting).unwrap();
        assert_eq!(
            (&json["phase"], &json["seconds_to_retry"]),
            (&"starting nodes".into(), &0.5.into())
        );
        assert!(json["bytes_per_second"].is_null());
    }

    #[test]
    fn a_recovery_that_fails_says_which_failure_and_when_it_is_tried_again() {
        let last_failure = "node 2 does not answer, and has not ended".to_owned();
        let view = RecoveryView { failures: 3, last_failure, seconds_to_retry: Some(2.0) };
        let said = view.to_string();
        for part in ["3 times in a row", "trying again in 2.0 s", "node 2 does not answer"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
