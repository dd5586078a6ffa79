//! `report.json`: names, units and figures reckoned by hand.

use serde_json::{Value, json};
use tidefs_report::{Report, ReportError, Row, RunFacts};

use crate::facts::{decisions, elastic, reconfigurations, row, run, timeline, written};

#[test]
fn a_run_has_the_promised_figures() {
    let json = written(&elastic()).json;
    // Each row times the seconds until the next, the last until the end at 12 s.
    let used = 100.0 * 4.0 + 960.0 * 1.0 + 960.0 * 2.0 + 1_200.0 * 2.0 + 300.0 * 3.0;
    let allocated = 1_000.0 * 5.0 + 2_000.0 * 4.0 + 1_000.0 * 3.0;
    // The peak of 1,200 bytes needs two nodes of 1,000.
    let allocated_static = 2_000.0 * 12.0;
    for (name, expected) in [
        ("command", json!(["montage", "--tiles", "6"])),
        ("command_status", json!(0)),
        ("wall_seconds", json!(12.0)),
        ("observed_seconds", json!(12.0)),
        ("io_errors", json!(0)),
        ("peak_used_bytes", json!(1_200)),
        ("peak_allocated_bytes", json!(2_000)),
        ("peak_nodes", json!(2)),
        ("used_byte_seconds", json!(used)),
        ("allocated_byte_seconds", json!(allocated)),
        ("wasted_byte_seconds", json!(allocated - used)),
        ("node_seconds", json!(16.0)),
        // 5 to 7 s and 8.5 to 10.5 s of the twelve.
        ("reconfiguring_seconds", json!(4.0)),
        ("overhead_max", json!(0.5)),
    ] {
        assert_eq!(json[name], expected, "{name}");
    }
    assert_eq!(json["static_run"]["nodes"], json!(2));
    assert_eq!(json["static_run"]["node_seconds"], json!(24.0));
    assert_eq!(json["static_run"]["wasted_byte_seconds"], json!(allocated_static - used));
    let wasted = [allocated_static - used, allocated - used];
    let improvement = json["resource_usage_improvement"].as_f64().expect("a figure");
    assert!((improvement - (wasted[0] - wasted[1]) / wasted[0]).abs() < 1e-12, "{improvement}");
}

#[test]
fn a_reconfiguration_has_the_promised_fields() {
    let json = written(&elastic()).json;
    let expected = json!({
        "kind": "commission", "reason": "96.0 % in use is above 95 %", "started_at": 5.0,
        "seconds": 2.0, "nodes_before": 1, "nodes_after": 2, "partitions_moved": 8192,
        "bytes_moved": 490, "bytes_minimum": 480, "requests": 7, "io_stall_max_ms": 41.5,
        "io_stall_p99_ms": null, "imbalance_percent": 20.0, "phases": [],
        "outcome": "completed",
    });
    let mut first = json["reconfigurations"][0].clone();
    // Read from the row at 7 s: 720 and 480 of a fair 600.
    let imbalance = first["imbalance_percent"].as_f64().expect("seen");
    assert!((imbalance - 20.0).abs() < 1e-9, "{imbalance}");
    first["imbalance_percent"] = json!(20.0);
    assert_eq!(first, expected);
    // Nothing was observed after the second one.
    assert_eq!(json["reconfigurations"][1]["kind"], "decommission");
    assert_eq!(json["reconfigurations"][1]["imbalance_percent"], Value::Null);
}

#[test]
fn a_figure_of_the_planner_is_not_replaced_by_what_was_observed() {
    let mut reconfigurations = reconfigurations();
    reconfigurations[0].imbalance_percent = Some(1.25);
    let report = Report::new(run(12.0), timeline(), reconfigurations, decisions());
    let json = written(&report.expect("good facts")).json;
    assert_eq!(json["reconfigurations"][0]["imbalance_percent"], json!(1.25));
}

#[test]
fn a_row_says_what_each_node_held() {
    let json = written(&elastic()).json;
    let rows = json["timeline"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    assert_eq!(
        rows[0],
        json!({
            "t": 0.0, "used_bytes": 100, "allocated_bytes": 1000, "nodes": 1,
            "imbalance_percent": 0.0, "node_used_bytes": [[0, 100]],
        })
    );
    assert_eq!(rows[3]["node_used_bytes"], json!([[0, 720], [1, 480]]));
    assert_eq!(rows[4]["node_used_bytes"], json!([[1, 300]]));
    assert_eq!(
        json["nodes"],
        json!([
            {"id": "a", "capacity_bytes": 1000, "peak_used_bytes": 960, "first_seen": 0.0,
             "last_seen": 7.0},
            {"id": "b", "capacity_bytes": 1000, "peak_used_bytes": 480, "first_seen": 5.0,
             "last_seen": 9.0},
        ])
    );
}

#[test]
fn the_order_in_which_facts_come_changes_nothing() {
    let reversed = |mut rows: Vec<Row>| {
        rows.reverse();
        rows
    };
    let (mut reconfigurations, mut decisions) = (reconfigurations(), decisions());
    reconfigurations.reverse();
    decisions.reverse();
    let report = Report::new(run(12.0), reversed(timeline()), reconfigurations, decisions);
    assert_eq!(report.expect("good facts"), elastic());
}

#[test]
fn a_run_that_nobody_watched_still_has_a_report() {
    let report = Report::new(run(3.0), Vec::new(), Vec::new(), Vec::new()).expect("good facts");
    let json = written(&report).json;
    assert_eq!(json["wall_seconds"], json!(3.0));
    assert_eq!(json["used_byte_seconds"], json!(0.0));
    assert_eq!(json["resource_usage_improvement"], Value::Null);
    assert_eq!(json["timeline"], json!([]));
}

#[test]
fn figures_that_are_none_are_refused() {
    let report = |run: RunFacts, row: Row| Report::new(run, vec![row], Vec::new(), Vec::new());
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let refused = report(run(bad), row(0.0, &[])).expect_err("no time");
        assert!(matches!(refused, ReportError::NotAFigure { .. }), "{refused}");
        let refused = report(run(1.0), row(bad, &[])).expect_err("no time");
        assert!(refused.to_string().contains("the time of a row"), "{refused}");
    }
    let mut stalled = reconfigurations();
    stalled[0].io_stall_max_ms = Some(f64::NAN);
    let refused = Report::new(run(1.0), Vec::new(), stalled, Vec::new()).expect_err("no figure");
    assert!(refused.to_string().contains("longest stall"), "{refused}");
}
