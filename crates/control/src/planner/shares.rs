//! What part of the partitions each node should hold: in proportion to its memory, after MemEFS
//! (equations 3.2 to 3.4).

/// The partitions of each node, as whole numbers that add up to `total`: MemEFS, equation 3.4,
/// *P(v) = c(v) beta log n*, where equation 3.2 makes *c(v)* the node's weight in units of the average
/// node's. The number of partitions never changes here, so *beta log n* is `total / n`, and *P(v)* the
/// node's part of all weights times `total`. The weights are memory, or what else shares follow.
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

    /// Equations 3.2 to 3.4 as they are printed, for nodes between which nothing is left to rounding.
    #[test]
    fn the_terms_of_the_paper_agree() {
        let memory = [4_u64 << 30, 4 << 30, 8 << 30];
        let nodes = memory.len() as f64;
        let all = memory.iter().sum::<u64>() as f64;
        let total = 16_384;
        let beta_log_n = f64::from(total) / nodes;
        for (bytes, held) in memory.into_iter().zip(whole_shares(&memory, &[0; 3], total)) {
            let capacity = bytes as f64 * nodes / all;
            let share = (f64::from(held) / f64::from(total)) / (capacity / nodes);
            assert_eq!((share, f64::from(held)), (1.0, capacity * beta_log_n));
        }
    }
}
