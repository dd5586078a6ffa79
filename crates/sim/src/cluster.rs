//! Nodes in a simulation: what each holds, in bytes that spread over partitions as files are written.
//!
//! Files are cut into stripes, and stripes fall on partitions by hash. With some 60 of them a
//! partition, partitions differ by chance; the part that each holds of all bytes is drawn once.

use std::collections::BTreeMap;

use tidefs_control::{
    EMPTY_NODE_BYTES, Held, Inventory, Move, Moved, Node, NodeState, Observation, class_of, node_of,
};
use tidefs_model::{ByteSize, METADATA_PARTITIONS, NodeClass, NodeId, PARTITIONS, Partition};

use crate::random::Random;

/// Stripes in a partition, by which partitions differ: the deviation is one over the root of it.
const STRIPES: f64 = 60.0;

/// Nodes of others that lend memory and neither come nor go (MemFSS).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lent {
    pub nodes: u16,
    pub memory: ByteSize,
    /// The part of the data that lies on own nodes, by weighted hashing.
    pub own_share: f64,
}

/// A node, and what lies on it.
#[derive(Clone, Copy, Debug)]
struct Member {
    class: NodeClass,
    memory: u64,
    /// The part of all bytes.
    part: f64,
    partitions: u16,
}

pub(crate) struct Cluster {
    members: BTreeMap<NodeId, Member>,
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

    /// Adds what others lend, and places everything by hash.
    pub fn with_lent(mut self, lent: &Lent) -> Cluster {
        let own: Vec<NodeId> = self.members.keys().copied().collect();
        let victims: Vec<NodeId> =
            (0..lent.nodes).map(|_| self.member(NodeClass::Victim, lent.memory.0)).collect();
        let owner = |number: u16| {
            let partition = Partition::new(number);
            let victim = number >= METADATA_PARTITIONS
                && class_of(partition, lent.own_share) == NodeClass::Victim;
            let nodes = if victim && !victims.is_empty() { &victims } else { &own };
            node_of(partition, nodes.iter().copied()).expect("a node of the class")
        };
        self.owners = (0..PARTITIONS).map(owner).collect();
        self.weigh();
        self
    }

    pub fn add(&mut self) -> NodeId {
        self.member(NodeClass::Own, self.node_memory)
    }

    fn member(&mut self, class: NodeClass, memory: u64) -> NodeId {
        self.born += 1;
        let mut id = [0; 20];
        id[..8].copy_from_slice(&self.born.to_be_bytes());
        self.members.insert(NodeId(id), Member { class, memory, part: 0.0, partitions: 0 });
        NodeId(id)
    }

    /// Own nodes, which are paid for.
    pub fn nodes(&self) -> u16 {
        self.members.values().filter(|member| member.class == NodeClass::Own).count() as u16
    }

    pub fn memory(&self) -> u64 {
        self.members.values().map(|member| member.memory).sum()
    }

    /// In the order of ids.
    pub fn ids(&self) -> Vec<NodeId> {
        self.members.keys().copied().collect()
    }

    /// What part of all bytes lies on each, in the order of ids.
    pub fn parts_by_node(&self) -> impl Iterator<Item = f64> + '_ {
        self.members.values().map(|member| member.part)
    }

    /// The node of whose memory the largest part is in use.
    pub fn fullest(&self) -> NodeId {
        let part = |member: &Member| member.part / member.memory as f64;
        let most = self.members.iter();
        let most = most.max_by(|a, b| part(a.1).total_cmp(&part(b.1)).then(b.0.cmp(a.0)));
        *most.expect("a node").0
    }

    /// Would every node still have its head-room with so many bytes more?
    pub fn has_room_for(&self, bytes: u64, head_room: u64) -> bool {
        let fullest = self.members[&self.fullest()];
        let held = EMPTY_NODE_BYTES as f64 + (self.bytes + bytes) as f64 * fullest.part;
        held <= fullest.memory.saturating_sub(head_room) as f64
    }

    fn weigh(&mut self) {
        for member in self.members.values_mut() {
            (member.part, member.partitions) = (0.0, 0);
        }
        for (owner, part) in self.owners.iter().zip(&self.parts) {
            let member = self.members.get_mut(owner).expect("partitions lie on members");
            member.part += part;
            member.partitions += 1;
        }
    }

    fn seen(&self) -> Vec<Node> {
        let node = |(&id, member): (&NodeId, &Member)| Node {
            id,
            class: member.class,
            state: NodeState::Serving,
            capacity_bytes: member.memory,
            used_bytes: EMPTY_NODE_BYTES + (member.part * self.bytes as f64) as u64,
            partitions: member.partitions,
            received_bytes: 0,
            sent_bytes: 0,
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
