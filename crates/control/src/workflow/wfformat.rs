//! Workflows in WfFormat (wfcommons, schema versions 1.5 and 1.6): tasks and files with sizes, and how
//! long each task ran. What cannot be simulated is refused with the task or the file that is wrong.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{BYTES_MOST, Cleanup, FileNumber, SECONDS_MOST, Task, TaskNumber, Workflow};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    name: String,
    workflow: Body,
}

#[derive(Deserialize)]
struct Body {
    specification: Specification,
    execution: Option<Execution>,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<SpecifiedTask>,
    #[serde(default)]
    files: Vec<SpecifiedFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecifiedTask {
    #[serde(default)]
    name: String,
    id: String,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    input_files: Vec<String>,
    #[serde(default)]
    output_files: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecifiedFile {
    id: String,
    size_in_bytes: f64,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(default)]
    tasks: Vec<ExecutedTask>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecutedTask {
    id: String,
    runtime_in_seconds: f64,
}

/// Why a document is no workflow that can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum WfError {
    #[error("it is not WfFormat: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("it has no tasks")]
    NoTasks,
    #[error("two {kind}s are called {id:?}")]
    SameId { kind: &'static str, id: String },
    #[error("file {id:?} has a size of {bytes} bytes")]
    Size { id: String, bytes: f64 },
    #[error("all files together have {bytes} bytes, more than the 2^60 that can be simulated")]
    AllSizes { bytes: f64 },
    #[error("there are {kinds} kinds of tasks, more than the {most} that can be told apart")]
    Kinds { kinds: usize, most: u16 },
    #[error("task {id:?} ran for {seconds} s")]
    Runtime { id: String, seconds: f64 },
    #[error("task {id:?} has no runtime; workflow.execution.tasks must name it")]
    NoRuntime { id: String },
    #[error("task {task:?} uses file {file:?}, which is not among the files")]
    UnknownFile { task: String, file: String },
    #[error("task {task:?} comes after {parent:?}, which is not among the tasks")]
    UnknownParent { task: String, parent: String },
    #[error("file {file:?} is written by {first:?} and by {second:?}")]
    TwoWriters { file: String, first: String, second: String },
    #[error("task {0:?} waits for itself, by way of others or at once")]
    Circle(String),
}

impl Workflow {
    /// Reads a document. A file that no task writes is input; each file is deleted when its last
    /// reader has ended, and results that nobody reads are kept.
    pub fn from_wfformat(text: &str) -> Result<Workflow, WfError> {
        let document: Document = serde_json::from_str(text)?;
        let specification = document.workflow.specification;
        if specification.tasks.is_empty() {
            return Err(WfError::NoTasks);
        }
        let mut workflow =
            Workflow { name: document.name, cleanup: Cleanup::WhenRead, ..Workflow::default() };
        let files = files(&specification.files, &mut workflow)?;
        let runtimes = runtimes(document.workflow.execution)?;
        let mut numbers: BTreeMap<&str, TaskNumber> = BTreeMap::new();
        for (at, task) in specification.tasks.iter().enumerate() {
            if numbers.insert(&task.id, at as TaskNumber).is_some() {
                return Err(WfError::SameId { kind: "task", id: task.id.clone() });
            }
        }
        let stages = stages(&specification.tasks, &mut workflow)?;
        let mut writers: Vec<Option<TaskNumber>> = vec![None; workflow.files.len()];
        for task in &specification.tasks {
            let id = task.id.clone();
            let task = stated(task, stages[kind(task)], &files, &numbers, &runtimes)?;
            let number = workflow.task(task);
            workflow.names.push(id);
            for &file in &workflow.tasks[number as usize].writes {
                if let Some(first) = writers[file as usize].replace(number) {
                    return Err(two_writers(&specification, file, first, number));
                }
            }
        }
        for at in 0..workflow.tasks.len() {
            let task = &mut workflow.tasks[at];
            let makers = task.reads.iter().filter_map(|&file| writers[file as usize]);
            task.after.extend(makers.filter(|&maker| maker as usize != at));
            for numbers in [&mut task.after, &mut task.reads] {
                numbers.sort_unstable();
                numbers.dedup();
            }
        }
        let unwritten = (0..writers.len()).filter(|&file| writers[file].is_none());
        workflow.input = unwritten.map(|file| file as FileNumber).collect();
        match workflow.circle() {
            Some(task) => Err(WfError::Circle(specification.tasks[task as usize].id.clone())),
            None => Ok(workflow),
        }
    }
}

fn files<'a>(
    specified: &'a [SpecifiedFile],
    workflow: &mut Workflow,
) -> Result<BTreeMap<&'a str, FileNumber>, WfError> {
    let mut numbers = BTreeMap::new();
    for SpecifiedFile { id, size_in_bytes: bytes } in specified {
        if !(0.0..=BYTES_MOST).contains(bytes) {
            return Err(WfError::Size { id: id.clone(), bytes: *bytes });
        }
        workflow.file_names.push(id.clone());
        if numbers.insert(id.as_str(), workflow.file(*bytes)).is_some() {
            return Err(WfError::SameId { kind: "file", id: id.clone() });
        }
    }
    let bytes: f64 = specified.iter().map(|file| file.size_in_bytes).sum();
    if bytes > BYTES_MOST {
        return Err(WfError::AllSizes { bytes });
    }
    Ok(numbers)
}

