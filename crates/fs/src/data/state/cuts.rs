//! How often a file was cut, or made longer so, and how short it was then: what becomes of an append that was under way.

use std::collections::VecDeque;

use super::State;

/// Of more the earlier ones count as cut as short as the shortest of them.
const KEPT_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Cuts {
    count: u64,
    /// Which cut it was, and to what size, of those after which there was none that left less.
    lowest: VecDeque<(u64, u64)>,
}

impl Cuts {
    pub fn cut(&mut self, size: u64) {
        self.count += 1;
        while self.lowest.back().is_some_and(|(_, earlier)| *earlier >= size) {
            self.lowest.pop_back();
        }
        self.lowest.push_back((self.count, size));
        if self.lowest.len() > KEPT_MAX
            && let Some((_, shortest)) = self.lowest.pop_front()
            && let Some(next) = self.lowest.front_mut()
        {
            next.1 = shortest;
        }
    }

    /// The least that was left since there had been so many cuts.
    fn least_since(&self, count: u64) -> Option<u64> {
        self.lowest.iter().find(|(number, _)| *number > count).map(|(_, size)| *size)
    }
}

/// Where an append goes.
#[derive(Debug)]
pub(in crate::data) struct Placed {
    pub offset: u64,
    /// How often the file had been cut when the place was found.
    pub cuts: u64,
    /// Some of it has been written there.
    pub is_begun: bool,
}

/// What an append may write of a range.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::data) enum Left {
    /// So many bytes. The others were cut off: of a record that was begun, as though that had been written before.
    Bytes(u64),
    /// None of it: nothing was written before the cut, or nothing of that is left. It goes to another place as a whole.
    Elsewhere,
}

impl State {
    pub fn cuts(&self) -> u64 {
        self.cuts.count
    }

    pub fn left_of(&self, placed: &Placed, start: u64, length: u64) -> Left {
        match self.cuts.least_since(placed.cuts) {
            None => Left::Bytes(length),
            Some(least) if !placed.is_begun || least <= placed.offset => Left::Elsewhere,
            Some(least) => Left::Bytes(least.saturating_sub(start).min(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_cuts_since_then_counts() {
        let mut cuts = Cuts::default();
        for size in [50, 20, 90, 30, 70] {
            cuts.cut(size);
        }
        let since = |count| cuts.least_since(count);
        assert_eq!([0, 1, 2, 3, 4].map(since), [20, 20, 30, 30, 70].map(Some));
        assert_eq!(since(5), None);
        let mut many = Cuts::default();
        (0..100).for_each(|size| many.cut(size));
        assert_eq!(many.lowest.len(), KEPT_MAX);
        assert_eq!(many.least_since(0), Some(0), "less than it was at no time");
        assert_eq!(many.least_since(98), Some(98));
    }
}
