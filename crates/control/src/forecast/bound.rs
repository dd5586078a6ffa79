//! How much more may come of a run at most, as its graph knows while it runs: what its jobs have written already
//! and what those may write that can begin soon. It is a bound for what a slope seems to bring, and no forecast.

use super::shape::Shape;

/// Jobs may be faster than those of their kind were by this factor.
const FASTER: f64 = 2.0;
/// Files may be this much larger than those of their kind were.
const MARGIN: f64 = 1.1;
/// A part of what is in use that is in files of which no graph tells: an engine's own, logs, directories.
const STRAY: f64 = 0.1;

/// What is still to come at most, in bytes and seconds from the telling on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bound {
    shape: Shape,
    /// In files of which it is known that they are there.
    there: f64,
    /// What jobs that run write in all.
    running: f64,
}

impl Bound {
    /// The points are instants, and the bytes in use from each on at most; all that runs has written at
    /// the first of them.
    pub fn new(there: f64, points: &[(f64, f64)]) -> Bound {
        let running = points.first().map_or(0.0, |point| point.1 - there).max(0.0);
        Bound { shape: Shape::new(points), there, running }
    }

    /// By how much more may be in use within some time, so many seconds after the telling; `then` and `held`
    /// are the bytes in use at the telling and now. Nothing where more came than the graph knows of.
    pub fn growth(&self, lasted: f64, ahead: f64, then: f64, held: f64) -> Option<f64> {
        // Of the files of jobs that run, a part is there: it is in use, and in no file that is known to be there.
        let begun = (then - self.there).clamp(0.0, self.running);
        let most = self.shape.most(0.0, FASTER * (lasted + ahead)) - self.there - begun;
        let left = most.max(0.0) * MARGIN - (held - then).max(0.0);
        (left >= -STRAY * held).then_some(left.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 bytes are there; two jobs that run write 20 in all, and after 40 s come 100 more.
    fn bound() -> Bound {
        Bound::new(50.0, &[(0.0, 70.0), (40.0, 170.0), (60.0, 170.0)])
    }

    #[test]
    fn no_more_comes_than_jobs_write_that_run_or_can_begin() {
        let growth = |lasted, ahead| bound().growth(lasted, ahead, 50.0, 50.0).map(f64::round);
        assert_eq!(growth(0.0, 5.0), Some(22.0), "with a margin");
        // Twice as fast as told, the others begin after 20 s.
        assert_eq!((growth(0.0, 19.0), growth(10.0, 11.0)), (Some(22.0), Some(132.0)));
    }

    #[test]
    fn what_running_jobs_have_written_already_does_not_come_again() {
        let growth = |then, held| bound().growth(0.0, 5.0, then, held).map(f64::round);
        assert_eq!((growth(65.0, 65.0), growth(50.0, 60.0)), (Some(6.0), Some(12.0)));
        // Others have files here as well.
        assert_eq!(growth(500.0, 500.0), Some(0.0));
        // What was removed meanwhile may not come again.
        assert_eq!(growth(50.0, 10.0), Some(22.0));
    }

    #[test]
    fn where_more_came_than_the_graph_knows_of_it_bounds_nothing() {
        assert_eq!(bound().growth(0.0, 5.0, 50.0, 90.0), None);
        // An engine writes a little besides.
        assert_eq!(bound().growth(0.0, 5.0, 50.0, 75.0), Some(0.0));
    }
}
