//! Several runs of one workflow on one page (MemEFS, figures 3.5, 3.7 and 3.8): the figures of each
//! policy in a table, then each timeline.

use crate::chart::{self, Width};
use crate::markup::Markup;
use crate::report::Report;

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

const HEADINGS: [&str; 5] =
    ["policy", "resource usage improvement", "performance overhead", "node-hours", "static"];

/// The page.
pub fn comparison(title: &str, runs: &[Compared<'_>]) -> String {
    let mut page = Markup::default();
    page.element("html", &[("lang", &"en")], |html| {
        html.element("head", &[], |head| super::head(head, title));
        html.line();
        html.element("body", &[], |body| {
            body.element("main", &[], |main| {
                main.leaf("h1", &[], title);
                table(main, runs);
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

fn table(main: &mut Markup, runs: &[Compared<'_>]) {
    main.element("table", &[], |table| {
        table.element("tr", &[], |row| {
            HEADINGS.iter().for_each(|heading| row.leaf("th", &[], heading));
        });
        for run in runs {
            table.element("tr", &[], |row| {
                row.leaf("td", &[], run.policy);
                for percent in [run.improvement, run.overhead] {
                    row.leaf("td", &[], format!("{:.1} %", 100.0 * percent));
                }
                for hours in [run.node_hours, run.node_hours_static] {
                    row.leaf("td", &[], format!("{hours:.1}"));
                }
            });
        }
    });
}
