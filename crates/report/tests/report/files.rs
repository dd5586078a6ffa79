//! The folder, and what the page shows of long and short runs.

use std::fs;

use tidefs_report::{ByCommand, CommandUse, Kind, LeftOut, Report, ReportError};

use crate::facts::{decision, elastic, reconfiguration, row, run, timeline, written};

#[test]
fn the_folder_is_made_and_an_earlier_report_replaced() {
    let parent = tempfile::tempdir().expect("a folder");
    let directory = parent.path().join("a/b");
    elastic().write(&directory).expect("a report");
    fs::write(directory.join("report.html"), "old").expect("a file");
    elastic().write(&directory).expect("a second report");
    let names: Vec<_> = fs::read_dir(&directory).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let page = fs::read_to_string(directory.join("report.html")).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
}

#[test]
fn a_file_in_the_way_is_named() {
    let parent = tempfile::tempdir().expect("a folder");
    let taken = parent.path().join("taken");
    fs::write(&taken, "").expect("a file");
    let refused = elastic().write(&taken).expect_err("no folder");
    assert!(matches!(&refused, ReportError::Directory { path, .. } if *path == taken));
    assert!(refused.to_string().contains("taken"), "{refused}");
    fs::remove_file(&taken).expect("removed");
    fs::create_dir_all(taken.join("timeline.svg")).expect("a folder");
    let refused = elastic().write(&taken).expect_err("no file");
    assert!(refused.to_string().contains("timeline.svg"), "{refused}");
}

#[test]
fn the_page_shows_what_the_run_did() {
    let page = written(&elastic()).page;
    for shown in [
        "montage --tiles 6",
        "succeeded",
        "2026-11-21 23:05 UTC",
        "1 to 4 nodes of 1000 B",
        "policy nso+asi",
        "16.0 node-seconds",
        "24.0 node-seconds",
        "490 B (\u{d7}\u{a0}1.02)",
        ">8,192<",
        ">42 ms<",
        "grow by 1:",
        "MemEFS, section 3.4.4",
    ] {
        // The headline writes a unit smaller, in an element of its own.
        let plain = page.replace("<span class=\"unit\">", "").replace("</span>", "");
        assert!(plain.contains(shown), "the page lacks {shown:?}");
    }
}

#[test]
fn which_command_moved_how_much_is_told_and_what_is_not_seen() {
    let one = |number: u64| CommandUse {
        command: format!("program-{number}"),
        calls: number,
        bytes_read: number << 20,
        bytes_written: 512,
    };
    let uses: Vec<_> = (1..=25).rev().map(one).collect();
    let by_command = ByCommand { uses, passes_through: true };
    let written = written(&elastic().with_commands(by_command));
    assert_eq!(written.json["commands"][0]["bytes_read"], 25 << 20);
    assert_eq!(written.json["commands"].as_array().map(Vec::len), Some(25));
    assert_eq!(written.json["passes_through"], true);
    for shown in
        [">program-25<", ">25 MiB<", "5 more are in report.json", "what it read is not known"]
    {
        assert!(written.page.contains(shown), "the page lacks {shown:?}");
    }
    assert!(!written.page.contains(">program-5<"));
}

#[test]
fn where_no_request_came_that_is_said() {
    let page_of = |requests| {
        let mut one = reconfiguration(Kind::Commission, 5.0, 1, 2);
        (one.requests, one.io_stall_max_ms) = (requests, None);
        let report = Report::new(run(12.0), timeline(), vec![one], Vec::new());
        written(&report.expect("good facts")).page
    };
    let (none_came, nobody_counted) = (page_of(Some(0)), page_of(None));
    for said in [">no request came<", "no request came meanwhile"] {
        assert!(none_came.contains(said) && !nobody_counted.contains(said), "{said:?}");
    }
    for said in [">not measured<", "I/O stalls were not measured"] {
        assert!(nobody_counted.contains(said) && !none_came.contains(said), "{said:?}");
    }
}

