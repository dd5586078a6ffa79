//! The controller: one loop's state, told what happened and answering what to do.
//!
//! One reconfiguration is under way at a time. While there is none, each observation leads to a
//! decision, which is kept with its numbers and its reason, also when it is to do nothing. A writer
//! that meets a full node is heard at once. Requests by hand wait for their turn.

mod acting;
mod asking;
mod held_back;
mod lenders;
mod shares;
mod still_full;

use std::collections::VecDeque;

use tidefs_model::{NodeId, Time};

pub use self::asking::Growth;

use self::held_back::{Aim, HeldBack};
use self::lenders::LENDERS_MOST;
use self::still_full::StillFull;
use crate::bandwidth::Bandwidths;
use crate::decide::{Quiet, REBALANCE_PAUSE, Uneven};
use crate::decision::Decision;
use crate::events::{Action, Answer, Command, Done, Event, Failure, Outcome, RequestId, TaskId};
use crate::forecast::{Curve, Forecaster};
use crate::in_vain::InVain;
use crate::observation::Observation;
use crate::reconfiguration::{Reconfiguration, Tasks};
use crate::record::{Kind, Record};
use crate::request::{Refused, Request, grant};
use crate::settings::{Settings, SettingsError};
use crate::shares_held::SharesHeld;
use crate::silence::Silence;
use crate::slope::Slope;

/// More requests by hand than this do not wait.
const REQUESTS_MOST: usize = 16;
/// Whoever waits for room where no node may be added hears after so many spreadings that there is none.
const IN_A_ROW_MOST: u32 = 32;

#[derive(Debug)]
enum State {
    /// Nothing is known of a predecessor yet.
    New,
    /// What a predecessor left half done is being put right.
    Opening {
        record: Option<Record>,
        task: TaskId,
        retry_at: Option<Time>,
        failures: u32,
        last_failure: Option<Failure>,
    },
    Idle,
    Busy(Box<Reconfiguration>),
}

impl State {
    fn opening(record: Option<Record>, task: TaskId) -> State {
        State::Opening { record, task, retry_at: None, failures: 0, last_failure: None }
    }
}

/// Putting right what ended nodes or a predecessor left has failed, and is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery<'c> {
    /// In a row.
    pub failures: u32,
    pub last_failure: &'c Failure,
    /// `None` while it is being tried.
    pub retry_at: Option<Time>,
}

#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    state: State,
    tasks: Tasks,
    observed: Observation,
    observed_at: Option<Time>,
    /// The event that is being answered shows nodes that have ended.
    died: bool,
    /// Observations from before this say nothing of what is.
    changed_at: Option<Time>,
    quiet: Quiet,
    silence: Silence,
    slope: Slope,
    uneven: Uneven,
    shares: SharesHeld,
    bandwidths: Bandwidths,
    full: Option<Option<NodeId>>,
    still_full: StillFull,
    requests: VecDeque<(RequestId, Request)>,
    /// Those who want these nodes back, the first that asked first.
    lenders: Vec<(RequestId, NodeId)>,
    /// Somebody has asked for something, and what was observed before that does not count.
    asked_at: Option<Time>,
    /// Why the nodes could not be observed the last time.
    blind: Option<String>,
    last_rebalance: Option<Time>,
    /// Data was spread anew, and that is as well as it can be for now.
    moved_nothing: Option<Time>,
    in_vain: Option<InVain>,
    /// How often data was spread anew, each time right after the last.
    in_a_row: u32,
    held: HeldBack,
    decision: Option<Decision>,
    forecaster: Option<Forecaster>,
}

impl Controller {
    pub fn new(settings: Settings) -> Result<Controller, SettingsError> {
        settings.check()?;
        Ok(Controller {
            settings,
            state: State::New,
            tasks: Tasks::default(),
            observed: Observation::default(),
            observed_at: None,
            died: false,
            changed_at: None,
            quiet: Quiet::default(),
            silence: Silence::default(),
            slope: Slope::default(),
            uneven: Uneven::default(),
            shares: SharesHeld::default(),
            bandwidths: Bandwidths::default(),
            full: None,
            still_full: StillFull::default(),
            requests: VecDeque::new(),
            lenders: Vec::new(),
            asked_at: None,
            blind: None,
            last_rebalance: None,
            moved_nothing: None,
            in_vain: None,
            in_a_row: 0,
            held: HeldBack::default(),
            decision: None,
            forecaster: None,
        })
    }

