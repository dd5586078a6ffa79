//! A reconfiguration brings nodes in or takes them out, and spreads the partitions anew.
//!
//! It is told what happened and answers what to do next; it never waits, sends or reads a clock.
//!
//! ```text
//! recording ─► starting ─► surveying ─► moving ─► surveying ─► … ─► removing ─► erasing
//!                              ▲           │ failed                 (nodes that left)
//!                              └─ recovering
//! ```
//!
//! The journal names what is meant to happen before anything does, and is empty again after
//! everything has. Nodes are removed only when a survey made after the last move found them empty.
//! What fails is tried again after a wait; what fails too often is undone where it can be.

mod giving_way;
mod least;
mod moving;
mod nodes;
mod resume;
mod tasks;
mod undo;

use std::collections::BTreeSet;
use std::time::Duration;

use tidefs_model::{NodeId, Time};

use self::least::Least;
use crate::events::{Action, Done, Failure, Moved, Outcome, RequestId, Summary, TaskId};
use crate::inventory::Inventory;
use crate::planner::Plan;
use crate::record::{Kind, Record};
use crate::settings::Settings;

pub use self::giving_way::{Instead, Precedence};
pub use self::tasks::Tasks;
use crate::phase::Phase;

#[derive(Debug)]
pub struct Reconfiguration {
    record: Record,
    /// How each node that comes does.
    start: Action,
    phase: Phase,
    /// Actions whose end has not been told.
    pending: BTreeSet<TaskId>,
    retry_at: Option<Time>,
    /// In a row, in this phase or in moving.
    failures: u32,
    /// Since nodes were started or removed, partitions moved or the journal written for the last time.
    in_vain: u32,
    last_failure: Option<Failure>,
    /// Nodes still to be started, and those that were.
    to_start: u16,
    joined: Vec<NodeId>,
    /// Of the actions asked for together.
    failed_actions: u16,
    to_remove: Vec<NodeId>,
    plan: Option<Plan>,
    next_step: usize,
    rounds: u32,
    /// Rounds that found no room at a target, since it began.
    crowded: u32,
    /// The round before moved less than it had planned.
    held_back: bool,
    moved: Moved,
    least: Least,
    imbalance_percent: Option<f64>,
    nodes_after: u16,
    precedence: Precedence,
    /// Why a decommission is to be given up at the next opportunity.
    cancelled: Option<String>,
    /// Somebody else comes first, and this goes no further than it must.
    cut_short: bool,
    /// A lender does, which can be served when this is over.
    lender_waits: bool,
    /// It ended where it stood, for one of them.
    ended_early: bool,
    /// Nodes that writers have met full meanwhile; `None`: one of them, and nobody says which.
    full: BTreeSet<Option<NodeId>>,
    /// The move under way is to be begun anew: somebody waits for it by now, who did not before.
    begin_anew: bool,
    /// The move under way was asked to end early.
    broken_off: bool,
    resumed: bool,
    /// What went wrong was put right since the last survey.
    recovered: bool,
    outcome: Outcome,
    /// It failed, so what could be undone was.
    gave_up: bool,
    requests: Vec<RequestId>,
    /// How long each phase took so far, in the order in which they were first entered.
    spent: Vec<(Phase, Duration)>,
    /// Until when time was accounted for.
    accounted: Option<Time>,
}

impl Reconfiguration {
    pub fn new(
        record: Record,
        start: Action,
        precedence: Precedence,
        requests: Vec<RequestId>,
    ) -> Reconfiguration {
        Reconfiguration {
            phase: Phase::Recording,
            pending: BTreeSet::new(),
            retry_at: None,
            failures: 0,
            in_vain: 0,
            last_failure: None,
            to_start: record.add,
            joined: Vec::new(),
            failed_actions: 0,
            to_remove: Vec::new(),
            plan: None,
            next_step: 0,
            rounds: 0,
            crowded: 0,
            held_back: false,
            moved: Moved::default(),
            least: Least::default(),
            imbalance_percent: None,
            nodes_after: record.nodes_before.len() as u16,
            precedence,
            cancelled: None,
            cut_short: false,
            lender_waits: false,
            ended_early: false,
            full: BTreeSet::new(),
            begin_anew: false,
            broken_off: false,
            resumed: false,
            recovered: false,
            outcome: Outcome::Completed,
            gave_up: false,
            start,
            requests,
            spent: Vec::new(),
            accounted: None,
            record,
        }
    }

