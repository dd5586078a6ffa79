//! From a survey to a plan, and through its steps.

use std::collections::BTreeSet;

use tidefs_model::{NodeId, Time};

use super::{Reconfiguration, Tasks};
use crate::check::check;
use crate::events::{Failure, Moved, Outcome};
use crate::inventory::Inventory;
use crate::observation::Node;
use crate::phase::Phase;
use crate::planner::{Course, Plan, Refusal, Step, plan_on};
use crate::record::Kind;
use crate::settings::{Settings, Spreading};

/// Where files are written meanwhile, a node this far from its share is not worth another round.
const EVEN_ENOUGH_PERCENT: f64 = 2.0;

/// A node farther than this from its share is worth moving bytes back.
const TOO_UNEVEN_PERCENT: f64 = 15.0;

/// Another round must bring the imbalance below this part of what it is: where few partitions hold
/// most bytes, it may be that no plan does.
const WORTH_A_ROUND: f64 = 0.75;

/// Data is written while it is moved, so a spread may be uneven again; then another plan follows,
/// but not without end.
const ROUNDS_TO_SPREAD: u32 = 3;
/// Emptying a node goes on for as long as this; new keys cannot fall on it for ever.
const ROUNDS_TO_EMPTY: u32 = 10;

/// So often it is planned anew at once where a target had no room. Beyond that writers fill nodes as fast
/// as these receive: there is a pause before the next round, and it counts as one.
const CROWDED_AT_ONCE: u32 = 4;

impl Reconfiguration {
    pub(super) fn step(&self) -> Option<Step> {
        self.plan.as_ref()?.steps.get(self.next_step).cloned()
    }

    pub(super) fn surveyed(
        &mut self,
        inventory: &Inventory,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        self.least.surveyed(inventory);
        if self.resumed && self.rounds == 0 && !self.find_predecessors_nodes(inventory, tasks) {
            return;
        }
        if self.resumed && self.rounds == 0 {
            self.find_lenders(inventory);
        }
        if inventory.observation().ended().next().is_some() {
            // What they held is given up first, and then it is measured again.
            return self.enter(Phase::Recovering, tasks);
        }
        let leaving = self.leaving_in(inventory);
        let stays = |node: &&Node| !leaving.contains(&node.id);
        self.nodes_after = inventory.observation().serving().filter(stays).count() as u16;
        if self.is_cut_short() {
            return self.end_early(tasks);
        }
        if self.turn_back(tasks) {
            return;
        }
        if std::mem::take(&mut self.recovered) {
            self.leave_out_the_dead(inventory);
        }
        if !self.is_known(inventory) {
            let failure = Failure::new("a node that was started is not among the nodes yet");
            return self.failed(Phase::Surveying, failure, now, settings, tasks);
        }
        match self.planned_onward(inventory, &leaving, settings) {
            Ok(plan) => self.planned(plan, inventory, settings, tasks),
            Err(refusal) => self.refused(refusal, inventory, tasks),
        }
    }

    /// Goes on in the same direction, but where so much was written or deleted meanwhile that the
    /// spread would stay too uneven.
    fn planned_onward(
        &self,
        inventory: &Inventory,
        leaving: &BTreeSet<NodeId>,
        settings: &Settings,
    ) -> Result<Plan, Refusal> {
        let spreading = self.spreading(settings);
        let anywhere = || plan_on(inventory, leaving, &spreading, &Course::default());
        if self.record.undoing {
            // To go back is what it is for.
            return anywhere();
        }
        let course = self.least.course(self.moved.bytes);
        let Ok(onward) = plan_on(inventory, leaving, &spreading, &course) else {
            return anywhere();
        };
        let off = onward.imbalance_percent_after;
        if off <= TOO_UNEVEN_PERCENT {
            return Ok(onward);
        }
        let plan = anywhere()?;
        let is_better = plan.imbalance_percent_after < off * WORTH_A_ROUND;
        Ok(if is_better { plan } else { onward })
    }

    /// A lender waits, and nothing that could be heard between two steps comes first.
    fn spreading(&self, settings: &Settings) -> Spreading {
        match self.gives_back() {
            true => Spreading { step_bytes: u64::MAX, ..settings.spreading },
            false if self.kind() == Kind::Decommission => settings.spreading.for_leaving(),
            false => settings.spreading,
        }
    }

    /// Nodes that were started, and died before they were of use.
    fn leave_out_the_dead(&mut self, inventory: &Inventory) {
        let started = self.joined.len();
        self.joined.retain(|&id| inventory.observation().node(id).is_some());
        let missing = (started - self.joined.len()) as u16;
        if missing > 0 {
            self.outcome = Outcome::Partly { missing, why: "they died meanwhile".to_owned() };
        }
    }

    /// Nodes that leave and are still there.
    pub(super) fn leaving_in(&self, inventory: &Inventory) -> BTreeSet<NodeId> {
        let there = |id: &&NodeId| inventory.observation().node(**id).is_some();
        self.record.leaving.iter().filter(there).copied().collect()
    }

