//! What a run used and what it held, over time: the figures of the report.
//!
//! An observation holds until the next one. The timeline is bounded: when it is full, every second
//! row is dropped and rows are taken half as often from then on; sums lose nothing by that.

use serde::Serialize;
use tidefs_control::{Kind, Observation, Outcome, Summary};
use tidefs_model::{ByteSize, Time};

/// Two hours of a row a second.
const ROWS_MOST: usize = 7_200;
/// A reconfiguration takes a second at least; this is days of them.
const RECONFIGURATIONS_MOST: usize = 100_000;

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Seconds since the first observation.
    pub t: f64,
    pub used_bytes: u64,
    pub allocated_bytes: u64,
    pub nodes: u16,
}

/// A reconfiguration as the report has it. How long requests were held up is known to mounts alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportedReconfiguration {
    pub kind: &'static str,
    pub reason: String,
    /// Seconds since the first observation.
    pub started_at: f64,
    pub seconds: f64,
    pub nodes_before: u16,
    pub nodes_after: u16,
    pub partitions_moved: u32,
    pub bytes_moved: u64,
    pub bytes_minimum: u64,
    pub imbalance_percent: Option<f64>,
    /// Name and seconds of each phase.
    pub phases: Vec<(&'static str, f64)>,
    /// `completed`, `partly`, `rolled back` or `failed`, with the reason.
    pub outcome: String,
}

/// The part of `report.json` that the manager knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What the seconds in it are counted from.
    #[serde(skip)]
    pub first_observed_at: Option<Time>,
    pub peak_used_bytes: u64,
    pub used_byte_seconds: f64,
    pub allocated_byte_seconds: f64,
    pub node_seconds: f64,
    /// See [`Account::resource_usage_improvement`].
    pub resource_usage_improvement: Option<f64>,
    pub reconfigurations: Vec<ReportedReconfiguration>,
    pub timeline: Vec<Row>,
}

#[derive(Debug)]
pub struct Account {
    node_memory: ByteSize,
    nodes_min: u16,
    first: Option<Time>,
    last: Option<(Time, Row)>,
    wall_seconds: f64,
    used_byte_seconds: f64,
    allocated_byte_seconds: f64,
    node_seconds: f64,
    peak_used_bytes: u64,
    rows: Vec<Row>,
    /// One of so many observations becomes a row.
    every: u64,
    observations: u64,
    summaries: Vec<Summary>,
}

impl Account {
    pub fn new(node_memory: ByteSize, nodes_min: u16) -> Account {
        Account {
            node_memory,
            nodes_min,
            first: None,
            last: None,
            wall_seconds: 0.0,
            used_byte_seconds: 0.0,
            allocated_byte_seconds: 0.0,
            node_seconds: 0.0,
            peak_used_bytes: 0,
            rows: Vec::new(),
            every: 1,
            observations: 0,
            summaries: Vec::new(),
        }
    }

    pub fn observe(&mut self, now: Time, observed: &Observation) {
        let first = *self.first.get_or_insert(now);
        let row = Row {
            t: (now - first).as_secs_f64(),
            used_bytes: observed.used_bytes(),
            allocated_bytes: observed.capacity_bytes(),
            nodes: observed.serving().count() as u16,
        };
        if let Some((then, held)) = self.last {
            let seconds = (now - then).as_secs_f64();
            self.wall_seconds += seconds;
            self.used_byte_seconds += held.used_bytes as f64 * seconds;
            self.allocated_byte_seconds += held.allocated_bytes as f64 * seconds;
            self.node_seconds += f64::from(held.nodes) * seconds;
        }
        self.last = Some((now, row));
        self.peak_used_bytes = self.peak_used_bytes.max(row.used_bytes);
        if self.observations.is_multiple_of(self.every) {
            self.push(row);
        }
        self.observations += 1;
    }

    fn push(&mut self, row: Row) {
        if self.rows.len() >= ROWS_MOST {
            let mut keep = false;
            self.rows.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2;
        }
        self.rows.push(row);
    }

    pub fn finish(&mut self, summary: Summary) {
        if self.summaries.len() < RECONFIGURATIONS_MOST {
            self.summaries.push(summary);
        }
    }

    /// How much less memory was held for nothing than in a static run: MemEFS, section 3.4.4,
    /// *(W(static) - W(elastic)) / W(static)* with *W = A - U*, allocated less used, over time.
    ///
    /// The static run has the fewest nodes that hold the peak, for as long as this run took, and
    /// uses what this run used. That flatters this run by no node of reserve, and lacks the time by
    /// which the static run would have been faster. `None` where the static run wastes nothing.
    pub fn resource_usage_improvement(&self) -> Option<f64> {
        let nodes = self.peak_used_bytes.div_ceil(self.node_memory.0.max(1));
        let nodes = nodes.max(u64::from(self.nodes_min));
        let allocated = (nodes * self.node_memory.0) as f64 * self.wall_seconds;
        let wasted_static = allocated - self.used_byte_seconds;
        let wasted = self.allocated_byte_seconds - self.used_byte_seconds;
        (wasted_static > 0.0).then(|| (wasted_static - wasted) / wasted_static)
    }