    /// The forecast is asked before the thresholds are.
    pub fn with_forecast(self, forecaster: Forecaster) -> Controller {
        Controller { forecaster: Some(forecaster), ..self }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn observed(&self) -> &Observation {
        &self.observed
    }

    pub fn bandwidths(&self) -> &Bandwidths {
        &self.bandwidths
    }

    pub fn last_decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    pub fn reconfiguration(&self) -> Option<&Reconfiguration> {
        match &self.state {
            State::Busy(reconfiguration) => Some(reconfiguration),
            _ => None,
        }
    }

    /// `None` where nothing has failed that comes before everything else.
    pub fn recovery(&self) -> Option<Recovery<'_>> {
        match &self.state {
            State::Opening { retry_at, failures, last_failure: Some(last_failure), .. } => {
                Some(Recovery { failures: *failures, last_failure, retry_at: *retry_at })
            }
            _ => None,
        }
    }

    /// Nothing is under way, and what a predecessor left is put right.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// When something is to be done even if nothing happens until then.
    pub fn wake_at(&self) -> Option<Time> {
        match &self.state {
            State::Opening { retry_at, .. } => *retry_at,
            State::Busy(reconfiguration) => reconfiguration.retry_at(),
            State::New | State::Idle => None,
        }
    }

    /// Takes in what happened and says what is to happen. `now` must not go back.
    pub fn apply(&mut self, now: Time, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.tasks.now = now;
        if let State::Busy(reconfiguration) = &mut self.state {
            reconfiguration.account(now);
        }
        self.died = false;
        match event {
            Event::Opened(record) => self.open(record),
            Event::Observed(at, observed) => self.observe(at, observed),
            Event::NotObserved(failure) => self.blind = Some(failure.what),
            Event::Measured(rates) => self.measured(now, &rates),
            Event::NodeFull(node) => self.node_full(now, node),
            Event::Request(id, request) => self.request(id, request, &mut commands),
            Event::Ended(task, result) => self.ended(now, task, result),
            Event::Tick => self.tick(now),
        }
        self.heed_lenders(now);
        self.break_off(&mut commands);
        self.finish(now, &mut commands);
        self.go_on(now, &mut commands);
        commands.extend(self.tasks.open.drain(..).map(Command::Do));
        commands
    }

    fn open(&mut self, record: Option<Record>) {
        if matches!(self.state, State::New) {
            let task = self.tasks.add(Action::Recover);
            self.state = State::opening(record, task);
        }
    }

    fn observe(&mut self, at: Time, observed: Observation) {
        self.quiet.observe(at, &observed, self.settings.policy.scale_in.as_ref());
        self.silence.observe(at, &observed);
        self.slope.observe(at, &observed);
        self.uneven.observe(at, &observed, &self.settings.spreading, self.in_vain.as_ref());
        self.shares.observe(at, &observed, &self.settings.spreading);
        if let Some(forecaster) = &mut self.forecaster {
            forecaster.observe(at, &observed, &self.settings);
        }
        self.died = observed.ended().next().is_some();
        self.observed = observed;
        self.observed_at = Some(at);
        self.blind = None;
    }

    /// What of a workflow is still to come was told; `anew`, of another one than before. Where no forecast was
    /// followed, one is from now on.
    pub fn foresee(&mut self, rest: Curve, anew: bool) {
        match &mut self.forecaster {
            Some(forecaster) => forecaster.retell(rest, anew),
            None => self.forecaster = Some(Forecaster::new(rest)),
        }
    }

    /// A move may take as long as its limit says, and whatever else is to be done waits behind it.
    fn break_off(&mut self, commands: &mut Vec<Command>) {
        if let State::Busy(reconfiguration) = &mut self.state
            && reconfiguration.breaks_off(self.died)
        {
            commands.push(Command::BreakOff);
        }
    }

