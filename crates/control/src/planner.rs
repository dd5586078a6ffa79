//! From an inventory and the nodes that are to leave, to a plan.
//!
//! The range of partitions that holds metadata and the range that holds data are spread each for
//! itself: metadata over the own nodes in proportion to their memory, data over all nodes in
//! proportion to the memory that the metadata leaves, or both in proportion to bandwidths; with a
//! stated share of the data on the own nodes where there is one and memory allows it. Partitions on
//! nodes that do not answer stay where they are. The same inventory gives the same plan, in whatever
//! order its nodes were listed.

mod aims;
mod classes;
mod course;
mod data;
mod deadline;
mod gains;
mod hashing;
mod hosts;
mod plan;
mod shares;
mod spread;
mod steps;

use std::collections::BTreeSet;

use tidefs_model::{ByteSize, NodeClass, NodeId, Partition};

pub use aims::{AimedPlan, Aims, BANDWIDTH_UNKNOWN, Within, plan_for};
use classes::Weights;
pub use course::Course;
pub use data::{DataShare, Reason, data_shares};
pub use hashing::{class_of, node_of};
pub use plan::{Move, Plan, Refusal, Step};
pub use shares::whole_shares;
use spread::{Item, Range};
use steps::{Draft, Kind, Room};

use crate::capacity::Capacity;
use crate::inventory::{EMPTY_NODE_BYTES, Inventory};
use crate::observation::Node;
use crate::settings::Spreading;

/// Of what all nodes may be filled with. Fuller ones give nothing for the only reason that they are full.
const NEARLY_FULL_PERCENT: u128 = 90;

/// Plans a spread over all serving nodes but the leaving ones.
pub fn plan(
    inventory: &Inventory,
    leaving: &BTreeSet<NodeId>,
    spreading: &Spreading,
) -> Result<Plan, Refusal> {
    plan_on(inventory, leaving, spreading, &Course::default())
}

/// The same, of a reconfiguration that has come some way already.
pub fn plan_on(
    inventory: &Inventory,
    leaving: &BTreeSet<NodeId>,
    spreading: &Spreading,
    course: &Course,
) -> Result<Plan, Refusal> {
    let problem = Problem::new(inventory, leaving, spreading)?;
    let nodes = problem.memory.len();
    let (mut drafts, mut fair, mut minimum) = (Vec::new(), vec![0.0; nodes], 0.0);
    let mut before = vec![0; nodes];
    let (metadata, by_memory) = problem.metadata();
    let metadata = (metadata, Weights { numbers: by_memory.clone(), bytes: by_memory });
    for (items, weights) in [metadata, problem.data()] {
        let range = Range::new(&items, &weights.bytes, &problem.memory);
        let range = range.with_numbers(&weights.numbers);
        let owners = problem.owners(&items);
        let held = range.bytes_by_node(&owners);
        for (node, &held) in held.iter().enumerate() {
            minimum += (held as f64 - range.fair_bytes(node)).max(0.0);
            fair[node] += range.fair_bytes(node);
            before[node] += held;
        }
        drafts.extend(problem.drafts(&range, &owners));
    }
    problem.keep_to(course, &mut drafts);
    let (steps, left_out) = problem.steps(drafts)?;
    let mut after = before.clone();
    for step in steps.iter().flat_map(|step| &step.moves) {
        after[problem.index(step.from)] -= step.bytes;
        after[problem.index(step.to)] += step.bytes;
    }
    Ok(Plan {
        leaving: leaving.iter().copied().collect(),
        steps,
        bytes_minimum: minimum as u64,
        left_out,
        imbalance_percent_before: imbalance(&before, &fair, &problem.memory),
        imbalance_percent_after: imbalance(&after, &fair, &problem.memory),
    })
}

