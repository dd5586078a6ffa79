//! Which bytes of a stripe's buffer hold something: ranges in ascending order that neither overlap
//! nor touch.

use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<u32>>);

impl Ranges {
    /// Adds a range that is not empty.
    pub fn insert(&mut self, range: Range<u32>) {
        // The next write of a sequential stream goes on where the last one ended.
        if let Some(last) = self.0.last_mut()
            && (last.start..=last.end).contains(&range.start)
        {
            last.end = last.end.max(range.end);
            return;
        }
        let from = self.0.partition_point(|held| held.end < range.start);
        let to = self.0.partition_point(|held| held.start <= range.end);
        let merged = self.0[from..to]
            .iter()
            .fold(range, |all, held| all.start.min(held.start)..all.end.max(held.end));
        self.0.splice(from..to, [merged]);
    }

    pub fn remove(&mut self, range: Range<u32>) {
        let cut = |held: Range<u32>| {
            let before = held.start..held.end.min(range.start);
            let after = held.start.max(range.end)..held.end;
            [before, after].into_iter().filter(|part| !part.is_empty())
        };
        self.0 = std::mem::take(&mut self.0).into_iter().flat_map(cut).collect();
    }

    /// The parts of `range` that are held.
    pub fn within(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let from = self.0.partition_point(|held| held.end <= range.start);
        self.0[from..]
            .iter()
            .take_while({
                let end = range.end;
                move |held| held.start < end
            })
            .map(move |held| held.start.max(range.start)..held.end.min(range.end))
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0.iter().cloned()
    }

    /// One beyond the last byte held; 0 when nothing is.
    pub fn end(&self) -> u32 {
        self.0.last().map_or(0, |last| last.end)
    }

    pub fn bytes(&self) -> u32 {
        self.0.iter().map(|held| held.end - held.start).sum()
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(ranges: &Ranges) -> [bool; 32] {
        let mut bytes = [false; 32];
        for range in ranges.iter() {
            bytes[range.start as usize..range.end as usize].fill(true);
        }
        bytes
    }

    proptest! {
        #[test]
        fn ranges_hold_what_was_inserted_and_not_removed(
            changes in prop::collection::vec((any::<bool>(), 0u32..32, 1u32..12), 1..40),
            asked in (0u32..31, 1u32..16),
        ) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 32];
            for (insert, start, length) in changes {
                let range = start..(start + length).min(32);
                bytes[range.start as usize..range.end as usize].fill(insert);
                if insert { ranges.insert(range) } else { ranges.remove(range) }
                prop_assert_eq!(held(&ranges), bytes);
                let borders: Vec<_> = ranges.iter().flat_map(|held| [held.start, held.end]).collect();
                prop_assert!(borders.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ranges);
            }
            let asked = asked.0..(asked.0 + asked.1).min(32);
            let window = asked.start as usize..asked.end as usize;
            let found: u32 = ranges.within(asked.clone()).map(|part| part.end - part.start).sum();
            prop_assert_eq!(found as usize, bytes[window].iter().filter(|&&held| held).count());
            prop_assert_eq!(ranges.bytes() as usize, bytes.iter().filter(|&&held| held).count());
            let end = bytes.iter().rposition(|&held| held).map_or(0, |at| at + 1);
            prop_assert_eq!(ranges.end() as usize, end);
        }
    }
}
