//! What the controller is told, and what it answers.

use std::time::Duration;

use tidefs_model::{NodeId, Time};

use crate::inventory::Inventory;
use crate::observation::Observation;
use crate::phase::Phase;
use crate::planner::Step;
use crate::record::{Kind, Record};
use crate::request::{Refused, Request};

/// Names one action that was asked for, so that its end can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// Something to be done in the world. Every action can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write the record to the journal, in place of any other.
    Record(Record),
    /// Leave no record in the journal but how the reconfiguration ended.
    Erase(Summary),
    /// Finish or undo what a predecessor, or a failed move, left half done: moves of partitions,
    /// processes that never became nodes.
    Recover,
    /// Find out where every partition lies and how large it is.
    Survey,
    /// Start a node and let it join, holding nothing.
    StartNode,
    /// Have a node that a lender offers join, holding nothing.
    TakeIn,
    /// Move partitions; in any order, and at the same time where that can be.
    Move(Step),
    /// Let all forget a node that holds nothing, and stop it.
    RemoveNode(NodeId),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub action: Action,
}

/// How an action ended well.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    Recorded,
    Erased,
    Recovered,
    Surveyed(Inventory),
    Started(NodeId),
    /// As far as it came; a move that fails has often made a part of its way.
    Moved {
        moved: Moved,
        failure: Option<Failure>,
        /// A target had no room for what was to come, which is where it was: nothing is half moved.
        crowded: Option<Failure>,
    },
    Removed,
}

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub partitions: u32,
    pub bytes: u64,
}

/// Why an action failed, in words for people: nothing is decided on them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    pub what: String,
}

impl Failure {
    pub fn new(what: impl std::fmt::Display) -> Failure {
        Failure { what: what.to_string() }
    }
}

/// Names a request by hand; chosen by whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The controller may start; the journal held this.
    Opened(Option<Record>),
    /// The nodes as they were when they began to be asked.
    Observed(Time, Observation),
    /// The nodes could not be observed.
    NotObserved(Failure),
    /// The bandwidths of nodes, in bytes a second.
    Measured(Vec<(NodeId, u64)>),
    /// A writer met a node without room. Told again for as long as the writer waits.
    NodeFull(Option<NodeId>),
    Request(RequestId, Request),
    Ended(TaskId, Result<Done, Failure>),
    /// Time has passed.
    Tick,
}

/// What is to happen.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Do(Task),
    /// The move under way is to end soon, each partition on one node: what comes next is something
    /// else. Its end is told as usual, with what it has moved and without a failure.
    BreakOff,
    Answer(RequestId, Answer),
    /// A reconfiguration is over; for the report.
    Finished(Summary),
}

/// The end of a request by hand.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Things were as asked already.
    NothingToDo,
    Refused(Refused),
    Finished(Summary),
}

/// How a reconfiguration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    /// Some of the nodes that were wanted could not be started, or died at once.
    Partly {
        missing: u16,
        why: String,
    },
    /// Given up, and the nodes that were to leave stay; nothing was lost.
    RolledBack {
        why: String,
    },
    /// Given up; partitions lie where they came to lie.
    Failed {
        why: String,
    },
}

/// A reconfiguration that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub kind: Kind,
    pub reason: String,
    pub started_at: Time,
    pub took: Duration,
    pub nodes_before: u16,
    pub nodes_after: u16,
    pub partitions_moved: u32,
    pub bytes_moved: u64,
    /// What any plan must have moved to come from the old spread to the new one, at the sizes that
    /// partitions had when they moved. Where a predecessor began it, this and what was moved are
    /// counted from what its successor found.
    pub bytes_minimum: u64,
    /// How uneven the nodes were at the end, where they were looked at.
    pub imbalance_percent: Option<f64>,
    /// How long each phase took in all, in the order in which they were first entered.
    pub phases: Vec<(Phase, Duration)>,
    /// A predecessor began it.
    pub resumed: bool,
    pub outcome: Outcome,
}

impl Summary {
    /// Name and seconds of each phase, for people.
    pub fn phase_seconds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.phases.iter().map(|(phase, spent)| (phase.name(), spent.as_secs_f64()))
    }
}
