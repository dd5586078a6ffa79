//! Ranges of a file in which what is missing is no loss, though a node was lost: what was punched, or cut, since.
//!
//! Of each it is known as of which loss: what is missing there was lost where the store has had another one since.
//! This asks no store.

use std::ops::Range;

use crate::inode::{CutAt, Hole};

/// Holes that a record can say of. More go on to count as lost.
const HOLES_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holes(Vec<Hole>);

impl Holes {
    pub fn of(cut: Option<CutAt>, punched: &[Hole]) -> Holes {
        let cut = cut.map(|cut| Hole { from: cut.from, to: u64::MAX, as_of: cut.as_of });
        Holes(punched.iter().copied().chain(cut).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A range in pieces, each with the last loss before it was punched or cut; `None`: it was not.
    pub fn pieces(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<u64>)> {
        let mut pieces: Vec<(Range<u64>, Option<u64>)> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let edges = self.0.iter().flat_map(|hole| [hole.from, hole.to]);
            let end =
                edges.filter(|edge| *edge > at).min().map_or(range.end, |it| it.min(range.end));
            let as_of =
                self.0.iter().filter(|it| (it.from..it.to).contains(&at)).map(|it| it.as_of).max();
            match pieces.last_mut() {
                Some((piece, known)) if *known == as_of => piece.end = end,
                _ => pieces.push((at..end, as_of)),
            }
            at = end;
        }
        pieces
    }

    /// From where on all that is missing up to a byte is a hole, and the earliest of the losses of which that holds; the
    /// byte itself and 0 where it does not lie behind one.
    pub fn before(&self, byte: u64) -> (u64, u64) {
        let (mut from, mut as_of) = (byte, u64::MAX);
        let behind = |at| self.0.iter().filter(move |it| it.from < at && at <= it.to);
        while let Some(hole) = behind(from).max_by_key(|hole| hole.as_of) {
            (from, as_of) = (hole.from, as_of.min(hole.as_of));
        }
        (from, if from < byte { as_of } else { 0 })
    }
}

/// What was punched before, and one hole more. `None`: there are too many already.
pub(super) fn with(punched: &[Hole], cut: Option<CutAt>, new: Hole) -> Option<Vec<Hole>> {
    let covers = |it: &Hole, other: &Hole| {
        it.as_of >= other.as_of && it.from <= other.from && it.to >= other.to
    };
    let cut = Holes::of(cut, &[]).0.pop();
    let is_cut = |hole: &Hole| cut.as_ref().is_some_and(|cut| covers(cut, hole));
    let mut left: Vec<_> = punched.iter().filter(|hole| !is_cut(hole)).copied().collect();
    if is_cut(&new) || left.iter().any(|it| covers(it, &new)) {
        return Some(left);
    }
    let mut all = new;
    // What the new one lies at grows, and what it covers goes.
    let is_joined = |it: &Hole, all: &Hole| {
        it.as_of == all.as_of && it.from <= all.to && all.from <= it.to
            || it.as_of < all.as_of && it.from >= all.from && it.to <= all.to
    };
    while let Some(at) = left.iter().position(|it| is_joined(it, &all)) {
        let joined = left.swap_remove(at);
        all = Hole { from: all.from.min(joined.from), to: all.to.max(joined.to), ..all };
    }
    left.push(all);
    left.sort_by_key(|hole| hole.from);
    if left.len() > HOLES_MAX {
        // One of an older loss counts as lost again.
        let oldest = (0..left.len()).min_by_key(|at| left[*at].as_of)?;
        if left[oldest].as_of == new.as_of {
            return None;
        }
        left.remove(oldest);
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(from: u64, to: u64, as_of: u64) -> Hole {
        Hole { from, to, as_of }
    }

    #[test]
    fn each_byte_goes_by_the_last_loss_before_it_was_punched() {
        let cut = Some(CutAt { from: 90, as_of: 5 });
        let holes = Holes::of(cut, &[hole(10, 30, 5), hole(20, 40, 7), hole(30, 35, 5)]);
        let pieces = holes.pieces(0..100);
        let wanted = [
            (0..10, None),
            (10..20, Some(5)),
            (20..40, Some(7)),
            (40..90, None),
            (90..100, Some(5)),
        ];
        assert_eq!(pieces, wanted);
        assert_eq!(holes.pieces(15..16), [(15..16, Some(5))]);
        assert_eq!(holes.pieces(7..7), []);
        assert_eq!(Holes::default().pieces(3..9), [(3..9, None)]);
    }

    #[test]
    fn a_gap_is_a_hole_as_far_as_holes_lie_one_behind_the_other() {
        let holes = Holes::of(None, &[hole(10, 20, 5), hole(20, 40, 7), hole(50, 60, 9)]);
        assert_eq!(holes.before(40), (10, 5));
        assert_eq!(holes.before(35), (10, 5));
        assert_eq!(holes.before(20), (10, 5));
        assert_eq!(holes.before(55), (50, 9));
        for byte in [10, 45, 50, 61] {
            assert_eq!(holes.before(byte), (byte, 0));
        }
        let cut = Holes::of(Some(CutAt { from: 0, as_of: 3 }), &[]);
        assert_eq!(cut.before(1 << 40), (0, 3));
    }

    #[test]
    fn holes_that_touch_are_one_and_an_older_one_goes_where_a_later_one_covers_it() {
        let with = |punched: &[Hole], new| with(punched, None, new);
        let all = with(&[hole(0, 10, 5), hole(20, 30, 5)], hole(10, 20, 5));
        assert_eq!(all, Some(vec![hole(0, 30, 5)]));
        let all = with(&[hole(0, 10, 5), hole(12, 18, 5)], hole(11, 20, 7));
        assert_eq!(all, Some(vec![hole(0, 10, 5), hole(11, 20, 7)]));
        // What is known of an older loss alone is not known of the later one.
        let all = with(&[hole(0, 15, 5)], hole(11, 20, 7));
        assert_eq!(all, Some(vec![hole(0, 15, 5), hole(11, 20, 7)]));
        let full: Vec<_> = (0..HOLES_MAX as u64).map(|at| hole(at * 10, at * 10 + 5, 5)).collect();
        assert_eq!(with(&full, hole(7, 9, 5)), None);
        assert_eq!(with(&full, hole(5, 10, 5)).map(|all| all.len()), Some(HOLES_MAX - 1));
    }

    #[test]
    fn a_hole_that_is_known_takes_no_place_and_one_of_an_older_loss_gives_way() {
        let cut = Some(CutAt { from: 50, as_of: 6 });
        let known = [hole(0, 20, 6), hole(60, 70, 7)];
        for new in [hole(5, 20, 6), hole(5, 10, 5), hole(60, 70, 7), hole(55, 90, 6)] {
            assert_eq!(with(&known, cut, new), Some(known.to_vec()));
        }
        // What lies behind a cut of the same loss is known by that.
        let all = with(&[hole(60, 70, 6)], cut, hole(0, 1, 6));
        assert_eq!(all, Some(vec![hole(0, 1, 6)]));
        let mut full: Vec<_> =
            (0..HOLES_MAX as u64).map(|at| hole(at * 10, at * 10 + 5, 5)).collect();
        full[9].as_of = 4;
        let all = with(&full, None, hole(7, 9, 5)).expect("one gives way");
        assert!(all.len() == HOLES_MAX && all.contains(&hole(7, 9, 5)) && !all.contains(&full[9]));
    }
}