/// By how much the node that is farthest from its share is off, in per cent of that share, or of
/// the part of its memory below which bytes do not matter.
fn imbalance(loads: &[u64], fair: &[f64], memory: &[u64]) -> f64 {
    let off = |node: usize| {
        let matters = memory[node] as f64 * spread::SMALL_PART_OF_MEMORY;
        let off = (loads[node] as f64 - fair[node]).abs();
        if off == 0.0 { 0.0 } else { off * 100.0 / fair[node].max(matters).max(1.0) }
    };
    (0..loads.len()).filter(|&node| fair[node] > 0.0).map(off).fold(0.0, f64::max)
}

struct Problem<'a> {
    inventory: &'a Inventory,
    spreading: &'a Spreading,
    /// By node: may it hold partitions afterwards?
    stays: Vec<bool>,
    memory: Vec<u64>,
    /// By node: bytes of all partitions on it.
    content: Vec<u64>,
}

impl<'a> Problem<'a> {
    fn new(
        inventory: &'a Inventory,
        leaving: &BTreeSet<NodeId>,
        spreading: &'a Spreading,
    ) -> Result<Problem<'a>, Refusal> {
        for &id in leaving {
            let node = inventory.observation().node(id);
            let node = node.ok_or(Refusal::UnknownNode { node: id })?;
            if !node.is_serving() && node.partitions > 0 {
                let partitions = node.partitions;
                return Err(Refusal::LeavingUnreachable { node: id, partitions });
            }
        }
        let nodes = inventory.nodes();
        let stays: Vec<_> =
            nodes.iter().map(|node| node.is_serving() && !leaving.contains(&node.id)).collect();
        let memory = nodes.iter().map(|node| node.capacity_bytes).collect();
        let content = inventory.bytes_by_node();
        let problem = Problem { inventory, spreading, stays, memory, content };
        if !problem.stays.contains(&true) {
            return Err(Refusal::NoNodeLeft);
        }
        let holds_metadata = (0..nodes.len()).any(|node| problem.may_hold_metadata(node));
        if inventory.has_metadata() && !holds_metadata {
            return Err(Refusal::NoOwnNodeLeft);
        }
        problem.check_room()?;
        Ok(problem)
    }

    fn may_hold_metadata(&self, node: usize) -> bool {
        self.stays[node] && self.inventory.nodes()[node].class == NodeClass::Own
    }

    /// The content of all partitions must fit beside what the nodes use for themselves; a plan that
    /// empties no node can always leave things as they are.
    fn check_room(&self) -> Result<(), Refusal> {
        let room = self.room();
        let (mut arriving, mut free, mut nodes) = (0, 0, 0);
        for (node, room) in room.iter().enumerate() {
            if self.stays[node] {
                free += room.limit_bytes.saturating_sub(room.used_bytes);
                nodes += 1;
            } else if self.inventory.nodes()[node].is_serving() {
                arriving += self.content[node];
            }
        }
        if arriving <= free {
            return Ok(());
        }
        let (data, room) = (ByteSize(arriving), ByteSize(free));
        Err(Refusal::DoesNotFit { data, room, missing: ByteSize(arriving - free), nodes })
    }

    fn room(&self) -> Vec<Room> {
        let room = |node: &Node| Room {
            used_bytes: node.used_bytes,
            limit_bytes: self.spreading.limit(node.capacity_bytes),
        };
        self.inventory.nodes().iter().map(room).collect()
    }

    /// The partitions of a range that lie on nodes that answer.
    fn items(&self, metadata: bool) -> Vec<Item> {
        let (owners, sizes) = (self.inventory.owners(), self.inventory.sizes());
        let item = |partition: Partition| {
            let at = usize::from(partition.number());
            let owner = usize::from(owners[at]?);
            let wanted = self.inventory.is_metadata(partition) == metadata;
            let serves = self.inventory.nodes()[owner].is_serving();
            (wanted && serves).then_some(Item { number: partition.number(), bytes: sizes[at] })
        };
        self.inventory.partitions().filter_map(item).collect()
    }

    fn metadata(&self) -> (Vec<Item>, Vec<u64>) {
        let memory = |node| if self.may_hold_metadata(node) { self.memory[node].max(1) } else { 0 };
        let items = self.items(true);
        let weights = self.weights((0..self.memory.len()).map(memory).collect(), &items);
        (items, weights)
    }

    fn data(&self) -> (Vec<Item>, Weights) {
        let (items, weights) = self.metadata();
        let metadata = Range::new(&items, &weights, &self.memory);
        let memory = |node: usize| {
            let taken = metadata.fair_bytes(node) as u64;
            if self.stays[node] { self.memory[node].saturating_sub(taken).max(1) } else { 0 }
        };
        let items = self.items(false);
        let weights = self.weights((0..self.memory.len()).map(memory).collect(), &items);
        let Some(own_share) = self.spreading.own_share else {
            return (items, Weights { numbers: weights.clone(), bytes: weights });
        };
        let room = |node: usize| {
            let taken = metadata.fair_bytes(node) as u64 + EMPTY_NODE_BYTES;
            let limit = self.spreading.limit(self.memory[node]).saturating_sub(taken);
            if self.stays[node] { limit } else { 0 }
        };
        let classes = classes::Classes {
            is_own: self.inventory.nodes().iter().map(|it| it.class == NodeClass::Own).collect(),
            room: (0..self.memory.len()).map(room).collect(),
        };
        let bytes = items.iter().map(|item| item.bytes).sum();
        (items, classes.weights(&weights, own_share, bytes))
    }

    /// Of the nodes that have this memory for a range; 0 for those that may hold none of it.
    fn weights(&self, memory: Vec<u64>, items: &[Item]) -> Vec<u64> {
        if self.spreading.by == Capacity::Memory {
            return memory;
        }
        let bandwidth = |node: &Node| self.inventory.bandwidth(node.id);
        let bandwidths: Vec<_> = self.inventory.nodes().iter().map(bandwidth).collect();
        let bytes = items.iter().map(|item| item.bytes).sum();
        data::weights(&data_shares(&memory, &bandwidths, bytes))
    }

    fn owners(&self, items: &[Item]) -> Vec<u16> {
        let owner = |item: &Item| self.inventory.owners()[usize::from(item.number)];
        items.iter().map(|item| owner(item).expect("an item has an owner")).collect()
    }

    fn index(&self, node: NodeId) -> usize {
        self.inventory.observation().index(node).expect("a node of the inventory")
    }

    /// What has to move for an even spread of the range.
    fn drafts(&self, range: &Range<'_>, owners: &[u16]) -> Vec<Draft> {
        let mut spread = owners.to_vec();
        range.spread(&mut spread);
        let id = |node: u16| self.inventory.nodes()[usize::from(node)].id;
        let draft = |((item, &from), &to): ((&Item, &u16), &u16)| {
            let partition = Partition::new(item.number);
            let step = Move { partition, from: id(from), to: id(to), bytes: item.bytes };
            let (from, to, kind) = (usize::from(from), usize::from(to), Kind::default());
            (from != to).then_some(Draft { step, from, to, kind })
        };
        range.items.iter().zip(owners).zip(&spread).filter_map(draft).collect()
    }

    /// Moves off leaving nodes must find room somewhere; others are left out when there is none.
    fn steps(&self, drafts: Vec<Draft>) -> Result<(Vec<Step>, u32), Refusal> {
        self.steps_within(drafts, &mut self.room())
    }

    /// All of the first, then the others.
    fn steps_in_turn(
        &self,
        first: Vec<Draft>,
        rest: Vec<Draft>,
    ) -> Result<(Vec<Step>, u32), Refusal> {
        let mut room = self.room();
        let (mut steps, left_out) = self.steps_within(first, &mut room)?;
        let (others, left) = self.steps_within(rest, &mut room)?;
        steps.extend(others);
        Ok((steps, left_out + left))
    }

    fn steps_within(
        &self,
        mut drafts: Vec<Draft>,
        room: &mut [Room],
    ) -> Result<(Vec<Step>, u32), Refusal> {
        steps::join_runs(&mut drafts, self.inventory);
        steps::interleave(&mut drafts);
        let is_lent = |node: &crate::observation::Node| node.class == NodeClass::Victim;
        let lent = self.inventory.nodes().iter().map(is_lent);
        let over = room.iter().map(|room| room.used_bytes > room.limit_bytes);
        let over: Vec<_> = over.zip(lent).map(|(over, lent)| over && lent).collect();
        steps::free_soon(&mut drafts, &over);
        let (mut steps, left) = steps::cut(drafts, room, self.spreading);
        let (optional, must): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|draft| self.may_stay(draft));
        let elsewhere = must
            .into_iter()
            .map(|draft| self.elsewhere(draft, room))
            .collect::<Result<Vec<_>, _>>()?;
        let left_out = optional.len() + elsewhere.len();
        // Room was taken when another target was chosen; it is given back to be taken again.
        for draft in &elsewhere {
            room[draft.to].used_bytes -= draft.step.bytes;
        }
        steps.extend(steps::cut(elsewhere, room, self.spreading).0);
        Ok((steps, left_out as u32))
    }

    /// What nothing but evenness asks for goes back only as far as is allowed.
    fn keep_to(&self, course: &Course, drafts: &mut Vec<Draft>) {
        let has_room = self.has_room();
        let is_over = |at: usize| {
            let node = &self.inventory.nodes()[at];
            let is_of_use = has_room || node.class == NodeClass::Victim;
            is_of_use && node.used_bytes > self.spreading.limit(node.capacity_bytes)
        };
        let mut left = course.back_bytes;
        drafts.retain(|draft| {
            let Move { from, to, bytes, .. } = draft.step;
            let must = !self.may_stay(draft) || is_over(draft.from);
            let may = must || !course.goes_back(from, to) || bytes <= left;
            if !must && course.goes_back(from, to) && may {
                left -= bytes;
            }
            may
        });
    }

    /// Where all nodes are nearly full, what leaves one fills another.
    fn has_room(&self) -> bool {
        let room = self.room().into_iter().zip(&self.stays).filter(|(_, stays)| **stays);
        let (used, limit) = room.fold((0, 0), |(used, limit), (room, _)| {
            (used + u128::from(room.used_bytes), limit + u128::from(room.limit_bytes))
        });
        used * 100 < limit * NEARLY_FULL_PERCENT
    }

    fn may_stay(&self, draft: &Draft) -> bool {
        let metadata = self.inventory.is_metadata(draft.step.partition);
        if metadata { self.may_hold_metadata(draft.from) } else { self.stays[draft.from] }
    }

    /// The same move to the node with the most room.
    fn elsewhere(&self, draft: Draft, room: &mut [Room]) -> Result<Draft, Refusal> {
        let Move { partition, bytes, .. } = draft.step;
        let able = |node: &usize| {
            let metadata = self.inventory.is_metadata(partition);
            if metadata { self.may_hold_metadata(*node) } else { self.stays[*node] }
        };
        let free = |room: &Room| room.limit_bytes.saturating_sub(room.used_bytes);
        let best = (0..room.len())
            .filter(able)
            .max_by_key(|&node| (free(&room[node]), std::cmp::Reverse(node)));
        let to = best.ok_or(Refusal::NoNodeLeft)?;
        if free(&room[to]) < bytes {
            let (bytes, room) = (ByteSize(bytes), ByteSize(free(&room[to])));
            return Err(Refusal::NoRoomToMove { partition, bytes, room });
        }
        room[to].used_bytes += bytes;
        let id = self.inventory.nodes()[to].id;
        Ok(Draft { step: Move { to: id, ..draft.step }, to, ..draft })
    }
}
