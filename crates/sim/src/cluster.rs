//! Nodes in a simulation: what each holds, in bytes that spread over partitions as files are written.
//!
//! Files are cut into stripes, and stripes fall on partitions by hash. With some 60 of them a
//! partition, partitions differ by chance; the part that each holds of all bytes is drawn once.

use std::collections::BTreeMap;

use tidefs_control::{
    EMPTY_NODE_BYTES, Held, Inventory, Move, Moved, Node, NodeState, Observation,
};
use tidefs_model::{METADATA_PARTITIONS, NodeClass, NodeId, PARTITIONS};

use crate::random::Random;

/// Stripes in a partition, by which partitions differ: the deviation is one over the root of it.
const STRIPES: f64 = 60.0;

/// What lies on a node.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// The part of all bytes.
    part: f64,
    partitions: u16,
}

pub(crate) struct Cluster {
    members: BTreeMap<NodeId, Share>,
    owners: Vec<NodeId>,
    /// By partition, the part of all bytes; these add up to 1.
    parts: Vec<f64>,
    node_memory: u64,
    pub bytes: u64,
    born: u64,
}

impl Cluster {
    pub fn new(nodes: u16, node_memory: u64, random: &mut Random) -> Cluster {
        let draw = |partition| {
            if partition < METADATA_PARTITIONS {
                0.0
            } else {
                random.normal_at_least(1.0, 1.0 / STRIPES.sqrt(), 0.1)
            }
        };
        let parts: Vec<f64> = (0..PARTITIONS).map(draw).collect();
        let all: f64 = parts.iter().sum();
        let mut cluster = Cluster {
            members: BTreeMap::new(),
            owners: Vec::new(),
            parts: parts.into_iter().map(|part| part / all).collect(),
            node_memory,
            bytes: 0,
            born: 0,
        };
        let ids: Vec<NodeId> = (0..nodes).map(|_| cluster.add()).collect();
        cluster.owners = (0..PARTITIONS).map(|p| ids[usize::from(p) % ids.len()]).collect();
        cluster.weigh();
        cluster
    }

    pub fn add(&mut self) -> NodeId {
        self.born += 1;
        let mut id = [0; 20];
        id[..8].copy_from_slice(&self.born.to_be_bytes());
        self.members.insert(NodeId(id), Share::default());
        NodeId(id)
    }

    pub fn nodes(&self) -> u16 {
        self.members.len() as u16
    }

    /// The node on which most lies.
    pub fn fullest(&self) -> NodeId {
        let most = self.members.iter();
        let most = most.max_by(|a, b| a.1.part.total_cmp(&b.1.part).then(b.0.cmp(a.0)));
        *most.expect("a node").0
    }

    /// Would no node be above this many bytes with so many more?
    pub fn has_room_for(&self, bytes: u64, each: u64) -> bool {
        let most = self.members[&self.fullest()].part;
        EMPTY_NODE_BYTES as f64 + (self.bytes + bytes) as f64 * most <= each as f64
    }

    fn weigh(&mut self) {
        self.members.values_mut().for_each(|share| *share = Share::default());
        for (owner, part) in self.owners.iter().zip(&self.parts) {
            let share = self.members.get_mut(owner).expect("partitions lie on members");
            share.part += part;
            share.partitions += 1;
        }
    }

    fn seen(&self) -> Vec<Node> {
        let node = |(&id, share): (&NodeId, &Share)| Node {
            id,
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: self.node_memory,
            used_bytes: EMPTY_NODE_BYTES + (share.part * self.bytes as f64) as u64,
            partitions: share.partitions,
            traffic_bytes: 0,
        };
        self.members.iter().map(node).collect()
    }

    pub fn observe(&self) -> Observation {
        Observation::new(self.seen())
    }

    pub fn survey(&self) -> Inventory {
        let held = self.owners.iter().zip(&self.parts);
        let held = held.map(|(&owner, part)| Held {
            owner: Some(owner),
            bytes: Some((part * self.bytes as f64) as u64),
        });
        Inventory::new(self.seen(), &held.collect::<Vec<_>>()).expect("partitions on members")
    }

    pub fn carry(&mut self, moves: &[Move]) -> Moved {
        for step in moves {
            self.owners[usize::from(step.partition.number())] = step.to;
        }
        self.weigh();
        let bytes = moves.iter().map(|step| step.bytes).sum();
        Moved { partitions: moves.len() as u32, bytes }
    }

    /// # Panics
    /// When something lies on the node: the control code must not ask for that.
    pub fn remove(&mut self, node: NodeId) {
        assert!(!self.owners.contains(&node), "a node was removed with partitions on it");
        self.members.remove(&node);
    }
}
