//! A rescaling as a state machine: it says what is to be called, is told what came back, and at what time.
//!
//! It calls nothing, waits for nothing and reads no clock; [`drive`](crate::rescale()) does. What callbacks
//! say is noted; what is believed is the inventory, and only one that was asked for afterwards.
//!
//! A move that came back leaves its bucket where it was until an inventory has it on the new server alone.
//! A server that leaves is stopped once an inventory that was asked for after the last move of it has
//! nothing there.

mod ending;
mod moving;
mod planning;
mod queue;
mod servers;
mod survey;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::queue::Queue;
use self::world::World;
use crate::call::{Answer, Call, CallId, Running};
use crate::outcome::{Fault, Outcome, Progress};
use crate::plan::{Change, Refused};
use crate::settings::Settings;

/// Faults that are kept; the others are counted.
const FAULTS_KEPT: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no inventory yet.
    Looking,
    /// The first plan is awaited; nothing was changed.
    Planning,
    Going,
    Over,
}

/// One change of servers on its way.
#[derive(Debug)]
pub struct Rescaling {
    change: Change,
    settings: Settings,
    phase: Phase,
    world: World,
    queue: Queue,
    running: BTreeMap<CallId, Running>,
    ids: u64,
    /// Counts calls and returns; tells which inventory was asked for after which return.
    event: u64,
    begun: Duration,
    /// When the last inventory was asked for.
    looked: Option<Duration>,
    /// The event at which the last inventory that came was asked for, and the one at which a look was
    /// wished for something that nothing else tells.
    looked_at: u64,
    look_after: u64,
    /// Inventories in a row that could not be had.
    blind: u32,
    /// Buckets whose move came back, and those that are missing.
    returned: BTreeSet<usize>,
    missing: BTreeSet<usize>,
    plan_anew: bool,
    /// Servers that came and are taken back.
    rolled_back: BTreeSet<usize>,
    outcome: Outcome,
    refused: Option<Refused>,
}

impl Rescaling {
    /// `now` is the time since any moment; later times are of the same clock.
    pub fn new(change: Change, settings: Settings, now: Duration) -> Rescaling {
        Rescaling {
            change,
            settings: settings.usable(),
            phase: Phase::Looking,
            world: World::default(),
            queue: Queue::default(),
            running: BTreeMap::new(),
            ids: 0,
            event: 0,
            begun: now,
            looked: None,
            looked_at: 0,
            look_after: 0,
            blind: 0,
            returned: BTreeSet::new(),
            missing: BTreeSet::new(),
            plan_anew: false,
            rolled_back: BTreeSet::new(),
            outcome: Outcome::default(),
            refused: None,
        }
    }

    /// What is to be called now, each once. What does not come back within its time is not waited for.
    pub fn next(&mut self, now: Duration) -> Vec<(CallId, Call)> {
        self.time_out(now);
        let mut calls = Vec::new();
        match self.phase {
            Phase::Looking => self.look_first(now, &mut calls),
            Phase::Planning | Phase::Over => {}
            Phase::Going => self.go_on(now, &mut calls),
        }
        calls
    }

    /// A call came back. One that nobody waits for any more is told as well.
    pub fn returned(&mut self, now: Duration, id: CallId, answer: Answer) {
        let Some(running) = self.running.remove(&id) else { return };
        self.event += 1;
        if self.phase == Phase::Over {
            return;
        }
        match (running.call, answer) {
            (Call::Inventory, Answer::Inventory(_)) if running.hangs => {}
            (Call::Inventory, Answer::Inventory(found)) => self.looked(now, running.at, found),
            (Call::Plan(_), Answer::Plan(plan)) => self.planned(now, *plan),
            (Call::Start { server }, Answer::Done(said)) => self.start_returned(&server, said),
            (Call::Stop { server }, Answer::Done(said)) => self.stop_returned(&server, said),
            (Call::Move { bucket, .. }, Answer::Done(said)) => self.move_returned(&bucket, said),
            (call, _) => self.fault(Fault::Failed {
                call: call.to_string(),
                why: "it was answered with something else".to_owned(),
            }),
        }
    }

    /// When [`next`](Rescaling::next) should be called although nothing came back; `None` once it is over.
    pub fn wake_at(&self) -> Option<Duration> {
        if self.phase == Phase::Over {
            return None;
        }
        let waited_for = self.running.values().filter(|it| !it.hangs);
        let limits =
            waited_for.filter_map(|it| Some(it.begun.saturating_add(self.within(&it.call)?)));
        let next_look = self.looked.map(|at| at.saturating_add(self.settings.between_inventories));
        let wants_to_look = match self.phase {
            Phase::Looking => true,
            Phase::Planning | Phase::Over => false,
            Phase::Going => self.wants_to_look(),
        };
        limits.chain(next_look.filter(|_| wants_to_look && !self.is_looking())).min()
    }

