//! What may overtake what: sends, reads and flushes while the store holds still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidefs_model::{Clock, Time};
use tidefs_store::{Operation, When};

use super::rig::{STRIPE, eventually, pattern, rig, rig_over};
use crate::SpaceMode;
use crate::data::ErrorCursor;

const S: usize = STRIPE as usize;

#[test]
fn two_sends_of_one_stripe_keep_their_order() {
    let rig = rig(Vec::new());
    for round in 0..50 {
        let held = rig.store.pause(Operation::Write, When::Before);
        let begun = rig.store.count(Operation::Write);
        rig.write(0, &pattern(0, S, round)).unwrap();
        eventually("the first is sent", || rig.store.count(Operation::Write) == begun + 1);
        rig.write(0, &pattern(0, S, round + 1000)).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(rig.store.count(Operation::Write), begun + 1, "the second waits for the first");
        drop(held);
        rig.flush();
        assert_eq!(rig.other_mount().read(0, S), pattern(0, S, round + 1000));
    }
}

#[test]
fn a_read_sees_what_is_buffered_in_flight_and_stored() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; S]).unwrap();
    rig.flush();
    let held = rig.store.pause(Operation::Write, When::Before);
    rig.write(1000, &[2; S - 1000]).unwrap();
    eventually("it is sent", || rig.store.count(Operation::Write) == 2);
    rig.write(2000, &[3; 100]).unwrap();
    let mut wanted = vec![1; S];
    wanted[1000..].fill(2);
    wanted[2000..2100].fill(3);
    assert_eq!(rig.all(), wanted);
    drop(held);
    rig.flush();
    assert_eq!(rig.all(), wanted);
}

#[test]
fn a_flush_returns_when_its_bytes_are_stored_and_not_before() {
    let rig = Arc::new(rig(Vec::new()));
    rig.write(0, &pattern(0, 100, 1)).unwrap();
    let held = rig.store.pause(Operation::Write, When::Before);
    let done = Arc::new(AtomicBool::new(false));
    let flusher = std::thread::spawn({
        let (rig, done) = (Arc::clone(&rig), Arc::clone(&done));
        move || {
            rig.flush();
            done.store(true, Ordering::SeqCst);
        }
    });
    eventually("the flush sends", || rig.store.count(Operation::Write) == 1);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!done.load(Ordering::SeqCst));
    assert_eq!(rig.inode().size, 0, "the size waits for the bytes");
    rig.write(5 * STRIPE, b"after the flush began").unwrap();
    drop(held);
    flusher.join().unwrap();
    assert_eq!(rig.inode().size, 100, "what came later is not stored yet");
}

