//! The nodes, and which partition lies where and how large it is: what is taken before something is
//! planned. It was true a moment ago and says nothing about now.

use std::collections::BTreeMap;

use tidefs_model::{METADATA_PARTITIONS, NodeId, Partition};

use crate::observation::{Node, Observation};

/// What an empty node uses: the server itself, its buffers and its table of nodes (2 to 5 MiB,
/// measured on an idle node of either server).
pub const EMPTY_NODE_BYTES: u64 = 4 << 20;

/// Memory that a node uses for each byte that its partitions were found to hold is believed up to
/// this much; above it, the memory is for something else (clients' buffers, a copy under way).
const OVERHEAD_MOST: f64 = 1.3;

/// Below this many bytes the ratio of memory to content says nothing.
const OVERHEAD_SIGNIFICANT_BYTES: u64 = 32 << 20;

/// Where a partition lies and how large it was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// `None`: no node says that it owns the partition.
    pub owner: Option<NodeId>,
    /// Bytes of content; `None` where nobody could say.
    pub bytes: Option<u64>,
}

/// The nodes and the partitions at one moment. Partition *p* is entry *p*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    nodes: Observation,
    /// Index into the nodes.
    owners: Vec<Option<u16>>,
    /// Memory that the partition takes on its node.
    bytes: Vec<u64>,
    /// Bytes a second, of nodes that were measured.
    bandwidths: BTreeMap<NodeId, u64>,
    /// The first so many partitions hold metadata.
    metadata: u16,
}

/// The nodes and the partitions contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error("partition {} lies on {node}, which is not among the nodes", partition.number())]
    UnknownOwner { partition: Partition, node: NodeId },
    #[error("{found} partitions and {nodes} nodes are more than there can be")]
    TooMany { found: usize, nodes: usize },
}

impl Inventory {
    /// Sizes become memory: what was counted is scaled to what the nodes use, and what nobody
    /// could count is taken to be an even part of what its node uses beyond the rest.
    pub fn new(nodes: Vec<Node>, partitions: &[Held]) -> Result<Inventory, Contradiction> {
        let nodes = Observation::new(nodes);
        let (found, count) = (partitions.len(), nodes.nodes().len());
        let most = usize::from(tidefs_model::PARTITIONS);
        if found > most || count > most {
            return Err(Contradiction::TooMany { found, nodes: count });
        }
        let owner = |(number, held): (usize, &Held)| match held.owner {
            None => Ok(None),
            Some(node) => match nodes.index(node) {
                Some(at) => Ok(Some(at as u16)),
                None => {
                    let partition = Partition::new(number as u16);
                    Err(Contradiction::UnknownOwner { partition, node })
                }
            },
        };
        let owners = partitions.iter().enumerate().map(owner).collect::<Result<Vec<_>, _>>()?;
        let counted: Vec<_> = partitions.iter().map(|held| held.bytes).collect();
        let bytes = memory(&nodes, &owners, &counted);
        let (bandwidths, metadata) = (BTreeMap::new(), METADATA_PARTITIONS);
        let mut inventory = Inventory { nodes, owners, bytes, bandwidths, metadata };
        for at in 0..count {
            let held = inventory.owners.iter().filter(|owner| **owner == Some(at as u16)).count();
            inventory.nodes.set_partitions(at, held as u16);
        }
        Ok(inventory)
    }

    /// The bandwidths that shares are to rest on, in bytes a second.
    pub fn with_bandwidths(self, bandwidths: BTreeMap<NodeId, u64>) -> Inventory {
        Inventory { bandwidths, ..self }
    }

    /// Of a service that is not this file system: its first `count` partitions hold metadata, none of
    /// them for most.
    pub fn with_metadata_partitions(self, count: u16) -> Inventory {
        Inventory { metadata: count, ..self }
    }

    /// Is there any partition for metadata?
    pub fn has_metadata(&self) -> bool {
        self.metadata > 0
    }

    /// Does the partition hold metadata, which lies on own nodes only?
    pub fn is_metadata(&self, partition: Partition) -> bool {
        partition.number() < self.metadata
    }

    /// In bytes a second; `None` of a node that was not measured.
    pub fn bandwidth(&self, node: NodeId) -> Option<u64> {
        self.bandwidths.get(&node).copied()
    }

    pub fn observation(&self) -> &Observation {
        &self.nodes
    }

    pub fn nodes(&self) -> &[Node] {
        self.nodes.nodes()
    }

    pub fn partitions(&self) -> impl ExactSizeIterator<Item = Partition> + use<> {
        (0..self.owners.len()).map(|number| Partition::new(number as u16))
    }

    pub fn owner(&self, partition: Partition) -> Option<NodeId> {
        self.owners[usize::from(partition.number())]
            .map(|at| self.nodes.nodes()[usize::from(at)].id)
    }

    /// Memory that the partition takes on its node.
    pub fn bytes(&self, partition: Partition) -> u64 {
        self.bytes[usize::from(partition.number())]
    }

    /// Memory that the partitions of each node take, in the order of the nodes.
    pub fn bytes_by_node(&self) -> Vec<u64> {
        let mut held = vec![0; self.nodes.nodes().len()];
        for (owner, bytes) in self.owners.iter().zip(&self.bytes) {
            if let Some(owner) = owner {
                held[usize::from(*owner)] += bytes;
            }
        }
        held
    }