    /// Counts the time since this was last called to the phase that it is in.
    pub fn account(&mut self, now: Time) {
        let passed = self.accounted.replace(now).map_or(Duration::ZERO, |until| now - until);
        match self.spent.iter_mut().find(|(phase, _)| *phase == self.phase) {
            Some((_, spent)) => *spent += passed,
            None => self.spent.push((self.phase, passed)),
        }
    }

    /// It adds nodes of this file system's own, and no lender's.
    pub fn is_growth(&self) -> bool {
        self.record.kind == Kind::Commission && matches!(self.start, Action::StartNode)
    }

    /// It was undone because it failed, and not for somebody else's sake.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Ended where it stood, since somebody else came first: what it was for is yet to be done.
    pub fn ended_early(&self) -> bool {
        self.ended_early
    }

    pub fn kind(&self) -> Kind {
        self.record.kind
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    pub fn moved(&self) -> Moved {
        self.moved
    }

    /// Bytes that the present plan has yet to move.
    pub fn bytes_left(&self) -> u64 {
        let steps = self.plan.iter().flat_map(|plan| plan.steps.iter().skip(self.next_step));
        steps.map(|step| step.bytes()).sum()
    }

    pub fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }

    /// What has failed so often in a row, with nothing done meanwhile.
    pub fn in_vain(&self) -> Option<(u32, &Failure)> {
        self.last_failure.as_ref().map(|failure| (self.in_vain, failure))
    }

