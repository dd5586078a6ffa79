//! Cuts bytes over time into stretches in which they rise, stay or fall.

use super::curve::{Course, Stretch};
use super::pace::Pace;

/// A change smaller than this part of the peak is none.
const STILL: f64 = 0.01;
/// A slope below this part of the one from nothing to the peak in the whole time is none.
const SLOPE: f64 = 0.2;
/// The curve is looked at so many times.
const SAMPLES: usize = 4_000;

/// The points are instants, and the bytes in use from each on.
pub(super) fn stretches(points: &[(f64, f64)], peak: f64, pace: Pace) -> Vec<Stretch> {
    let end = points.last().map_or(0.0, |point| point.0);
    let still = peak * STILL;
    let mut found: Vec<Stretch> = Vec::new();
    let (mut at, mut before) = (0, points.first().map_or(0.0, |point| point.1));
    for sample in 1..=SAMPLES {
        let until = end * sample as f64 / SAMPLES as f64;
        while at + 1 < points.len() && points[at + 1].0 <= until {
            at += 1;
        }
        let held = points.get(at).map_or(0.0, |point| point.1);
        let part = end / SAMPLES as f64;
        found.push(Stretch {
            course: course(before, held, SLOPE * peak / SAMPLES as f64),
            seconds: part,
            from: before,
            to: held,
        });
        before = held;
    }
    // First runs of one course, then those that matter.
    let mut found = runs(found);
    let flat = SLOPE * peak / end.max(f64::MIN_POSITIVE);
    for pass in 1..=4 {
        let short = pace.unseen().max(end / 200.0);
        found = joined(found, still * f64::from(pass) / 4.0, flat, short);
    }
    found
}

fn course(from: f64, to: f64, still: f64) -> Course {
    if to > from + still {
        Course::Rises
    } else if to < from - still {
        Course::Falls
    } else {
        Course::Stays
    }
}

/// Joins neighbours of one course.
fn runs(stretches: Vec<Stretch>) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::new();
    for next in stretches {
        match joined.last_mut() {
            Some(last) if last.course == next.course => {
                last.seconds += next.seconds;
                last.to = next.to;
            }
            _ => joined.push(next),
        }
    }
    joined
}

/// Joins neighbours of one course; one that changes little, or stays for a short time, goes the way of
/// the one before. Little is less than `still` bytes, or `flat` bytes a second: the last few files of a
/// stage, over an hour, make no rise of the hour.
fn joined(stretches: Vec<Stretch>, still: f64, flat: f64, short: f64) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::new();
    for mut next in stretches {
        next.course = course(next.from, next.to, still.max(flat * next.seconds));
        let small = next.course == Course::Stays && next.seconds < short;
        match joined.last_mut() {
            Some(last) if last.course == next.course || small => {
                last.seconds += next.seconds;
                last.to = next.to;
            }
            _ => joined.push(next),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stay_too_short_to_be_seen_is_no_stretch() {
        let rises = |pause: f64| {
            let rise = |begin: f64, from: f64| {
                (0..=100).map(move |at| (begin + f64::from(at), from + 5.0 * f64::from(at)))
            };
            let end = [(1_200.0, 1_000.0)];
            let points: Vec<_> =
                rise(0.0, 0.0).chain(rise(100.0 + pause, 500.0)).chain(end).collect();
            let found = stretches(&points, 1_000.0, Pace::default());
            found.iter().filter(|it| it.course == Course::Rises).count()
        };
        assert_eq!((rises(15.0), rises(40.0)), (1, 2));
    }

    #[test]
    fn the_last_few_bytes_of_a_stage_make_no_rise_of_an_hour() {
        // Steeply to 990, then 10 more, one by one.
        let steep = (0..=99).map(|at| (f64::from(at), 10.0 * f64::from(at)));
        let slow = (1..=10).map(|at| (99.0 + 400.0 * f64::from(at), 990.0 + f64::from(at)));
        let points: Vec<_> = steep.chain(slow).collect();
        let found = stretches(&points, 1_000.0, Pace::default());
        let courses: Vec<_> = found.iter().map(|it| it.course).collect();
        assert_eq!(courses, [Course::Rises, Course::Stays]);
    }
}