    /// Before the first observation nobody can say which nodes are there.
    fn measured(&mut self, now: Time, rates: &[(NodeId, u64)]) {
        let Some(watch) = self.settings.watch else { return };
        let observed = self.observed_at.map(|_| &self.observed);
        let is_there = |node: NodeId| observed.is_none_or(|it| it.node(node).is_some());
        self.bandwidths.measured(now, rates, is_there, &watch);
    }

    /// What was measured is what shares rest on from now on.
    fn adopt_bandwidths(&mut self, now: Time) {
        if let Some(watch) = &self.settings.watch {
            self.bandwidths.adopt(now, watch);
        }
    }

    fn node_full(&mut self, now: Time, node: Option<NodeId>) {
        self.quiet.reset();
        let growth = self.growth_instead(now, node);
        match &mut self.state {
            State::Busy(reconfiguration) => {
                let shrank_by_itself = reconfiguration.takes_away_unasked();
                if let Some(forecaster) = self.forecaster.as_mut().filter(|_| shrank_by_itself) {
                    forecaster.node_full(now);
                }
                reconfiguration.hurry(node);
                self.still_full.told(now, node);
                if growth.is_some_and(|growth| reconfiguration.is_worse_than(growth, node)) {
                    reconfiguration.cut_short();
                }
            }
            _ => {
                // Told again it changes nothing: else no observation would ever be new enough.
                if self.full.is_none() {
                    self.asked_at = self.asked_at.max(Some(self.tasks.now));
                }
                self.full = Some(node);
                if let Some(forecaster) = &mut self.forecaster {
                    forecaster.node_full(self.tasks.now);
                }
            }
        }
    }

    fn request(&mut self, id: RequestId, request: Request, commands: &mut Vec<Command>) {
        let (waiting, most) = match request {
            Request::GiveBack(_) => (self.lenders.len(), LENDERS_MOST),
            _ => (self.requests.len(), REQUESTS_MOST),
        };
        if waiting >= most {
            let refused = Refused::TooManyRequests { waiting };
            return commands.push(Command::Answer(id, Answer::Refused(refused)));
        }
        self.asked_at = self.asked_at.max(Some(self.tasks.now));
        match request {
            Request::GiveBack(node) => self.lenders.push((id, node)),
            _ => self.requests.push_back((id, request)),
        }
    }

