//! A graph that is told by hand: what is still to come of it, and what is refused.

mod one_by_one;

use super::*;
use crate::workflow::{Cleanup, Doubt};

/// Four tasks of one kind that write a temporary file each from an input, and one that reads them all.
const TOLD: &str = r#"
{"task": {"id": "all", "kind": "sum", "reads": ["p0", "p1", "p2", "p3"], "writes": ["sum"], "seconds": 5}}
{"task": {"id": "0", "kind": "part", "reads": ["in"], "writes": ["p0"], "temporary": ["p0"], "bytes_most": 1000, "seconds": 30}}
{"task": {"id": "1", "kind": "part", "reads": ["in"], "writes": ["p1"], "temporary": ["p1"], "bytes_most": 1000, "seconds": 30}}
{"task": {"id": "2", "kind": "part", "reads": ["in"], "writes": ["p2"], "temporary": ["p2"], "bytes_most": 1000, "seconds": 30}}
{"task": {"id": "3", "kind": "part", "reads": ["in"], "writes": ["p3"], "temporary": ["p3"], "bytes_most": 1000, "seconds": 30}}
{"file": {"name": "in", "bytes": 50}}
{"target": "sum"}
{"slots": 2}
"#;

fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

fn told() -> Graph {
    Graph::read(TOLD, at(0)).expect("a graph")
}

fn heard(graph: &Graph, text: &str, seconds: u64) -> Graph {
    let mut graph = graph.clone();
    graph.hear_lines(text, at(seconds)).expect("news");
    graph
}

#[test]
fn what_is_still_to_come_follows_what_was_told() {
    let rest = told().rest(at(0));
    let workflow = &rest.workflow;
    assert_eq!((rest.slots, workflow.tasks.len(), workflow.stages.len()), (Some(2), 5, 2));
    // The task that was told of first comes after those that write what it reads.
    assert_eq!(workflow.tasks[0].after, [1, 2, 3, 4]);
    assert_eq!(workflow.input_bytes(), 50);
    // A limit is no size, and of the last file nobody said anything.
    let doubts: Vec<Doubt> = workflow.doubts.values().copied().collect();
    assert_eq!(doubts.iter().filter(|it| **it == Doubt::AtMost).count(), 4);
    assert_eq!(doubts.iter().filter(|it| **it == Doubt::Guess).count(), 1);
    assert_eq!(workflow.cleanup, Cleanup::These([0, 1, 2, 3].into()));
}

#[test]
fn seen_sizes_and_times_replace_limits_task_by_task() {
    let begun = heard(&told(), "{\"started\": \"0\"}\n{\"started\": \"1\"}", 10);
    let ended = r#"{"finished": {"id": "0", "files": [{"name": "p0", "bytes": 200}]}}"#;
    let ended = heard(&begun, ended, 14);
    let rest = ended.rest(at(15)).workflow;
    assert_eq!(rest.tasks.len(), 4);
    // What runs comes first: it took 5 s, and its kind 4.
    assert!((rest.tasks[0].seconds - 0.4).abs() < 1e-9, "{}", rest.tasks[0].seconds);
    assert_eq!(rest.tasks[2].seconds, 4.0, "of its kind, in place of 30");
    // 1000 at most were told of each; one was seen to have 200.
    let sizes: Vec<u64> = (0..4).map(|file| rest.files[file]).collect();
    assert_eq!(sizes, [200, 200, 200, 200]);
    assert_eq!(rest.doubts.len(), 1, "of the sum alone nothing is known");
    let more = r#"{"finished": {"id": "1", "files": [{"name": "p1", "bytes": 400}]}}"#;
    let rest = heard(&ended, more, 16).rest(at(16)).workflow;
    assert_eq!((rest.files[1], rest.files[2]), (400, 300));
}

#[test]
fn told_sizes_are_corrected_by_how_far_those_of_their_kind_were_off() {
    let sizes: String = (0..4)
        .map(|at| format!("{{\"file\": {{\"name\": \"p{at}\", \"bytes\": 100}}}}\n"))
        .collect();
    let graph = heard(&told(), &sizes, 0);
    assert_eq!(graph.rest(at(0)).workflow.files[3], 100);
    let ended = r#"{"finished": {"id": "0", "files": [{"name": "p0", "bytes": 50}]}}"#;
    let rest = heard(&graph, ended, 1).rest(at(1)).workflow;
    assert_eq!((rest.files[0], rest.files[3]), (50, 50));
}

