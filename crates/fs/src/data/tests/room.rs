//! Bytes that wait for room, and those who take the bytes away meanwhile.

use std::sync::Arc;
use std::thread::{ScopedJoinHandle, scope, sleep};
use std::time::Duration;

use tidefs_store::{Embedded, Fault, Faulty, Operation, Patient, Room};

use super::rig::{Rig, STRIPE, append, config, embedded, full, new_end, pattern, rig_over};
use crate::{Error, SpaceMode};

const S: usize = STRIPE as usize;

struct Hope;

impl Room for Hope {
    fn hope(&self, _endpoint: &str) -> bool {
        true
    }
}

type Waiting = Patient<Faulty<Embedded>>;

/// A full store where all who write wait.
fn full_rig() -> Rig<Waiting> {
    let store = Faulty::new(embedded(), vec![Fault::every(Operation::Write, 1, full())]);
    rig_over(Arc::new(Patient::new(store, Arc::new(Hope))), &config())
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("not after 30 s: {what}");
}

/// Four stripes are written and flushed, which waits; meanwhile `meanwhile` must come to its end. Then
/// there is room, and the flush ends as well.
fn while_bytes_wait(meanwhile: impl Fn(&Rig<Waiting>) + Sync) -> (Rig<Waiting>, Result<(), Error>) {
    let rig = full_rig();
    let store = rig.store.clone();
    let flushed = scope(|scope| {
        let rig = &rig;
        rig.write(0, &pattern(0, 4 * S, 1)).unwrap();
        let flush = scope.spawn(|| rig.file.flush(&rig.cursor()));
        until("the bytes wait", || store.inner().count(Operation::Write) > 3);
        let done = scope.spawn(|| meanwhile(rig));
        let ended = |it: &ScopedJoinHandle<'_, ()>| it.is_finished();
        until("it ends while the bytes wait", || ended(&done));
        store.inner().heal();
        until("the flush ends", || flush.is_finished());
        flush.join().unwrap()
    });
    (rig, flushed)
}

#[test]
fn a_file_is_emptied_while_its_bytes_wait_for_room() {
    let (rig, flushed) = while_bytes_wait(|rig| rig.file.truncate(0).unwrap());
    assert_eq!(flushed, Ok(()));
    assert_eq!((rig.file.size(), rig.inode().size), (0, 0));
    rig.file.truncate(4 * STRIPE).unwrap();
    assert_eq!(rig.read(0, 4 * S), vec![0; 4 * S], "nothing comes back");
}

#[test]
fn a_file_is_cut_while_its_bytes_wait_for_room_and_keeps_the_others() {
    let size = STRIPE + 100;
    let (rig, flushed) = while_bytes_wait(|rig| rig.file.truncate(size).unwrap());
    assert_eq!(flushed, Ok(()));
    rig.flush();
    assert_eq!(rig.other_mount().read(0, 4 * S), pattern(0, S + 100, 1));
}

#[test]
fn a_hole_is_punched_while_the_bytes_around_it_wait_for_room() {
    let (from, to) = (STRIPE + 100, 2 * STRIPE + 50);
    let (rig, flushed) =
        while_bytes_wait(|rig| rig.file.allocate(from, to - from, SpaceMode::PunchHole).unwrap());
    assert_eq!(flushed, Ok(()));
    rig.flush();
    let mut expected = pattern(0, 4 * S, 1);
    expected[from as usize..to as usize].fill(0);
    assert_eq!(rig.other_mount().read(0, 4 * S), expected);
}

#[test]
fn a_file_is_given_up_while_its_bytes_wait_for_room() {
    let (rig, flushed) = while_bytes_wait(|rig| rig.file.discard(false));
    assert_eq!(flushed, Ok(()));
    assert_eq!(rig.file.size(), 0);
}

#[test]
fn a_file_is_emptied_while_its_writer_waits_to_go_on() {
    let rig = full_rig();
    scope(|scope| {
        let rig = &rig;
        let write = scope.spawn(|| rig.write(0, &pattern(0, 12 * S, 1)));
        until("all buffers are in use", || rig.file.size() == 8 * STRIPE);
        let empty = scope.spawn(|| rig.file.truncate(0));
        until("it is emptied while the writer waits", || empty.is_finished());
        rig.store.inner().heal();
        until("the writer goes on", || write.is_finished());
        empty.join().unwrap().unwrap();
        write.join().unwrap().unwrap();
    });
    rig.flush();
    let bytes = rig.other_mount().read(0, 12 * S);
    let expected = pattern(0, 12 * S, 1);
    assert_eq!(bytes.len(), 12 * S);
    assert_eq!(bytes[8 * S..], expected[8 * S..], "what was written after it");
    let is_right = |(at, byte): (usize, &u8)| *byte == 0 || *byte == expected[at];
    assert!(bytes.iter().enumerate().all(is_right));
}

/// A record of which a cut leaves a part was written before the cut: the rest is cut off, and nothing comes again.
#[test]
fn a_record_is_cut_in_its_middle_while_its_writer_waits_to_go_on() {
    for left in [0, STRIPE + 100] {
        let rig = full_rig();
        scope(|scope| {
            let rig = &rig;
            let (record, place) = (pattern(0, 12 * S, 1), new_end());
            let write =
                scope.spawn(move || append(&rig.file, &rig.cursor(), &record, false, &place));
            until("all buffers are in use", || rig.file.size() == 8 * STRIPE);
            let cut = scope.spawn(|| rig.file.truncate(left));
            until("it is cut while the writer waits", || cut.is_finished());
            rig.store.inner().heal();
            until("the writer goes on", || write.is_finished());
            cut.join().unwrap().unwrap();
            write.join().unwrap().unwrap();
        });
        rig.flush();
        let there = if left == 0 { 12 * S } else { left as usize };
        assert!(rig.other_mount().all() == pattern(0, there, 1), "cut to {left}");
    }
}