    fn ended(&mut self, now: Time, ended: TaskId, result: Result<Done, Failure>) {
        if let Ok(Done::Surveyed(inventory)) = &result {
            self.shares.measured(inventory);
        }
        match &mut self.state {
            State::Busy(reconfiguration) => {
                let result = result.map(|done| match done {
                    Done::Surveyed(inventory) => {
                        Done::Surveyed(inventory.with_bandwidths(self.bandwidths.planned().clone()))
                    }
                    done => done,
                });
                reconfiguration.ended(ended, result, now, &self.settings, &mut self.tasks);
            }
            State::Opening { record, task, retry_at, failures, last_failure } if *task == ended => {
                match result {
                    Ok(_) => {
                        let record = record.take();
                        self.opened(now, record);
                    }
                    Err(failure) => {
                        *failures += 1;
                        *last_failure = Some(failure);
                        *retry_at = Some(now + self.settings.back_off.wait(*failures));
                    }
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, now: Time, record: Option<Record>) {
        self.changed_at = Some(now);
        self.state = match record {
            None => State::Idle,
            Some(record) => {
                self.adopt_bandwidths(now);
                State::Busy(Box::new(Reconfiguration::resume(record, &mut self.tasks)))
            }
        };
    }

    fn tick(&mut self, now: Time) {
        match &mut self.state {
            State::Busy(reconfiguration) => reconfiguration.tick(now, &mut self.tasks),
            State::Opening { task, retry_at, .. } if retry_at.is_some_and(|at| at <= now) => {
                *retry_at = None;
                *task = self.tasks.add(Action::Recover);
            }
            _ => {}
        }
    }

    /// Closes a reconfiguration that is over.
    fn finish(&mut self, now: Time, commands: &mut Vec<Command>) {
        let State::Busy(reconfiguration) = &self.state else { return };
        if !reconfiguration.is_over() {
            return;
        }
        let summary = reconfiguration.summary(now);
        self.slope.reconfigured(&summary);
        if let Some(forecaster) = &mut self.forecaster {
            forecaster.reconfigured(&summary);
        }
        for &id in reconfiguration.requests() {
            commands.push(Command::Answer(id, Answer::Finished(summary.clone())));
        }
        match &summary.outcome {
            Outcome::RolledBack { why } if reconfiguration.gave_up() => {
                let aim = Aim::of(reconfiguration);
                self.held.failed(aim, now, why.clone(), false, &self.settings.back_off);
            }
            Outcome::Failed { why } | Outcome::Partly { why, .. } => {
                self.bandwidths.disown();
                // Nodes that hold nothing help nobody.
                let is_of_use = summary.partitions_moved > 0
                    || matches!(summary.outcome, Outcome::Partly { .. });
                let grew = reconfiguration.is_growth()
                    && is_of_use
                    && summary.nodes_after > summary.nodes_before;
                let aim = Aim::of(reconfiguration);
                self.held.failed(aim, now, why.clone(), grew, &self.settings.back_off);
            }
            Outcome::Completed | Outcome::RolledBack { .. } => {
                self.held.succeeded(Aim::of(reconfiguration));
            }
        }
        if summary.partitions_moved > 0 {
            self.in_vain = None;
        }
        if reconfiguration.ended_early() {
            self.bandwidths.disown();
        }
        if summary.kind == Kind::Rebalance {
            let soon = |last: Time| summary.started_at - last < REBALANCE_PAUSE;
            self.in_a_row =
                if self.last_rebalance.is_some_and(soon) { self.in_a_row + 1 } else { 1 };
            self.last_rebalance = Some(now);
            // There is always something that could lie better while others write.
            // One that failed, or made way, says nothing of what it could have moved.
            let nothing = summary.partitions_moved == 0
                && summary.outcome == Outcome::Completed
                && !reconfiguration.ended_early();
            let in_vain = nothing || self.in_a_row >= IN_A_ROW_MOST;
            self.moved_nothing = in_vain.then_some(now);
            if nothing {
                self.in_vain = Some(InVain::new(&self.observed, self.shares.off()));
            }
        }
        self.changed_at = Some(now);
        // What changed nothing says nothing of how long there has been rest.
        if summary.partitions_moved > 0 || summary.nodes_after != summary.nodes_before {
            self.quiet.reset();
        }
        self.uneven.reset();
        self.shares.reset();
        self.full = None;
        self.still_full.ended(now);
        self.state = State::Idle;
        commands.push(Command::Finished(summary));
    }

    /// Decides, when nothing is under way and the nodes have been seen as they are now.
    fn go_on(&mut self, now: Time, commands: &mut Vec<Command>) {
        if self.is_idle() && self.is_out_of_date(now) {
            return self.see_nothing(now, commands);
        }
        if !self.is_idle() || !self.has_seen_what_is() {
            return;
        }
        let dead: Vec<_> = self.observed.ended().map(|node| node.id).collect();
        if !dead.is_empty() {
            return self.expunge(now, dead);
        }
        if self.give_back(now, commands) {
            return;
        }
        while let Some((id, request)) = self.requests.pop_front() {
            match grant(request, &self.observed, &self.settings) {
                Ok(Some(verdict)) => return self.carry_out(now, verdict, vec![id], None),
                Ok(None) => commands.push(Command::Answer(id, Answer::NothingToDo)),
                Err(refused) => commands.push(Command::Answer(id, Answer::Refused(refused))),
            }
        }
        let still_full = self.still_full.take(&self.observed);
        let full = self.full.take().or(still_full);
        let verdict = self.verdict(now, full);
        self.carry_out(now, verdict, Vec::new(), full);
    }
}
