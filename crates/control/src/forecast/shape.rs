//! Bytes over time as they were told, to be looked up. Between two points it goes straight on.

use super::curve::Stretch;

/// The course is kept at so many instants.
const POINTS: usize = 4_000;

/// Seconds since the beginning, and bytes in use then.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shape {
    points: Vec<(f64, f64)>,
}

impl Shape {
    /// The changes are instants, and the bytes in use from each on.
    pub fn new(changes: &[(f64, f64)]) -> Shape {
        let end = changes.last().map_or(0.0, |change| change.0);
        let mut at = 0;
        let point = |number: usize| {
            let until = end * number as f64 / POINTS as f64;
            while at + 1 < changes.len() && changes[at + 1].0 <= until {
                at += 1;
            }
            changes.get(at).map(|change| (until, change.1))
        };
        Shape { points: (0..=POINTS).filter_map(point).collect() }
    }

    /// Straight from the beginning of each stretch to its end.
    pub fn of(stretches: &[Stretch]) -> Shape {
        let (mut points, mut begin) = (Vec::new(), 0.0);
        for stretch in stretches {
            points.push((begin, stretch.from));
            begin += stretch.seconds;
            points.push((begin, stretch.to));
        }
        Shape { points }
    }

    /// Bytes in use at an instant.
    pub fn at(&self, seconds: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 <= seconds);
        let before = after.checked_sub(1).map(|at| self.points[at]);
        match (before, self.points.get(after)) {
            (Some(before), Some(&next)) => {
                let part = (seconds - before.0) / (next.0 - before.0).max(f64::MIN_POSITIVE);
                before.1 + part * (next.1 - before.1)
            }
            (Some(point), None) => point.1,
            (None, next) => next.map_or(0.0, |point| point.1),
        }
    }

    /// When so much is in use first, within a time; the end of that time where it never is.
    pub fn reaches(&self, bytes: f64, from: f64, until: f64) -> f64 {
        if self.at(from) >= bytes {
            return from;
        }
        let begin = self.points.partition_point(|point| point.0 <= from);
        let found = self.points[begin..].iter().position(|point| point.1 >= bytes);
        let Some(next) = found.map(|found| begin + found) else { return until };
        let (before, next) = (self.points[next.saturating_sub(1)], self.points[next]);
        let part = (bytes - before.1) / (next.1 - before.1).max(f64::MIN_POSITIVE);
        (before.0 + part.clamp(0.0, 1.0) * (next.0 - before.0)).clamp(from, until)
    }

    /// The most that is in use at an instant of a time.
    pub fn most(&self, from: f64, until: f64) -> f64 {
        let begin = self.points.partition_point(|point| point.0 < from);
        let end = self.points.partition_point(|point| point.0 <= until).max(begin);
        let within = self.points[begin..end].iter().map(|point| point.1);
        within.fold(self.at(from), f64::max).max(self.at(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing for 10 s, 100 bytes within 10 s, and half of them at once after 20 more.
    fn shape() -> Shape {
        Shape { points: vec![(0.0, 0.0), (10.0, 0.0), (20.0, 100.0), (40.0, 100.0), (40.0, 50.0)] }
    }

    #[test]
    fn between_points_it_goes_straight_on() {
        let shape = shape();
        let found = [-1.0, 5.0, 15.0, 30.0, 99.0].map(|seconds| shape.at(seconds));
        assert_eq!(found, [0.0, 0.0, 50.0, 100.0, 50.0]);
        assert_eq!(Shape::default().at(1.0), 0.0);
    }

    #[test]
    fn an_amount_is_found_within_its_time() {
        let shape = shape();
        assert_eq!(shape.reaches(50.0, 0.0, 40.0), 15.0);
        // It is there already, is never there, or only later.
        assert_eq!(shape.reaches(50.0, 18.0, 40.0), 18.0);
        assert_eq!(shape.reaches(200.0, 0.0, 40.0), 40.0);
        assert_eq!(shape.reaches(90.0, 0.0, 12.0), 12.0);
    }

    #[test]
    fn the_most_of_a_time_may_lie_within_it() {
        let shape = shape();
        assert_eq!((shape.most(0.0, 15.0), shape.most(15.0, 99.0)), (50.0, 100.0));
        assert_eq!(shape.most(50.0, 60.0), 50.0);
    }

    #[test]
    fn changes_are_kept_where_they_are() {
        let shape = Shape::new(&[(0.0, 10.0), (50.0, 30.0), (100.0, 20.0)]);
        assert_eq!((shape.at(25.0), shape.at(75.0), shape.at(100.0)), (10.0, 30.0, 20.0));
    }
}
