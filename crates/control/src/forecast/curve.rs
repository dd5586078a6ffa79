//! What a workflow is expected to do: its tasks listed on so many slots, and the memory that its files
//! take over time, cut into phases in which it rises, stays or falls.
//!
//! Tasks start as soon as all before them have ended and a slot is free, in their order. How far
//! such a list is from what will happen is found out by whoever follows it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::bound::Bound;
use super::pace::Pace;
use super::shape::Shape;
use super::stretches::stretches;
use crate::graph::Rest;
use crate::workflow::{Cleanup, Workflow};

/// Room is taken piece by piece: one large file may take minutes to write.
const PIECE: u64 = 1_000_000_000;
/// Beyond so many pieces, the rest of a file is one.
const PIECES_MOST: u64 = 1_000;
/// In place of bytes: the task ends.
const ENDS: u64 = u64::MAX;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    Rises,
    Stays,
    Falls,
}

/// A stretch of time in which the bytes go one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub course: Course,
    pub seconds: f64,
    /// In use at its beginning and at its end.
    pub from: f64,
    pub to: f64,
}

/// Expected bytes over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    pub stretches: Vec<Stretch>,
    pub peak: f64,
    pub(super) shape: Shape,
    pub(super) pace: Pace,
    /// In use at its beginning, of files that are to be staged in.
    pub(super) input: f64,
    /// Of all files together, whenever they are there; nothing where that of some was not told.
    pub(super) total: Option<f64>,
    /// Sizes of some files were not told, and they are not on the curve.
    pub(super) is_partial: bool,
    /// It is what is still to come of a run: it begins now, at whatever is in use.
    pub(super) is_rest: bool,
    /// What is still to come at most, where that is known of all of it.
    pub(super) bound: Option<Bound>,
}

impl Curve {
    /// `slots` is how many tasks run at a time, at most; each reads and writes so many bytes a second.
    pub fn new(workflow: &Workflow, slots: u32, bytes_per_second: f64, pace: Pace) -> Curve {
        let told = workflow.without_doubts();
        let points = listed(&told, slots.max(1), bytes_per_second.max(1.0), 0);
        let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
        Curve {
            stretches: stretches(&points, peak, pace),
            peak,
            shape: Shape::new(&points),
            pace,
            input: told.input_bytes() as f64,
            total: workflow.most_bytes().map(|bytes| bytes as f64),
            is_partial: !workflow.doubts.is_empty(),
            is_rest: false,
            bound: None,
        }
    }

    /// The same of what is still to come of a run.
    pub fn of_rest(rest: &Rest, slots: u32, bytes_per_second: f64, pace: Pace) -> Curve {
        let Rest { workflow, running, .. } = rest;
        let slots = rest.slots.unwrap_or(slots).max(1);
        let bound = rest.is_bounded().then(|| {
            let points = listed(workflow, slots, bytes_per_second.max(1.0), *running);
            Bound::new(workflow.input_bytes() as f64, &points)
        });
        Curve { is_rest: true, bound, ..Curve::new(workflow, slots, bytes_per_second, pace) }
    }

    /// Stretches that follow each other, each a straight line.
    pub fn of(stretches: Vec<Stretch>) -> Curve {
        let peak = stretches.iter().flat_map(|it| [it.from, it.to]).fold(0.0, f64::max);
        let shape = Shape::of(&stretches);
        let (input, total, is_partial) = (0.0, None, false);
        let (pace, is_rest) = (Pace::default(), false);
        Curve { stretches, peak, shape, pace, input, total, is_partial, is_rest, bound: None }
    }

    /// Seconds from its beginning to its end.
    pub(super) fn seconds(&self) -> f64 {
        self.begin(self.stretches.len())
    }

    /// The second at which a stretch begins.
    pub(super) fn begin(&self, at: usize) -> f64 {
        self.stretches.iter().take(at).map(|stretch| stretch.seconds).sum()
    }
}