/// Tasks of one kind share a name or, where the id is all there is, its beginning.
fn kind(task: &SpecifiedTask) -> &str {
    let name = if task.name.is_empty() { &task.id } else { &task.name };
    name.split(['_', '-', '.']).next().unwrap_or(name)
}

/// A stage for each kind of task, in the order in which they are first named.
fn stages<'a>(
    tasks: &'a [SpecifiedTask],
    workflow: &mut Workflow,
) -> Result<BTreeMap<&'a str, u16>, WfError> {
    let mut numbers = BTreeMap::new();
    for kind in tasks.iter().map(kind) {
        if !numbers.contains_key(kind) {
            numbers.insert(kind, workflow.stages.len() as u16);
            workflow.stages.push(kind.to_owned());
        }
    }
    let (kinds, most) = (workflow.stages.len(), u16::MAX);
    if kinds > usize::from(most) { Err(WfError::Kinds { kinds, most }) } else { Ok(numbers) }
}

fn runtimes(execution: Option<Execution>) -> Result<BTreeMap<String, f64>, WfError> {
    let mut runtimes = BTreeMap::new();
    for ExecutedTask { id, runtime_in_seconds: seconds } in
        execution.map(|execution| execution.tasks).unwrap_or_default()
    {
        if !(0.0..=SECONDS_MOST).contains(&seconds) {
            return Err(WfError::Runtime { id, seconds });
        }
        runtimes.insert(id, seconds);
    }
    Ok(runtimes)
}

fn stated(
    task: &SpecifiedTask,
    stage: u16,
    files: &BTreeMap<&str, FileNumber>,
    numbers: &BTreeMap<&str, TaskNumber>,
    runtimes: &BTreeMap<String, f64>,
) -> Result<Task, WfError> {
    let id = || task.id.clone();
    let number = |file: &String| {
        let known = files.get(file.as_str()).copied();
        known.ok_or_else(|| WfError::UnknownFile { task: id(), file: file.clone() })
    };
    let parent = |parent: &String| match numbers.get(parent.as_str()) {
        Some(&at) => Ok(at),
        None => Err(WfError::UnknownParent { task: id(), parent: parent.clone() }),
    };
    let seconds = runtimes.get(&task.id).copied();
    let mut task = Task {
        stage,
        seconds: seconds.ok_or_else(|| WfError::NoRuntime { id: id() })?,
        reads: task.input_files.iter().map(number).collect::<Result<_, _>>()?,
        writes: task.output_files.iter().map(number).collect::<Result<_, _>>()?,
        after: task.parents.iter().map(parent).collect::<Result<_, _>>()?,
    };
    // A file that is named twice is written once.
    task.writes.sort_unstable();
    task.writes.dedup();
    Ok(task)
}

