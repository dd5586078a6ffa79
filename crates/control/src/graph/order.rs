//! What tasks come after, when some are added to a graph, and how these are taken back where they are refused. It
//! looks at those that were added and at what they touch, since a graph is told of one task after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::{Graph, GraphError};

/// How large a graph was before a telling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    tasks: usize,
    files: usize,
    kinds: usize,
    mentions: usize,
}

impl Graph {
    pub(super) fn so_far(&self) -> Before {
        Before {
            tasks: self.tasks.len(),
            files: self.files.len(),
            kinds: self.kinds.len(),
            mentions: self.mentions,
        }
    }

    pub(super) fn has_grown(&self, before: Before) -> bool {
        self.tasks.len() > before.tasks
    }

    /// When all tasks of one telling are known: one that writes a file may be told of after one that reads it.
    pub(super) fn put_in_order(&mut self, before: Before) -> Result<(), GraphError> {
        let mut is_touched = false;
        for at in before.tasks..self.tasks.len() {
            let after = self.writers_of_input(at)?;
            self.tasks[at].after = after;
            for reader in self.readers_of_output(at) {
                if reader < before.tasks {
                    is_touched = true;
                    let after = &mut self.tasks[reader].after;
                    after.extend(after.binary_search(&at).err().map(|_| at));
                    after.sort_unstable();
                }
            }
        }
        let circle = self.circle(before.tasks, is_touched);
        let id = circle.map(|at| self.tasks[at].told.id.clone());
        id.map_or(Ok(()), |id| Err(GraphError::Circle(id)))
    }

    fn writers_of_input(&self, at: usize) -> Result<Vec<usize>, GraphError> {
        let task = &self.tasks[at];
        let mut after: Vec<usize> =
            task.reads.iter().filter_map(|&file| self.files[file].writer).collect();
        for name in &task.told.after {
            let (task, after_name) = (task.told.id.clone(), name.clone());
            let known = self.task_numbers.get(name).copied();
            after.push(known.ok_or(GraphError::UnknownAfter { task, after: after_name })?);
        }
        after.sort_unstable();
        after.dedup();
        Ok(after)
    }

    fn readers_of_output(&self, at: usize) -> Vec<usize> {
        let written = self.tasks[at].writes.iter();
        written.flat_map(|&file| self.files[file].readers.iter().copied()).collect()
    }

    /// A task that waits for itself. There was none before, and so it is one that was added, or comes after one:
    /// where no older task does, it is enough to look at those that were added, and otherwise at what they come after.
    fn circle(&self, added: usize, is_touched: bool) -> Option<usize> {
        let mut within: BTreeSet<usize> = (added..self.tasks.len()).collect();
        let mut found: Vec<usize> = within.iter().copied().collect();
        while let Some(at) = found.pop() {
            #[cfg(test)]
            looked::at_a_task();
            let more = self.tasks[at].after.iter().filter(|&&before| is_touched || before >= added);
            found.extend(more.copied().filter(|&before| within.insert(before)));
        }
        let mut waits: BTreeMap<usize, usize> = BTreeMap::new();
        let mut followers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &at in &within {
            let after = self.tasks[at].after.iter().filter(|before| within.contains(before));
            after.clone().for_each(|&before| followers.entry(before).or_default().push(at));
            waits.insert(at, after.count());
        }
        let mut ready: Vec<usize> =
            waits.iter().filter(|(_, waits)| **waits == 0).map(|(&at, _)| at).collect();
        while let Some(at) = ready.pop() {
            waits.remove(&at);
            for follower in followers.remove(&at).unwrap_or_default() {
                let left = waits.entry(follower).and_modify(|waits| *waits -= 1);
                if *left.or_default() == 0 {
                    ready.push(follower);
                }
            }
        }
        waits.keys().next().copied()
    }

    /// The tasks of a telling that is refused were never added.
    pub(super) fn take_back(&mut self, before: Before) {
        for at in before.tasks..self.tasks.len() {
            for reader in self.readers_of_output(at).into_iter().filter(|it| *it < before.tasks) {
                self.tasks[reader].after.retain(|&writer| writer < before.tasks);
            }
            let task = &self.tasks[at];
            self.task_numbers.remove(&task.told.id);
            for &file in &task.writes {
                (self.files[file].writer, self.files[file].temporary) = (None, false);
            }
        }
        for task in &self.tasks[before.tasks..] {
            let of_old = |readers: &mut Vec<usize>| readers.retain(|&it| it < before.tasks);
            task.reads.iter().for_each(|&file| of_old(&mut self.files[file].readers));
        }
        self.tasks.truncate(before.tasks);
        for file in self.files.drain(before.files..) {
            self.file_numbers.remove(&file.name);
        }
        for kind in self.kinds.drain(before.kinds..) {
            self.kind_numbers.remove(&kind);
        }
        self.mentions = before.mentions;
    }
}

/// How many tasks the search for circles has looked at, in this thread.
#[cfg(test)]
pub(super) mod looked {
    use std::cell::Cell;

    thread_local!(static TASKS: Cell<usize> = const { Cell::new(0) });

    pub fn at_a_task() {
        TASKS.set(TASKS.get() + 1);
    }

    pub fn tasks() -> usize {
        TASKS.get()
    }
}
