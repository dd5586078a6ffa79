//! Several mounts on one file.

use std::sync::Arc;
use std::time::Duration;

use tidefs_store::{Faulty, Operation};

use super::rig::{
    Rig, STRIPE, append, config, embedded, eventually, new_end, pattern, rig, rig_over,
};
use crate::Config;
use crate::data::ReadAhead;

const S: usize = STRIPE as usize;

#[test]
fn appends_from_several_mounts_neither_lose_nor_tear_nor_double_a_record() {
    let rig = rig(Vec::new());
    let mounts: Vec<_> = (0..3).map(|_| rig.other_mount()).collect();
    let records = 40;
    std::thread::scope(|scope| {
        for (number, mount) in mounts.iter().enumerate() {
            scope.spawn(move || {
                let cursor = mount.cursor();
                for record in 0..records {
                    let bytes = [number as u8 * 64 + record + 1; 111];
                    append(&mount.file, &cursor, &bytes, true, &new_end()).unwrap();
                }
                mount.file.flush(&cursor).unwrap();
            });
        }
    });
    let all = rig.other_mount().all();
    assert_eq!(all.len(), 3 * records as usize * 111);
    let mut seen: Vec<u8> = all.chunks(111).map(|record| record[0]).collect();
    assert!(all.chunks(111).all(|record| record.iter().all(|byte| *byte == record[0])), "torn");
    seen.sort_unstable();
    let wanted: Vec<u8> =
        (0..3).flat_map(|mount| (1..=records).map(move |record| mount * 64 + record)).collect();
    assert_eq!(seen, wanted);
}

#[test]
fn an_append_after_a_write_that_is_not_committed_comes_behind_it() {
    let rig = rig(Vec::new());
    rig.write(0, b"plain ").unwrap();
    assert_eq!(append(&rig.file, &rig.cursor(), b"appended", true, &new_end()), Ok(6..14));
    assert_eq!(rig.all(), b"plain appended");
}

#[test]
fn an_append_that_is_begun_again_goes_to_where_it_went() {
    for shared in [false, true] {
        let rig = rig(Vec::new());
        let other = rig.other_mount();
        rig.write(0, b"first ").unwrap();
        rig.flush();
        let at = new_end();
        let second = || append(&rig.file, &rig.cursor(), b"second ", shared, &at);
        assert_eq!(second(), Ok(6..13));
        rig.flush();
        if shared {
            let third = append(&other.file, &other.cursor(), b"third", shared, &new_end());
            assert_eq!(third, Ok(13..18));
            other.flush();
        }
        assert_eq!(second(), Ok(6..13));
        rig.flush();
        let all: &[u8] = if shared { b"first second third" } else { b"first second " };
        assert_eq!(rig.other_mount().all(), all);
    }
}

#[test]
fn a_size_committed_late_never_shrinks_what_another_mount_wrote() {
    let rig = rig(Vec::new());
    let other = rig.other_mount();
    rig.write(0, &pattern(0, 100, 1)).unwrap();
    other.write(100, &pattern(100, S, 1)).unwrap();
    other.flush();
    rig.flush();
    assert_eq!(rig.inode().size, 100 + STRIPE);
    assert_eq!(rig.other_mount().all(), pattern(0, 100 + S, 1));
    assert_eq!(rig.inode().version, 2);
}

#[test]
fn a_refresh_brings_what_another_mount_committed() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 8 * S]).unwrap();
    rig.flush();
    let reader = ReadAhead::default();
    for index in 0..3 {
        rig.read_with(&reader, index * STRIPE, S);
    }
    super::rig::eventually("ahead", || rig.store.count(Operation::Read) >= 5);
    let other = rig.other_mount();
    other.write(0, &[2; 9 * S]).unwrap();
    other.flush();
    rig.file.refresh(&rig.inode());
    assert_eq!(rig.file.version(), 2);
    assert_eq!(rig.read_with(&reader, 3 * STRIPE, 7 * S), vec![2; 6 * S]);
}

#[test]
fn a_record_read_before_a_commit_of_this_mount_changes_nothing() {
    let rig = rig(Vec::new());
    let before = rig.inode();
    rig.write(0, &[1; 10]).unwrap();
    rig.flush();
    rig.file.refresh(&before);
    assert_eq!((rig.file.size(), rig.file.version()), (10, 1));
    let mut overlaid = before;
    rig.file.overlay(&mut overlaid);
    assert_eq!(overlaid, rig.inode());
}

#[test]
fn a_truncation_meets_a_file_that_grew_elsewhere() {
    let rig = rig(Vec::new());
    let other = rig.other_mount();
    other.write(0, &[1; 5 * S]).unwrap();
    other.flush();
    rig.file.truncate(STRIPE).unwrap();
    assert_eq!((rig.inode().size, rig.stripes_stored(5)), (STRIPE, 1));
    assert_eq!(rig.all(), [1; S]);
}

#[test]
fn growing_a_file_that_grew_elsewhere_takes_nothing_away_below_the_new_size() {
    let rig = rig(Vec::new());
    let other = rig.other_mount();
    other.write(0, &[1; 5 * S]).unwrap();
    other.flush();
    rig.file.truncate(3 * STRIPE).unwrap();
    assert_eq!(rig.all(), [1; 3 * S]);
}

#[test]
fn an_append_with_company_takes_one_call_and_one_among_those_of_others_three() {
    let rig = rig(Vec::new());
    let other = rig.other_mount();
    let calls = || rig.store.count(Operation::Batch) + rig.store.count(Operation::Write);
    let appended = |to: &Rig| {
        let before = calls();
        append(&to.file, &to.cursor(), b"record", true, &new_end()).unwrap();
        calls() - before
    };
    assert_eq!([appended(&rig), appended(&rig)], [1, 1]);
    rig.flush();
    assert_eq!(appended(&other), 1, "it does not know yet that others append");
    other.flush();
    assert_eq!([appended(&rig), appended(&other), appended(&rig)], [3, 3, 3]);
}

#[test]
fn an_append_waits_for_those_before_it_and_not_for_ever() {
    let short = Config { dirty_age_max: Duration::from_millis(10), ..config() };
    let rig = rig_over(Arc::new(Faulty::new(embedded(), Vec::new())), &short);
    let other = rig.other_mount();
    append(&other.file, &other.cursor(), b"other ", true, &new_end()).unwrap();
    let mine = append(&rig.file, &rig.cursor(), b"mine", true, &new_end());
    assert_eq!(mine, Ok(6..10));
    assert_eq!(rig.other_mount().all(), b"\0\0\0\0\0\0mine", "as if the other one had been killed");
    other.flush();
    assert_eq!(rig.other_mount().all(), b"other mine");
}

#[test]
fn an_append_waits_no_longer_for_what_another_mount_has_cut() {
    let patient = Config { dirty_age_max: Duration::from_secs(100), ..config() };
    let rig = rig_over(Arc::new(Faulty::new(embedded(), Vec::new())), &patient);
    let (silent, cutting) = (rig.other_mount(), rig.other_mount());
    append(&silent.file, &silent.cursor(), &[1; 1000], true, &new_end()).unwrap();
    let before = rig.store.count(Operation::Batch);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| append(&rig.file, &rig.cursor(), b"mine", true, &new_end()));
        // It has its place, and has looked at the record.
        eventually("it waits", || rig.store.count(Operation::Batch) >= before + 2);
        cutting.file.truncate(0).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(1000..1004));
    });
}
