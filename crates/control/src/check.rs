//! Finds what is wrong with a plan, at its end and at every step on the way.
//!
//! It shares no code with the planner. A plan that has findings is never carried out.

use std::collections::{BTreeMap, BTreeSet};

use tidefs_model::{ByteSize, NodeClass, NodeId, Partition};

use crate::inventory::Inventory;
use crate::planner::{Plan, Step};

/// Something that must not be. Steps count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("step {step}: partition {} lies on another node than {from}", partition.number())]
    NotThere { step: usize, partition: Partition, from: NodeId },
    #[error("step {step}: partition {} goes to {to}, which does not serve", partition.number())]
    NoTarget { step: usize, partition: Partition, to: NodeId },
    #[error("step {step}: partition {} goes to {to}, which leaves", partition.number())]
    ToLeaving { step: usize, partition: Partition, to: NodeId },
    #[error("step {step}: partition {} holds metadata, {to} is a victim", partition.number())]
    MetadataToVictim { step: usize, partition: Partition, to: NodeId },
    #[error("step {step}: partition {} moves to where it is", partition.number())]
    ToItself { step: usize, partition: Partition },
    #[error("partition {} moves more than once", partition.number())]
    MovedAgain { partition: Partition },
    #[error("step {step}: partition {} takes other than {stated}", partition.number())]
    WrongSize { step: usize, partition: Partition, stated: ByteSize },
    #[error("step {step}: {node} would hold {held} and has {capacity}")]
    OverMemory { step: usize, node: NodeId, held: ByteSize, capacity: ByteSize },
    #[error("step {step} moves nothing")]
    EmptyStep { step: usize },
    #[error("{node} leaves and would still hold {partitions} partitions")]
    NotDrained { node: NodeId, partitions: usize },
}

/// All that is wrong with the plan when it starts from this inventory.
pub fn check(plan: &Plan, inventory: &Inventory) -> Vec<Finding> {
    let mut world = World::new(plan, inventory);
    for (number, step) in plan.steps.iter().enumerate() {
        world.take(number, step);
    }
    world.look_at_the_end(plan);
    world.findings
}

struct World<'a> {
    inventory: &'a Inventory,
    leaving: BTreeSet<NodeId>,
    owners: BTreeMap<Partition, NodeId>,
    used: BTreeMap<NodeId, u64>,
    moved: BTreeSet<Partition>,
    findings: Vec<Finding>,
}

impl<'a> World<'a> {
    fn new(plan: &Plan, inventory: &'a Inventory) -> World<'a> {
        let owner = |partition| Some((partition, inventory.owner(partition)?));
        World {
            inventory,
            leaving: plan.leaving.iter().copied().collect(),
            owners: inventory.partitions().filter_map(owner).collect(),
            used: inventory.nodes().iter().map(|node| (node.id, node.used_bytes)).collect(),
            moved: BTreeSet::new(),
            findings: Vec::new(),
        }
    }

    /// All copies of a step may be there before the first original is deleted. A node that was above
    /// its memory before is not the fault of what adds nothing to it.
    fn take(&mut self, number: usize, step: &Step) {
        if step.moves.is_empty() {
            self.findings.push(Finding::EmptyStep { step: number });
        }
        for at in 0..step.moves.len() {
            self.look_at_move(number, step, at);
        }
        let mut targets: BTreeMap<NodeId, u64> = BTreeMap::new();
        for step in &step.moves {
            *targets.entry(step.to).or_default() += step.bytes;
        }
        for (&id, &arriving) in &targets {
            let held = self.used.entry(id).or_default();
            *held += arriving;
            if let Some(node) = self.inventory.observation().node(id)
                && arriving > 0
                && *held > node.capacity_bytes
            {
                let (held, capacity) = (ByteSize(*held), ByteSize(node.capacity_bytes));
                self.findings.push(Finding::OverMemory { step: number, node: id, held, capacity });
            }
        }
        for step in &step.moves {
            let held = self.used.entry(step.from).or_default();
            *held = held.saturating_sub(step.bytes);
            self.owners.insert(step.partition, step.to);
        }
    }

    fn look_at_move(&mut self, step: usize, of: &Step, at: usize) {
        let moved = of.moves[at];
        let (partition, from, to) = (moved.partition, moved.from, moved.to);
        let mut find = |wrong: bool, finding| {
            if wrong {
                self.findings.push(finding);
            }
        };
        let node = self.inventory.observation().node(to);
        let serves = node.is_some_and(|node| node.is_serving());
        let victim = node.is_some_and(|node| node.class == NodeClass::Victim);
        let there = self.owners.get(&partition) == Some(&from)
            && self.inventory.observation().node(from).is_some_and(|node| node.is_serving());
        find(!there, Finding::NotThere { step, partition, from });
        find(!serves, Finding::NoTarget { step, partition, to });
        find(self.leaving.contains(&to), Finding::ToLeaving { step, partition, to });
        let metadata = self.inventory.is_metadata(partition);
        find(victim && metadata, Finding::MetadataToVictim { step, partition, to });
        find(from == to, Finding::ToItself { step, partition });
        find(!self.moved.insert(partition), Finding::MovedAgain { partition });
        let known = usize::from(partition.number()) < self.inventory.partitions().len();
        let wrong_size = known && self.inventory.bytes(partition) != moved.bytes;
        find(wrong_size, Finding::WrongSize { step, partition, stated: ByteSize(moved.bytes) });
    }

    fn look_at_the_end(&mut self, plan: &Plan) {
        for &node in &plan.leaving {
            let partitions = self.owners.values().filter(|owner| **owner == node).count();
            if partitions > 0 {
                self.findings.push(Finding::NotDrained { node, partitions });
            }
        }
    }
}
