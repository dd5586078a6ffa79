//! A mount that writes to a file which another one has changed since it looked.

use std::sync::Arc;

use proptest::prelude::*;
use tidefs_model::StripeKey;
use tidefs_store::{Operation, Store, When};

use super::rig::{HOME, INO, Rig, STRIPE, append, eventually, new_end, pattern, rig};
use crate::SpaceMode;
use crate::data::ErrorCursor;
use crate::data::record::Record;

const S: usize = STRIPE as usize;
const REGION: u64 = 1024 * STRIPE;

#[test]
fn what_is_written_below_the_size_that_a_mount_believes_in_makes_the_file_as_long() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 10 * S]).unwrap();
    rig.flush();
    rig.other_mount().file.truncate(0).unwrap();
    rig.write(5 * STRIPE, b"here").unwrap();
    rig.flush();
    assert_eq!(rig.inode().size, 5 * STRIPE + 4);
    let mut wanted = vec![0; 5 * S];
    wanted.extend(b"here");
    assert_eq!(rig.other_mount().all(), wanted);
    assert_eq!(rig.all(), wanted);
}

#[test]
fn what_arrives_while_a_commit_is_under_way_is_for_the_next_one() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 10 * S]).unwrap();
    rig.flush();
    rig.write(0, &[2; S]).unwrap();
    eventually("it is sent", || !rig.file.has_unsent());
    let held = rig.store.pause(Operation::Batch, When::After);
    let batches = rig.store.count(Operation::Batch);
    std::thread::scope(|scope| {
        scope.spawn(|| rig.flush());
        eventually("a commit", || rig.store.count(Operation::Batch) > batches);
        rig.write(3 * STRIPE, &[3; S]).unwrap();
        eventually("it is sent", || !rig.file.has_unsent());
        drop(held);
    });
    rig.other_mount().file.truncate(0).unwrap();
    rig.write(7, &[4; 5]).unwrap();
    rig.flush();
    assert_eq!(rig.inode().size, 4 * STRIPE);
}

#[test]
fn a_hole_in_bytes_that_were_never_sent_leaves_the_size_after_a_cut_elsewhere() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 10 * S]).unwrap();
    rig.flush();
    rig.other_mount().file.truncate(0).unwrap();
    rig.write(5 * STRIPE, &[2; 100]).unwrap();
    rig.file.allocate(5 * STRIPE, 200, SpaceMode::PunchHole).unwrap();
    rig.flush();
    assert_eq!(rig.other_mount().all(), vec![0; 5 * S + 100]);
}

#[test]
fn an_append_comes_behind_what_its_mount_wrote_before_another_one_cut_the_file() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 10 * S]).unwrap();
    rig.flush();
    rig.other_mount().file.truncate(0).unwrap();
    rig.write(5 * STRIPE, b"plain ").unwrap();
    let taken = append(&rig.file, &rig.cursor(), b"appended", true, &new_end()).unwrap();
    assert_eq!(taken.start, 5 * STRIPE + 6);
    rig.flush();
    assert_eq!(rig.other_mount().read(5 * STRIPE, 20), b"plain appended");
}

/// Bytes that reached the store between the trimming and the new size would turn up again when
/// the file grows.
#[test]
fn bytes_committed_while_another_mount_cuts_the_file_do_not_come_back() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 10 * S]).unwrap();
    rig.flush();
    let other = rig.other_mount();
    let trims = rig.store.count(Operation::Trim);
    let held = rig.store.pause(Operation::Trim, When::After);
    std::thread::scope(|scope| {
        scope.spawn(|| other.file.truncate(0).unwrap());
        eventually("the first trim", || rig.store.count(Operation::Trim) > trims);
        rig.write(5 * STRIPE, &[2; 100]).unwrap();
        rig.flush();
        drop(held);
    });
    assert_eq!(rig.inode().size, 0, "the cut ended last");
    other.file.truncate(10 * STRIPE).unwrap();
    assert_eq!(other.all(), vec![0; 10 * S]);
}

#[test]
fn a_region_that_another_mount_unmarked_is_marked_again_by_who_writes_there() {
    let rig = rig(Vec::new());
    rig.write(3 * REGION, b"one").unwrap();
    rig.flush();
    rig.other_mount().file.truncate(1).unwrap();
    assert!(!rig.has_region(3));
    rig.write(3 * REGION, b"two").unwrap();
    let batches = rig.store.count(Operation::Batch);
    rig.flush();
    assert_eq!(rig.store.count(Operation::Batch), batches + 1, "in the batch of the commit");
    assert!(rig.has_region(3));
    let other = rig.other_mount();
    other.file.truncate(1).unwrap();
    other.file.truncate(4 * REGION).unwrap();
    assert_eq!(other.read(3 * REGION, 3), [0; 3], "nothing comes back");
}