fn two_writers(of: &Specification, file: FileNumber, first: u32, second: u32) -> WfError {
    let task = |number: u32| of.tasks[number as usize].id.clone();
    let file = of.files[file as usize].id.clone();
    WfError::TwoWriters { file, first: task(first), second: task(second) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks in a row: `a` writes `m` from `i`, `b` reads it and writes `o`.
    fn document(change: impl Fn(&str) -> String) -> Result<Workflow, WfError> {
        let text = r#"{"name": "two", "schemaVersion": "1.5", "workflow": {
            "specification": {
              "tasks": [
                {"name": "first", "id": "a", "parents": [], "inputFiles": ["i"], "outputFiles": ["m"]},
                {"name": "second", "id": "b", "parents": ["a"], "inputFiles": ["m"], "outputFiles": ["o"]}],
              "files": [
                {"id": "i", "sizeInBytes": 10}, {"id": "m", "sizeInBytes": 20},
                {"id": "o", "sizeInBytes": 5}]},
            "execution": {"tasks": [
              {"id": "a", "runtimeInSeconds": 2.5}, {"id": "b", "runtimeInSeconds": 1}]}}}"#;
        Workflow::from_wfformat(&change(text))
    }

    #[test]
    fn a_workflow_is_read() {
        let workflow = document(str::to_owned).unwrap();
        assert_eq!(workflow.stages, ["first", "second"]);
        assert_eq!(workflow.files, [10, 20, 5]);
        assert_eq!((&workflow.input[..], workflow.input_bytes()), (&[0][..], 10));
        assert_eq!(workflow.tasks[1].after, [0]);
        assert_eq!(workflow.tasks[0].seconds, 2.5);
        assert_eq!((workflow.name_of(1).as_str(), workflow.name_of(2).as_str()), ("\"b\"", "2"));
    }

    #[test]
    fn odd_files_and_tasks_are_taken_as_they_are() {
        let empty = document(|text| text.replace("\"sizeInBytes\": 20", "\"sizeInBytes\": 0"));
        assert_eq!(empty.unwrap().files, [10, 0, 5]);
        let twice = document(|text| {
            text.replace("\"outputFiles\": [\"o\"]", "\"outputFiles\": [\"o\", \"o\"]")
                .replace("\"inputFiles\": [\"m\"]", "\"inputFiles\": [\"m\", \"m\"]")
        });
        let twice = twice.unwrap();
        assert_eq!((&twice.tasks[1].reads[..], &twice.tasks[1].writes[..]), (&[1][..], &[2][..]));
        // It updates its own file, and does not wait for itself.
        let own = document(|text| {
            text.replace("\"inputFiles\": [\"m\"]", "\"inputFiles\": [\"m\", \"o\"]")
        });
        assert_eq!(own.unwrap().tasks[1].after, [0]);
    }

    #[test]
    fn more_kinds_than_can_be_told_apart_are_refused() {
        let list =
            |each: &dyn Fn(u32) -> String| (0..65_536).map(each).collect::<Vec<_>>().join(",");
        let tasks = list(&|at| format!("{{\"id\": \"t{at}\"}}"));
        let ran = list(&|at| format!("{{\"id\": \"t{at}\", \"runtimeInSeconds\": 1}}"));
        let text = format!(
            "{{\"workflow\": {{\"specification\": {{\"tasks\": [{tasks}]}}, \
             \"execution\": {{\"tasks\": [{ran}]}}}}}}"
        );
        let refused = Workflow::from_wfformat(&text);
        assert!(matches!(refused, Err(WfError::Kinds { kinds: 65_536, .. })), "{refused:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            ("\"name\": \"two\",", "\"name\": \"two\"", "line 1"),
            ("\"sizeInBytes\": 20", "\"sizeInBytes\": -20", "\"m\" has a size of -20"),
            ("\"sizeInBytes\": 20", "\"sizeInBytes\": 1e30", "\"m\" has a size"),
            ("\"runtimeInSeconds\": 2.5", "\"runtimeInSeconds\": -1", "\"a\" ran for -1"),
            (
                "{\"id\": \"b\", \"runtimeInSeconds\": 1}",
                "{\"id\": \"c\", \"runtimeInSeconds\": 1}",
                "\"b\" has no runtime",
            ),
            (
                "\"outputFiles\": [\"m\"]",
                "\"outputFiles\": [\"x\"]",
                "file \"x\", which is not among",
            ),
            ("\"parents\": [\"a\"]", "\"parents\": [\"z\"]", "after \"z\""),
            ("\"parents\": []", "\"parents\": [\"b\"]", "\"a\" waits for itself"),
            (
                "\"outputFiles\": [\"o\"]",
                "\"outputFiles\": [\"m\"]",
                "\"m\" is written by \"a\" and by \"b\"",
            ),
            (
                "\"id\": \"b\", \"parents\"",
                "\"id\": \"a\", \"parents\"",
                "two tasks are called \"a\"",
            ),
            ("{\"id\": \"i\", ", "{\"id\": \"m\", ", "two files are called \"m\""),
            ("\"parents\": []", "\"parents\": [\"a\"]", "\"a\" waits for itself"),
            (
                "10}, {\"id\": \"m\", \"sizeInBytes\": 20",
                "1e18}, {\"id\": \"m\", \"sizeInBytes\": 1e18",
                "all files together",
            ),
            ("\"runtimeInSeconds\": 2.5", "\"runtimeInSeconds\": 1e9", "\"a\" ran for 1000000000"),
        ];
        for (from, to, says) in table {
            let message = document(|text| {
                assert!(text.contains(from), "{from}");
                text.replacen(from, to, 1)
            });
            let message = message.unwrap_err().to_string();
            assert!(message.contains(says), "{to}: {message}");
        }
        assert!(matches!(Workflow::from_wfformat("{}"), Err(WfError::Malformed(_))));
        let none = r#"{"workflow": {"specification": {"tasks": []}}}"#;
        assert!(matches!(Workflow::from_wfformat(none), Err(WfError::NoTasks)));
    }
}