#[test]
fn bad_ends_are_shown_as_such() {
    let mut facts = run(1.0);
    facts.io_errors = 7;
    for (status, shown) in [(3, "failed with status 3"), (137, "ended by signal 9")] {
        facts.command_status = status;
        let report = Report::new(facts.clone(), timeline(), Vec::new(), Vec::new());
        let page = written(&report.expect("good facts")).page;
        assert!(page.contains(shown), "the page lacks {shown:?}");
        assert!(page.contains("<dd class=\"value bad\">7</dd>"), "the errors are not marked");
        assert!(page.contains("own mount; others are not counted"), "whose errors they are");
    }
}

#[test]
fn a_picture_of_a_long_run_stays_small_and_keeps_its_peak() {
    let rows = (0..50_000).map(|second| {
        let used = if second == 31_457 { 945 } else { 100 + second % 7 };
        row(second as f64, &[("a", used)])
    });
    let report = Report::new(run(50_000.0), rows.collect(), Vec::new(), Vec::new());
    let picture = written(&report.expect("good facts")).picture;
    let line = picture.split("<path class=\"used\"").nth(2).expect("the line, after the legend's");
    let line = line.split("/>").next().expect("its end");
    let points = line.matches('V').count();
    assert!((100..=2_000).contains(&points), "{points} points");
    // 1,000 bytes are the top of the panel's 1,024, as one node holds 945; these lie where 100 do not.
    let heights = line.split('V').skip(1).map(|rest| rest.split('H').next().expect("a height"));
    let heights: Vec<f64> = heights.map(|height| height.parse().expect("a height")).collect();
    let (low, high) = (heights[0], heights.iter().copied().fold(f64::INFINITY, f64::min));
    assert!(low - high > 150.0, "the peak at {high} is not above the rest at {low}");
}

#[test]
fn the_page_says_the_overhead_and_how_full_a_static_run_is() {
    let page = written(&elastic()).page;
    for said in ["at most 50", "in 4.00 s of changes", "fills to 95 % at most"] {
        assert!(page.contains(said), "the page lacks {said:?}");
    }
}

#[test]
fn what_was_not_kept_is_said() {
    let left_out = LeftOut { reconfigurations: 1_234, decisions: 5, stalls: 6 };
    let files = written(&elastic().with_left_out(left_out));
    for said in ["1,234 more reconfigurations were not", "5 more decisions were not", "6 of them"] {
        assert!(files.page.contains(said), "the page lacks {said:?}");
    }
    assert_eq!(files.json["left_out"]["reconfigurations"], 1_234);
    let whole = written(&elastic());
    assert_eq!(whole.json["left_out"]["decisions"], 0);
    assert!(!whole.page.contains("not kept"), "nothing is missing");
}

/// Eight within the tenth part of a run, as growing and shrinking at its end have it.
#[test]
fn every_mark_of_a_picture_is_numbered_and_listed() {
    let at = |number: u32| reconfiguration(Kind::Commission, 90.0 + f64::from(number), number, 9);
    let report = Report::new(run(100.0), timeline(), (1..=8).map(at).collect(), Vec::new());
    let files = written(&report.expect("good facts"));
    for number in 1..=8 {
        let flag = format!(">{number}</text>");
        assert!(files.picture.contains(&flag), "the picture has no {flag}");
        assert!(files.page.contains(&flag), "the page's picture has no {flag}");
        let listed = format!(">{number}: commission, {number} \u{2192} 9 nodes, at ");
        assert!(files.picture.contains(&listed), "the picture does not list {number}");
        assert!(!files.page.contains(&listed), "the page has a table");
    }
}

#[test]
fn a_page_of_many_lines_says_what_it_leaves_out() {
    let count = 1_234;
    let reconfigurations =
        (0..count).map(|at| reconfiguration(Kind::Rebalance, f64::from(at), 2, 2)).collect();
    let decisions = (0..count).map(|at| decision(f64::from(at), "hold:")).collect();
    let report = Report::new(run(f64::from(count)), timeline(), reconfigurations, decisions);
    let files = written(&report.expect("good facts"));
    for left_out in ["734 more reconfigurations", "734 more decisions", "All 1,234 decisions"] {
        assert!(files.page.contains(left_out), "the page lacks {left_out:?}");
    }
    assert_eq!(files.json["decisions"].as_array().expect("a list").len(), 1_234);
    assert!(files.picture.matches("<rect").count() < 2_000, "stripes that nobody can tell apart");
}
