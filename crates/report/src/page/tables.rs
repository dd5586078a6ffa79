//! What was done and what was decided, line by line.

use crate::facts::{CommandUse, Decision, Reconfiguration};
use crate::markup::Markup;
use crate::report::Report;
use crate::words;

/// More lines than this nobody reads; `report.json` has them all.
const LINES_MOST: usize = 500;
/// More decisions than this are folded away.
const DECISIONS_OPEN: usize = 12;

pub(super) fn reconfigurations(section: &mut Markup, report: &Report) {
    if report.reconfigurations.is_empty() {
        let text = "There were none: the nodes stayed as they were.";
        return section.leaf("p", &[("class", &"quiet")], text);
    }
    table(section, &COLUMNS, |body| {
        for (at, done) in report.reconfigurations.iter().enumerate().take(LINES_MOST) {
            line(body, at, done);
        }
    });
    rest(section, report.reconfigurations.len(), "reconfigurations");
    left_out(section, report.left_out.reconfigurations, "more reconfigurations were not kept");
    left_out(section, report.left_out.stalls, "of them have no stalls, which were not kept");
}

/// A table with these columns, whose lines are written by `lines`.
fn table(section: &mut Markup, columns: &[&str], lines: impl FnOnce(&mut Markup)) {
    section.element("div", &[("class", &"scroll")], |div| {
        div.element("table", &[("class", &"stacked")], |table| {
            table.element("thead", &[], |head| {
                head.element("tr", &[], |tr| {
                    columns.iter().for_each(|name| tr.leaf("th", &[("scope", &"col")], name));
                });
            });
            table.element("tbody", &[], lines);
        });
    });
}

/// More commands than this nobody reads.
const COMMANDS_SHOWN: usize = 20;

/// Which command asked for how much.
pub(super) fn commands(section: &mut Markup, report: &Report) {
    const COLUMNS: [&str; 4] = ["command", "read", "written", "calls"];
    let uses = &report.by_command.uses;
    table(section, &COLUMNS, |body| {
        for CommandUse { command, calls, bytes_read, bytes_written } in
            uses.iter().take(COMMANDS_SHOWN)
        {
            let (read, written) = (words::bytes(*bytes_read), words::bytes(*bytes_written));
            let cells = [command.clone(), read, written, words::grouped(*calls)];
            body.element("tr", &[], |tr| {
                for (name, text) in COLUMNS.iter().zip(cells) {
                    tr.leaf("td", &[("data-name", name), ("class", &"short")], text);
                }
            });
            body.line();
        }
    });
    if let Some(more @ 1..) = uses.len().checked_sub(COMMANDS_SHOWN) {
        let text = format!("{} more are in report.json.", words::grouped(more as u64));
        section.leaf("p", &[("class", &"quiet")], text);
    }
    if report.by_command.passes_through {
        let text = "The kernel moved bytes of files by itself: what it read is not known here, and what it wrote \
                    counts by how much files grew.";
        section.leaf("p", &[("class", &"quiet")], text);
    }
}

/// What nodes that died took with them.
pub(super) fn losses(section: &mut Markup, report: &Report) {
    let losses = &report.losses;
    losses.lost_nodes.iter().for_each(|node| section.leaf("p", &[], node));
    names(section, "Files that cannot be read in full any more", &losses.lost_files);
    names(section, "Directories of which names are lost", &losses.lost_names_in);
    if losses.more_lost {
        section.leaf("p", &[("class", &"quiet")], "More may be lost than was found.");
    }
}

fn names(section: &mut Markup, what: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    section.leaf("p", &[], format!("{what}: {}", words::grouped(names.len() as u64)));
    section.element("ul", &[], |list| {
        names.iter().take(LINES_MOST).for_each(|name| list.leaf("li", &[], name));
    });
    rest(section, names.len(), "names");
}

