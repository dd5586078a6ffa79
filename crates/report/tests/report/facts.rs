//! Made-up runs for the tests.

use std::fs;

use serde_json::Value;
use tidefs_report::{Decision, Kind, NodeUsage, Reconfiguration, Report, Row, RunFacts};

pub const NODE: u64 = 1_000;

pub fn run(wall_seconds: f64) -> RunFacts {
    RunFacts {
        command: ["montage", "--tiles", "6"].map(str::to_owned).to_vec(),
        command_status: 0,
        started_unix_seconds: 1_795_302_300,
        wall_seconds,
        io_errors: 0,
        store: "Valkey 9.0.1".to_owned(),
        nodes_min: 1,
        nodes_max: 4,
        node_memory_bytes: NODE,
        policy: "nso+asi".to_owned(),
    }
}

/// A row in which each node holds so much.
pub fn row(t: f64, per_node: &[(&str, u64)]) -> Row {
    let usage = |&(id, used_bytes): &(&str, u64)| NodeUsage {
        id: id.to_owned(),
        used_bytes,
        capacity_bytes: NODE,
    };
    Row {
        t,
        used_bytes: per_node.iter().map(|node| node.1).sum(),
        allocated_bytes: NODE * per_node.len() as u64,
        nodes: per_node.len() as u32,
        per_node: per_node.iter().map(usage).collect(),
    }
}

pub fn reconfiguration(kind: Kind, started_at: f64, before: u32, after: u32) -> Reconfiguration {
    Reconfiguration {
        kind,
        reason: "96.0 % in use is above 95 %".to_owned(),
        started_at,
        seconds: 2.0,
        nodes_before: before,
        nodes_after: after,
        partitions_moved: 8_192,
        bytes_moved: 490,
        bytes_minimum: 480,
        requests: Some(7),
        io_stall_max_ms: Some(41.5),
        io_stall_p99_ms: None,
        imbalance_percent: None,
        phases: Vec::new(),
        outcome: "completed".to_owned(),
    }
}

pub fn decision(t: f64, what: &str) -> Decision {
    Decision { t, what: what.to_owned(), why: "96.0 % in use is above 95 %".to_owned() }
}

/// Grows from one node to two, and shrinks again.
pub fn timeline() -> Vec<Row> {
    vec![
        row(0.0, &[("a", 100)]),
        row(4.0, &[("a", 960)]),
        row(5.0, &[("a", 960), ("b", 0)]),
        row(7.0, &[("a", 720), ("b", 480)]),
        row(9.0, &[("b", 300)]),
    ]
}

pub fn reconfigurations() -> Vec<Reconfiguration> {
    vec![
        reconfiguration(Kind::Commission, 5.0, 1, 2),
        reconfiguration(Kind::Decommission, 8.5, 2, 1),
    ]
}

pub fn decisions() -> Vec<Decision> {
    vec![decision(5.0, "grow by 1:"), decision(8.5, "shrink by 1:")]
}

pub fn elastic() -> Report {
    Report::new(run(12.0), timeline(), reconfigurations(), decisions()).expect("good facts")
}

/// The three files of a report: JSON, picture, page.
pub struct Files {
    pub json: Value,
    pub picture: String,
    pub page: String,
}

pub fn written(report: &Report) -> Files {
    let directory = tempfile::tempdir().expect("a folder");
    report.write(directory.path()).expect("a report");
    let read = |name| fs::read_to_string(directory.path().join(name)).expect("a file");
    Files {
        json: serde_json::from_str(&read("report.json")).expect("JSON"),
        picture: read("timeline.svg"),
        page: read("report.html"),
    }
}