    /// What it came to; `None` while it is under way.
    pub fn result(&self) -> Option<Result<Outcome, Refused>> {
        let over = self.phase == Phase::Over;
        over.then(|| match &self.refused {
            Some(refused) => Err(refused.clone()),
            None => Ok(self.outcome.clone()),
        })
    }

    pub fn progress(&self) -> Progress {
        let buckets = self.world.buckets.iter();
        let to_move = buckets
            .filter(|it| it.given_up.is_none() && it.place.is_some_and(|place| place != it.goal));
        let moving = self.running.values().filter(|it| matches!(it.call, Call::Move { .. }));
        Progress {
            moved: self.outcome.after.buckets_moved,
            bytes_moved: self.outcome.after.bytes_moved,
            to_move: to_move.count() as u64,
            moving: moving.count() as u64,
            started: self.outcome.started.len() as u64,
            stopped: self.outcome.stopped.len() as u64,
            faults: self.outcome.faults.len() as u64 + self.outcome.faults_more,
        }
    }

    /// Begins whatever can be begun; where nothing is left to do or to wait for, ends.
    fn go_on(&mut self, now: Duration, calls: &mut Vec<(CallId, Call)>) {
        loop {
            if self.outcome.halted.is_none() {
                self.begin_starts(now, calls);
                self.begin_plan(now, calls);
                self.begin_moves(now, calls);
                self.begin_stops(now, calls);
            }
            let looks = self.wants_to_look();
            if looks && !self.is_looking() && self.may_look(now) {
                self.call(now, Call::Inventory, calls);
                self.looked = Some(now);
            }
            let waits = looks || self.running.values().any(|it| !it.hangs);
            if waits {
                return;
            }
            let unstuck = self.outcome.halted.is_none() && (self.unstick() || self.roll_back());
            if !unstuck {
                return self.end(now);
            }
        }
    }

    fn look_first(&mut self, now: Duration, calls: &mut Vec<(CallId, Call)>) {
        if let Some(question) = self.first_question() {
            self.phase = Phase::Planning;
            self.call(now, Call::Plan(question), calls);
        } else if !self.is_looking() && self.may_look(now) {
            self.call(now, Call::Inventory, calls);
            self.looked = Some(now);
        }
    }

    fn call(&mut self, now: Duration, call: Call, calls: &mut Vec<(CallId, Call)>) {
        self.event += 1;
        self.ids += 1;
        let id = CallId(self.ids);
        let running = Running { call: call.clone(), begun: now, hangs: false, at: self.event };
        self.running.insert(id, running);
        calls.push((id, call));
    }

    /// How long a call may take; the planner is no callback, and comes back.
    fn within(&self, call: &Call) -> Option<Duration> {
        match call {
            Call::Inventory => Some(self.settings.inventory_within),
            Call::Plan(_) => None,
            Call::Start { .. } => Some(self.settings.start_within),
            Call::Move { .. } => Some(self.settings.move_within),
            Call::Stop { .. } => Some(self.settings.stop_within),
        }
    }

    /// Gives up waiting for what takes longer than it may.
    fn time_out(&mut self, now: Duration) {
        let late = self.running.iter().filter_map(|(id, it)| {
            let within = self.within(&it.call).filter(|_| !it.hangs)?;
            (now >= it.begun.saturating_add(within)).then_some((*id, within))
        });
        for (id, within) in late.collect::<Vec<_>>() {
            let running = self.running.get_mut(&id).expect("it was found there");
            running.hangs = true;
            let call = running.call.clone();
            self.event += 1;
            self.look_after = self.event;
            self.fault(Fault::Hung { call: call.to_string(), within });
            match call {
                Call::Inventory => self.blinded(now, "it did not come back".to_owned()),
                Call::Plan(_) => {}
                Call::Start { server } => self.not_started(&server, "its start hangs".to_owned()),
                Call::Stop { server } => self.not_stopped(&server, "its stop hangs".to_owned()),
                Call::Move { bucket, .. } => self.give_up(&bucket, "its move hangs"),
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        if self.outcome.faults.len() < FAULTS_KEPT {
            self.outcome.faults.push(fault);
        } else {
            self.outcome.faults_more += 1;
        }
    }

    /// Nothing more is begun; what is under way is waited for.
    fn halt(&mut self, why: String) {
        self.outcome.halted.get_or_insert(why);
        self.queue.clear();
    }

    /// Callbacks that count against the bound on calls.
    fn calls_out(&self) -> usize {
        let own = |it: &&Running| !matches!(it.call, Call::Inventory | Call::Plan(_));
        self.running.values().filter(own).count()
    }

    fn has_call_left(&self) -> bool {
        self.calls_out() < self.settings.calls_at_once
    }
}
