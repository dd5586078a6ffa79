//! Nodes in memory: they hold partitions, take and give them, and have limits.

use std::collections::{BTreeMap, BTreeSet};

use tidefs_control::{
    EMPTY_NODE_BYTES, Held, Inventory, Move, Moved, Node, NodeState, Observation,
};
use tidefs_model::{METADATA_PARTITIONS, NodeClass, NodeId, Partition};

pub const MIB: u64 = 1 << 20;
/// All that hold metadata, and enough others to be spread.
pub const PARTITIONS: u16 = METADATA_PARTITIONS + 400;

/// Why moves came no further.
pub enum Hindrance {
    Failed(String),
    NoRoom(String),
}

#[derive(Clone, Debug)]
pub struct Cluster {
    pub members: BTreeMap<NodeId, u64>,
    pub victims: BTreeSet<NodeId>,
    pub owners: Vec<NodeId>,
    pub bytes: Vec<u64>,
    born: u64,
}

impl Cluster {
    pub fn new(nodes: usize, memory: u64) -> Cluster {
        let mut cluster = Cluster {
            members: BTreeMap::new(),
            victims: BTreeSet::new(),
            owners: vec![],
            bytes: vec![],
            born: 0,
        };
        let ids: Vec<_> = (0..nodes).map(|_| cluster.add(memory)).collect();
        let owner = |number: u16| ids[usize::from(number) % ids.len()];
        cluster.owners = (0..PARTITIONS).map(owner).collect();
        cluster.bytes = vec![0; usize::from(PARTITIONS)];
        cluster
    }

    pub fn add(&mut self, memory: u64) -> NodeId {
        self.born += 1;
        let mut id = [0; 20];
        // Ids come in no order.
        id[..8].copy_from_slice(&self.born.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        self.members.insert(NodeId(id), memory);
        NodeId(id)
    }

    pub fn add_victim(&mut self, memory: u64) -> NodeId {
        let id = self.add(memory);
        self.victims.insert(id);
        id
    }

    pub fn used(&self, node: NodeId) -> u64 {
        let held = self.owners.iter().zip(&self.bytes).filter(|(owner, _)| **owner == node);
        EMPTY_NODE_BYTES + held.map(|(_, bytes)| bytes).sum::<u64>()
    }

    pub fn content(&self) -> u64 {
        self.bytes.iter().sum()
    }

    fn nodes(&self) -> Vec<Node> {
        let node = |(&id, &capacity_bytes): (&NodeId, &u64)| Node {
            id,
            class: if self.victims.contains(&id) { NodeClass::Victim } else { NodeClass::Own },
            state: NodeState::Serving,
            capacity_bytes,
            used_bytes: self.used(id),
            partitions: self.owners.iter().filter(|owner| **owner == id).count() as u16,
            received_bytes: 0,
            sent_bytes: 0,
        };
        self.members.iter().map(node).collect()
    }

    pub fn observe(&self) -> Observation {
        Observation::new(self.nodes())
    }

    pub fn survey(&self) -> Inventory {
        let held = self.owners.iter().zip(&self.bytes);
        let held = held.map(|(&owner, &bytes)| Held { owner: Some(owner), bytes: Some(bytes) });
        Inventory::new(self.nodes(), &held.collect::<Vec<_>>()).expect("a sound cluster")
    }

    /// Moves up to `most` of the partitions, and says why it came no further.
    pub fn carry(&mut self, moves: &[Move], most: usize) -> (Moved, Option<Hindrance>) {
        let mut moved = Moved::default();
        for step in moves.iter().take(most) {
            let at = usize::from(step.partition.number());
            let bytes = self.bytes[at];
            if self.owners[at] != step.from {
                let what = format!("{} is elsewhere", step.partition.number());
                return (moved, Some(Hindrance::Failed(what)));
            }
            let Some(&capacity) = self.members.get(&step.to) else {
                return (moved, Some(Hindrance::Failed(format!("{} is no member", step.to))));
            };
            if bytes > 0 && self.used(step.to) + bytes > capacity {
                return (moved, Some(Hindrance::NoRoom(format!("{} is full", step.to))));
            }
            self.owners[at] = step.to;
            moved.partitions += 1;
            moved.bytes += bytes;
        }
        let cut = || Hindrance::Failed("the line was cut".to_owned());
        (moved, (most < moves.len()).then(cut))
    }

    pub fn remove(&mut self, node: NodeId) {
        assert!(!self.owners.contains(&node), "a node was removed with data on it");
        self.members.remove(&node);
        self.victims.remove(&node);
    }

    /// Writes a piece; `Err` names the node that has no room.
    pub fn write(&mut self, number: u16, bytes: u64) -> Result<(), NodeId> {
        let at = usize::from(Partition::new(number).number());
        let owner = self.owners[at];
        if self.used(owner) + bytes > self.members[&owner] {
            return Err(owner);
        }
        self.bytes[at] += bytes;
        Ok(())
    }
}
