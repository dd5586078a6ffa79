//! A placement says which node holds each partition. It is immutable; a change is a new epoch.

use crate::{NodeId, PARTITIONS, Partition};

/// Version of a placement; it only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The map from partition to node at one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    epoch: Epoch,
    nodes: Vec<NodeId>,
    /// Index into `nodes` for each partition.
    owners: Vec<u16>,
}

impl Placement {
    /// Places the metadata range and the data range separately, each in runs whose lengths differ
    /// by at most one, so that every node gets its share of both.
    ///
    /// # Panics
    /// When there is no node, or more nodes than partitions.
    pub fn even(epoch: Epoch, nodes: Vec<NodeId>) -> Placement {
        assert!(!nodes.is_empty() && nodes.len() <= usize::from(PARTITIONS));
        let count = nodes.len() as u32;
        let metadata = u32::from(crate::METADATA_PARTITIONS);
        let data = u32::from(PARTITIONS) - metadata;
        let owners = (0..metadata)
            .map(|at| at * count / metadata)
            .chain((0..data).map(|at| at * count / data))
            .map(|owner| owner as u16)
            .collect();
        Placement { epoch, nodes, owners }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub fn owner(&self, partition: Partition) -> NodeId {
        self.nodes[usize::from(self.owners[usize::from(partition.number())])]
    }

    /// The partitions of one node, in ascending order.
    pub fn partitions_of(&self, node: NodeId) -> impl Iterator<Item = Partition> + '_ {
        (0..PARTITIONS).map(Partition::new).filter(move |&partition| self.owner(partition) == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_placement_gives_every_node_its_share_of_both_ranges() {
        let nodes: Vec<_> = (1..=3).map(|byte| NodeId([byte; 20])).collect();
        let placement = Placement::even(Epoch(1), nodes.clone());
        let mut total = 0;
        for node in nodes {
            let (metadata, data): (Vec<_>, Vec<_>) =
                placement.partitions_of(node).partition(|partition| partition.is_metadata());
            assert!((341..=342).contains(&metadata.len()), "{} metadata", metadata.len());
            assert_eq!(data.len(), 5_120);
            total += metadata.len() + data.len();
        }
        assert_eq!(total, usize::from(PARTITIONS));
    }
}