/// The instants at which bytes change, and how many there are from then on. The first tasks, so many as
/// have `written`, have done so when it begins.
fn listed(workflow: &Workflow, slots: u32, bytes_per_second: f64, written: u32) -> Vec<(f64, f64)> {
    let mut listing = Listing { written, ..Listing::new(workflow, bytes_per_second) };
    let mut points = vec![(0.0, workflow.input_bytes() as f64)];
    loop {
        listing.start(slots);
        let Some(Reverse((at, number, bytes))) = listing.next.pop() else { break };
        let seconds = at as f64 / 1e6;
        let change = if bytes == ENDS { listing.end(at, number) } else { bytes as f64 };
        let bytes = points.last().map_or(0.0, |point| point.1) + change;
        match points.last_mut() {
            Some(last) if last.0 == seconds => last.1 = bytes,
            _ => points.push((seconds, bytes)),
        }
    }
    points
}

struct Listing<'w> {
    workflow: &'w Workflow,
    bytes_per_second: f64,
    written: u32,
    awaited: Vec<u32>,
    followers: Vec<Vec<u32>>,
    readers: Vec<u32>,
    left_in_stage: Vec<u32>,
    ready: VecDeque<u32>,
    running: u32,
    /// Microseconds at which tasks begin to write so many bytes, or end.
    next: BinaryHeap<Reverse<(u64, u32, u64)>>,
    now: u64,
}

