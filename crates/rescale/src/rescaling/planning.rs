//! The plan, and a new one where servers that it counted on are not there.
//!
//! A new plan is made while moves go on: what is on its way counts as arrived, and what does not arrive is
//! dealt with as ever.

use std::collections::HashSet;
use std::time::Duration;

use super::world::{Role, Stage, State, World};
use super::{Phase, Rescaling};
use crate::call::{Call, CallId, Question};
use crate::inventory::Inventory;
use crate::outcome::Fault;
use crate::plan::{Change, Plan, Refused};

impl Rescaling {
    /// The first inventory has come.
    pub(super) fn first_inventory(&mut self, inventory: Inventory) {
        self.outcome.inventory = inventory;
    }

    /// What the first plan is made for, once there is an inventory.
    pub(super) fn first_question(&mut self) -> Option<Box<Question>> {
        let there = self.looked_at > 0 && self.refused.is_none();
        there.then(|| {
            let (inventory, change) = (self.outcome.inventory.clone(), self.change.clone());
            Box::new(Question { inventory, change, weights: self.settings.weights })
        })
    }

    pub(super) fn planned(&mut self, now: Duration, plan: Result<Plan, Refused>) {
        self.outcome.plans += 1;
        match (self.phase, plan) {
            (Phase::Planning, Err(refused)) => {
                self.refused = Some(refused);
                self.end(now);
            }
            (Phase::Planning, Ok(plan)) => {
                self.phase = Phase::Going;
                self.outcome.before = plan.before;
                self.outcome.least = plan.least;
                self.outcome.planned = plan.after;
                self.world = self.first_world();
                self.aim(&plan);
            }
            (_, Ok(plan)) => self.aim(&plan),
            (_, Err(refused)) => {
                self.fault(Fault::NoPlan { why: refused.to_string() });
                self.aim_where_there_is_room();
            }
        }
    }

    fn first_world(&self) -> World {
        let mut world = World::default();
        let stop: HashSet<&str> = self.change.stop.iter().map(String::as_str).collect();
        let start: HashSet<&str> = self.change.start.iter().map(|it| it.name.as_str()).collect();
        for server in &self.outcome.inventory.servers {
            let name = server.name.as_str();
            let role = match (stop.contains(name), start.contains(name)) {
                (true, _) => Role::Leaves,
                (_, true) => Role::Comes,
                _ => Role::Stays,
            };
            world.add_server(server.clone(), role, State::Up);
        }
        for server in &self.change.start {
            if world.server(&server.name).is_none() {
                world.add_server(server.clone(), Role::Comes, State::Awaited);
            }
        }
        for bucket in &self.outcome.inventory.buckets {
            let place = world.server(&bucket.server).expect("the plan found it among the servers");
            world.add_bucket(bucket.clone(), place);
        }
        for known in world.servers.iter_mut().filter(|it| it.listed && it.buckets == 0) {
            known.empty_at = Some(self.looked_at);
        }
        world
    }

    /// Asks for a new plan, one at a time.
    pub(super) fn begin_plan(&mut self, now: Duration, calls: &mut Vec<(CallId, Call)>) {
        let planning = self.running.values().any(|it| matches!(it.call, Call::Plan(_)));
        if !self.plan_anew || planning {
            return;
        }
        self.plan_anew = false;
        let inventory = self.world.expected();
        let used = self.world.servers.iter().filter(|known| known.is_for_plans());
        let name = |known: &super::world::Known| known.server.name.clone();
        let stop = used.clone().filter(|it| it.role == Role::Leaves).map(name).collect();
        let start = used.filter(|it| it.role == Role::Comes).map(|it| it.server.clone()).collect();
        let weights = self.settings.weights;
        let question = Question { inventory, change: Change { start, stop }, weights };
        self.call(now, Call::Plan(Box::new(question)), calls);
    }

    /// What a plan says is where everything is to go from now on.
    fn aim(&mut self, plan: &Plan) {
        for bucket in 0..self.world.buckets.len() {
            self.world.buckets[bucket].goal = self.heads_for(bucket);
        }
        for step in &plan.moves {
            let bucket = self.world.bucket(&step.bucket).expect("it was planned for");
            let to = self.world.server(&step.to).expect("it was planned for");
            self.world.servers[to].wanted = true;
            if !self.world.buckets[bucket].avoid.contains(&to) {
                self.world.buckets[bucket].goal = to;
            } else if self.world.must_leave(bucket) {
                self.redirect(bucket, "it did not get to where it was planned");
            }
        }
        self.requeue();
    }

    /// There is no plan: what has to leave goes to the emptiest server, and the rest stays.
    fn aim_where_there_is_room(&mut self) {
        for bucket in 0..self.world.buckets.len() {
            let heads_for = self.heads_for(bucket);
            self.world.buckets[bucket].goal = heads_for;
            let idle = self.world.buckets[bucket].stage == Stage::Idle;
            if idle && self.world.must_leave(bucket) {
                self.redirect(bucket, "there is no plan for it");
            }
        }
        self.requeue();
    }

    /// Where the bucket is, or will be if its move comes off.
    fn heads_for(&self, bucket: usize) -> usize {
        let kept = &self.world.buckets[bucket];
        match kept.stage {
            Stage::Moving { to, .. } | Stage::Returned { to, .. }
                if self.world.servers[to].is_for_plans() =>
            {
                to
            }
            _ => kept.place.unwrap_or(kept.goal),
        }
    }

    fn requeue(&mut self) {
        self.queue.clear();
        (0..self.world.buckets.len()).for_each(|bucket| self.enqueue(bucket));
    }
}
