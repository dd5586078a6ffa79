//! The nodes as they were observed, without their partitions: cheap, and taken all the time. It was
//! true a moment ago and says nothing about now.

use std::collections::BTreeSet;
use std::time::Duration;

use tidefs_model::{NodeClass, NodeId};

/// Usage grows when it rises by more than this part of all memory: servers' buffers come and go.
pub(crate) const GROWTH_PART: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Answered when it was asked.
    Serving,
    /// Did not answer; what it holds is out of reach and no plan touches it.
    Unreachable,
    /// Its process is known to have ended, so what it held is lost.
    Ended,
}

/// A node as it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub class: NodeClass,
    pub state: NodeState,
    /// What the node may use at most.
    pub capacity_bytes: u64,
    /// What it uses, with everything that is not a partition's content.
    pub used_bytes: u64,
    pub partitions: u16,
    /// Since it started: what was written to it, and what was read, with all that goes beside the
    /// bytes of files. The difference of two observations is traffic.
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

impl Node {
    pub fn is_serving(&self) -> bool {
        self.state == NodeState::Serving
    }

    /// Used of capacity, in hundredths; a node of no capacity is full.
    pub fn used_percent(&self) -> f64 {
        percent(self.used_bytes, self.capacity_bytes)
    }
}

pub(crate) fn percent(used: u64, capacity: u64) -> f64 {
    if capacity == 0 { 100.0 } else { used as f64 * 100.0 / capacity as f64 }
}

/// The nodes at one moment, in the order of their ids, so that nothing depends on the order in
/// which they were listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    nodes: Vec<Node>,
    /// Whose hosts are there for them alone, and go when they do.
    guests: BTreeSet<NodeId>,
    /// Of a node that is asked for now, where that was measured.
    start_takes: Option<Duration>,
}

impl Observation {
    pub fn new(mut nodes: Vec<Node>) -> Observation {
        nodes.sort_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
        Observation { nodes, guests: BTreeSet::new(), start_takes: None }
    }

    /// The hosts of these nodes are there for them alone.
    pub fn with_guests(self, guests: impl IntoIterator<Item = NodeId>) -> Observation {
        Observation { guests: guests.into_iter().collect(), ..self }
    }

    /// So long it takes until a node runs that is asked for now, as was measured of others from there.
    pub fn with_start_takes(self, start_takes: Option<Duration>) -> Observation {
        Observation { start_takes, ..self }
    }

    pub(crate) fn start_takes(&self) -> Option<Duration> {
        self.start_takes
    }

    pub(crate) fn is_guest(&self, node: NodeId) -> bool {
        self.guests.contains(&node)
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.index(id).map(|at| &self.nodes[at])
    }

    pub(crate) fn set_partitions(&mut self, at: usize, partitions: u16) {
        self.nodes[at].partitions = partitions;
    }

    pub(crate) fn index(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    pub fn serving(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_serving())
    }

    /// Serving nodes of the own class.
    pub fn own(&self) -> impl Iterator<Item = &Node> {
        self.serving().filter(|node| node.class == NodeClass::Own)
    }

    /// Nodes whose processes are known to have ended.
    pub fn ended(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.state == NodeState::Ended)
    }

    /// Over the serving nodes.
    pub fn used_bytes(&self) -> u64 {
        self.serving().map(|node| node.used_bytes).sum()
    }

    /// Over the serving nodes.
    pub fn capacity_bytes(&self) -> u64 {
        self.serving().map(|node| node.capacity_bytes).sum()
    }

    /// The serving node with the highest share of its memory in use.
    pub fn fullest(&self) -> Option<&Node> {
        self.serving().max_by(|a, b| {
            a.used_percent().total_cmp(&b.used_percent()).then_with(|| b.id.cmp(&a.id))
        })
    }
}
