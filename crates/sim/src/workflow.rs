//! A workflow: tasks that read and write whole files.
//!
//! A task may start when all that it comes after have ended. What becomes of files that nobody needs
//! any more is part of the workflow, since it is its scheduler that deletes them.

mod built_in;
mod wfformat;

pub use built_in::{BuiltIn, ParseBuiltInError};
pub use wfformat::WfError;

/// Number of a task, and of a file.
pub type TaskNumber = u32;
pub type FileNumber = u32;

#[derive(Clone, Debug, Default, PartialEq)]
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
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cleanup {
    #[default]
    Never,
    /// These files when all tasks of the stage have ended.
    AfterStage(Vec<(u16, Vec<FileNumber>)>),
    /// Each file that is read at all when its last reader has ended.
    WhenRead,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workflow {
    pub name: String,
    pub stages: Vec<String>,
    pub tasks: Vec<Task>,
    /// Bytes of each file.
    pub files: Vec<u64>,
    /// Files that no task writes; they are staged in at the start.
    pub input: Vec<FileNumber>,
    pub cleanup: Cleanup,
}

impl Workflow {
    pub fn input_bytes(&self) -> u64 {
        self.input.iter().map(|&file| self.files[file as usize]).sum()
    }

    pub fn bytes(&self, files: &[FileNumber]) -> u64 {
        files.iter().map(|&file| self.files[file as usize]).sum()
    }

    fn stage(&mut self, name: &str) -> u16 {
        let known = self.stages.iter().position(|stage| stage == name);
        let at = known.unwrap_or_else(|| {
            self.stages.push(name.to_owned());
            self.stages.len() - 1
        });
        at as u16
    }

    fn file(&mut self, bytes: f64) -> FileNumber {
        self.files.push(bytes.max(0.0) as u64);
        (self.files.len() - 1) as FileNumber
    }

    fn task(&mut self, task: Task) -> TaskNumber {
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
