//! A graph that is told of task by task: what a telling costs, and what a refused one leaves.

use super::super::order::looked;
use super::*;

const TASKS: usize = 10_000;

fn hear(graph: &mut Graph, line: &str) -> Result<bool, GraphError> {
    graph.hear_lines(line, at(1))
}

/// A chain of tasks, each of which reads what the one before wrote, told in some order.
fn chain(order: impl Iterator<Item = usize>) -> Graph {
    let mut graph = Graph::default();
    for task in order {
        let (reads, writes) = (task, task + 1);
        let line = format!(
            "{{\"task\": {{\"id\": \"{task}\", \"reads\": [\"f{reads}\"], \"writes\": [\"f{writes}\"]}}}}"
        );
        assert_eq!(hear(&mut graph, &line), Ok(true));
    }
    graph
}

#[test]
fn what_a_telling_costs_does_not_grow_with_the_graph() {
    let before = looked::tasks();
    let mut graph = chain(0..TASKS);
    assert_eq!(chain((0..TASKS).rev()).tasks[0].after, [1], "told from its end on");
    let looked = looked::tasks() - before;
    assert!(
        looked <= 2 * 2 * TASKS,
        "{looked} tasks were looked at for {} that were told",
        2 * TASKS
    );
    let place = graph.tasks.as_ptr();
    for task in 0..TASKS {
        let started = format!("{{\"started\": \"{task}\"}}");
        let bytes = format!("[{{\"name\": \"f{}\", \"bytes\": 5}}]", task + 1);
        let finished = format!("{{\"finished\": {{\"id\": \"{task}\", \"files\": {bytes}}}}}");
        for line in [started, finished] {
            assert_eq!(hear(&mut graph, &line), Ok(true));
            assert_eq!(hear(&mut graph, &line), Ok(false), "told once more it is no news");
            assert_eq!(graph.tasks.as_ptr(), place, "no telling copies the tasks");
        }
        assert_eq!(graph.progress().finished, task + 1);
    }
    let Progress { running, bytes_seen, bytes_removed, .. } = graph.progress();
    assert_eq!((running, bytes_seen, bytes_removed), (0, 5 * TASKS as u64, 0));
}

#[test]
fn a_refused_telling_leaves_no_task_file_or_kind() {
    let told = chain((3..6).rev());
    for (lines, why) in [
        // It writes what an old task reads, and waits for the last of them.
        (
            r#"{"task": {"id": "n", "kind": "k", "reads": ["f6"], "writes": ["f3", "x"]}}"#,
            "waits for itself",
        ),
        (
            r#"{"task": {"id": "n", "reads": ["x"], "writes": ["f3"]}}
            {"task": {"id": "m", "reads": ["f3"], "writes": ["x"]}}"#,
            "waits for itself",
        ),
        (
            r#"{"task": {"id": "n", "reads": ["f4"], "writes": ["x", "f5"], "temporary": ["x"]}}"#,
            "is written by",
        ),
        (r#"{"task": {"id": "n", "writes": ["f3"], "after": ["nobody"]}}"#, "comes after"),
        (
            r#"{"task": {"id": "n", "writes": ["f3"]}}
            {"started": "n"}
            {"finished": {"id": "n", "files": [{"name": "f4", "bytes": 1}]}}"#,
            "does not write",
        ),
    ] {
        let mut graph = told.clone();
        let error = hear(&mut graph, lines).expect_err(lines).to_string();
        assert!(error.contains(why), "{lines}: {error}");
        assert_eq!(graph, told, "{lines}");
    }
    // Without the circle it is taken, and what reads it waits for it.
    let mut graph = told.clone();
    assert_eq!(hear(&mut graph, r#"{"task": {"id": "n", "writes": ["f3"]}}"#), Ok(true));
    assert_eq!(graph.tasks[graph.task_numbers["3"]].after, [graph.task_numbers["n"]]);
}

#[test]
fn a_file_that_is_written_anew_is_there_again() {
    let mut graph = told();
    let wrote = |bytes| {
        format!(
            "{{\"finished\": {{\"id\": \"0\", \"files\": [{{\"name\": \"p0\", \"bytes\": {bytes}}}]}}}}"
        )
    };
    let there =
        |graph: &Graph| (graph.rest(at(2)).workflow.input_bytes(), graph.progress().bytes_removed);
    // What an earlier run left of it was removed.
    hear(&mut graph, "{\"removed\": \"p0\"}").expect("news");
    hear(&mut graph, &wrote(200)).expect("news");
    assert_eq!(there(&graph), (50 + 200, 0));
    graph.has_removed("p0");
    assert_eq!(there(&graph), (50, 200));
    assert_eq!(hear(&mut graph, &wrote(200)), Ok(false), "told once more");
    assert_eq!(there(&graph), (50, 200));
    assert_eq!(hear(&mut graph, &wrote(300)), Ok(true), "it was written by a task that ran again");
    assert_eq!(there(&graph), (50 + 300, 0));
}
