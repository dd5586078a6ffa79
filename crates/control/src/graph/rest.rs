//! What of a workflow is still to come, as a workflow of its own: the tasks that have not ended, with what those of
//! their kinds that have ended took and wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_model::Time;

use super::{File, Graph, Known, State};
use crate::workflow::{Cleanup, Doubt, FileNumber, Task, Workflow};

/// A task of which nobody told how long it takes, and none of its kind has ended.
const ASSUMED_SECONDS: f64 = 60.0;
/// A task that has run for longer than its kind goes on for this part of the time.
const LONGER: f64 = 0.1;
/// Told sizes are believed to be off by this factor at most.
const FACTOR_MOST: f64 = 16.0;

/// The part of a workflow that is still to come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Files that are there are its input.
    pub workflow: Workflow,
    /// So many tasks run at a time, as was told or seen.
    pub slots: Option<u32>,
    /// So many tasks run, the first ones.
    pub running: u32,
}

impl Rest {
    /// Whether it is known how large all that is to come will be at most, or else what to think of it. Of
    /// a task that runs and of which nobody said anything it is not.
    pub fn is_bounded(&self) -> bool {
        let Workflow { tasks, doubts, files, .. } = &self.workflow;
        let guessed = |file: &FileNumber| doubts.get(file) == Some(&Doubt::Guess);
        let mut runs = tasks.iter().take(self.running as usize).flat_map(|task| &task.writes);
        let mut unseen = doubts.keys().filter(|&&file| files[file as usize] == 0);
        !runs.any(guessed) && !unseen.any(guessed)
    }
}

/// What tasks of one kind that have ended took and wrote, in all.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    timed: u32,
    seconds: f64,
    /// Tasks of which all sizes were told when they ended.
    sized: u32,
    bytes: u64,
    /// What had been told of the same files, where it had.
    told: u64,
    of_told: u64,
}

impl Graph {
    /// What is still to come at an instant.
    pub fn rest(&self, now: Time) -> Rest {
        let seen = self.seen();
        let mut left: Vec<usize> = (0..self.tasks.len()).filter(|&at| self.is_left(at)).collect();
        // What runs is listed before what waits.
        left.sort_by_key(|&at| self.tasks[at].state == State::Waits);
        let numbers: BTreeMap<usize, u32> =
            left.iter().enumerate().map(|(number, &at)| (at, number as u32)).collect();
        let mut workflow = Workflow { stages: self.kinds.clone(), ..Workflow::default() };
        for (number, file) in self.files.iter().enumerate() {
            let bytes = match file.writer {
                Some(writer) if self.is_left(writer) => {
                    let (bytes, doubt) = self.expected(file, &self.tasks[writer], &seen);
                    workflow.doubts.extend(doubt.map(|doubt| (number as FileNumber, doubt)));
                    bytes
                }
                _ if file.removed => 0,
                _ => {
                    workflow.input.push(number as FileNumber);
                    file.seen.or(file.told).unwrap_or(0)
                }
            };
            workflow.files.push(bytes);
        }
        for &at in &left {
            let task = &self.tasks[at];
            workflow.tasks.push(Task {
                stage: task.kind as u16,
                seconds: seconds(task, &seen[task.kind], now),
                reads: task.reads.iter().map(|&file| file as FileNumber).collect(),
                writes: task.writes.iter().map(|&file| file as FileNumber).collect(),
                after: task
                    .after
                    .iter()
                    .filter_map(|before| numbers.get(before).copied())
                    .collect(),
            });
        }
        workflow.cleanup = Cleanup::These(self.removed_in_time());
        let running = left.iter().filter(|&&at| matches!(self.tasks[at].state, State::Runs { .. }));
        let running = running.count() as u32;
        let slots = self.slots.or((running > 0).then_some(running)).map(|told| told.max(running));
        Rest { workflow, slots, running }
    }

    fn removed_in_time(&self) -> BTreeSet<FileNumber> {
        let files = self.files.iter().enumerate().filter(|(_, it)| it.temporary && !it.target);
        files.map(|(number, _)| number as FileNumber).collect()
    }

    pub(super) fn is_left(&self, task: usize) -> bool {
        !matches!(self.tasks[task].state, State::Finished { .. })
    }

    fn seen(&self) -> Vec<Seen> {
        let mut kinds = vec![Seen::default(); self.kinds.len()];
        for task in &self.tasks {
            let State::Finished { took } = task.state else { continue };
            let seen = &mut kinds[task.kind];
            if let Some(took) = took {
                seen.timed += 1;
                seen.seconds += took.as_secs_f64();
            }
            let files: Vec<&File> = task.writes.iter().map(|&file| &self.files[file]).collect();
            if files.iter().all(|file| file.seen.is_some()) {
                seen.sized += 1;
                seen.bytes += files.iter().filter_map(|file| file.seen).sum::<u64>();
            }
            for (told, bytes) in files.iter().filter_map(|file| file.told.zip(file.seen)) {
                seen.told += told;
                seen.of_told += bytes;
            }
        }
        kinds
    }

    /// Of a file that is still to come: as its kind was seen, or else as it was told.
    fn expected(&self, file: &File, writer: &Known, all: &[Seen]) -> (u64, Option<Doubt>) {
        let seen = &all[writer.kind];
        let files = writer.writes.len().max(1) as u64;
        if let Some(told) = file.told {
            let factor = match seen.told {
                0 => 1.0,
                told => (seen.of_told as f64 / told as f64).clamp(1.0 / FACTOR_MOST, FACTOR_MOST),
            };
            return ((told as f64 * factor) as u64, None);
        }
        let each_most = writer.told.bytes_most.map(|most| most / files);
        if seen.sized > 0 {
            return (seen.bytes / u64::from(seen.sized) / files, None);
        }
        match each_most {
            Some(most) => (most, Some(Doubt::AtMost)),
            None => (largest(all) / files, Some(Doubt::Guess)),
        }
    }
}

/// What tasks of the kind that wrote most wrote each: of a task of which nobody said anything, the best guess.
fn largest(seen: &[Seen]) -> u64 {
    let means = seen.iter().filter_map(|kind| kind.bytes.checked_div(u64::from(kind.sized)));
    means.max().unwrap_or(0)
}

/// That a task still takes.
fn seconds(task: &Known, seen: &Seen, now: Time) -> f64 {
    let mean = (seen.timed > 0).then(|| seen.seconds / f64::from(seen.timed));
    let all = mean.or(task.told.seconds).unwrap_or(ASSUMED_SECONDS);
    match task.state {
        State::Runs { since } => {
            let run = if now > since { now - since } else { Duration::ZERO }.as_secs_f64();
            (all - run).max(LONGER * run.min(all))
        }
        _ => all,
    }
}