const COLUMNS: [&str; 10] = [
    "no.",
    "what",
    "at",
    "took",
    "nodes",
    "moved (\u{d7}\u{a0}minimum)",
    "partitions",
    "stall, longest (p99)",
    "imbalance after",
    "why, and outcome",
];

fn line(body: &mut Markup, at: usize, done: &Reconfiguration) {
    let cells = [
        (at + 1).to_string(),
        done.kind.name().to_owned(),
        words::duration(done.started_at),
        words::duration(done.seconds),
        format!("{} \u{2192} {}", done.nodes_before, done.nodes_after),
        moved(done),
        words::grouped(done.partitions_moved),
        stall(done),
        done.imbalance_percent
            .map_or("not seen".to_owned(), |percent| words::percent(percent / 100.0)),
    ];
    body.element("tr", &[], |tr| {
        for (at, (name, text)) in COLUMNS.iter().zip(cells).enumerate() {
            let class = match at {
                0 => "number".to_owned(),
                1 => format!("kind {text}"),
                2..=7 => "short".to_owned(),
                _ => String::new(),
            };
            tr.leaf("td", &[("data-name", name), ("class", &class)], text);
        }
        tr.element("td", &[("data-name", &COLUMNS[9]), ("class", &"why")], |td| {
            td.text(&done.reason);
            let class = if done.outcome == "completed" { "outcome" } else { "outcome bad" };
            td.leaf("span", &[("class", &class)], &done.outcome);
        });
    });
    body.line();
}

fn moved(done: &Reconfiguration) -> String {
    let ratio = match done.bytes_minimum {
        0 => String::new(),
        minimum => format!(" (\u{d7}\u{a0}{:.2})", done.bytes_moved as f64 / minimum as f64),
    };
    format!("{}{ratio}", words::bytes(done.bytes_moved))
}

fn stall(done: &Reconfiguration) -> String {
    match (done.io_stall_max_ms, done.io_stall_p99_ms) {
        (None, None) if done.requests == Some(0) => "no request came".to_owned(),
        (None, None) => words::milliseconds(None),
        (most, None) => words::milliseconds(most),
        (most, p99) => format!("{} ({})", words::milliseconds(most), words::milliseconds(p99)),
    }
}

/// What is missing in `report.json` too.
fn left_out(section: &mut Markup, count: u64, what: &str) {
    if count > 0 {
        let text = format!("{} {what}: there were too many.", words::grouped(count));
        section.leaf("p", &[("class", &"quiet")], text);
    }
}

pub(super) fn decisions(section: &mut Markup, report: &Report) {
    list_decisions(section, &report.decisions);
    left_out(section, report.left_out.decisions, "more decisions were not kept");
}

fn list_decisions(section: &mut Markup, decisions: &[Decision]) {
    match decisions.len() {
        0 => section.leaf("p", &[("class", &"quiet")], "None were recorded."),
        1..=DECISIONS_OPEN => list(section, decisions),
        count => section.element("details", &[], |details| {
            details.leaf("summary", &[], format!("All {} decisions", words::grouped(count)));
            list(details, &decisions[..count.min(LINES_MOST)]);
            rest(details, count, "decisions");
        }),
    }
}

fn list(section: &mut Markup, decisions: &[Decision]) {
    section.element("ol", &[("class", &"decisions")], |list| {
        for decision in decisions {
            list.element("li", &[], |item| {
                item.leaf("span", &[("class", &"time")], words::duration(decision.t));
                item.element("span", &[], |said| {
                    said.leaf("strong", &[], &decision.what);
                    said.text(" ");
                    said.text(&decision.why);
                });
            });
            list.line();
        }
    });
}

/// Says how many lines are not shown.
fn rest(section: &mut Markup, count: usize, of: &str) {
    if let Some(more) = count.checked_sub(LINES_MOST).filter(|more| *more > 0) {
        let more = words::grouped(more);
        section.leaf("p", &[("class", &"quiet")], format!("{more} more {of} are in report.json."));
    }
}
