//! What the input and the slope of a rise teach about sizes, and where the bytes say that a run is.

use super::*;

/// 10 bytes of input; then a rise by 90 within 100 s, a stay, and a rise by 90 again.
fn follower() -> Follower {
    let stretch = |course, seconds, from, to| Stretch { course, seconds, from, to };
    let stretches = vec![
        stretch(Course::Rises, 100.0, 10.0, 100.0),
        stretch(Course::Stays, 100.0, 100.0, 100.0),
        stretch(Course::Rises, 100.0, 100.0, 190.0),
    ];
    Follower::new(Curve::of(stretches))
}

/// Rises by so many bytes a second for 60 s, then stays until a second.
fn followed(input: f64, slope: f64, until: u32, full: bool) -> Follower {
    let mut follower = follower();
    for second in 0..until {
        let bytes = input + slope * f64::from(second.min(60));
        follower.observe(f64::from(second), bytes, 0.2, full);
    }
    follower
}

#[test]
fn a_larger_input_is_believed_at_once() {
    assert_eq!((followed(15.0, 0.9, 1, false).larger, follower().larger), (1.5, 1.0));
}

#[test]
fn a_smaller_input_is_believed_of_a_rise_whose_slope_agrees() {
    let (steep, flat) = (followed(5.0, 0.9, 40, false), followed(5.0, 0.45, 40, false));
    assert_eq!((steep.larger_here(), steep.larger), (1.0, 1.0));
    // Of what comes after, nothing is known yet.
    assert_eq!((flat.larger_here(), flat.larger), (0.5, 1.0));
}

#[test]
fn a_stage_that_was_smaller_teaches_that_the_next_ones_are() {
    let follower = followed(5.0, 0.45, 200, false);
    assert_eq!(follower.stretch().map(|it| it.course), Some(Course::Stays));
    assert!((0.5..0.55).contains(&follower.larger) && follower.larger_here() == follower.larger);
}

#[test]
fn an_input_that_is_nearly_as_told_says_nothing() {
    let mut follower = followed(9.9, 0.45, 40, false);
    assert_eq!((follower.larger_here(), follower.larger), (1.0, 1.0));
    // The stage is smaller by itself: six tenths of that are believed.
    follower.learn_size(0.5);
    assert_eq!(follower.larger, 0.7);
}

#[test]
fn on_full_nodes_a_gentle_slope_says_nothing() {
    let follower = followed(5.0, 0.45, 40, true);
    assert_eq!((follower.larger_here(), follower.larger), (1.0, 1.0));
}

#[test]
fn behind_a_stay_too_short_to_be_seen_the_bytes_say_that_the_next_rise_has_begun() {
    let at = |pause: f64| {
        let stretch = |course, seconds, from, to| Stretch { course, seconds, from, to };
        let mut follower = Follower::new(Curve::of(vec![
            stretch(Course::Rises, 100.0, 10.0, 100.0),
            stretch(Course::Stays, pause, 100.0, 100.0),
            stretch(Course::Rises, 100.0, 100.0, 190.0),
        ]));
        for second in (0..=115).map(f64::from) {
            follower.observe(second, 10.0 + 0.9 * second, 0.2, false);
        }
        follower.at
    };
    // A stay of a minute would have been seen: the first rise is larger than told.
    assert_eq!((at(15.0), at(60.0)), (2, 0));
}
