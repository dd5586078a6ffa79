//! A workflow: tasks that read and write whole files.
//!
//! A task may start when all that it comes after have ended. What becomes of files that nobody needs
//! any more is part of the workflow, since it is its scheduler that deletes them.

mod snakemake;
mod wfformat;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
pub use snakemake::SnakemakeError;
pub use wfformat::WfError;

/// No file is larger, nor all files of a workflow together: 2^60 bytes.
pub(crate) const BYTES_MOST: f64 = (1_u64 << 60) as f64;
/// No task runs longer: a year.
pub(crate) const SECONDS_MOST: f64 = 366.0 * 86_400.0;

/// Number of a task, and of a file.
pub type TaskNumber = u32;
pub type FileNumber = u32;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Index into the stages.
    pub stage: u16,
    /// Of computing alone, on one slot.
    pub seconds: f64,
    pub reads: Vec<FileNumber>,
    pub writes: Vec<FileNumber>,
    pub after: Vec<TaskNumber>,
}

/// When files are deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Cleanup {
    #[default]
    Never,
    /// These files when all tasks of the stage have ended.
    AfterStage(Vec<(u16, Vec<FileNumber>)>),
    /// Each file that is read at all when its last reader has ended.
    WhenRead,
    /// Each of these when its last reader has ended.
    These(BTreeSet<FileNumber>),
}

/// What is not known of a file's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doubt {
    /// It has so many bytes at most.
    AtMost,
    /// Nobody said anything of it.
    Guess,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub name: String,
    pub stages: Vec<String>,
    pub tasks: Vec<Task>,
    /// What the file calls each task; nothing where it was made by a generator.
    pub names: Vec<String>,
    /// What the file calls each of its files; nothing where it was made by a generator.
    pub file_names: Vec<String>,
    /// Bytes of each file.
    pub files: Vec<u64>,
    /// Files that no task writes; they are staged in at the start.
    pub input: Vec<FileNumber>,
    /// Files of which `files` does not say how large they will be.
    pub doubts: BTreeMap<FileNumber, Doubt>,
    pub cleanup: Cleanup,
}

/// Why a text is no workflow.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    #[error(transparent)]
    WfFormat(#[from] WfError),
    #[error("it is neither WfFormat nor a dry run: {0}")]
    Snakemake(#[from] SnakemakeError),
}

impl Workflow {
    /// Reads WfFormat, or what `snakemake --dry-run` printed.
    pub fn read(text: &str) -> Result<Workflow, WorkflowError> {
        if text.trim_start().starts_with('{') {
            Ok(Workflow::from_wfformat(text)?)
        } else {
            Ok(Workflow::from_snakemake(text)?)
        }
    }

    pub fn input_bytes(&self) -> u64 {
        self.input.iter().map(|&file| self.files[file as usize]).sum()
    }

    pub fn bytes(&self, files: &[FileNumber]) -> u64 {
        files.iter().map(|&file| self.files[file as usize]).sum()
    }

    /// The same, with nothing in files whose size is not known.
    pub fn without_doubts(&self) -> Workflow {
        let mut told = self.clone();
        for (file, _) in std::mem::take(&mut told.doubts) {
            told.files[file as usize] = 0;
        }
        told
    }

    /// What all files have together at most, where that is known.
    pub fn most_bytes(&self) -> Option<u64> {
        let is_bounded = self.doubts.values().all(|doubt| *doubt == Doubt::AtMost);
        is_bounded.then(|| self.files.iter().sum())
    }

    /// The task as its file calls it, or else by its number.
    pub fn name_of(&self, task: TaskNumber) -> String {
        self.names.get(task as usize).map_or_else(|| task.to_string(), |name| format!("{name:?}"))
    }

    /// Whether a file is removed when its last reader has ended.
    pub fn is_removed_when_read(&self, file: FileNumber) -> bool {
        match &self.cleanup {
            Cleanup::WhenRead => true,
            Cleanup::These(files) => files.contains(&file),
            Cleanup::Never | Cleanup::AfterStage(_) => false,
        }
    }

    /// The number of the stage of this name; it is added where there is none.
    pub fn stage(&mut self, name: &str) -> u16 {
        let known = self.stages.iter().position(|stage| stage == name);
        let at = known.unwrap_or_else(|| {
            self.stages.push(name.to_owned());
            self.stages.len() - 1
        });
        at as u16
    }

    /// Adds a file.
    pub fn file(&mut self, bytes: f64) -> FileNumber {
        self.files.push(bytes.max(0.0) as u64);
        (self.files.len() - 1) as FileNumber
    }

    /// Adds a task.
    pub fn task(&mut self, task: Task) -> TaskNumber {
        self.tasks.push(task);
        (self.tasks.len() - 1) as TaskNumber
    }

    /// A task that is on a circle of tasks that wait for each other.
    pub fn circle(&self) -> Option<TaskNumber> {
        let mut waits: Vec<usize> = self.tasks.iter().map(|task| task.after.len()).collect();
        let mut followers: Vec<Vec<TaskNumber>> = vec![Vec::new(); self.tasks.len()];
        for (at, task) in self.tasks.iter().enumerate() {
            for &before in &task.after {
                followers[before as usize].push(at as TaskNumber);
            }
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|&at| waits[at] == 0).collect();
        while let Some(at) = ready.pop() {
            for &follower in &followers[at] {
                let follower = follower as usize;
                waits[follower] -= 1;
                if waits[follower] == 0 {
                    ready.push(follower);
                }
            }
        }
        waits.iter().position(|&waits| waits > 0).map(|at| at as TaskNumber)
    }
}