    pub(crate) fn owners(&self) -> &[Option<u16>] {
        &self.owners
    }

    pub(crate) fn sizes(&self) -> &[u64] {
        &self.bytes
    }

    /// Partitions that nobody can reach: on a node that does not answer, or on none.
    pub fn out_of_reach(&self) -> BTreeMap<Option<NodeId>, Vec<Partition>> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for partition in self.partitions() {
            let owner = self.owner(partition);
            let serves = owner.and_then(|id| self.nodes.node(id)).is_some_and(Node::is_serving);
            if !serves {
                found.entry(owner).or_default().push(partition);
            }
        }
        found
    }
}

/// See [`Inventory::new`].
fn memory(nodes: &Observation, owners: &[Option<u16>], counted: &[Option<u64>]) -> Vec<u64> {
    let mut known = vec![0_u64; nodes.nodes().len()];
    let mut unknown = vec![0_u64; nodes.nodes().len()];
    for (owner, bytes) in owners.iter().zip(counted) {
        if let Some(at) = owner.map(usize::from) {
            known[at] += bytes.unwrap_or(0);
            unknown[at] += u64::from(bytes.is_none());
        }
    }
    let content = |at: usize| nodes.nodes()[at].used_bytes.saturating_sub(EMPTY_NODE_BYTES);
    let overhead = overhead(nodes, &known, &unknown, content);
    let scaled = |bytes: u64| (bytes as f64 * overhead) as u64;
    let memory_of = |(owner, bytes): (&Option<u16>, &Option<u64>)| match (bytes, owner) {
        (Some(bytes), _) => scaled(*bytes),
        (None, None) => 0,
        (None, Some(at)) => {
            let at = usize::from(*at);
            content(at).saturating_sub(scaled(known[at])) / unknown[at].max(1)
        }
    };
    owners.iter().zip(counted).map(memory_of).collect()
}

/// Memory for each byte of content, over the nodes whose content is known.
fn overhead(
    nodes: &Observation,
    known: &[u64],
    unknown: &[u64],
    content: impl Fn(usize) -> u64,
) -> f64 {
    let counts = |at: &usize| nodes.nodes()[*at].is_serving() && unknown[*at] == 0;
    let (found, used) = (0..known.len())
        .filter(counts)
        .fold((0, 0), |(found, used), at| (found + known[at], used + content(at)));
    if found < OVERHEAD_SIGNIFICANT_BYTES {
        return 1.0;
    }
    (used as f64 / found as f64).clamp(1.0, OVERHEAD_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::NodeState;
    use tidefs_model::NodeClass;

    const MIB: u64 = 1 << 20;

    fn node(byte: u8, used: u64) -> Node {
        Node {
            id: NodeId([byte; 20]),
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: 256 * MIB,
            used_bytes: used,
            partitions: 0,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    fn held(byte: u8, bytes: Option<u64>) -> Held {
        Held { owner: Some(NodeId([byte; 20])), bytes }
    }

    #[test]
    fn sizes_are_scaled_to_the_memory_that_they_take() {
        let nodes = vec![node(1, EMPTY_NODE_BYTES + 125 * MIB)];
        let partitions = [held(1, Some(60 * MIB)), held(1, Some(40 * MIB))];
        let inventory = Inventory::new(nodes, &partitions).unwrap();
        assert_eq!(inventory.bytes(Partition::new(0)), 75 * MIB);
        assert_eq!(inventory.bytes(Partition::new(1)), 50 * MIB);
    }

    #[test]
    fn memory_far_beyond_the_content_is_for_something_else() {
        let nodes = vec![node(1, 250 * MIB)];
        let inventory = Inventory::new(nodes, &[held(1, Some(100 * MIB))]).unwrap();
        assert_eq!(inventory.bytes(Partition::new(0)), 130 * MIB);
    }

    #[test]
    fn unknown_sizes_are_even_parts_of_what_the_node_uses() {
        let nodes = vec![node(1, EMPTY_NODE_BYTES + 30 * MIB), node(2, EMPTY_NODE_BYTES)];
        let partitions = [held(1, None), held(1, Some(10 * MIB)), held(1, None), held(2, None)];
        let inventory = Inventory::new(nodes, &partitions).unwrap();
        assert_eq!(inventory.bytes(Partition::new(0)), 10 * MIB);
        assert_eq!(inventory.bytes(Partition::new(2)), 10 * MIB);
        assert_eq!(inventory.bytes(Partition::new(3)), 0);
        assert_eq!(inventory.nodes()[0].partitions, 3);
    }

    #[test]
    fn a_partition_on_an_unknown_node_is_a_contradiction() {
        let error = Inventory::new(vec![node(1, 0)], &[held(1, None), held(9, None)]).unwrap_err();
        assert!(matches!(error, Contradiction::UnknownOwner { partition, .. }
            if partition.number() == 1));
    }

    #[test]
    fn what_is_out_of_reach_is_named() {
        let lost = Node { state: NodeState::Unreachable, ..node(2, 0) };
        let partitions = [held(1, None), held(2, None), Held { owner: None, bytes: None }];
        let inventory = Inventory::new(vec![node(1, 0), lost], &partitions).unwrap();
        let found = inventory.out_of_reach();
        assert_eq!(found[&Some(lost.id)], [Partition::new(1)]);
        assert_eq!(found[&None], [Partition::new(2)]);
        assert_eq!(found.len(), 2);
    }
}
