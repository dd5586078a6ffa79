//! The picture and the page are well-formed, closed to what comes from outside, and need nothing.

use tidefs_report::{Kind, Report, RunFacts};

use crate::facts::{decision, decisions, elastic, reconfiguration, reconfigurations, row, run};
use crate::facts::{timeline, written};

const EVIL: &str = "</title></style><script>alert('x')</script> \" onload=\"x &amp; \u{0}\u{1b}]]>";

/// Panics where tags do not nest, where a bare `<` or `&` stands, or a letter that XML forbids.
fn assert_well_formed(text: &str) {
    let body = text.split_once('\n').expect("a first line").1;
    let mut open = Vec::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('<') {
        assert_text(before);
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closes what is not open");
        } else {
            assert_tag(tag.trim_end_matches('/'));
            let name = tag.split([' ', '/']).next().expect("a name");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    assert_text(rest);
    assert!(open.is_empty(), "left open: {open:?}");
}

fn assert_text(text: &str) {
    assert!(!text.contains('>'), "bare > in {text:?}");
    for after in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|entity| after.starts_with(entity)), "bare & before {after:?}");
    }
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
}

/// A name, then attributes in quotes, each once.
fn assert_tag(tag: &str) {
    let mut parts = tag.split('"');
    let mut names = Vec::new();
    while let (Some(before), Some(value)) = (parts.next(), parts.next()) {
        let name = before.trim_end_matches('=').rsplit(' ').next().expect("a name");
        assert!(before.ends_with('=') && !names.contains(&name), "attribute in <{tag}>");
        names.push(name);
        assert_text(value);
    }
    assert_eq!(tag.matches('"').count() % 2, 0, "quotes of <{tag}>");
}

#[test]
fn the_check_of_form_can_fail() {
    for bad in
        ["<a><b></a></b>", "<a>", "</a>", "<a>x & y</a>", "<a b=\"1\" b=\"2\"/>", "<a b=1\"/>"]
    {
        let judged = std::panic::catch_unwind(|| assert_well_formed(&format!("first\n{bad}")));
        assert!(judged.is_err(), "{bad} passes");
    }
    assert_well_formed("first\n<a b=\"1\" c=\"&lt;\"><d/>x &amp; y</a>");
}

fn evil() -> Report {
    let mut rows = timeline();
    rows.iter_mut().flat_map(|row| &mut row.per_node).for_each(|node| node.id.push_str(EVIL));
    let mut changes = reconfigurations();
    changes.iter_mut().for_each(|change| {
        change.reason = EVIL.to_owned();
        change.outcome = EVIL.to_owned();
    });
    let mut decisions = decisions();
    decisions.iter_mut().for_each(|decision| decision.why = EVIL.to_owned());
    decisions.push(decision(9.0, EVIL));
    let facts = RunFacts {
        command: vec!["echo".to_owned(), EVIL.to_owned()],
        store: EVIL.to_owned(),
        policy: EVIL.to_owned(),
        ..run(12.0)
    };
    Report::new(facts, rows, changes, decisions).expect("good facts")
}

#[test]
fn what_comes_from_outside_cannot_break_out() {
    let files = written(&evil());
    for text in [&files.picture, &files.page] {
        assert_well_formed(text);
        assert!(!text.contains("<script"), "a script got in");
        assert!(!text.contains("\" onload"), "an attribute got in");
        assert!(text.contains("&lt;script&gt;"), "the text is gone");
    }
    assert_eq!(files.json["command"][1], EVIL, "JSON keeps every letter");
}

#[test]
fn every_report_is_well_formed() {
    let one = |t| Report::new(run(0.0), vec![row(t, &[("a", 1)])], Vec::new(), Vec::new());
    let full = Report::new(run(5.0), vec![row(0.0, &[("a", 5_000)])], Vec::new(), Vec::new());
    let late = reconfiguration(Kind::Rebalance, 1e9, u32::MAX, 0);
    let late = Report::new(run(1.0), timeline(), vec![late], Vec::new());
    let none = Report::new(run(0.0), Vec::new(), Vec::new(), Vec::new());
    let reports = [Ok(elastic()), one(0.0), one(3.0), full, late, none];
    for report in reports {
        let files = written(&report.expect("good facts"));
        for text in [&files.picture, &files.page] {
            assert_well_formed(text);
            assert!(!text.contains("NaN") && !text.contains("inf\""), "a figure is none: {text}");
        }
    }
}

#[test]
fn the_page_needs_no_network_and_no_script() {
    let files = written(&elastic());
    for text in [&files.page, &files.picture] {
        for word in ["<script", "src=", "href=", "url(", "@import", "<link", "<iframe"] {
            assert!(!text.contains(word), "the page has {word}");
        }
        let addresses = text.matches("://").count();
        let names = text.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(addresses, names, "an address that is no name space");
        assert!(text.contains("prefers-color-scheme: dark"), "one colour scheme only");
    }
    assert!(files.page.contains("width=device-width"), "no word on phones");
}