#[test]
fn writers_wait_at_the_budget_and_go_on_when_the_store_does() {
    let rig = Arc::new(rig(Vec::new()));
    let held = rig.store.pause(Operation::Write, When::Before);
    let stripes = 40;
    let written = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let writer = std::thread::spawn({
        let (rig, written) = (Arc::clone(&rig), Arc::clone(&written));
        move || {
            let cursor = ErrorCursor::new(&rig.file);
            for index in 0..stripes {
                let bytes = pattern(index * STRIPE, S, 1);
                rig.file.write(&cursor, index * STRIPE, &bytes).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    eventually("the budget is used", || written.load(Ordering::SeqCst) == 8);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(written.load(Ordering::SeqCst), 8, "eight stripes may be dirty");
    drop(held);
    writer.join().unwrap();
    rig.flush();
    assert_eq!(rig.all(), pattern(0, stripes as usize * S, 1));
}

#[test]
fn a_budget_full_of_half_written_stripes_of_other_files_is_no_dead_end() {
    let rig = rig(Vec::new());
    let others: Vec<_> = (0..20).map(|_| rig.again()).collect();
    for (number, other) in others.iter().enumerate() {
        let cursor = ErrorCursor::new(other);
        other.write(&cursor, number as u64 * STRIPE, &[number as u8 + 1; 10]).unwrap();
    }
    for other in &others {
        other.flush(&ErrorCursor::new(other)).unwrap();
    }
    let file = rig.other_mount();
    for number in 0..20 {
        assert_eq!(file.read(number * STRIPE, 10), [number as u8 + 1; 10]);
    }
}

#[test]
fn old_bytes_are_sent_without_being_asked_for_and_young_ones_are_not() {
    let rig = rig(Vec::new());
    rig.write(0, b"old").unwrap();
    rig.path.flush_aged(rig.clock.now());
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(rig.store.count(Operation::Write), 0);
    rig.clock.advance(super::rig::config().dirty_age_max);
    rig.write(STRIPE, b"young").unwrap();
    rig.path.flush_aged(rig.clock.now());
    eventually("the old stripe is stored", || rig.stripes_stored(2) == 1);
    assert!(rig.file.is_dirty());
}

#[test]
fn a_truncation_waits_for_what_is_in_flight_and_none_of_it_comes_back() {
    let rig = Arc::new(rig(Vec::new()));
    let held = rig.store.pause(Operation::Write, When::Before);
    rig.write(0, &pattern(0, 3 * S, 1)).unwrap();
    eventually("they are sent", || rig.store.count(Operation::Write) == 3);
    rig.write(STRIPE, &[9; 50]).unwrap();
    let truncater = std::thread::spawn({
        let rig = Arc::clone(&rig);
        move || rig.file.truncate(10).unwrap()
    });
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(rig.store.count(Operation::Trim), 0, "a trim now could come before the writes");
    drop(held);
    truncater.join().unwrap();
    rig.file.truncate(3 * STRIPE).unwrap();
    let mut wanted = pattern(0, 10, 1);
    wanted.resize(3 * S, 0);
    assert_eq!(rig.all(), wanted);
}

#[test]
fn bytes_behind_a_hole_are_kept_that_arrive_while_it_is_punched() {
    for mode in [SpaceMode::PunchHole, SpaceMode::Zero] {
        let rig = rig(Vec::new());
        rig.write(0, &[1; 100]).unwrap();
        rig.flush();
        rig.write(STRIPE - 10, &[2; 9]).unwrap();
        let held = rig.store.pause(Operation::Lengths, When::After);
        std::thread::scope(|scope| {
            scope.spawn(|| rig.file.allocate(10, 1000, mode).unwrap());
            eventually("the length is known", || rig.store.count(Operation::Lengths) == 1);
            rig.flush();
            drop(held);
        });
        rig.flush();
        let mut wanted = vec![0; S - 1];
        wanted[..10].fill(1);
        wanted[S - 10..].fill(2);
        assert_eq!(rig.other_mount().all(), wanted);
    }
}

#[test]
fn a_size_measured_before_a_truncation_is_not_committed_after_it() {
    let rig = rig(Vec::new());
    for round in 0..20 {
        rig.file.truncate(0).unwrap();
        rig.write(0, &pattern(0, 100, round)).unwrap();
        let held = rig.store.pause(Operation::Batch, When::Before);
        let begun = rig.store.count(Operation::Batch);
        std::thread::scope(|scope| {
            scope.spawn(|| rig.flush());
            eventually("the flush commits", || rig.store.count(Operation::Batch) > begun);
            scope.spawn(|| rig.file.truncate(10).unwrap());
            std::thread::sleep(Duration::from_millis(2));
            drop(held);
        });
        assert_eq!((rig.inode().size, rig.file.size()), (10, 10), "round {round}");
    }
}

#[test]
fn times_and_version_are_those_of_the_last_write() {
    let rig = rig_over(Arc::new(super::rig::embedded()), &super::rig::config());
    rig.clock.advance(Duration::from_secs(5));
    rig.write(0, b"one").unwrap();
    let mut seen = rig.inode();
    rig.file.overlay(&mut seen);
    assert!(seen.mtime >= Time(5_000_000_000) && seen.ctime == seen.mtime);
    assert_eq!((seen.size, rig.inode().size), (3, 0));
    rig.clock.advance(Duration::from_secs(5));
    rig.flush();
    let stored = rig.inode();
    assert_eq!((stored.mtime, stored.ctime, stored.size), (seen.mtime, seen.ctime, 3));
    assert_eq!((stored.version, rig.file.version()), (1, 1));
    rig.flush();
    assert_eq!(rig.inode().version, 1, "nothing to commit, nothing counted");
    rig.write(3, b"two").unwrap();
    rig.file.settle_times(None).unwrap();
    let mut seen = rig.inode();
    seen.mtime = Time(1);
    rig.file.overlay(&mut seen);
    assert_eq!(seen.mtime, Time(1), "times set by hand after that stay");
}

#[test]
fn scattered_small_writes_go_to_the_store_several_in_a_call() {
    let config = crate::Config {
        dirty_bytes_max: tidefs_model::ByteSize(64 * STRIPE),
        ..super::rig::config()
    };
    let store = Arc::new(tidefs_store::Faulty::new(super::rig::embedded(), Vec::new()));
    let rig = rig_over(store, &config);
    let writes = 400;
    for index in 0..writes {
        rig.write(index * 7 % writes * STRIPE, &[index as u8; 10]).unwrap();
    }
    rig.flush();
    let calls = rig.store.count(Operation::Write);
    assert!((10..=writes / 6).contains(&calls), "{calls} calls for {writes} writes");
    for index in 0..writes {
        assert_eq!(rig.read(index * 7 % writes * STRIPE, 10), [index as u8; 10]);
    }
}
