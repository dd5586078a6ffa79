//! What a store says of itself to people: which nodes it uses and how full they are.

use tidefs_model::{Epoch, NodeClass};

/// A store as it was when it was asked; it may have moved on since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// `embedded`, or the name and version of the servers.
    pub store: String,
    pub epoch: Epoch,
    pub nodes: Vec<NodeOverview>,
}

/// One node of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOverview {
    pub id: String,
    pub class: NodeClass,
    /// How a client reaches the node.
    pub endpoint: String,
    /// The node answered just now.
    pub available: bool,
    pub memory_used_bytes: u64,
    /// What the node may use at most.
    pub memory_capacity_bytes: u64,
    pub partitions: u16,
    /// Stripes and shards that the node holds.
    pub keys: u64,
}

impl Overview {
    /// Over the nodes that answered.
    pub fn memory_used_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_used_bytes).sum()
    }

    /// Over the nodes that answered.
    pub fn memory_capacity_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_capacity_bytes).sum()
    }
}
