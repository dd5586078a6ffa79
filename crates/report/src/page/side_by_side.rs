//! Several runs of one workflow on one page (MemEFS, figures 3.4 to 3.8): the figures of each policy in
//! a table and as bars, then each timeline.

use crate::chart::{self, BarPanel, Width};
use crate::markup::Markup;
use crate::report::Report;
use crate::words;

/// A run, and how it compares with the static one.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    pub policy: &'a str,
    pub report: &'a Report,
    /// Resource usage improvement, as a fraction.
    pub improvement: f64,
    /// How much longer it took, as a fraction.
    pub overhead: f64,
    pub node_hours: f64,
    pub node_hours_static: f64,
}

impl Compared<'_> {
    /// Node-hours as a fraction of those of the static run.
    fn node_hours_part(&self) -> f64 {
        if self.node_hours_static > 0.0 { self.node_hours / self.node_hours_static } else { 1.0 }
    }
}

const HEADINGS: [&str; 8] = [
    "policy",
    "makespan",
    "RUI",
    "overhead",
    "node-hours",
    "of the static run",
    "nodes at most",
    "reconfigurations",
];

const WHAT: &str = "Resource usage improvement (RUI), performance overhead and node-hours, each beside a \
     static run of the same workflow (MemEFS, section 3.4.4). The dashed lines below are the fewest \
     nodes that would have held what a run held.";

/// The page.
pub fn comparison(title: &str, runs: &[Compared<'_>]) -> String {
    let mut page = Markup::default();
    page.element("html", &[("lang", &"en")], |html| {
        html.element("head", &[], |head| super::head(head, title));
        html.line();
        html.element("body", &[], |body| {
            body.element("main", &[], |main| {
                main.leaf("h1", &[], title);
                main.line();
                super::section(main, "Policies side by side", WHAT, |section| {
                    for width in [Width::Wide, Width::Narrow] {
                        chart::bars("Policies side by side", &panels(runs), width, section);
                    }
                    section.element("div", &[("class", &"scroll")], |div| table(div, runs));
                });
                for run in runs {
                    super::section(main, run.policy, "", |section| {
                        for width in [Width::Wide, Width::Narrow] {
                            chart::timeline(run.report, width, false, section);
                        }
                    });
                }
            });
        });
    });
    page.into_document("<!DOCTYPE html>")
}

/// Figures 3.7 and 3.8.
fn panels(runs: &[Compared<'_>]) -> [BarPanel; 2] {
    let groups = |values: fn(&Compared<'_>) -> Vec<f64>| {
        runs.iter().map(|run| (run.policy.to_owned(), values(run))).collect()
    };
    [
        BarPanel {
            heading: "Efficiency and its price",
            series: &[("used-area", "RUI"), ("allocated-area", "performance overhead")],
            groups: groups(|run| vec![run.improvement, run.overhead]),
            reference: None,
        },
        BarPanel {
            heading: "Node-hours, of those of the static run",
            series: &[("nodes-area", "node-hours")],
            groups: groups(|run| vec![run.node_hours_part()]),
            reference: Some(1.0),
        },
    ]
}

fn table(into: &mut Markup, runs: &[Compared<'_>]) {
    into.element("table", &[], |table| {
        table.element("thead", &[], |head| {
            head.element("tr", &[], |row| {
                HEADINGS.iter().for_each(|name| row.leaf("th", &[("scope", &"col")], name));
            });
        });
        table.element("tbody", &[], |body| runs.iter().for_each(|run| line(body, run)));
    });
}

fn line(body: &mut Markup, run: &Compared<'_>) {
    let cells = [
        words::duration(run.report.run.wall_seconds),
        words::percent(run.improvement),
        words::percent(run.overhead),
        format!("{:.1}", run.node_hours),
        words::percent(run.node_hours_part()),
        run.report.totals.peak_nodes.to_string(),
        run.report.reconfigurations.len().to_string(),
    ];
    body.element("tr", &[], |row| {
        row.leaf("th", &[("scope", &"row")], run.policy);
        cells.iter().for_each(|cell| row.leaf("td", &[("class", &"short")], cell));
    });
    body.line();
}
