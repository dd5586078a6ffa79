//! Reading ahead: that it happens, where it ends, and that it never shows old bytes.

use std::sync::Arc;

use tidefs_model::ByteSize;
use tidefs_store::{Faulty, Operation, When};

use super::rig::{self, Rig, STRIPE, eventually, pattern, rig, rig_over};
use crate::data::ReadAhead;

const S: usize = STRIPE as usize;

fn filled(rig: &Rig, stripes: u64) {
    for index in 0..stripes {
        rig.write(index * STRIPE, &pattern(index * STRIPE, S, 1)).unwrap();
    }
    rig.flush();
}

/// Reads whole stripes in a row, so that a run is established.
fn start_run(rig: &Rig, reader: &ReadAhead) {
    for index in 0..3 {
        assert_eq!(rig.read_with(reader, index * STRIPE, S), pattern(index * STRIPE, S, 1));
    }
}

#[test]
fn a_sequential_reader_finds_its_bytes_fetched() {
    let rig = rig(Vec::new());
    filled(&rig, 40);
    let reader = ReadAhead::default();
    start_run(&rig, &reader);
    eventually("stripes are read ahead", || rig.store.count(Operation::Read) >= 5);
    let small = 1000;
    for offset in (3 * S..40 * S).step_by(small) {
        let wanted = pattern(offset as u64, small.min(40 * S - offset), 1);
        assert_eq!(rig.read_with(&reader, offset as u64, small), wanted);
    }
    let reads = rig.store.count(Operation::Read);
    assert!(reads <= 45, "{reads} reads for 40 stripes read 1000 bytes at a time");
}

#[test]
fn an_answer_inside_one_stripe_is_a_slice_of_what_was_fetched() {
    let rig = rig(Vec::new());
    filled(&rig, 10);
    let reader = ReadAhead::default();
    start_run(&rig, &reader);
    let first = rig.file.read(&reader, 3 * STRIPE, 100).unwrap();
    let second = rig.file.read(&reader, 3 * STRIPE + 100, 100).unwrap();
    assert!(Arc::ptr_eq(&first.buffer, &second.buffer));
    assert_eq!(second.as_slice(), pattern(3 * STRIPE + 100, 100, 1));
}

#[test]
fn scattered_reads_ask_for_their_own_bytes_only() {
    let rig = rig(Vec::new());
    filled(&rig, 40);
    let reader = ReadAhead::default();
    for (count, at) in [30, 2, 17, 8, 39, 21].into_iter().enumerate() {
        assert_eq!(rig.read_with(&reader, at * STRIPE + 5, 64), pattern(at * STRIPE + 5, 64, 1));
        assert_eq!(rig.store.count(Operation::Read), count as u64 + 1);
    }
}

#[test]
fn a_mount_reads_no_further_ahead_than_its_budget() {
    let config = crate::Config { read_ahead_bytes_max: ByteSize(3 * STRIPE), ..rig::config() };
    let rig = rig_over(Arc::new(Faulty::new(rig::embedded(), Vec::new())), &config);
    filled(&rig, 60);
    let readers: Vec<_> = (0..4).map(|_| ReadAhead::default()).collect();
    readers.iter().for_each(|reader| start_run(&rig, reader));
    let reads = || rig.store.count(Operation::Read);
    let own = 4 * 3;
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(reads() <= own + 3, "{} reads, of which {own} were asked for", reads());
    assert!(rig.path.ahead_budget.left() < 3, "nothing is read ahead");
    drop(readers);
    assert_eq!(rig.path.ahead_budget.left(), 3, "readers that are gone give their room back");
}

#[test]
fn a_write_to_a_stripe_read_ahead_is_seen() {
    let rig = rig(Vec::new());
    filled(&rig, 20);
    let reader = ReadAhead::default();
    start_run(&rig, &reader);
    eventually("stripes are read ahead", || rig.store.count(Operation::Read) >= 5);
    rig.write(3 * STRIPE + 10, b"new").unwrap();
    rig.flush();
    assert_eq!(rig.read_with(&reader, 3 * STRIPE + 10, 3), b"new");
}

/// Also: no send waits behind fetches that take their time.
#[test]
fn a_write_while_its_stripe_is_being_fetched_is_seen() {
    let rig = rig(Vec::new());
    filled(&rig, 20);
    let reader = ReadAhead::default();
    start_run(&rig, &reader);
    let own = rig.store.count(Operation::Read);
    // Fetches have read their bytes and do not come back yet.
    let held = rig.store.pause(Operation::Read, When::After);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| rig.read_with(&reader, 3 * STRIPE, S));
        eventually("fetches are under way", || rig.store.count(Operation::Read) > own);
        rig.write(5 * STRIPE, &[1; S]).unwrap();
        rig.flush();
        drop(held);
        asked.join().unwrap();
    });
    rig.read_with(&reader, 4 * STRIPE, S);
    assert_eq!(rig.read_with(&reader, 5 * STRIPE, S), [1; S]);
}

#[test]
fn a_truncation_drops_what_was_read_ahead() {
    let rig = rig(Vec::new());
    filled(&rig, 20);
    let reader = ReadAhead::default();
    start_run(&rig, &reader);
    eventually("stripes are read ahead", || rig.store.count(Operation::Read) >= 5);
    rig.file.truncate(3 * STRIPE).unwrap();
    rig.file.truncate(20 * STRIPE).unwrap();
    assert_eq!(rig.read_with(&reader, 3 * STRIPE, 2 * S), vec![0; 2 * S]);
}

#[test]
fn a_failed_fetch_is_read_again_by_whoever_needs_it() {
    let rig = rig(Vec::new());
    filled(&rig, 20);
    let reader = ReadAhead::default();
    let fault = tidefs_store::Fault::nth(Operation::Read, 4, rig::gone());
    rig.store.add(fault);
    for index in 0..20 {
        let offset = index * STRIPE;
        let read = rig.file.read(&reader, offset, S);
        let bytes = read.or_else(|_| rig.file.read(&reader, offset, S)).unwrap();
        assert_eq!(bytes.as_slice(), pattern(offset, S, 1));
    }
}

#[test]
fn readers_that_stopped_half_way_do_not_keep_the_budget() {
    let config = crate::Config { read_ahead_bytes_max: ByteSize(3 * STRIPE), ..rig::config() };
    let rig = rig_over(Arc::new(Faulty::new(rig::embedded(), Vec::new())), &config);
    filled(&rig, 60);
    let (stopped, going) = (ReadAhead::default(), ReadAhead::default());
    start_run(&rig, &stopped);
    let far = |index: u64| 20 * STRIPE + index * STRIPE;
    let read = |index| {
        rig.read_with(&going, far(index), S);
        going.run().held()
    };
    assert_eq!((0..3).map(read).max(), Some(0), "what was made just now may be about to be used");
    rig.clock.advance(std::time::Duration::from_secs(2));
    assert!((3..6).map(read).max() > Some(0), "nothing is read ahead");
    for index in 3..8 {
        let bytes = rig.read_with(&stopped, index * STRIPE, S);
        assert_eq!(bytes, pattern(index * STRIPE, S, 1));
    }
}
