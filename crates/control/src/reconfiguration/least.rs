//! What any plan must have moved to come from the spread at the first survey to the spread at the last.
//!
//! It is what each node has gained by partitions that lie elsewhere than at first, less what it has lost
//! by such, summed over the nodes that gained. What writers add meanwhile grows partitions where they
//! lie, so no partition that stayed counts, however much it has grown; and one that moved counts with
//! the bytes that it was moved with, not with what was written to it before or since. So the least is as
//! steady under writes as the bytes that were moved are, and the two can be divided by each other. A
//! shrink that is turned round, or a second round that moves the same bytes again, adds to the bytes
//! that were moved and not to the least.
//!
//! Of a reconfiguration that a predecessor began, both are counted from what its successor found.

use std::collections::BTreeMap;

use tidefs_model::NodeId;

use crate::inventory::Inventory;
use crate::observation::NodeState;
use crate::planner::{Course, Step};

/// More than this many times the least is not moved for evenness' sake; 1.05 is promised.
const OVER_LEAST: f64 = 1.04;

#[derive(Debug, Default)]
pub struct Least {
    /// By partition: who held it at the first survey, and at the last.
    first: Vec<Option<NodeId>>,
    last: Vec<Option<NodeId>>,
    /// By partition, at the last survey.
    sizes: Vec<u64>,
    /// What partitions were moved with, when they moved last.
    moved: BTreeMap<usize, f64>,
    /// Bytes moved since the last survey, and from whom to whom they are taken to have gone.
    since: u64,
    between: BTreeMap<(NodeId, NodeId), f64>,
}

impl Least {
    /// Which partitions have moved is seen now. What was moved meanwhile is divided among them in
    /// proportion to the sizes that were planned with; one that was empty may have been written to.
    pub fn surveyed(&mut self, inventory: &Inventory) {
        let mut owners: Vec<_> = inventory.partitions().map(|it| inventory.owner(it)).collect();
        if self.first.len() != owners.len() {
            *self = Least { first: owners.clone(), ..Least::default() };
        } else {
            self.compare(&mut owners, inventory);
        }
        self.last = owners;
        self.sizes = inventory.partitions().map(|it| inventory.bytes(it)).collect();
        self.since = 0;
        self.between.clear();
    }

    fn compare(&mut self, owners: &mut [Option<NodeId>], inventory: &Inventory) {
        let is_there = |id: &NodeId| {
            inventory.observation().node(*id).is_some_and(|node| node.state != NodeState::Ended)
        };
        // Whose it is was not clear for a moment; it has not gone anywhere yet.
        for (owner, last) in owners.iter_mut().zip(&self.last) {
            *owner = owner.or(last.filter(is_there));
        }
        let changed = (0..owners.len()).filter(|&at| owners[at] != self.last[at]);
        // What a node held that has ended was lost, and others hold it empty.
        let (moved, lost): (Vec<_>, Vec<_>) = changed
            .partition(|&at| owners[at].is_some() && self.last[at].is_some_and(|id| is_there(&id)));
        let total: u64 = moved.iter().map(|&at| self.sizes[at] + 1).sum();
        for at in moved {
            let part = (self.sizes[at] + 1) as f64 / total as f64;
            self.moved.insert(at, self.since as f64 * part);
        }
        for at in lost {
            self.first[at] = owners[at];
            self.moved.remove(&at);
        }
    }