#[test]
fn told_once_more_nothing_changes() {
    let news = "{\"started\": \"0\"}\n\
        {\"finished\": {\"id\": \"0\", \"files\": [{\"name\": \"p0\", \"bytes\": 7}]}}\n\
        {\"removed\": \"p0\"}";
    let once = heard(&told(), news, 3);
    let twice = heard(&heard(&once, TOLD, 9), news, 9);
    assert_eq!(once, twice);
    let progress = twice.progress();
    assert_eq!((progress.tasks, progress.finished, progress.running), (5, 1, 0));
    assert_eq!((progress.bytes_seen, progress.bytes_removed), (7, 7));
}

#[test]
fn a_task_that_failed_is_to_run_again() {
    let graph = heard(&heard(&told(), "{\"started\": \"2\"}", 1), "{\"failed\": \"2\"}", 2);
    assert_eq!(graph, told());
}

#[test]
fn what_nobody_knows_is_refused_by_name_and_nothing_counts() {
    let graph = told();
    for (text, says) in [
        ("{\"started\": \"9\"}", "task \"9\" is not in the graph"),
        ("{\"removed\": \"q\"}", "file \"q\" is not in the graph"),
        ("{\"target\": \"q\"}", "file \"q\""),
        (
            "{\"finished\": {\"id\": \"0\", \"files\": [{\"name\": \"p1\", \"bytes\": 1}]}}",
            "does not write \"p1\"",
        ),
        ("{\"task\": {\"id\": \"5\", \"after\": [\"6\"]}}", "comes after \"6\""),
        ("{\"task\": {\"id\": \"0\", \"kind\": \"part\"}}", "\"0\" was told of otherwise"),
        (
            "{\"task\": {\"id\": \"5\", \"writes\": [\"p1\"]}}",
            "\"p1\" is written by \"1\" and by \"5\"",
        ),
        ("{\"task\": {\"id\": \"5\", \"temporary\": [\"z\"]}}", "\"5\" does not write \"z\""),
        (
            "{\"task\": {\"id\": \"5\", \"reads\": [\"sum\"], \"writes\": [\"in\"]}}",
            "waits for itself",
        ),
        ("{\"task\": {\"id\": \"5\", \"seconds\": -1}}", "is -1 s"),
        (
            "{\"file\": {\"name\": \"in\", \"bytes\": 18446744073709551615}}",
            "more than can be followed",
        ),
        ("{\"task\": {\"id\": \"5\", \"disk\": 1}}", "line 1 is no news of a workflow"),
        ("\n{\"nonsense\": 1}", "line 2 is no news of a workflow"),
    ] {
        let mut graph = graph.clone();
        let error = graph.hear_lines(&format!("{text}\n"), at(1)).expect_err(text).to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert_eq!(Graph::read("", at(0)), Err(GraphError::NoTasks));
    let long = "x".repeat(NAME_BYTES_MOST + 1);
    let text = format!("{{\"task\": {{\"id\": \"{long}\"}}}}");
    assert!(matches!(Graph::read(&text, at(0)), Err(GraphError::Name { .. })));
    let two = "{\"started\": \"0\"}\n{\"started\": \"9\"}";
    let mut refused = graph.clone();
    assert!(refused.hear_lines(two, at(1)).is_err() && refused == graph);
}

#[test]
fn a_file_is_dead_when_its_last_reader_has_ended() {
    let text = r#"
{"task": {"id": "a", "reads": ["in"], "writes": ["x", "log"]}}
{"task": {"id": "b", "reads": ["x"], "writes": ["y"]}}
{"task": {"id": "c", "reads": ["x", "y"], "writes": ["out"]}}
{"target": "y"}
"#;
    let dead =
        |graph: &Graph| -> Vec<String> { graph.dead().map(|file| file.name.to_owned()).collect() };
    let graph = Graph::read(text, at(0)).expect("a graph");
    let ended = |graph: &Graph, id: &str| {
        heard(graph, &format!("{{\"finished\": {{\"id\": \"{id}\"}}}}"), 1)
    };
    let graph = ended(&ended(&graph, "a"), "b");
    assert!(dead(&graph).is_empty(), "c reads x");
    let failed = heard(&graph, "{\"started\": \"c\"}\n{\"failed\": \"c\"}", 2);
    assert!(dead(&failed).is_empty(), "c may run again");
    let graph = ended(&graph, "c");
    // The input was there before, y was asked for, and nobody reads log and out: they are results.
    assert_eq!(dead(&graph), ["x"]);
    let file = graph.dead().next().expect("x");
    assert_eq!((file.bytes, &file.written_beside[..]), (None, &["y", "out", "log"][..]));
    let more = heard(&graph, r#"{"task": {"id": "d", "reads": ["x"], "writes": ["z"]}}"#, 3);
    assert!(dead(&more).is_empty(), "another task reads it");
    assert!(graph.is_dead("x") && !graph.is_dead("y") && !more.is_dead("x") && !graph.is_dead("?"));
    let mut graph = graph;
    graph.has_removed("x");
    assert!(dead(&graph).is_empty(), "it is gone");
}

#[test]
fn what_comes_is_bounded_where_a_task_of_which_nothing_is_known_has_not_begun() {
    let ended = |id: u32| {
        format!(
            "{{\"finished\": {{\"id\": \"{id}\", \"files\": [{{\"name\": \"p{id}\", \"bytes\": 200}}]}}}}"
        )
    };
    assert!(
        !told().rest(at(0)).is_bounded(),
        "nobody said anything of the last, and nothing was seen"
    );
    let graph = heard(&told(), &ended(0), 1);
    let rest = graph.rest(at(1));
    assert!(rest.is_bounded() && rest.workflow.files[4] == 200, "as the largest kind: {rest:?}");
    let graph = heard(&graph, "{\"started\": \"all\"}", 2);
    assert!(!graph.rest(at(2)).is_bounded());
}

#[test]
fn a_document_of_wfformat_is_a_graph() {
    let text = r#"{"name": "two", "workflow": {"specification": {
        "tasks": [{"name": "make", "id": "a", "outputFiles": ["m"]},
                  {"name": "use", "id": "b", "parents": ["a"], "inputFiles": ["m"], "outputFiles": ["o"]}],
        "files": [{"id": "m", "sizeInBytes": 90}, {"id": "o", "sizeInBytes": 30},
                  {"id": "unused", "sizeInBytes": 5}]},
      "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 10}, {"id": "b", "runtimeInSeconds": 5}]}}}"#;
    let graph = Graph::read(text, at(0)).expect("WfFormat");
    let rest = graph.rest(at(0)).workflow;
    assert_eq!((&rest.files[..], rest.doubts.len()), (&[90, 30][..], 0));
    assert_eq!(rest.cleanup, Cleanup::These([0].into()), "nobody reads the result");
    let error = Graph::read(&text.replace("[\"o\"]", "[\"x\"]"), at(0)).expect_err("x").to_string();
    assert!(error.contains("\"x\""), "{error}");
    let ended = r#"{"finished": {"id": "a", "files": [{"name": "m", "bytes": 45}]}}"#;
    let ended = heard(&graph, ended, 1);
    assert_eq!(ended.rest(at(1)).workflow.tasks.len(), 1);
    // Nobody said that the workflow removes what it does not need.
    let ended = heard(&ended, r#"{"finished": {"id": "b"}}"#, 2);
    assert_eq!(ended.dead().map(|file| file.name).collect::<Vec<_>>(), ["m"]);
    let all: String =
        (0..4).map(|at| format!("{{\"finished\": {{\"id\": \"{at}\"}}}}\n")).collect();
    let ended = heard(&heard(&told(), &all, 1), r#"{"finished": {"id": "all"}}"#, 2);
    assert_eq!(ended.dead().count(), 0, "the workflow removes them");
}

#[test]
fn what_is_still_to_come_is_told_to_another_process() {
    let rest = told().rest(at(0));
    let text = serde_json::to_string(&rest).expect("JSON");
    assert_eq!(serde_json::from_str::<Rest>(&text).expect("the same"), rest);
}

/// Any lines are news or refused, and what was heard can be told on.
#[test]
fn any_order_of_lines_is_heard_or_refused() {
    use proptest::prelude::*;
    let lines: Vec<&str> = TOLD.lines().filter(|line| !line.is_empty()).collect();
    let more = ["{\"started\": \"1\"}", "{\"finished\": {\"id\": \"1\"}}", "{\"failed\": \"1\"}"];
    let lines: Vec<&str> = lines.into_iter().chain(more).collect();
    proptest!(|(chosen in prop::collection::vec(prop::sample::select(lines), 0..20))| {
        let mut graph = told();
        for (second, line) in (1..).zip(&chosen) {
            graph = heard(&graph, line, second);
            let rest = graph.rest(at(second));
            prop_assert!(rest.workflow.circle().is_none());
            prop_assert!(rest.workflow.tasks.iter().all(|task| task.seconds >= 0.0));
        }
        prop_assert_eq!(graph.progress().tasks, 5);
    });
}