    pub fn report(&self) -> Report {
        let reported = |summary: &Summary| self.reported(summary);
        let mut timeline = self.rows.clone();
        let last = self.last.map(|(_, row)| row);
        timeline.extend(last.filter(|row| timeline.last() != Some(row)));
        Report {
            first_observed_at: self.first,
            peak_used_bytes: self.peak_used_bytes,
            used_byte_seconds: self.used_byte_seconds,
            allocated_byte_seconds: self.allocated_byte_seconds,
            node_seconds: self.node_seconds,
            resource_usage_improvement: self.resource_usage_improvement(),
            reconfigurations: self.summaries.iter().map(reported).collect(),
            timeline,
        }
    }

    fn reported(&self, summary: &Summary) -> ReportedReconfiguration {
        let first = self.first.unwrap_or(summary.started_at);
        ReportedReconfiguration {
            kind: name(summary.kind),
            reason: summary.reason.clone(),
            started_at: (summary.started_at - first).as_secs_f64(),
            seconds: summary.took.as_secs_f64(),
            nodes_before: summary.nodes_before,
            nodes_after: summary.nodes_after,
            partitions_moved: summary.partitions_moved,
            bytes_moved: summary.bytes_moved,
            bytes_minimum: summary.bytes_minimum,
            imbalance_percent: summary.imbalance_percent,
            phases: summary.phase_seconds().collect(),
            outcome: match &summary.outcome {
                Outcome::Completed => "completed".to_owned(),
                Outcome::Partly { missing, why } => {
                    format!("partly: {missing} nodes could not be started: {why}")
                }
                Outcome::RolledBack { why } => format!("rolled back: {why}"),
                Outcome::Failed { why } => format!("failed: {why}"),
            },
        }
    }
}

fn name(kind: Kind) -> &'static str {
    kind.name()
}

#[cfg(test)]
mod tests {
    use tidefs_control::{Node, NodeState};
    use tidefs_model::{NodeClass, NodeId};

    use super::*;

    /// Nodes of 100 bytes.
    fn nodes(used: &[u64]) -> Observation {
        let node = |(at, &used_bytes): (usize, &u64)| Node {
            id: NodeId([at as u8; 20]),
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: 100,
            used_bytes,
            partitions: 1,
            traffic_bytes: 0,
        };
        Observation::new(used.iter().enumerate().map(node).collect())
    }

    fn at(seconds: i64) -> Time {
        Time::from_unix(seconds, 0)
    }

    #[test]
    fn sums_hold_each_observation_until_the_next() {
        let mut account = Account::new(ByteSize(100), 1);
        account.observe(at(10), &nodes(&[50]));
        account.observe(at(20), &nodes(&[80, 90]));
        account.observe(at(25), &nodes(&[20]));
        account.observe(at(35), &nodes(&[20]));
        let report = account.report();
        assert_eq!(report.peak_used_bytes, 170);
        assert_eq!(report.used_byte_seconds, 50.0 * 10.0 + 170.0 * 5.0 + 20.0 * 10.0);
        assert_eq!(report.allocated_byte_seconds, 100.0 * 10.0 + 200.0 * 5.0 + 100.0 * 10.0);
        assert_eq!(report.node_seconds, 30.0);
        // A static run has two nodes for 25 seconds: 5,000, and wastes 3,450; this one 1,450.
        let improvement = report.resource_usage_improvement.unwrap();
        assert!((improvement - 2_000.0 / 3_450.0).abs() < 1e-12, "{improvement}");
        assert_eq!(report.timeline.len(), 4);
        assert_eq!(report.timeline[1].t, 10.0);
    }

    #[test]
    fn a_static_run_improves_nothing() {
        let mut account = Account::new(ByteSize(100), 1);
        (0..10).for_each(|second| account.observe(at(second), &nodes(&[99, 99])));
        assert_eq!(account.report().resource_usage_improvement, Some(0.0));
    }

    #[test]
    fn the_timeline_is_bounded_and_keeps_its_ends() {
        let mut account = Account::new(ByteSize(100), 1);
        let last = 3 * ROWS_MOST as i64 + 1;
        (0..=last).for_each(|second| account.observe(at(second), &nodes(&[1])));
        let report = account.report();
        assert!(report.timeline.len() <= ROWS_MOST + 1);
        assert_eq!(report.timeline[0].t, 0.0);
        assert_eq!(report.timeline.last().unwrap().t, last as f64);
        assert_eq!(report.node_seconds, last as f64);
    }

    #[test]
    fn the_fields_have_the_names_of_the_report() {
        let mut account = Account::new(ByteSize(100), 1);
        account.observe(at(1), &nodes(&[1]));
        let json = serde_json::to_value(account.report()).unwrap();
        for field in [
            "peak_used_bytes",
            "used_byte_seconds",
            "allocated_byte_seconds",
            "node_seconds",
            "resource_usage_improvement",
            "reconfigurations",
            "timeline",
        ] {
            assert!(json.get(field).is_some(), "{field} is missing");
        }
        for field in ["t", "used_bytes", "allocated_bytes", "nodes"] {
            assert!(json["timeline"][0].get(field).is_some(), "{field} is missing");
        }
    }
}