#[test]
fn marks_are_removed_only_as_long_as_nobody_has_written() {
    let rig = rig(Vec::new());
    rig.write(3 * REGION, b"one").unwrap();
    rig.flush();
    let record = Record::new(Arc::clone(&rig.path.store), HOME, INO);
    let cut = rig.inode().version;
    rig.write(3 * REGION, b"two").unwrap();
    rig.flush();
    record.unmark(&[3], cut).unwrap();
    assert!(rig.has_region(3));
    record.unmark(&[3], rig.inode().version).unwrap();
    assert!(!rig.has_region(3));
}

#[test]
fn more_regions_than_go_into_one_batch_are_all_marked_again() {
    let rig = rig(Vec::new());
    let regions = 2100;
    let far: Vec<u32> = (1..=regions).collect();
    for region in &far {
        rig.write(u64::from(*region) * REGION, b"x").unwrap();
    }
    rig.flush();
    rig.other_mount().file.truncate(0).unwrap();
    for region in &far {
        rig.write(u64::from(*region) * REGION, b"y").unwrap();
    }
    rig.flush();
    let other = rig.other_mount();
    assert_eq!(other.file.size(), u64::from(regions) * REGION + 1);
    assert!(far.iter().all(|&region| rig.has_region(region)));
    other.path.delete(HOME, INO, other.file.size());
    other.path.close();
    let key = |region: &u32| StripeKey { ino: INO, index: region * 1024 };
    let keys: Vec<_> = far.iter().map(key).collect();
    assert!(rig.store.lengths(&keys).unwrap().iter().all(|&length| length == 0));
}

#[test]
fn a_removed_file_loses_also_the_stripes_whose_marks_another_mount_removed() {
    let rig = rig(Vec::new());
    rig.write(3 * REGION, b"one").unwrap();
    rig.flush();
    rig.other_mount().file.truncate(1).unwrap();
    rig.write(3 * REGION, &[1; S]).unwrap();
    let key = StripeKey { ino: INO, index: 3 * 1024 };
    eventually("it is stored", || rig.store.lengths(&[key]).unwrap() == [STRIPE as u32]);
    eventually("and known to be", || !rig.file.has_unsent());
    rig.file.discard(false);
    rig.path.close();
    assert_eq!(rig.store.lengths(&[key]).unwrap(), [0]);
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, length: usize },
    Append { length: usize },
    Cut { size: u64 },
}

/// Around the borders of stripes, and of the first four regions.
fn place() -> impl Strategy<Value = u64> {
    (0..4_u64, prop::sample::select(vec![0, 1, S - 1, S, 3 * S + 7, 9 * S]))
        .prop_map(|(region, at)| region * REGION + at as u64)
}

fn length() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![1, 100, S, 3 * S])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (place(), length()).prop_map(|(at, length)| Step::Write { at, length }),
        1 => length().prop_map(|length| Step::Append { length }),
        3 => place().prop_map(|size| Step::Cut { size }),
    ]
}

/// Carries a step out through one mount, which only learns of the others what that takes.
fn take(mount: &Rig, errors: &ErrorCursor, step: &Step, bytes: &mut Vec<u8>, round: u64) {
    let put = |bytes: &mut Vec<u8>, at: usize, new: &[u8]| {
        bytes.resize(bytes.len().max(at + new.len()), 0);
        bytes[at..at + new.len()].copy_from_slice(new);
    };
    match *step {
        Step::Write { at, length } => {
            let new = pattern(at, length, round);
            mount.file.write(errors, at, &new).unwrap();
            put(bytes, at as usize, &new);
        }
        Step::Append { length } => {
            let (end, new) = (bytes.len(), pattern(7, length, round));
            let taken = append(&mount.file, errors, &new, true, &new_end()).unwrap();
            assert_eq!((taken.start, taken.end), (end as u64, (end + new.len()) as u64));
            put(bytes, end, &new);
        }
        Step::Cut { size } => {
            mount.file.truncate(size).unwrap();
            bytes.resize(size as usize, 0);
        }
    }
    mount.file.flush(errors).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every mount has the file open and syncs after each step; none of them looks at it again.
    #[test]
    fn mounts_that_never_look_again_make_one_file(
        steps in prop::collection::vec((0..3_usize, step()), 1..25),
    ) {
        let first = rig(Vec::new());
        let mounts = [first.other_mount(), first.other_mount(), first.other_mount()];
        let errors: Vec<_> = mounts.iter().map(Rig::cursor).collect();
        let mut bytes = Vec::new();
        for (round, (mount, step)) in steps.iter().enumerate() {
            take(&mounts[*mount], &errors[*mount], step, &mut bytes, round as u64);
            prop_assert_eq!(first.inode().size, bytes.len() as u64, "after {:?}", step);
        }
        prop_assert!(first.other_mount().all() == bytes, "other bytes");
        let last = first.other_mount();
        last.path.delete(HOME, INO, last.file.size());
        last.path.close();
        let indices = (0..4).flat_map(|region| region * 1024..region * 1024 + 20);
        let keys: Vec<_> = indices.map(|index| StripeKey { ino: INO, index }).collect();
        let left = first.store.lengths(&keys).unwrap();
        prop_assert!(left.iter().all(|&length| length == 0), "stripes are left");
    }
}
