//! What was run, how it ended, and the figures that matter most.

use crate::markup::Markup;
use crate::report::Report;
use crate::words;

pub(super) fn draw(main: &mut Markup, report: &Report) {
    main.element("header", &[], |header| {
        header.leaf("p", &[("class", &"kicker")], "Report of a run on Tidefs");
        header.element("h1", &[], |h1| {
            h1.leaf("code", &[], words::command(&report.run.command));
        });
        header.element("p", &[("class", &"facts")], |p| {
            let (class, text) = status(report.run.command_status);
            p.leaf("span", &[("class", &class)], text);
            for fact in facts(report) {
                p.leaf("span", &[], fact);
            }
        });
    });
    main.line();
    main.element("dl", &[("class", &"figures")], |list| {
        for figure in figures(report) {
            figure.draw(list);
        }
    });
    main.line();
}

fn status(status: i32) -> (&'static str, String) {
    match status {
        0 => ("status good", "succeeded".to_owned()),
        129.. => ("status bad", format!("ended by signal {}", status - 128)),
        _ => ("status bad", format!("failed with status {status}")),
    }
}

fn facts(report: &Report) -> Vec<String> {
    let run = &report.run;
    let mut facts = vec![words::instant(run.started_unix_seconds), format!("store {}", run.store)];
    if run.node_memory_bytes > 0 {
        let range = match (run.nodes_min, run.nodes_max) {
            (min, max) if min == max => words::nodes(min),
            (min, max) => format!("{min} to {max} nodes"),
        };
        facts.push(format!("{range} of {}", words::bytes(run.node_memory_bytes)));
    }
    facts.push(format!("policy {}", run.policy));
    facts
}

struct Figure {
    name: &'static str,
    value: String,
    /// What it is to be held against.
    note: String,
    bad: bool,
}

impl Figure {
    fn new(name: &'static str, value: String, note: String) -> Figure {
        Figure { name, value, note, bad: false }
    }

    fn draw(&self, list: &mut Markup) {
        list.element("div", &[], |figure| {
            figure.leaf("dt", &[], self.name);
            let class = if self.bad { "value bad" } else { "value" };
            figure.element("dd", &[("class", &class)], |dd| self.draw_value(dd));
            figure.leaf("dd", &[("class", &"quiet")], &self.note);
        });
    }

    /// A unit that is a long word is written smaller.
    fn draw_value(&self, dd: &mut Markup) {
        match self.value.split_once(" node-") {
            Some((value, unit)) => {
                dd.text(value);
                dd.leaf("span", &[("class", &"unit")], format!(" node-{unit}"));
            }
            None => dd.text(&self.value),
        }
    }
}

/// Other mounts belong to other processes, which count for themselves.
const ERRORS_OF: &str = "that a program saw on the run's own mount; others are not counted";

fn figures(report: &Report) -> Vec<Figure> {
    let totals = &report.totals;
    let fixed = &totals.static_run;
    let [over_time, over_time_static] =
        words::node_seconds([totals.node_seconds, fixed.node_seconds]);
    let (errors, nodes) = (report.run.io_errors, words::nodes(totals.peak_nodes));
    vec![
        Figure::new("Time", words::duration(report.run.wall_seconds), "of the command".to_owned()),
        Figure::new(
            "Peak memory used",
            words::bytes(totals.peak_used_bytes),
            format!(
                "of {} allocated at most, on {nodes}",
                words::bytes(totals.peak_allocated_bytes)
            ),
        ),
        improvement(report),
        overhead(report),
        Figure::new("Nodes over time", over_time, format!("static run: {over_time_static}")),
        reconfigurations(report),
        Figure {
            bad: errors > 0,
            ..Figure::new("I/O errors", words::grouped(errors), ERRORS_OF.to_owned())
        },
    ]
}

fn improvement(report: &Report) -> Figure {
    let nodes = words::nodes(report.totals.static_run.nodes);
    let (value, note) = match report.totals.resource_usage_improvement() {
        Some(improvement) => (
            words::percent(improvement),
            format!("in idle memory, against a static run on {nodes}"),
        ),
        None if report.timeline.is_empty() => {
            ("unknown".to_owned(), "nothing was observed".to_owned())
        }
        None => ("none".to_owned(), "a static run would leave no memory idle".to_owned()),
    };
    Figure::new("Resource usage improvement", value, note)
}

fn overhead(report: &Report) -> Figure {
    let spent = words::duration(report.totals.reconfiguring_seconds);
    let value = match report.totals.overhead_max() {
        Some(most) => format!("at most {}", words::percent(most)),
        None => "unknown".to_owned(),
    };
    Figure::new(
        "Overhead",
        value,
        format!("of a static run's time, had no request been served in {spent} of changes"),
    )
}

fn reconfigurations(report: &Report) -> Figure {
    let stalls = report.reconfigurations.iter().filter_map(|r| r.io_stall_max_ms);
    let note = match stalls.reduce(f64::max) {
        Some(longest) => format!("longest I/O stall {}", words::milliseconds(Some(longest))),
        None if report.reconfigurations.is_empty() => "the nodes stayed as they were".to_owned(),
        None if report.reconfigurations.iter().all(|r| r.requests == Some(0)) => {
            "no request came meanwhile".to_owned()
        }
        None => "I/O stalls were not measured".to_owned(),
    };
    Figure::new("Reconfigurations", words::grouped(report.reconfigurations.len()), note)
}
