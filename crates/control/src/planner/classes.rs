//! Weights by which a stated share of a range falls on own nodes, whatever the classes' memory.

use crate::own_share::{ByClass, OwnShare};

/// The weights of all nodes together; fine enough for any node's part.
const SCALE: f64 = (1_u64 << 40) as f64;

/// By node.
pub struct Classes {
    pub is_own: Vec<bool>,
    /// Data that the node has room for.
    pub room: Vec<u64>,
}

impl Classes {
    /// Within a class nodes keep their proportions; where only one class may hold something, so do
    /// all nodes.
    pub fn weights(&self, weights: &[u64], own_share: OwnShare, bytes: u64) -> Vec<u64> {
        let all = self.sums(weights);
        if all.own == 0 || all.victim == 0 {
            return weights.to_vec();
        }
        let own = own_share.allowed(bytes, self.sums(&self.room));
        let scaled = |(&weight, &is_own): (&u64, &bool)| {
            let (part, of) = if is_own { (own, all.own) } else { (1.0 - own, all.victim) };
            (SCALE * part * weight as f64 / of as f64) as u64
        };
        weights.iter().zip(&self.is_own).map(scaled).collect()
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
        assert_eq!(weights, [1 << 39, 1 << 37, 3 << 37]);
        let none = classes.weights(&[100, 100, 300], "0".parse().unwrap(), 1 << 20);
        assert_eq!(none[0], 0);
        let alone = classes.weights(&[100, 0, 0], "0".parse().unwrap(), 1 << 20);
        assert_eq!(alone, [100, 0, 0], "without victims the own nodes hold everything");
    }
}