    fn planned(
        &mut self,
        mut plan: Plan,
        inventory: &Inventory,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        self.imbalance_percent = Some(plan.imbalance_percent_before);
        if let Some(finding) = check(&plan, inventory).first() {
            return self.give_up(format!("the plan is unsound: {finding}"), tasks);
        }
        let leaving = &plan.leaving;
        let still_holds =
            |&id: &NodeId| inventory.observation().node(id).is_some_and(|node| node.partitions > 0);
        let to_empty = leaving.iter().any(still_holds);
        let rounds = if to_empty { ROUNDS_TO_EMPTY } else { ROUNDS_TO_SPREAD };
        let even_enough = self.rounds > 0
            && !std::mem::take(&mut self.held_back)
            && (plan.imbalance_percent_before <= EVEN_ENOUGH_PERCENT
                || plan.imbalance_percent_after > plan.imbalance_percent_before * WORTH_A_ROUND);
        if !to_empty && self.gives_back() {
            // The others can be made even when the lender has its memory.
            return self.remove(plan.leaving, tasks);
        }
        if plan.is_empty() || !to_empty && (even_enough || self.rounds >= rounds) {
            return self.remove(plan.leaving, tasks);
        }
        if self.rounds >= rounds {
            return self.give_up("the nodes that leave are filled again and again".into(), tasks);
        }
        if self.rounds == 0 && !self.precedence.is_lenders && !self.record.undoing {
            let planned = plan.partitions_moved();
            plan.cut_to(settings.spreading.first_round_percent);
            self.held_back = plan.partitions_moved() < planned;
        }
        self.rounds += 1;
        self.next_step = 0;
        self.plan = Some(plan);
        self.enter(Phase::Moving, tasks);
    }

    fn refused(&mut self, refusal: Refusal, inventory: &Inventory, tasks: &mut Tasks) {
        let why = refusal.to_string();
        if self.kind() != Kind::Commission {
            return self.give_up(why, tasks);
        }
        let empty = |id: &NodeId| {
            inventory.observation().node(*id).is_some_and(|node| node.partitions == 0)
        };
        // What came in place of a lender's node is of use when the lender asks again.
        let useless: Vec<_> = match self.gives_back() {
            true => Vec::new(),
            false => self.joined.iter().copied().filter(empty).collect(),
        };
        self.nodes_after = self.nodes_after.saturating_sub(useless.len() as u16);
        self.outcome = Outcome::Failed { why };
        self.remove(useless, tasks);
    }

    fn carried(&mut self, moved: Moved) {
        self.moved.partitions += moved.partitions;
        self.moved.bytes += moved.bytes;
        // What was found before the move says nothing of how it is after.
        self.imbalance_percent = None;
        if let Some(step) = self.step() {
            self.least.carried(&step, moved.bytes);
        }
    }

    /// A node was filled by writers while it received. Nothing has to be put right, so where anything
    /// moved it is planned anew at once: a writer may wait for it.
    pub(super) fn crowded(
        &mut self,
        moved: Moved,
        crowded: Failure,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        self.carried(moved);
        self.broken_off = false;
        self.plan = None;
        self.held_back = true;
        self.crowded += 1;
        let too_often = self.crowded.saturating_sub(CROWDED_AT_ONCE);
        // A round that found no room is not one in which nodes were filled again.
        self.rounds = self.rounds.saturating_sub(u32::from(too_often == 0));
        if self.is_cut_short() {
            return self.end_early(tasks);
        }
        if self.turn_back(tasks) {
            return;
        }
        if moved.partitions == 0 {
            self.phase = Phase::Surveying;
            return self.failed(Phase::Moving, crowded, now, settings, tasks);
        }
        self.failures = 0;
        self.last_failure = Some(crowded);
        if too_often > 0 {
            self.phase = Phase::Surveying;
            self.retry_at = Some(now + settings.back_off.wait(too_often));
            return;
        }
        self.enter(Phase::Surveying, tasks);
    }

    pub(super) fn step_ended(
        &mut self,
        moved: Moved,
        failure: Option<Failure>,
        now: Time,
        settings: &Settings,
        tasks: &mut Tasks,
    ) {
        self.carried(moved);
        let broken_off = std::mem::take(&mut self.broken_off);
        if let Some(failure) = failure {
            return self.step_failed(failure, now, settings, tasks);
        }
        self.failures = 0;
        self.next_step += 1;
        if self.is_cut_short() {
            return self.end_early(tasks);
        }
        if self.turn_back(tasks) {
            return;
        }
        if broken_off {
            self.held_back = true;
            self.rounds = self.rounds.saturating_sub(1);
            return self.enter(Phase::Surveying, tasks);
        }
        let more = self.plan.as_ref().is_some_and(|plan| self.next_step < plan.steps.len());
        let next = if more { Phase::Moving } else { Phase::Surveying };
        self.enter(next, tasks);
    }

    /// What is half moved is put right first; then it is measured where things stand, and planned
    /// again, without nodes that do not answer any more.
    fn step_failed(&mut self, failure: Failure, now: Time, settings: &Settings, tasks: &mut Tasks) {
        self.phase = Phase::Recovering;
        self.plan = None;
        self.held_back = true;
        // A round that failed is not one in which nodes were filled again.
        self.rounds = self.rounds.saturating_sub(1);
        self.failed(Phase::Moving, failure, now, settings, tasks);
    }
}
