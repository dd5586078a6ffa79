//! `report.json`: every fact and every figure, under names that carry their units.
//!
//! `nodes` lists the nodes that were ever there, and a row's `node_used_bytes` has a pair for each
//! node of that instant: its place in that list, from 0 on, and what it held. So a long run on many
//! nodes does not repeat their ids in every row.

mod layout;

use std::collections::HashMap;

use serde::Serialize;

use crate::balance::Fill;
use crate::facts::{
    CommandUse, DeadFiles, Decision, LeftOut, Losses, NodeUsage, Reconfiguration, Row, RunFacts,
};
use crate::report::Report;

/// The report as a JSON document with one line for a fact and one for a row.
pub(crate) fn encode(report: &Report) -> Result<String, serde_json::Error> {
    layout::to_string(&Document::new(report))
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    run: &'a RunFacts,
    observed_seconds: f64,
    peak_used_bytes: u64,
    peak_allocated_bytes: u64,
    peak_nodes: u32,
    used_byte_seconds: f64,
    allocated_byte_seconds: f64,
    wasted_byte_seconds: f64,
    node_seconds: f64,
    resource_usage_improvement: Option<f64>,
    resource_usage_improvement_at_peak_nodes: Option<f64>,
    reconfiguring_seconds: f64,
    overhead_max: Option<f64>,
    static_run: StaticRun,
    reconfigurations: &'a [Reconfiguration],
    decisions: &'a [Decision],
    left_out: LeftOut,
    dead_files: Option<DeadFiles>,
    /// Those that moved the most first.
    commands: &'a [CommandUse],
    /// What the kernel read by itself is not among their bytes, and what it wrote by growth alone.
    passes_through: bool,
    #[serde(flatten)]
    losses: &'a Losses,
    nodes: Vec<Node<'a>>,
    timeline: Vec<TimelineRow>,
}

#[derive(Serialize)]
struct StaticRun {
    nodes: u32,
    allocated_bytes: u64,
    allocated_byte_seconds: f64,
    wasted_byte_seconds: f64,
    node_seconds: f64,
}

/// A node that was there at some time.
#[derive(Serialize)]
struct Node<'a> {
    id: &'a str,
    /// The largest that was seen.
    capacity_bytes: u64,
    peak_used_bytes: u64,
    first_seen: f64,
    last_seen: f64,
}

#[derive(Serialize)]
struct TimelineRow {
    t: f64,
    used_bytes: u64,
    allocated_bytes: u64,
    nodes: u32,
    imbalance_percent: Option<f64>,
    node_used_bytes: Vec<(usize, u64)>,
}

impl<'a> Document<'a> {
    fn new(report: &'a Report) -> Document<'a> {
        let totals = &report.totals;
        let (nodes, timeline) = indexed(&report.timeline);
        Document {
            run: &report.run,
            observed_seconds: totals.observed_seconds,
            peak_used_bytes: totals.peak_used_bytes,
            peak_allocated_bytes: totals.peak_allocated_bytes,
            peak_nodes: totals.peak_nodes,
            used_byte_seconds: totals.used_byte_seconds,
            allocated_byte_seconds: totals.allocated_byte_seconds,
            wasted_byte_seconds: totals.wasted_byte_seconds(),
            node_seconds: totals.node_seconds,
            resource_usage_improvement: totals.resource_usage_improvement(),
            resource_usage_improvement_at_peak_nodes: totals
                .resource_usage_improvement_at_peak_nodes(),
            reconfiguring_seconds: totals.reconfiguring_seconds,
            overhead_max: totals.overhead_max(),
            static_run: StaticRun {
                nodes: totals.static_run.nodes,
                allocated_bytes: totals.static_run.allocated_bytes,
                allocated_byte_seconds: totals.static_run.allocated_byte_seconds,
                wasted_byte_seconds: totals.wasted_byte_seconds_static(),
                node_seconds: totals.static_run.node_seconds,
            },
            reconfigurations: &report.reconfigurations,
            decisions: &report.decisions,
            left_out: report.left_out,
            dead_files: report.dead_files,
            commands: &report.by_command.uses,
            passes_through: report.by_command.passes_through,
            losses: &report.losses,
            nodes,
            timeline,
        }
    }
}

/// The nodes in the order in which they were first seen, and the rows that point to them.
fn indexed(timeline: &[Row]) -> (Vec<Node<'_>>, Vec<TimelineRow>) {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut places = HashMap::new();
    for (row, usage) in timeline.iter().flat_map(|row| row.per_node.iter().map(move |u| (row, u))) {
        let place = *places.entry(usage.id.as_str()).or_insert_with(|| {
            nodes.push(Node {
                id: &usage.id,
                capacity_bytes: 0,
                peak_used_bytes: 0,
                first_seen: row.t,
                last_seen: row.t,
            });
            nodes.len() - 1
        });
        let node = &mut nodes[place];
        node.capacity_bytes = node.capacity_bytes.max(usage.capacity_bytes);
        node.peak_used_bytes = node.peak_used_bytes.max(usage.used_bytes);
        node.last_seen = row.t;
    }
    let rows = timeline.iter().map(|row| {
        let pair = |usage: &NodeUsage| (places[usage.id.as_str()], usage.used_bytes);
        TimelineRow {
            t: row.t,
            used_bytes: row.used_bytes,
            allocated_bytes: row.allocated_bytes,
            nodes: row.nodes,
            imbalance_percent: Fill::new(&row.per_node).map(|fill| fill.imbalance_percent()),
            node_used_bytes: row.per_node.iter().map(pair).collect(),
        }
    });
    let rows = rows.collect();
    (nodes, rows)
}
