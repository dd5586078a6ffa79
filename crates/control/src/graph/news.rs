//! News of a workflow as they are written: a line of JSON each. What they mean is in `telling`.

use serde::{Deserialize, Serialize};

use super::GraphError;
use crate::workflow::{Cleanup, Workflow};

/// One thing that is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// A task that is to run.
    Task(NewTask),
    /// The size of a file, as it is or will be.
    File(NewFile),
    /// A file that was asked for, and stays.
    Target(String),
    /// So many tasks run at a time, at most.
    Slots(u32),
    /// A task has begun.
    Started(String),
    /// A task has ended well, and files that it wrote are so large.
    Finished(Wrote),
    /// A task has ended otherwise, and may be begun again.
    Failed(String),
    /// A file is gone, since the last task that reads it has ended.
    Removed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    pub id: String,
    /// Tasks of one kind are alike.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub reads: Vec<String>,
    #[serde(default)]
    pub writes: Vec<String>,
    /// Of what it writes, the files that the workflow removes when their last readers have ended.
    #[serde(default)]
    pub temporary: Vec<String>,
    /// Tasks that must have ended, besides those that write what it reads.
    #[serde(default)]
    pub after: Vec<String>,
    /// Of all that it writes together, at most.
    #[serde(default)]
    pub bytes_most: Option<u64>,
    #[serde(default)]
    pub seconds: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFile {
    pub name: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrote {
    pub id: String,
    #[serde(default)]
    pub files: Vec<NewFile>,
}

/// The lines of a text; empty ones are none.
pub(super) fn of_text(text: &str) -> Result<Vec<News>, GraphError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let news = lines.map(|(at, line)| {
        let read = serde_json::from_str(line);
        read.map_err(|error| GraphError::Line { line: at + 1, why: error.to_string() })
    });
    news.collect()
}

/// Whether a text is one object of JSON, as WfFormat is, and no lines.
pub(super) fn is_one_document(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
}

/// A whole workflow of which names are known.
pub(super) fn of_workflow(workflow: &Workflow) -> Vec<News> {
    let name = |file: u32| workflow.file_names[file as usize].clone();
    let names = |files: &[u32]| files.iter().map(|&file| name(file)).collect::<Vec<_>>();
    let mut read = vec![false; workflow.files.len()];
    workflow.tasks.iter().flat_map(|task| &task.reads).for_each(|&it| read[it as usize] = true);
    let removes = workflow.cleanup == Cleanup::WhenRead;
    let tasks = workflow.tasks.iter().zip(&workflow.names).map(|(task, id)| {
        let is_temporary = |file: &&u32| removes && read[**file as usize];
        let temporary: Vec<u32> = task.writes.iter().filter(is_temporary).copied().collect();
        News::Task(NewTask {
            id: id.clone(),
            kind: workflow.stages[usize::from(task.stage)].clone(),
            reads: names(&task.reads),
            writes: names(&task.writes),
            temporary: names(&temporary),
            after: task.after.iter().map(|&it| workflow.names[it as usize].clone()).collect(),
            bytes_most: None,
            seconds: Some(task.seconds),
        })
    });
    let mut used = read.clone();
    workflow.tasks.iter().flat_map(|task| &task.writes).for_each(|&it| used[it as usize] = true);
    let files = (0..workflow.files.len() as u32).filter(|&file| used[file as usize]);
    let files = files
        .map(|file| News::File(NewFile { name: name(file), bytes: workflow.files[file as usize] }));
    tasks.chain(files).collect()
}
