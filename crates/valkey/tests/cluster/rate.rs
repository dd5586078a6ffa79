//! A bound on the bytes that move in a second, and what it gives way to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidefs_model::StripeKey;
use tidefs_valkey::{Admin, Move, MoveOptions, MoveReport, Owner, Pace};

use crate::fixture::{Kind, Running, on_each_server, start, write};
use crate::growing::assert_whole;

/// Generous, for loaded machines; only a failing test takes as long.
const LONG: Duration = Duration::from_secs(30);
const STRIPE: usize = 1 << 20;
const STRIPES: usize = 12;

fn key(index: u32) -> StripeKey {
    StripeKey { ino: tidefs_model::Ino(5), index }
}

/// Moves of those stripes that the first node holds.
fn filled(running: &Running) -> Vec<Move> {
    let store = running.connect();
    let (from, to) = (running.node(0).id, running.node(1).id);
    let mine = |index: &u32| running.owner(key(*index).partition()) == 0;
    let keys: Vec<_> = (0..).filter(mine).map(key).take(STRIPES).collect();
    keys.iter().for_each(|key| write(&store, *key, &vec![3; STRIPE]).unwrap());
    keys.iter().map(|key| Move { partition: key.partition(), from, to }).collect()
}

/// Nothing that was paid for with a byte a second is over before the test is.
fn crawl(admin: &Admin, moves: &[Move], copied: &AtomicU64, stop: &AtomicBool) -> MoveReport {
    let options =
        MoveOptions { pace: Pace::Urgent, bytes_per_second: Some(1), ..MoveOptions::default() };
    let count = |step: tidefs_valkey::Step| {
        copied.fetch_add(step.bytes, Ordering::Relaxed);
    };
    admin.move_partitions(moves, options, &count, stop).unwrap()
}

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < end, "{what} has not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// One partition goes at once, for less than one cannot; then it waits, and not once it is stopped.
fn no_more_than_the_rate_goes_and_a_stop_ends_the_wait(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let (admin, moves) = (running.changer(&[]), filled(&running));
    let (copied, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let report = thread::scope(|scope| {
        let moving = scope.spawn(|| crawl(&admin, &moves, &copied, &stop));
        until("a first stripe", || copied.load(Ordering::Relaxed) > 0);
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        until("the end of the wait", || moving.is_finished());
        moving.join().unwrap()
    });
    // Where keys go one by one, the next partition is open already, and open ones are not left.
    assert!(report.stopped && report.partitions <= 2, "{report:?}");
    assert_whole(&admin, &report);
    let placement = admin.placement().unwrap();
    let to = Owner::One(running.node(1).id);
    let arrived = moves.iter().filter(|each| *placement.owner(each.partition) == to);
    assert_eq!(arrived.count(), report.partitions);
}

/// Who wants memory back would lose what waits for a rate.
fn haste_lifts_the_rate(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let moves = filled(&running);
    let haste = std::sync::Arc::new(AtomicBool::new(false));
    let asked = std::sync::Arc::clone(&haste);
    let admin = running.changer(&[]).hastened_while(move || asked.load(Ordering::Relaxed));
    let (copied, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let report = thread::scope(|scope| {
        let moving = scope.spawn(|| crawl(&admin, &moves, &copied, &stop));
        until("a first stripe", || copied.load(Ordering::Relaxed) > 0);
        haste.store(true, Ordering::Relaxed);
        until("the last stripe", || moving.is_finished());
        moving.join().unwrap()
    });
    assert_whole(&admin, &report);
    assert_eq!((report.partitions, report.stopped), (moves.len(), false));
}

on_each_server![no_more_than_the_rate_goes_and_a_stop_ends_the_wait, haste_lifts_the_rate];
