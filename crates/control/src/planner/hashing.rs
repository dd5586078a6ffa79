//! Highest random weight hashing: which class of nodes a partition belongs to, and which node.
//!
//! After MemFSS (section III.B): a hash of class and partition, less a weight, decides the class, so
//! that a chosen share of the partitions is of the own class; a plain hash of node and partition then
//! decides the node (Thaler, Ravishankar: Using name-based mappings to increase hit rates, 1998). A
//! node that comes or goes changes the node of its own partitions only.

use tidefs_model::{NodeClass, NodeId, Partition};

/// What is subtracted from the hash of the own class, for a share of 0 to 1; hashes are even over 0
/// to 1, so the difference of two is above *w* with the chance *(1 - w)^2 / 2* for *w* of 0 and more,
/// and symmetric.
fn own_weight(own_share: f64) -> f64 {
    if own_share <= 0.5 {
        1.0 - (2.0 * own_share).sqrt()
    } else {
        (2.0 * (1.0 - own_share)).sqrt() - 1.0
    }
}

/// The class of a partition that holds data.
pub fn class_of(partition: Partition, own_share: f64) -> NodeClass {
    let hash = |class: u64| unit(mix(class ^ (u64::from(partition.number()) << 8)));
    let own = hash(1) - own_weight(own_share.clamp(0.0, 1.0));
    if own_share > 0.0 && own >= hash(2) { NodeClass::Own } else { NodeClass::Victim }
}

/// The node of a partition among these; the order does not matter.
pub fn node_of(partition: Partition, nodes: impl Iterator<Item = NodeId>) -> Option<NodeId> {
    let weight = |id: NodeId| {
        let number = |bytes: &[u8]| {
            bytes.iter().fold(0_u64, |number, &byte| (number << 8) | u64::from(byte))
        };
        let folded = id.0.chunks(8).fold(0, |sum, part| mix(sum ^ number(part)));
        mix(folded ^ u64::from(partition.number()))
    };
    nodes.map(|id| (weight(id), id)).max().map(|(_, id)| id)
}

/// The last step of SplitMix64: every bit of the result depends on every bit of the number.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions() -> impl Iterator<Item = Partition> {
        (0..tidefs_model::PARTITIONS).map(Partition::new)
    }

    #[test]
    fn the_chosen_share_is_of_the_own_class() {
        for share in [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0] {
            let own = partitions().filter(|&it| class_of(it, share) == NodeClass::Own).count();
            let own = own as f64 / f64::from(tidefs_model::PARTITIONS);
            assert!((own - share).abs() < 0.02, "{own} instead of {share}");
        }
    }

    #[test]
    fn a_larger_share_takes_partitions_from_victims_only() {
        for partition in partitions() {
            let was_own = class_of(partition, 0.3) == NodeClass::Own;
            assert!(!was_own || class_of(partition, 0.6) == NodeClass::Own);
        }
    }

    #[test]
    fn a_node_that_goes_changes_the_node_of_its_own_partitions_only() {
        let all: Vec<_> = (1..=9).map(|byte| NodeId([byte; 20])).collect();
        let mut count = vec![0_usize; all.len()];
        for partition in partitions() {
            let before = node_of(partition, all.iter().copied()).unwrap();
            let after = node_of(partition, all[1..].iter().copied()).unwrap();
            assert!(before == all[0] || before == after);
            count[usize::from(before.0[0]) - 1] += 1;
        }
        let even = usize::from(tidefs_model::PARTITIONS) / all.len();
        assert!(count.iter().all(|held| held.abs_diff(even) < even / 8), "{count:?}");
        assert_eq!(node_of(Partition::new(0), std::iter::empty()), None);
    }
}
