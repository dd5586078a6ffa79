//! Stories with golden output: small simulated runs, told by what was decided and why.
//!
//! `tests/stories/NAME.txt` has one wish a line; `NAME.out` is what is told. `UPDATE=1 cargo test -p
//! tidefs-sim --test stories` writes the `.out` files anew; the difference is then for people to judge.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tidefs_model::ByteSize;
use tidefs_sim::workflow::{Cleanup, Task, Workflow};
use tidefs_sim::{Disturbance, Setup, simulate};

/// A workflow of stages in a row, each of whose tasks comes after all of the stage before.
fn story(text: &str) -> (Workflow, Setup) {
    let mut workflow = Workflow { name: "story".to_owned(), ..Workflow::default() };
    let mut setup = Setup {
        policy: "static".parse().expect("a policy"),
        nodes_initial: 1,
        nodes_min: 1,
        nodes_max: 8,
        node_memory: ByteSize(10_000_000_000),
        lent: None,
        slots: 4,
        compute: None,
        bandwidth: 1e9,
        boot_seconds: 5.0,
        suspends: false,
        dump: None,
        disturbance: Disturbance::NONE,
        seed: 1,
    };
    let (mut before, mut rules) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<f64>().expect("a number");
        match words[0] {
            "policy" => setup.policy = words[1].parse().expect("a policy"),
            "nodes" => {
                (setup.nodes_initial, setup.nodes_max) = (number(1) as u16, number(2) as u16)
            }
            "suspends" => setup.suspends = true,
            "compute" => setup.compute = Some(number(1) as u32),
            "told" => setup.disturbance = words[1].parse().expect("a disturbance"),
            "input" => {
                let file = workflow.file(number(1) * 1e9);
                workflow.input.push(file);
            }
            // stage NAME TASKS SECONDS GIGABYTES-EACH
            "stage" => {
                let stage = workflow.stage(words[1]);
                let after = std::mem::take(&mut before);
                for _ in 0..number(2) as u32 {
                    let writes = vec![workflow.file(number(4) * 1e9)];
                    let (seconds, after) = (number(3), after.clone());
                    let task = Task { stage, seconds, writes, after, ..Task::default() };
                    before.push(workflow.task(task));
                }
            }
            // drop WRITTEN-BY AFTER
            "drop" => {
                let (by, after) = (workflow.stage(words[1]), workflow.stage(words[2]));
                let tasks = workflow.tasks.iter().filter(|task| task.stage == by);
                rules.push((after, tasks.flat_map(|task| task.writes.clone()).collect()));
            }
            other => panic!("{other:?} is no word of a story"),
        }
    }
    workflow.cleanup = Cleanup::AfterStage(rules);
    (workflow, setup)
}

fn told(text: &str) -> String {
    let (workflow, setup) = story(text);
    let mut out = String::new();
    let outcome = match simulate(&workflow, &setup) {
        Ok(outcome) => outcome,
        Err(stuck) => return format!("{stuck}\n"),
    };
    for it in &outcome.reconfigurations {
        let (from, to) = (it.nodes_before, it.nodes_after);
        let (at, took, kind) = (it.started_at, it.seconds, it.kind);
        writeln!(out, "{at:.0} s, {kind} {from} -> {to} in {took:.1} s: {}", it.reason).unwrap();
    }
    let last = outcome.timeline.last().expect("a row");
    writeln!(
        out,
        "ended after {:.0} s on {} nodes, {} at most; {:.2} node-hours; stood still for {:.0} s; \
         waited for room for {:.0} s",
        outcome.makespan_seconds,
        last.nodes,
        outcome.nodes_most(),
        outcome.node_hours(),
        outcome.suspended_seconds,
        outcome.waited_seconds,
    )
    .unwrap();
    out
}

#[test]
fn stories_go_as_they_are_written_down() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let entries = fs::read_dir(&directory).expect("the stories");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut stories: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "txt")).collect();
    stories.sort();
    assert!(stories.len() >= 5, "{stories:?}");
    let update = std::env::var_os("UPDATE").is_some();
    for path in stories {
        let text = told(&fs::read_to_string(&path).expect("a story"));
        let golden = path.with_extension("out");
        if update {
            fs::write(&golden, &text).expect("the story is written");
        }
        let written = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(text, written, "{}; UPDATE=1 writes it anew", path.display());
    }
}