    /// By hand, or by lenders.
    pub fn requests(&self) -> &[RequestId] {
        &self.requests
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub fn start(&mut self, tasks: &mut Tasks) {
        self.enter(Phase::Recording, tasks);
    }

    pub fn summary(&self, now: Time) -> Summary {
        Summary {
            kind: self.record.kind,
            reason: self.record.reason.clone(),
            started_at: self.record.started_at,
            took: now - self.record.started_at,
            nodes_before: self.record.nodes_before.len() as u16,
            nodes_after: self.nodes_after,
            partitions_moved: self.moved.partitions,
            bytes_moved: self.moved.bytes,
            bytes_minimum: self.least.bytes(),
            imbalance_percent: self.imbalance_percent,
            phases: self.spent.iter().copied().filter(|(phase, _)| *phase != Phase::Over).collect(),
            resumed: self.resumed,
            outcome: self.outcome.clone(),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time, tasks: &mut Tasks) {
        let waits = self.retry_at.is_some() && self.phase == Phase::Starting;
        if waits && self.joined.is_empty() && self.is_cut_short() {
            self.retry_at = None;
            let why = self.last_failure.as_ref().map_or(String::new(), |it| it.what.clone());
            return self.end(Outcome::Failed { why }, tasks);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.ask(tasks);
        }
    }

    pub fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }

    /// An action has ended. Ends of actions that were not asked for here are not heard.
    pub fn ended(
        &mut self,
        task: TaskId,
        result: Result<Done, Failure>,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        if !self.pending.remove(&task) {
            return;
        }
        self.count(&result);
        match (self.phase, result) {
            (Phase::Starting, result) => self.start_ended(result, now, settings, tasks),
            (Phase::Removing, result) => self.removal_ended(result, now, settings, tasks),
            (_, Ok(done)) => self.succeeded(done, now, settings, tasks),
            (phase, Err(failure)) => self.failed(phase, failure, now, settings, tasks),
        }
    }

    /// Looking and putting right do not bring a reconfiguration further by themselves.
    fn count(&mut self, result: &Result<Done, Failure>) {
        match result {
            // Of what is asked for together, the last to end counts.
            Ok(Done::Moved { moved, .. }) if moved.partitions > 0 => self.in_vain = 0,
            Err(_)
            | Ok(Done::Moved { failure: Some(_), .. } | Done::Moved { crowded: Some(_), .. })
                if self.pending.is_empty() =>
            {
                self.in_vain += 1;
            }
            Err(_) | Ok(Done::Recovered | Done::Surveyed(_)) => {}
            Ok(_) => self.in_vain = 0,
        }
    }

    fn succeeded(&mut self, done: Done, now: Time, settings: &Settings, tasks: &mut Tasks) {
        // A survey or a recovery that succeeds says nothing about whether moves will.
        if self.phase == Phase::Recording {
            self.failures = 0;
        }
        match done {
            Done::Recorded if self.record.undoing => self.enter(Phase::Surveying, tasks),
            Done::Recorded if self.turn_back(tasks) => {}
            Done::Recorded if self.to_start > 0 => self.enter(Phase::Starting, tasks),
            Done::Recovered => {
                self.recovered = true;
                self.enter(Phase::Surveying, tasks);
            }
            Done::Recorded => self.enter(Phase::Surveying, tasks),
            Done::Surveyed(inventory) => self.surveyed(&inventory, now, settings, tasks),
            Done::Moved { moved, failure: None, crowded: Some(crowded) } => {
                self.crowded(moved, crowded, now, settings, tasks);
            }
            Done::Moved { moved, failure, .. } => {
                self.step_ended(moved, failure, now, settings, tasks);
            }
            Done::Erased => self.phase = Phase::Over,
            Done::Started(_) | Done::Removed => {}
        }
    }

    fn failed(
        &mut self,
        phase: Phase,
        failure: Failure,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        self.failures += 1;
        let why = failure.what.clone();
        self.last_failure = Some(failure);
        let too_often = self.failures >= settings.tries;
        match phase {
            // Nothing but an empty journal ends a reconfiguration.
            Phase::Erasing | Phase::Over => self.retry(now, settings),
            Phase::Recording | Phase::Surveying | Phase::Recovering | Phase::Moving
                if too_often =>
            {
                self.give_up(why, tasks);
            }
            _ => self.retry(now, settings),
        }
    }

    fn retry(&mut self, now: Time, settings: &Settings) {
        self.retry_at = Some(now + settings.back_off.wait(self.failures));
    }

    fn enter(&mut self, phase: Phase, tasks: &mut Tasks) {
        self.phase = phase;
        self.ask(tasks);
    }

    /// Asks for what the phase needs; also when it is tried again.
    fn ask(&mut self, tasks: &mut Tasks) {
        let actions: Vec<_> = match self.phase {
            Phase::Recording => vec![Action::Record(self.record.clone())],
            Phase::Starting => vec![self.start.clone(); usize::from(self.to_start)],
            Phase::Recovering => vec![Action::Recover],
            Phase::Surveying => vec![Action::Survey],
            Phase::Moving => self.step().map(Action::Move).into_iter().collect(),
            Phase::Removing => self.to_remove.iter().map(|&id| Action::RemoveNode(id)).collect(),
            Phase::Erasing => vec![Action::Erase(self.summary(tasks.now))],
            Phase::Over => Vec::new(),
        };
        self.pending = actions.into_iter().map(|action| tasks.add(action)).collect();
    }

    /// Goes to the end with this outcome.
    fn end(&mut self, outcome: Outcome, tasks: &mut Tasks) {
        self.outcome = outcome;
        self.failures = 0;
        self.plan = None;
        self.enter(Phase::Erasing, tasks);
    }

    fn is_known(&self, inventory: &Inventory) -> bool {
        self.joined.iter().all(|&id| inventory.observation().node(id).is_some())
    }
}
