//! Whose turn it is, as one mount knows it, on a clock of its own.

use super::*;

const DIRECTORY: Ino = Ino(7);
const START: Time = Time(5_000_000_000);

fn begun() -> Turns {
    let turns = Turns::default();
    turns.dispute(DIRECTORY, START);
    assert_eq!(turns.before(DIRECTORY, START, false, false), Before::Take);
    turns.has_first(DIRECTORY, START);
    assert!(turns.keeps(DIRECTORY, START), "it takes the others");
    turns.settle(DIRECTORY, START);
    turns
}

#[test]
fn a_directory_that_nobody_else_changes_is_asked_for_without_a_turn() {
    let turns = Turns::default();
    assert_eq!(turns.before(DIRECTORY, START, false, false), Before::Nothing);
    assert!(!turns.keeps(DIRECTORY, START));
    turns.dispute(DIRECTORY, START);
    assert_eq!(turns.before(DIRECTORY, START + DISPUTED, false, false), Before::Nothing);
    assert!(!turns.is_disputed(DIRECTORY), "nobody else has asked for long");
}

#[test]
fn a_turn_lasts_while_its_mount_works_and_for_a_while_at_most() {
    let turns = begun();
    assert!(turns.keeps(DIRECTORY, START));
    assert!(!turns.keeps(DIRECTORY, START + REST_AT_FIRST), "it rests");
    assert_eq!(turns.before(DIRECTORY, START, false, true), Before::Work);
    assert!(turns.keeps(DIRECTORY, START + REST), "a call is under way");
    turns.ended(&[DIRECTORY], START);
    for _ in 0..CALLS_AT_FIRST {
        assert_eq!(turns.before(DIRECTORY, START, false, true), Before::Work);
        turns.ended(&[DIRECTORY], START);
    }
    assert!(turns.keeps(DIRECTORY, START + REST_AT_FIRST));
    assert!(!turns.keeps(DIRECTORY, START + REST), "it rests");
    let works = |at: Time| {
        let before = turns.before(DIRECTORY, at, false, true);
        turns.ended(&[DIRECTORY], at);
        before == Before::Work
    };
    for millisecond in 1..20 {
        let at = START + Duration::from_millis(millisecond);
        assert!(works(at) && turns.keeps(DIRECTORY, at), "after {millisecond} ms");
    }
    assert!(works(START + TURN) && !turns.keeps(DIRECTORY, START + TURN));
    let turns = begun();
    let kept = (0..1_000).filter(|_| turns.keeps(DIRECTORY, START)).count();
    assert_eq!(kept, POLLS_MAX as usize - 1, "the clock stands still");
}

#[test]
fn what_was_given_up_is_taken_anew_and_by_one_thread() {
    let turns = begun();
    for _ in 0..CALLS_AT_FIRST {
        assert_eq!(turns.before(DIRECTORY, START, false, true), Before::Work);
        turns.ended(&[DIRECTORY], START);
    }
    turns.end(DIRECTORY, START);
    assert!(!turns.keeps(DIRECTORY, START));
    let before = |at: Time| turns.before(DIRECTORY, at, false, false);
    assert_eq!(before(START), Before::Wait, "it is being given up");
    turns.ended_all(START);
    assert_eq!((before(START), before(START)), (Before::Take, Before::Wait));
    turns.has_first(DIRECTORY, START);
    turns.settle(DIRECTORY, START);
    turns.wait(DIRECTORY);
    assert_eq!(before(START), Before::Take, "its lease term has ended meanwhile");
    turns.settle(DIRECTORY, START);
    assert_eq!((before(START), before(START + AGAIN)), (Before::Nothing, Before::Take));
}

#[test]
fn who_asks_for_little_in_a_turn_has_none_for_a_while() {
    for (calls, is_worth_it) in [(40, true), (39, false)] {
        let turns = begun();
        for _ in 0..calls {
            assert_eq!(turns.before(DIRECTORY, START, false, true), Before::Work);
            turns.ended(&[DIRECTORY], START);
        }
        let end = START + TURN;
        turns.end(DIRECTORY, end);
        turns.ended_all(end);
        let next = if is_worth_it { Before::Take } else { Before::Nothing };
        assert_eq!(turns.before(DIRECTORY, end, false, false), next);
        turns.dispute(DIRECTORY, end + UNWORTHY);
        if !is_worth_it {
            assert_eq!(turns.before(DIRECTORY, end + UNWORTHY, false, false), Before::Take);
        }
    }
}

#[test]
fn a_turn_of_few_calls_that_take_long_is_worth_it() {
    for (each_takes, is_worth_it) in [(TURN / 9, true), (TURN / 10, false)] {
        let turns = begun();
        for call in 0..3 {
            let at = START + TURN / 3 * call;
            assert_eq!(turns.before(DIRECTORY, at, false, true), Before::Work);
            assert!(turns.works(DIRECTORY, at + each_takes / 2), "another at the same time");
            (0..2).for_each(|_| turns.ended(&[DIRECTORY], at + each_takes));
        }
        let end = START + TURN / 9 * 9;
        turns.end(DIRECTORY, end);
        turns.ended_all(end);
        let next = if is_worth_it { Before::Take } else { Before::Nothing };
        assert_eq!(turns.before(DIRECTORY, end, false, false), next);
    }
}

#[test]
fn what_nobody_else_asks_for_is_forgotten() {
    let turns = begun();
    turns.sweep(START);
    assert!(turns.is_disputed(DIRECTORY));
    assert_eq!(turns.before(DIRECTORY, START, false, true), Before::Work);
    turns.sweep(START + DISPUTED);
    assert!(turns.is_disputed(DIRECTORY), "a call is under way");
    turns.ended(&[DIRECTORY], START);
    turns.sweep(START + DISPUTED);
    assert!(!turns.knows(DIRECTORY));
    begun().forget();
    turns.dispute(Ino::NONE, START);
    assert!(!turns.knows(Ino::NONE));
}

#[test]
fn who_has_only_looked_takes_no_turn() {
    let turns = Turns::default();
    turns.is_changed(DIRECTORY, START);
    assert_eq!(turns.before(DIRECTORY, START, false, false), Before::Nothing);
    assert!(!turns.is_disputed(DIRECTORY));
    turns.dispute(DIRECTORY, START);
    assert_eq!(turns.before(DIRECTORY, START, false, false), Before::Take);
}

#[test]
fn who_looks_waits_for_a_turn_where_a_change_will_come_soon() {
    let turns = Turns::default();
    turns.dispute(DIRECTORY, START);
    let looks = |at: Time| turns.before(DIRECTORY, at, true, false);
    assert_eq!(looks(START), Before::Nothing);
    turns.changed(DIRECTORY, START);
    assert_eq!(looks(START + WORKS), Before::Nothing);
    assert_eq!(looks(START), Before::Take);
}

#[test]
fn of_too_many_directories_none_is_noted() {
    let turns = Turns::default();
    (1..=DIRECTORIES_MAX as u64 + 1).for_each(|ino| turns.dispute(Ino(ino), START));
    assert!(!turns.is_disputed(Ino(DIRECTORIES_MAX as u64 + 1)));
    turns.dispute(DIRECTORY, START + DISPUTED);
    assert!(turns.is_disputed(DIRECTORY));
}