impl<'w> Listing<'w> {
    fn new(workflow: &'w Workflow, bytes_per_second: f64) -> Listing<'w> {
        let tasks = &workflow.tasks;
        let mut listing = Listing {
            workflow,
            bytes_per_second,
            written: 0,
            awaited: tasks.iter().map(|task| task.after.len() as u32).collect(),
            followers: vec![Vec::new(); tasks.len()],
            readers: vec![0; workflow.files.len()],
            left_in_stage: vec![0; workflow.stages.len()],
            ready: VecDeque::new(),
            running: 0,
            next: BinaryHeap::new(),
            now: 0,
        };
        for (at, task) in tasks.iter().enumerate() {
            task.after.iter().for_each(|&it| listing.followers[it as usize].push(at as u32));
            task.reads.iter().for_each(|&file| listing.readers[file as usize] += 1);
            listing.left_in_stage[usize::from(task.stage)] += 1;
            if task.after.is_empty() {
                listing.ready.push_back(at as u32);
            }
        }
        listing
    }

    fn start(&mut self, slots: u32) {
        while self.running < slots
            && let Some(number) = self.ready.pop_front()
        {
            self.running += 1;
            let task = &self.workflow.tasks[number as usize];
            let carried = |files: &[u32]| self.workflow.bytes(files) as f64 / self.bytes_per_second;
            let begins = self.now as f64 + (task.seconds + carried(&task.reads)) * 1e6;
            let bytes = self.workflow.bytes(&task.writes);
            for piece in 0..bytes.div_ceil(PIECE).min(PIECES_MOST) {
                let before = piece * PIECE;
                let at = match number < self.written {
                    // It may have begun before others have ended that it comes after.
                    true => self.now as f64,
                    false => begins + before as f64 / self.bytes_per_second * 1e6,
                };
                let last = piece + 1 == PIECES_MOST;
                let size = if last { bytes - before } else { PIECE.min(bytes - before) };
                self.next.push(Reverse((at as u64, number, size)));
            }
            let ends = begins + carried(&task.writes) * 1e6;
            self.next.push(Reverse((ends as u64, number, ENDS)));
        }
    }

    /// By how much the bytes change when the task ends.
    fn end(&mut self, at: u64, number: u32) -> f64 {
        self.now = at;
        self.running -= 1;
        let workflow = self.workflow;
        let task = &workflow.tasks[number as usize];
        for follower in std::mem::take(&mut self.followers[number as usize]) {
            self.awaited[follower as usize] -= 1;
            if self.awaited[follower as usize] == 0 {
                self.ready.push_back(follower);
            }
        }
        self.left_in_stage[usize::from(task.stage)] -= 1;
        task.reads.iter().for_each(|&file| self.readers[file as usize] -= 1);
        let freed: u64 = match &workflow.cleanup {
            Cleanup::Never => 0,
            Cleanup::AfterStage(rules) => {
                let over = self.left_in_stage[usize::from(task.stage)] == 0;
                let due = rules.iter().filter(|(stage, _)| over && *stage == task.stage);
                due.map(|(_, files)| workflow.bytes(files)).sum()
            }
            Cleanup::WhenRead | Cleanup::These(_) => {
                let is_dead = |file: &&u32| {
                    self.readers[**file as usize] == 0 && workflow.is_removed_when_read(**file)
                };
                let dead = task.reads.iter().filter(is_dead);
                dead.map(|&file| workflow.files[file as usize]).sum()
            }
        };
        -(freed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{Doubt, Task};

    /// Eight tasks of 100 s that write 10 bytes each on two slots, one of 1,000 s that writes nothing
    /// and after which all of that is deleted, and eight more as before.
    fn workflow() -> Workflow {
        let writes = |seconds: f64, file: u32, after: Vec<u32>, stage| Task {
            stage,
            seconds,
            writes: vec![file],
            after,
            ..Task::default()
        };
        let mut tasks: Vec<Task> = (0..8).map(|at| writes(100.0, at, Vec::new(), 0)).collect();
        tasks.push(Task { stage: 1, seconds: 1_000.0, after: (0..8).collect(), ..Task::default() });
        tasks.extend((8..16).map(|at| writes(100.0, at, vec![8], 2)));
        Workflow {
            stages: ["write", "wait", "again"].map(str::to_owned).to_vec(),
            tasks,
            files: vec![10; 16],
            cleanup: Cleanup::AfterStage(vec![(1, (0..8).collect())]),
            ..Workflow::default()
        }
    }

    #[test]
    fn a_workflow_becomes_stretches_of_one_course() {
        let curve = Curve::new(&workflow(), 2, 1e12, Pace::default());
        assert_eq!(curve.peak, 80.0);
        let seconds: f64 = curve.stretches.iter().map(|stretch| stretch.seconds).sum();
        assert!((seconds - 1_800.0).abs() < 1.0, "{seconds}");
        let falls = |it: &&Stretch| it.course == Course::Falls;
        assert_eq!(curve.stretches.iter().filter(falls).count(), 1);
        let longest = curve.stretches.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let longest = longest.expect("stretches");
        assert_eq!((longest.course, longest.from, longest.to), (Course::Stays, 80.0, 80.0));
        assert!((900.0..=1_010.0).contains(&longest.seconds), "{longest:?}");
    }

    #[test]
    fn slow_transfers_and_few_slots_make_it_longer() {
        let seconds = |slots, rate| {
            let curve = Curve::new(&workflow(), slots, rate, Pace::default());
            curve.stretches.iter().map(|stretch| stretch.seconds).sum::<f64>()
        };
        assert!(seconds(1, 1e12) > seconds(2, 1e12) + 700.0);
        assert!(seconds(2, 1.0) > seconds(2, 1e12) + 60.0);
        let empty = Curve::new(&Workflow::default(), 1, 1.0, Pace::default());
        assert!(empty.stretches.len() <= 1);
    }

    /// News of a task that runs may come before those of the end of one that it comes after.
    #[test]
    fn no_point_lies_before_another_whatever_is_told_to_run() {
        let workflow = workflow();
        for running in 0..=workflow.tasks.len() as u32 {
            let points = listed(&workflow, 2, 1e12, running);
            assert!(points.is_sorted_by(|one, next| one.0 <= next.0), "{running}: {points:?}");
        }
    }

    #[test]
    fn sizes_that_were_not_told_are_on_no_curve() {
        let mut doubted = workflow();
        (0..8).for_each(|file| doubted.doubts.extend([(file, Doubt::AtMost)]));
        let curve = Curve::new(&doubted, 2, 1e12, Pace::default());
        assert_eq!((curve.peak, curve.total, curve.is_partial), (80.0, Some(160.0), true));
        assert_eq!(curve.shape.at(900.0), 0.0, "the first eight files may be of any size");
        doubted.doubts.extend([(0, Doubt::Guess)]);
        assert_eq!(Curve::new(&doubted, 2, 1e12, Pace::default()).total, None);
    }
}
