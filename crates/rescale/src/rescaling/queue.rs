//! Moves that wait, by the two servers that they need.
//!
//! What is taken next is of the pair that has most left to do: the busiest server is never the one
//! that waits, so the whole takes about as long as its links need.

use std::collections::{BTreeMap, VecDeque};

/// Entries may be out of date; who takes one looks whether it still holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pairs: BTreeMap<(usize, usize), VecDeque<(usize, u64)>>,
    /// By server, bytes that wait to be sent and to be received.
    out: Vec<u64>,
    into: Vec<u64>,
}

impl Queue {
    pub fn clear(&mut self) {
        *self = Queue::default();
    }

    pub fn push(&mut self, bucket: usize, from: usize, to: usize, bytes: u64) {
        let servers = self.out.len().max(from + 1).max(to + 1);
        self.out.resize(servers, 0);
        self.into.resize(servers, 0);
        self.out[from] = self.out[from].saturating_add(bytes);
        self.into[to] = self.into[to].saturating_add(bytes);
        self.pairs.entry((from, to)).or_default().push_back((bucket, bytes));
    }

    /// The pairs that have something, and for each the bytes that its busier server still has to do, over
    /// what `per_second` says of that server.
    pub fn pairs(
        &self,
        per_second: impl Fn(usize) -> f64,
    ) -> impl Iterator<Item = ((usize, usize), f64)> {
        self.pairs.keys().map(move |&(from, to)| {
            let out = self.out[from] as f64 / per_second(from);
            ((from, to), out.max(self.into[to] as f64 / per_second(to)))
        })
    }

    /// The next entry of a pair.
    pub fn first(&self, pair: (usize, usize)) -> Option<usize> {
        self.pairs.get(&pair)?.front().map(|(bucket, _)| *bucket)
    }

    pub fn take(&mut self, pair: (usize, usize)) -> Option<usize> {
        let waiting = self.pairs.get_mut(&pair)?;
        let (bucket, bytes) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.pairs.remove(&pair);
        }
        self.out[pair.0] = self.out[pair.0].saturating_sub(bytes);
        self.into[pair.1] = self.into[pair.1].saturating_sub(bytes);
        Some(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_servers_are_served_first() {
        let mut queue = Queue::default();
        queue.push(0, 0, 1, 10);
        queue.push(1, 2, 3, 30);
        queue.push(2, 0, 3, 5);
        let mut pairs: Vec<_> = queue.pairs(|_| 1.0).collect();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
        assert_eq!(pairs, [((0, 3), 35.0), ((2, 3), 35.0), ((0, 1), 15.0)]);
        assert_eq!(queue.first((2, 3)), Some(1));
        assert_eq!((queue.take((2, 3)), queue.take((2, 3))), (Some(1), None));
        assert_eq!(queue.pairs(|_| 1.0).map(|it| it.1).collect::<Vec<_>>(), [15.0, 15.0]);
    }
}
