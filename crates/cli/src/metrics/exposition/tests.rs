//! The text that a scrape gets.

use std::time::{Duration, Instant};

use tidefs_model::Epoch;
use tidefs_store::{NodeOverview, Overview};

use super::*;
use crate::file_system::Totals;
use crate::nodes::{DeadNode, Lost, ManagerView};

fn node(id: &str, class: NodeClass, available: bool) -> NodeOverview {
    NodeOverview {
        id: id.to_owned(),
        class,
        endpoint: "127.0.0.1:\"7\\".to_owned(),
        available,
        memory_used_bytes: 5 << 30,
        memory_capacity_bytes: 1 << 40,
        partitions: 7,
        keys: 3,
    }
}

fn look(nodes: Vec<NodeOverview>) -> Look {
    Look {
        at: Time(1_795_651_072_500_000_000),
        nodes: Vec::new(),
        dead: Vec::new(),
        overview: Some(Overview { store: "embedded".to_owned(), epoch: Epoch(1), nodes }),
        manager: None,
        finished: Vec::new(),
        finished_left_out: 0,
        counted: Instant::now(),
        requests: Requests::default(),
        totals: Totals { files_made: 2, bytes_written: 9 << 40, bytes_read: 1, direct: true },
        deleted: None,
        absent_hosts: Vec::new(),
        notes: Vec::new(),
    }
}

fn text(observed: Observed) -> String {
    Exposition::of(Arc::new(Mutex::new(observed))).unwrap()
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "no {line} in\n{text}");
    }
}

#[test]
fn values_are_in_base_units_with_help_type_and_unit() {
    let mut observed = Observed::new();
    observed.store = "embedded".to_owned();
    observed.requests.add(Duration::from_millis(3));
    observed.requests.failed = 4;
    observed.last = Some(look(vec![node("a", NodeClass::Own, true)]));
    let text = text(observed);
    has(
        &text,
        &[
            "# HELP tidefs_written_bytes Bytes that programs wrote; at least so many where the kernel \
             writes by itself",
            "# TYPE tidefs_written_bytes counter",
            "# UNIT tidefs_written_bytes bytes",
            "tidefs_written_bytes_total 9895604649984",
            "tidefs_last_observation_timestamp_seconds 1795651072.5",
            "tidefs_failed_requests_total 4",
            "tidefs_request_duration_seconds_bucket{le=\"0.002048\"} 0",
            "tidefs_request_duration_seconds_bucket{le=\"0.004096\"} 1",
            "tidefs_request_duration_seconds_bucket{le=\"+Inf\"} 1",
            "tidefs_request_duration_seconds_count 1",
            "tidefs_nodes{state=\"up\",class=\"own\"} 1.0",
            "tidefs_nodes{state=\"dead\",class=\"victim\"} 0.0",
            "tidefs_node_memory_used_bytes{node=\"1\",class=\"own\"} 5368709120.0",
            "tidefs_node_info{node=\"1\",class=\"own\",endpoint=\"127.0.0.1:\\\"7\\\\\",id=\"a\"} 1",
        ],
    );
    assert!(!text.contains("tidefs_read_bytes_total"), "the kernel reads by itself\n{text}");
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}

#[test]
fn of_a_node_that_does_not_answer_no_use_is_told() {
    let mut observed = Observed::new();
    observed.last = Some(look(vec![node("a", NodeClass::Victim, false)]));
    let said = text(observed);
    assert!(!said.contains("tidefs_node_memory_used_bytes{"), "{said}");
    has(
        &said,
        &[
            "tidefs_nodes{state=\"unreachable\",class=\"victim\"} 1.0",
            "tidefs_node_partitions{node=\"1\",class=\"victim\"} 7.0",
        ],
    );
    let mut silent = Observed::new();
    silent.last = Some(Look { overview: None, ..look(Vec::new()) });
    let said = text(silent);
    assert!(!said.contains("tidefs_nodes"), "the store did not say\n{said}");
    has(&said, &["tidefs_created_files_total 2", "# EOF"]);
}

#[test]
fn decisions_moves_and_losses_are_counted() {
    let mut observed = Observed::new();
    let decision_names = Some(("shrink".to_owned(), "lender".to_owned()));
    observed.tally.saw(&ManagerView { decision_names, ..ManagerView::default() }, &[]);
    observed.tally.bytes_moved = 11;
    for (number, lost) in [(1, None), (2, Some(Lost { partitions: 8_192, bytes: Some(6) }))] {
        let (id, endpoint) = ("a".to_owned(), "127.0.0.1:7".to_owned());
        let dead = DeadNode { number, id, endpoint, names: true, lost };
        observed.dead.insert(number, LostView::from(&dead));
    }
    has(
        &text(observed),
        &[
            "tidefs_decisions_total{verdict=\"shrink\",cause=\"lender\"} 1",
            "tidefs_moved_bytes_total 11",
            "tidefs_lost_nodes_total 2",
            "tidefs_lost_partitions_total 8192",
            "tidefs_lost_bytes_total 6",
        ],
    );
}
