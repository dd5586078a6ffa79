//! Weights by which a stated share of a range falls on own nodes, whatever the classes' memory.

use crate::own_share::{ByClass, OwnShare};

/// The weights of all nodes together; fine enough for any node's part.
const SCALE: f64 = (1_u64 << 40) as f64;

/// Less than this part of the room says nothing of where new data should go.
const LEFT_PART: u64 = 50;

/// What nodes are to hold of a range, each in a unit of its own.
pub struct Weights {
    /// Of the bytes that are there.
    pub bytes: Vec<u64>,
    /// Of the partitions, which is what fills nodes later.
    pub numbers: Vec<u64>,
}

/// By node.
pub struct Classes {
    pub is_own: Vec<bool>,
    /// Data that the node has room for.
    pub room: Vec<u64>,
}

impl Classes {
    /// Within a class nodes keep their proportions; where only one class may hold something, so do
    /// all nodes. Where a class is full new data is to fall on the other, so partitions are spread by
    /// the room that bytes leave: else the full one would be met full again with the next few files.
    pub fn weights(&self, weights: &[u64], own_share: OwnShare, bytes: u64) -> Weights {
        let all = self.sums(weights);
        if all.own == 0 || all.victim == 0 {
            return Weights { bytes: weights.to_vec(), numbers: weights.to_vec() };
        }
        let own = own_share.allowed(bytes, self.sums(&self.room));
        let parts = weights.iter().zip(&self.is_own).map(|(&weight, &is_own)| {
            let (part, of) = if is_own { (own, all.own) } else { (1.0 - own, all.victim) };
            part * weight as f64 / of as f64
        });
        let parts: Vec<f64> = parts.collect();
        let of_bytes: Vec<_> = parts.iter().map(|part| (SCALE * part) as u64).collect();
        let left = |(part, &room): (&f64, &u64)| room.saturating_sub((part * bytes as f64) as u64);
        let left: Vec<_> = parts.iter().zip(&self.room).map(left).collect();
        let is_much = left.iter().sum::<u64>() > self.room.iter().sum::<u64>() / LEFT_PART;
        let is_full = own != own_share.part();
        let numbers = if is_full && is_much { left } else { of_bytes.clone() };
        Weights { bytes: of_bytes, numbers }
    }

    fn sums(&self, of: &[u64]) -> ByClass<u64> {
        let mut sums = ByClass::default();
        for (value, is_own) in of.iter().zip(&self.is_own) {
            *(if *is_own { &mut sums.own } else { &mut sums.victim }) += value;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_the_classes_and_the_proportions_are_the_nodes() {
        let classes = Classes { is_own: vec![true, false, false], room: vec![1 << 30; 3] };
        let weights = classes.weights(&[100, 100, 300], "0.5".parse().unwrap(), 1 << 20);
        assert_eq!(weights.bytes, [1 << 39, 1 << 37, 3 << 37]);
        assert_eq!(weights.numbers, weights.bytes);
        let none = classes.weights(&[100, 100, 300], "0".parse().unwrap(), 1 << 20);
        assert_eq!((none.bytes[0], none.numbers[0]), (0, 0));
        let alone = classes.weights(&[100, 0, 0], "0".parse().unwrap(), 1 << 20);
        assert_eq!(alone.bytes, [100, 0, 0], "without victims the own nodes hold everything");
    }

    #[test]
    fn where_a_class_is_full_partitions_go_where_room_is_left() {
        let classes = Classes { is_own: vec![true, true, false], room: vec![300, 100, 100] };
        let weights = classes.weights(&[300, 100, 100], "0".parse().unwrap(), 200);
        assert_eq!(weights.bytes, [3 << 37, 1 << 37, 1 << 39]);
        assert_eq!(weights.numbers, [225, 75, 0]);
        let full = classes.weights(&[300, 100, 100], "0".parse().unwrap(), 500);
        assert_eq!(full.numbers, full.bytes, "there is no room anywhere");
    }
}
