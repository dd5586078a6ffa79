//! `report.html`: one page for people. It needs no network and no script, follows the reader's
//! choice of light or dark, and reads on a phone.

mod comparison;
mod headline;
mod side_by_side;
mod tables;

pub use side_by_side::{Compared, comparison};

use crate::chart::{self, Width};
use crate::facts::Losses;
use crate::markup::Markup;
use crate::report::Report;
use crate::words;

const STYLE: &str = include_str!("page/style.css");

pub(crate) fn document(report: &Report) -> String {
    let mut page = Markup::default();
    page.element("html", &[("lang", &"en")], |html| {
        html.element("head", &[], |head| top(head, report));
        html.line();
        html.element("body", &[], |body| {
            body.element("main", &[], |main| content(main, report));
        });
    });
    page.into_document("<!DOCTYPE html>")
}

fn top(into: &mut Markup, report: &Report) {
    head(into, &format!("Tidefs: {}", words::command(&report.run.command)));
}

fn head(head: &mut Markup, title: &str) {
    head.empty("meta", &[("charset", &"utf-8")]);
    head.empty(
        "meta",
        &[("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")],
    );
    head.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
    head.leaf("title", &[], title);
    head.style(&[STYLE, chart::STYLE]);
}

fn content(main: &mut Markup, report: &Report) {
    headline::draw(main, report);
    if report.losses != Losses::default() {
        section(main, "Lost with nodes that died", "", |section| tables::losses(section, report));
    }
    section(main, "Memory over time", "", |section| {
        for width in [Width::Wide, Width::Narrow] {
            chart::timeline(report, width, false, section);
        }
        report.dead_files.iter().for_each(|dead| section.leaf("p", &[], words::dead_files(*dead)));
    });
    if !report.by_command.uses.is_empty() {
        section(main, "By command", COMMANDS, |section| tables::commands(section, report));
    }
    section(main, "Balance across nodes", BALANCE, |section| balance(section, report));
    section(main, "Reconfigurations", "", |section| tables::reconfigurations(section, report));
    section(main, "Against a static run", "", |section| comparison::draw(section, report));
    section(main, "Decisions", "", |section| tables::decisions(section, report));
}

const COMMANDS: &str = "What each program asked the run's own mounts for, by its name. What the kernel \
     answered from its caches is not among it.";

const BALANCE: &str = "Part of its memory that each node has in use. While nodes come and go the \
     spread is wide; it closes when their partitions have moved.";

fn balance(section: &mut Markup, report: &Report) {
    for width in [Width::Wide, Width::Narrow] {
        if !chart::balance(report, width, section) {
            let text = "What each node held was not recorded.";
            return section.leaf("p", &[("class", &"quiet")], text);
        }
    }
}

/// A part of the page with its heading, and a line on what it shows.
fn section(main: &mut Markup, heading: &str, what: &str, inside: impl FnOnce(&mut Markup)) {
    main.element("section", &[], |section| {
        section.leaf("h2", &[], heading);
        if !what.is_empty() {
            section.leaf("p", &[("class", &"quiet")], what);
        }
        inside(section);
    });
    main.line();
}
