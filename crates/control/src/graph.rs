//! The graph of a workflow while it runs: its tasks and files as they are told, which tasks have begun
//! and ended, and how large the files became.
//!
//! It is told in news, many at once or one by one. News that name what nobody knows are refused, all of
//! one telling together; told once more they change nothing. It runs nothing, deletes nothing and looks
//! at no file: sizes and times are what it was told.

mod dead;
mod news;
mod order;
mod refusal;
mod rest;
mod telling;

use std::collections::BTreeMap;
use std::time::Duration;

use tidefs_model::Time;

pub use dead::DeadFile;
pub use news::{NewFile, NewTask, News, Wrote};
pub use refusal::GraphError;
pub use rest::Rest;

use crate::workflow::Workflow;

/// There are never more tasks, files, or mentions of tasks and files by tasks.
pub const TASKS_MOST: usize = 50_000;
pub const FILES_MOST: usize = 100_000;
pub const MENTIONS_MOST: usize = 500_000;
/// No name is longer, in bytes.
pub const NAME_BYTES_MOST: usize = 4096;

/// What is known of a workflow that runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    tasks: Vec<Known>,
    task_numbers: BTreeMap<String, usize>,
    files: Vec<File>,
    file_numbers: BTreeMap<String, usize>,
    kinds: Vec<String>,
    kind_numbers: BTreeMap<String, usize>,
    mentions: usize,
    /// So many tasks run at a time at most, where that was told.
    slots: Option<u32>,
    /// Which files are temporary is a guess, as in a format that does not say who removes them.
    guesses_temporary: bool,
    counts: Counts,
}

/// Of tasks in a state, and of bytes that were seen to be written and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    running: isize,
    finished: isize,
    written: u64,
    removed: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    told: NewTask,
    kind: usize,
    reads: Vec<usize>,
    writes: Vec<usize>,
    after: Vec<usize>,
    state: State,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waits,
    Runs {
        since: Time,
    },
    /// `took` is unknown where nobody told of its start.
    Finished {
        took: Option<Duration>,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
struct File {
    name: String,
    told: Option<u64>,
    seen: Option<u64>,
    writer: Option<usize>,
    readers: Vec<usize>,
    /// The workflow removes it when its last reader has ended.
    temporary: bool,
    /// It was asked for, and stays.
    target: bool,
    removed: bool,
}

/// How far a workflow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub tasks: usize,
    pub running: usize,
    pub finished: usize,
    pub files: usize,
    /// Of files that tasks have written.
    pub bytes_seen: u64,
    /// Of them, removed.
    pub bytes_removed: u64,
}

impl Graph {
    /// A graph from lines of news, or from WfFormat, where each file that is read is removed when its
    /// last reader has ended.
    ///
    /// # Errors
    /// When the text is neither, or names what it does not tell of.
    pub fn read(text: &str, now: Time) -> Result<Graph, GraphError> {
        match news::of_text(text) {
            Ok(news) if !news.iter().any(|one| matches!(one, News::Task(_))) => {
                Err(GraphError::NoTasks)
            }
            Ok(news) => Graph::default().with(&news, now),
            Err(unreadable) if news::is_one_document(text) => {
                let workflow = Workflow::from_wfformat(text).map_err(|error| {
                    // A line of news that is wrong is no attempt at WfFormat.
                    match text.contains("\"specification\"") {
                        true => GraphError::WfFormat(error.to_string()),
                        false => unreadable,
                    }
                })?;
                let graph = Graph { guesses_temporary: true, ..Graph::default() };
                graph.with(&news::of_workflow(&workflow), now)
            }
            Err(unreadable) => Err(unreadable),
        }
    }

    fn with(mut self, news: &[News], now: Time) -> Result<Graph, GraphError> {
        self.hear(news, now)?;
        Ok(self)
    }

    /// Takes lines of news in, and answers whether they said something new.
    ///
    /// # Errors
    /// When a line is no news, or names what nobody knows; then none of them counts.
    pub fn hear_lines(&mut self, text: &str, now: Time) -> Result<bool, GraphError> {
        self.hear(&news::of_text(text)?, now)
    }

    pub fn progress(&self) -> Progress {
        let Counts { running, finished, written, removed } = self.counts;
        Progress {
            tasks: self.tasks.len(),
            running: running.unsigned_abs(),
            finished: finished.unsigned_abs(),
            files: self.files.len(),
            bytes_seen: written,
            bytes_removed: removed,
        }
    }
}

#[cfg(test)]
mod tests;