    /// A step has ended, as far as it came. Until the next survey it is taken to have come as far with
    /// each of its moves.
    pub fn carried(&mut self, step: &Step, bytes: u64) {
        self.since += bytes;
        let total = step.bytes() + step.moves.len() as u64;
        for it in &step.moves {
            let part = (it.bytes + 1) as f64 / total as f64;
            *self.between.entry((it.from, it.to)).or_insert(0.0) += bytes as f64 * part;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.gained().values().filter(|bytes| **bytes > 0.0).sum::<f64>().round() as u64
    }

    /// After so many bytes were moved.
    pub fn course(&self, moved: u64) -> Course {
        let nodes = |sign: f64| {
            let gained = self.gained().into_iter();
            gained.filter(|(_, bytes)| bytes * sign >= 1.0).map(|(id, _)| id).collect()
        };
        // What goes back is moved once more, and makes the least smaller by as much.
        let back = (self.bytes() as f64 * OVER_LEAST - moved as f64) / (1.0 + OVER_LEAST);
        Course { gained: nodes(1.0), gave: nodes(-1.0), back_bytes: back.max(0.0) as u64 }
    }

    /// By node, what it has gained by moves, less what it has given.
    fn gained(&self) -> BTreeMap<NodeId, f64> {
        let mut gained: BTreeMap<NodeId, f64> = BTreeMap::new();
        let mut goes = |from: NodeId, to: NodeId, bytes: f64| {
            *gained.entry(to).or_insert(0.0) += bytes;
            *gained.entry(from).or_insert(0.0) -= bytes;
        };
        for (&at, &bytes) in &self.moved {
            if let (Some(from), Some(to)) = (self.first[at], self.last[at]) {
                goes(from, to, bytes);
            }
        }
        self.between.iter().for_each(|(&(from, to), &bytes)| goes(from, to, bytes));
        gained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Held;
    use crate::observation::Node;
    use crate::planner::Move;
    use tidefs_model::{NodeClass, Partition};

    const MIB: u64 = 1 << 20;

    fn id(byte: u8) -> NodeId {
        NodeId([byte; 20])
    }

    /// Partitions of these owners and sizes in MiB, on three nodes.
    fn seen(held: &[(u8, u64)]) -> Inventory {
        let node = |byte| Node {
            id: id(byte),
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: 1 << 30,
            used_bytes: 0,
            partitions: 0,
            received_bytes: 0,
            sent_bytes: 0,
        };
        let held = held
            .iter()
            .map(|&(owner, mib)| Held { owner: Some(id(owner)), bytes: Some(mib * MIB) });
        Inventory::new((1..=3).map(node).collect(), &held.collect::<Vec<_>>()).unwrap()
    }

    fn step(moves: &[(u16, u8, u8, u64)]) -> Step {
        let one = |&(partition, from, to, mib): &(u16, u8, u8, u64)| Move {
            partition: Partition::new(partition),
            from: id(from),
            to: id(to),
            bytes: mib * MIB,
        };
        Step { moves: moves.iter().map(one).collect() }
    }

    #[test]
    fn growth_in_two_rounds_moves_what_it_must() {
        let mut least = Least::default();
        least.surveyed(&seen(&[(1, 10), (1, 10), (2, 10), (2, 10)]));
        assert_eq!(least.bytes(), 0);
        least.carried(&step(&[(0, 1, 3, 10), (2, 2, 3, 10)]), 10 * MIB);
        assert_eq!(least.bytes(), 10 * MIB, "nobody has looked since");
        // One move failed, and files were written everywhere.
        least.surveyed(&seen(&[(3, 40), (1, 50), (2, 13), (2, 60)]));
        assert_eq!(least.bytes(), 10 * MIB);
        least.carried(&step(&[(2, 2, 3, 13)]), 13 * MIB);
        assert_eq!(least.bytes(), 23 * MIB);
        least.surveyed(&seen(&[(3, 90), (1, 90), (3, 90), (2, 90)]));
        assert_eq!(least.bytes(), 23 * MIB);
    }

    #[test]
    fn a_drain_moves_all_that_was_on_the_node() {
        let mut least = Least::default();
        least.surveyed(&seen(&[(1, 10), (2, 20), (3, 30), (3, 0)]));
        // The empty one was written to before it moved.
        least.carried(&step(&[(2, 3, 1, 30), (3, 3, 2, 0)]), 31 * MIB);
        least.surveyed(&seen(&[(1, 10), (2, 20), (1, 30), (2, 1)]));
        assert_eq!(least.bytes(), 31 * MIB);
    }

    #[test]
    fn what_is_moved_there_and_back_need_not_have_moved() {
        let mut least = Least::default();
        least.surveyed(&seen(&[(1, 10), (2, 20), (3, 100)]));
        least.carried(&step(&[(2, 3, 1, 100)]), 100 * MIB);
        least.surveyed(&seen(&[(1, 10), (2, 20), (1, 110)]));
        least.carried(&step(&[(2, 1, 3, 110)]), 110 * MIB);
        least.surveyed(&seen(&[(1, 10), (2, 20), (3, 110)]));
        assert_eq!(least.bytes(), 0);
        // Nor when others go back than came: the nodes hold what they held.
        least.carried(&step(&[(0, 1, 3, 10)]), 10 * MIB);
        least.surveyed(&seen(&[(3, 10), (2, 20), (3, 110)]));
        assert_eq!(least.bytes(), 10 * MIB);
    }

    #[test]
    fn a_way_round_is_longer_than_the_least() {
        let mut least = Least::default();
        least.surveyed(&seen(&[(1, 10), (2, 10)]));
        least.carried(&step(&[(0, 1, 2, 10), (1, 2, 3, 10)]), 20 * MIB);
        least.surveyed(&seen(&[(2, 10), (3, 10)]));
        assert_eq!(least.bytes(), 10 * MIB, "of 20");
    }

    #[test]
    fn what_a_dead_node_held_was_not_moved() {
        let mut least = Least::default();
        least.surveyed(&seen(&[(1, 10), (2, 10), (3, 10)]));
        let alive = seen(&[(1, 10), (2, 10), (2, 0)]);
        let nodes = alive.nodes().iter().filter(|node| node.id != id(3)).copied().collect();
        let held = [(1, 10), (2, 10), (2, 0)]
            .map(|(owner, mib)| Held { owner: Some(id(owner)), bytes: Some(mib * MIB) });
        least.surveyed(&Inventory::new(nodes, &held).unwrap());
        assert_eq!(least.bytes(), 0);
    }
}
