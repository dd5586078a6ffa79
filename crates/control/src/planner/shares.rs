//! What part of the partitions each node should hold: in proportion to its memory, after MemEFS
//! (equations 3.2 to 3.4).

/// A node's memory in units of the average node's: MemEFS, equation 3.2.
pub fn capacity(memory_bytes: u64, all_bytes: u64, nodes: usize) -> f64 {
    memory_bytes as f64 * nodes as f64 / all_bytes as f64
}

/// How much of its fair part a node holds, 1 when the spread is even: MemEFS, equation 3.3.
pub fn share(held: u32, total: u32, capacity: f64, nodes: usize) -> f64 {
    (f64::from(held) / f64::from(total)) / (capacity / nodes as f64)
}

/// The partitions of each node, as whole numbers that add up to `total`: MemEFS, equation 3.4,
/// *P(v) = c(v) beta log n*. The number of partitions never changes here, so *beta log n* is
/// `total / n`.
///
/// Where the parts are not whole, those who hold more already keep one more, so that nothing moves
/// for the sake of rounding; then come the largest remainders, then the first in the list.
pub fn whole_shares(weights: &[u64], held: &[u32], total: u32) -> Vec<u32> {
    let all: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if all == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: u64| u128::from(weight) * u128::from(total);
    let mut shares: Vec<_> = weights.iter().map(|&weight| (exact(weight) / all) as u32).collect();
    let remainder = |at: usize| exact(weights[at]) % all;
    let mut open: Vec<_> = (0..weights.len()).filter(|&at| remainder(at) > 0).collect();
    open.sort_by_key(|&at| (held[at] <= shares[at], std::cmp::Reverse(remainder(at)), at));
    let missing = total - shares.iter().sum::<u32>();
    open.iter().take(missing as usize).for_each(|&at| shares[at] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_hold_in_proportion_to_their_memory() {
        assert_eq!(whole_shares(&[1, 1, 2], &[0; 3], 16_384), [4_096, 4_096, 8_192]);
        assert_eq!(whole_shares(&[1, 0, 1], &[0; 3], 10), [5, 0, 5]);
        assert_eq!(whole_shares(&[0, 0], &[3, 3], 6), [0, 0]);
    }

    #[test]
    fn whoever_holds_more_keeps_what_rounding_leaves() {
        assert_eq!(whole_shares(&[1, 1, 1], &[3, 3, 4], 10), [3, 3, 4]);
        assert_eq!(whole_shares(&[1, 1, 1], &[3, 4, 3], 10), [3, 4, 3]);
        assert_eq!(whole_shares(&[1, 1, 1], &[0, 0, 0], 10), [4, 3, 3]);
    }

    #[test]
    fn the_terms_of_the_paper_agree() {
        let memory = [4_u64 << 30, 4 << 30, 8 << 30];
        let all = memory.iter().sum();
        let held = whole_shares(&memory, &[0; 3], 16_384);
        for (bytes, held) in memory.into_iter().zip(held) {
            let capacity = capacity(bytes, all, 3);
            assert_eq!(share(held, 16_384, capacity, 3), 1.0);
        }
    }
}
