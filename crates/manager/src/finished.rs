//! Reconfigurations that are over, as the journal and the report have them.

use serde::{Deserialize, Serialize};
use tidefs_control::{Outcome, Summary, count_of_nodes};

/// A reconfiguration as the report has it. How long requests were held up is known to mounts alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedReconfiguration {
    pub kind: String,
    pub reason: String,
    /// Nanoseconds since 1970. No two of one file system have the same.
    pub started_unix_ns: u64,
    pub seconds: f64,
    pub nodes_before: u16,
    pub nodes_after: u16,
    /// Where a manager was killed meanwhile: since its successor took over.
    pub partitions_moved: u32,
    pub bytes_moved: u64,
    pub bytes_minimum: u64,
    pub imbalance_percent: Option<f64>,
    /// Name and seconds of each phase.
    #[serde(default)]
    pub phases: Vec<(String, f64)>,
    /// `completed`, `partly`, `rolled back` or `failed`, with the reason.
    pub outcome: String,
}

/// What a manager that was killed had moved is known to nobody.
const RESUMED: &str = " (gone on with after its manager ended; bytes and partitions since then)";

impl From<&Summary> for ReportedReconfiguration {
    fn from(summary: &Summary) -> ReportedReconfiguration {
        ReportedReconfiguration {
            kind: summary.kind.name().to_owned(),
            reason: match summary.resumed {
                true => format!("{}{RESUMED}", summary.reason),
                false => summary.reason.clone(),
            },
            started_unix_ns: summary.started_at.0,
            seconds: summary.took.as_secs_f64(),
            nodes_before: summary.nodes_before,
            nodes_after: summary.nodes_after,
            partitions_moved: summary.partitions_moved,
            bytes_moved: summary.bytes_moved,
            bytes_minimum: summary.bytes_minimum,
            imbalance_percent: summary.imbalance_percent,
            phases: summary.phase_seconds().map(|(name, it)| (name.to_owned(), it)).collect(),
            outcome: match &summary.outcome {
                Outcome::Completed => "completed".to_owned(),
                Outcome::Partly { missing, why } => {
                    format!("partly: {} short of what was wanted: {why}", count_of_nodes(*missing))
                }
                Outcome::RolledBack { why } => format!("rolled back: {why}"),
                Outcome::Failed { why } => format!("failed: {why}"),
            },
        }
    }
}

/// What a manager remembers of reconfigurations that are over; whoever reports them asks sooner.
const KEPT_MOST: usize = 10_000;

/// Those of one manager's life, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    kept: Vec<ReportedReconfiguration>,
    left_out: u64,
}

impl Finished {
    pub fn push(&mut self, one: ReportedReconfiguration) {
        if self.kept.len() < KEPT_MOST {
            self.kept.push(one);
        } else {
            self.left_out += 1;
        }
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    pub fn since(&self, known: usize) -> Vec<ReportedReconfiguration> {
        self.kept.get(known..).unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidefs_control::{Kind, Phase};
    use tidefs_model::Time;

    use super::*;

    #[test]
    fn a_summary_keeps_its_figures_and_is_asked_for_once() {
        let summary = Summary {
            kind: Kind::Commission,
            reason: "asked by hand".to_owned(),
            started_at: Time(7),
            took: Duration::from_millis(1_500),
            nodes_before: 1,
            nodes_after: 3,
            partitions_moved: 5,
            bytes_moved: 6,
            bytes_minimum: 4,
            imbalance_percent: Some(0.5),
            phases: vec![(Phase::Moving, Duration::from_millis(1_250))],
            resumed: false,
            outcome: Outcome::RolledBack { why: "no room".to_owned() },
        };
        let mut finished = Finished::default();
        finished.push((&summary).into());
        let seen = finished.since(0);
        assert_eq!((seen[0].seconds, seen[0].outcome.as_str()), (1.5, "rolled back: no room"));
        assert_eq!(seen[0].phases, [(Phase::Moving.name().to_owned(), 1.25)]);
        assert_eq!((seen[0].started_unix_ns, seen[0].kind.as_str()), (7, "commission"));
        assert_eq!(finished.since(1), []);
        assert_eq!(finished.since(9), []);
        for _ in 0..KEPT_MOST + 2 {
            finished.push((&summary).into());
        }
        assert_eq!((finished.since(0).len(), finished.left_out()), (KEPT_MOST, 3));
    }
}
