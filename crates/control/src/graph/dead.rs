//! Files that no task of the workflow will read again.

use super::{File, Graph};

/// A file that a task wrote, that tasks read, and whose last reader has ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadFile<'g> {
    pub name: &'g str,
    /// As large as its writer was seen to leave it; `None` where nobody told.
    pub bytes: Option<u64>,
    /// What its writer and its readers wrote besides: one of these may be a link to it.
    pub written_beside: Vec<&'g str>,
}

impl Graph {
    /// Those that are there still, in the order in which they were told of. Never a file that was
    /// asked for, one that no task of the graph wrote, or one that no task reads: that is a result. Nor
    /// one of which the workflow says that it removes it.
    pub fn dead(&self) -> impl Iterator<Item = DeadFile<'_>> {
        let dead = self.files.iter().filter(|file| self.has_died(file));
        dead.map(|file| {
            let tasks = file.readers.iter().chain(&file.writer);
            let writes = tasks.flat_map(|&task| &self.tasks[task].writes);
            let names = writes.map(|&it| self.files[it].name.as_str());
            DeadFile {
                name: &file.name,
                bytes: file.seen,
                written_beside: names.filter(|name| *name != file.name).collect(),
            }
        })
    }

    /// Whether a file is one of them.
    pub fn is_dead(&self, name: &str) -> bool {
        self.file_numbers.get(name).is_some_and(|&number| self.has_died(&self.files[number]))
    }

    fn has_died(&self, file: &File) -> bool {
        let ended = |task: usize| !self.is_left(task);
        let is_result = file.target || file.readers.is_empty();
        let goes_anyway = file.temporary && !self.guesses_temporary;
        let stays = is_result || goes_anyway || file.removed;
        let is_written = file.writer.is_some_and(ended);
        !stays && is_written && file.readers.iter().all(|&it| ended(it))
    }

    /// Notes that a file is gone; one that nobody has told of changes nothing.
    pub fn has_removed(&mut self, name: &str) {
        if let Some(&number) = self.file_numbers.get(name) {
            self.is_gone(number, true);
        }
    }
}
