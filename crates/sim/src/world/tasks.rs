//! What tasks do: start when all before them have ended and a slot is free, read, compute, take room,
//! write, end; and what is deleted then.

use std::collections::{BTreeMap, VecDeque};

use tidefs_control::Event;

use super::World;
use super::events::Happening;
use crate::workflow::{Cleanup, TaskNumber, Workflow};

/// A task writes so many bytes at a time: files are cut into stripes, and one large file does not take
/// all of its room at once.
const PIECE: u64 = 1_000_000_000;

/// Where the tasks stand.
pub(super) struct Tasks {
    pub ready: VecDeque<TaskNumber>,
    pub running: u32,
    pub ended: usize,
    /// By task, how many that it comes after have not ended.
    pub awaited: Vec<u32>,
    pub followers: Vec<Vec<TaskNumber>>,
    /// By stage, tasks that have not ended.
    pub left_in_stage: Vec<u32>,
    /// By file, readers that have not ended.
    pub readers: Vec<u32>,
    /// Bytes that a task has written or is writing, where it has more than a piece to write.
    begun: BTreeMap<TaskNumber, u64>,
}

impl Tasks {
    pub fn new(workflow: &Workflow) -> Tasks {
        let mut tasks = Tasks {
            ready: VecDeque::new(),
            running: 0,
            ended: 0,
            awaited: workflow.tasks.iter().map(|task| task.after.len() as u32).collect(),
            followers: vec![Vec::new(); workflow.tasks.len()],
            left_in_stage: vec![0; workflow.stages.len()],
            readers: vec![0; workflow.files.len()],
            begun: BTreeMap::new(),
        };
        for (at, task) in workflow.tasks.iter().enumerate() {
            task.after.iter().for_each(|&it| tasks.followers[it as usize].push(at as TaskNumber));
            task.reads.iter().for_each(|&file| tasks.readers[file as usize] += 1);
            tasks.left_in_stage[usize::from(task.stage)] += 1;
            if task.after.is_empty() {
                tasks.ready.push_back(at as TaskNumber);
            }
        }
        tasks
    }
}

impl World<'_> {
    pub(super) fn start_tasks(&mut self) {
        // While the input comes, and while everything stands still, nothing starts.
        if self.suspended_since.is_some() || !self.is_staged() {
            return;
        }
        while self.tasks.running < self.slots() {
            let Some(number) = self.tasks.ready.pop_front() else { return };
            let task = &self.workflow.tasks[number as usize];
            let seconds = self.transfer(self.workflow.bytes(&task.reads)) + task.seconds;
            self.tasks.running += 1;
            self.after(seconds, Happening::Computed(number));
        }
    }

    /// Is the input there?
    pub(super) fn is_staged(&self) -> bool {
        self.seconds() >= self.workflow.input_bytes() as f64 / self.setup.bandwidth - 1e-6
    }

    pub(super) fn write(&mut self, task: TaskNumber) {
        if !self.waiting.is_empty() || !self.try_write(task) {
            self.waiting.push_back((task, self.now));
            let fullest = self.cluster.fullest();
            self.tell(Event::NodeFull(Some(fullest)));
        }
    }

    /// Takes the room for the next piece of what a task writes, if there is any.
    fn try_write(&mut self, task: TaskNumber) -> bool {
        let begun = self.tasks.begun.get(&task).copied().unwrap_or(0);
        let all = self.workflow.bytes(&self.workflow.tasks[task as usize].writes);
        let bytes = (all - begun).min(PIECE);
        if !self.cluster.has_room_for(bytes, self.settings.head_room.0) {
            return false;
        }
        self.cluster.bytes += bytes;
        if all > PIECE {
            self.tasks.begun.insert(task, begun + bytes);
        }
        let seconds = self.transfer(bytes);
        self.after(seconds, Happening::Written(task));
        true
    }

    /// A piece is written: then the next one is, or the task ends.
    pub(super) fn written(&mut self, task: TaskNumber) {
        let all = self.workflow.bytes(&self.workflow.tasks[task as usize].writes);
        match self.tasks.begun.get(&task) {
            Some(&begun) if begun < all => self.write(task),
            _ => self.end(task),
        }
    }

    /// Bytes of the piece that a task is writing.
    pub(super) fn piece(&self, task: TaskNumber) -> u64 {
        let all = self.workflow.bytes(&self.workflow.tasks[task as usize].writes);
        let begun = self.tasks.begun.get(&task).copied().unwrap_or(all);
        if begun == all && all > PIECE { (all - 1) % PIECE + 1 } else { all.min(PIECE) }
    }

    pub(super) fn try_again(&mut self) {
        if self.suspended_since.is_some() {
            return;
        }
        while let Some(&(task, since)) = self.waiting.front() {
            if !self.try_write(task) {
                return;
            }
            self.outcome.waited_seconds += (self.now - since).as_secs_f64();
            self.waiting.pop_front();
        }
    }

    pub(super) fn end(&mut self, number: TaskNumber) {
        self.tasks.begun.remove(&number);
        self.tasks.running -= 1;
        self.tasks.ended += 1;
        let task = &self.workflow.tasks[number as usize];
        for at in 0..self.tasks.followers[number as usize].len() {
            let follower = self.tasks.followers[number as usize][at];
            let awaited = &mut self.tasks.awaited[follower as usize];
            *awaited -= 1;
            if *awaited == 0 {
                self.tasks.ready.push_back(follower);
            }
        }
        self.tasks.left_in_stage[usize::from(task.stage)] -= 1;
        for &file in &task.reads {
            self.tasks.readers[file as usize] -= 1;
        }
        self.clean_up(number);
        self.start_tasks();
    }

    fn clean_up(&mut self, number: TaskNumber) {
        let task = &self.workflow.tasks[number as usize];
        let freed = match &self.workflow.cleanup {
            Cleanup::Never => 0,
            Cleanup::AfterStage(rules) => {
                let over = self.tasks.left_in_stage[usize::from(task.stage)] == 0;
                let due = rules.iter().filter(|(stage, _)| over && *stage == task.stage);
                due.map(|(_, files)| self.workflow.bytes(files)).sum()
            }
            Cleanup::WhenRead | Cleanup::These(_) => {
                let is_unread = |file: &&u32| {
                    let readers = self.tasks.readers[**file as usize];
                    readers == 0 && self.workflow.is_removed_when_read(**file)
                };
                let unread = task.reads.iter().filter(is_unread);
                unread.map(|&file| self.workflow.files[file as usize]).sum()
            }
        };
        if freed > 0 {
            self.cluster.bytes -= freed;
            self.try_again();
        }
    }
}
