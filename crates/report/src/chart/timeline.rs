//! Memory used and allocated over time with each reconfiguration marked, and the nodes below.

use super::axis::{Axis, TimeAxis};
use super::legend::{self, Entry, Swatch};
use super::panel::Panel;
use super::{Width, marks, picture};
use crate::facts::Row;
use crate::markup::Markup;
use crate::report::Report;
use crate::thin::{Quantity, thin};
use crate::words;

const MEMORY_HIGH: f64 = 230.0;
const NODES_HIGH: f64 = 84.0;
/// Between the panels: the heading of the lower one.
const BETWEEN: f64 = 36.0;
/// Below the last panel: the times and what they are.
const BELOW: f64 = 46.0;
/// From there to where the first line of the list stands.
const LIST_BASE: f64 = 8.0;
/// Above a panel: its heading, and the flags.
const ABOVE: f64 = 30.0;

const QUANTITIES: [Quantity<Row>; 3] =
    [|row| row.used_bytes as f64, |row| row.allocated_bytes as f64, |row| f64::from(row.nodes)];

/// The picture; a standalone one carries its own rules.
pub(crate) fn timeline(report: &Report, width: Width, standalone: bool, into: &mut Markup) {
    let entries = entries(report);
    let top = legend::height(width, &entries) + ABOVE;
    let bottom = top + MEMORY_HIGH + BETWEEN + NODES_HIGH;
    let title = "Memory used and allocated over time, and nodes in service";
    // The page has a table of them.
    let listed = if standalone { &report.reconfigurations[..] } else { &[] };
    let high = bottom + BELOW + marks::list_high(listed.len());
    picture(into, width, high, title, standalone, |svg| {
        legend::draw(svg, width, &entries);
        draw(svg, report, width, top);
        marks::list(svg, width, bottom + BELOW + LIST_BASE, listed);
    });
}

fn entries(report: &Report) -> Vec<Entry> {
    let mut entries = vec![
        (Swatch::Both("allocated-area", "allocated"), "memory allocated".to_owned()),
        (Swatch::Both("used-area", "used"), "memory used".to_owned()),
    ];
    if !report.timeline.is_empty() {
        let nodes = words::nodes(report.totals.static_run.nodes);
        entries.push((Swatch::Line("static"), format!("static run ({nodes})")));
    }
    entries.extend(marks::legend(&report.reconfigurations));
    entries
}

fn draw(svg: &mut Markup, report: &Report, width: Width, top: f64) {
    let totals = &report.totals;
    let most = totals.peak_used_bytes.max(totals.peak_allocated_bytes);
    let bytes = Axis::bytes(most.max(totals.static_run.allocated_bytes), 5);
    let nodes = Axis::count(totals.peak_nodes.max(totals.static_run.nodes), 4);
    let ticks = if width == Width::Wide { 10 } else { 5 };
    let times = TimeAxis::new(totals.observed_seconds, ticks);
    let memory_panel = Panel {
        left: width.left(),
        right: width.right(),
        top,
        bottom: top + MEMORY_HIGH,
        seconds: times.end,
        value: bytes.end,
    };
    let nodes_top = memory_panel.bottom + BETWEEN;
    let nodes_panel =
        Panel { top: nodes_top, bottom: nodes_top + NODES_HIGH, value: nodes.end, ..memory_panel };
    memory_panel.values(svg, "Memory", &bytes);
    nodes_panel.values(svg, "Nodes in service", &nodes);
    nodes_panel.times(svg, &times);
    marks::flags(svg, &memory_panel, &report.reconfigurations);
    marks::stripes(svg, &[memory_panel, nodes_panel], &report.reconfigurations);
    if report.timeline.is_empty() {
        return nothing(svg, &memory_panel);
    }
    lines(svg, report, width, &memory_panel, &nodes_panel);
}

fn lines(svg: &mut Markup, report: &Report, width: Width, memory: &Panel, nodes: &Panel) {
    let end = report.totals.observed_seconds;
    let rows: Vec<_> = report.timeline.iter().collect();
    let rows = thin(&rows, &QUANTITIES, width.points_most());
    let series = |of: Quantity<Row>| rows.iter().map(|row| (row.t, of(row))).collect::<Vec<_>>();
    let [used, allocated, count] = QUANTITIES.map(series);
    let from_zero = |series: &[(f64, f64)]| {
        series.iter().map(|&(t, value)| (t, 0.0, value)).collect::<Vec<_>>()
    };
    memory.area(svg, "allocated-area", &from_zero(&allocated), end);
    memory.area(svg, "used-area", &from_zero(&used), end);
    memory.level(svg, "static", report.totals.static_run.allocated_bytes as f64);
    memory.steps(svg, "allocated", &allocated, end);
    memory.steps(svg, "used", &used, end);
    nodes.area(svg, "allocated-area", &from_zero(&count), end);
    nodes.level(svg, "static", f64::from(report.totals.static_run.nodes));
    nodes.steps(svg, "nodes", &count, end);
}

/// Says why the panel is empty.
pub(super) fn nothing(svg: &mut Markup, panel: &Panel) {
    let x = super::Px((panel.left + panel.right) / 2.0);
    let y = super::Px((panel.top + panel.bottom) / 2.0);
    let text = "nothing was observed during this run";
    svg.leaf("text", &[("class", &"middle"), ("x", &x), ("y", &y)], text);
}
