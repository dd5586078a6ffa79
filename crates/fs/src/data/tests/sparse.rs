//! Holes, large sizes, and how much of the store a sparse file costs.

use tidefs_model::StripeKey;
use tidefs_store::{Operation, Store};

use super::rig::{HOME, INO, STRIPE, append, new_end, pattern, rig};
use crate::{Error, FILE_BYTES_MAX, Seek, SpaceMode};

const S: usize = STRIPE as usize;
const REGION: u64 = 1024 * STRIPE;

#[test]
fn a_region_is_marked_before_its_first_stripe_and_once() {
    let rig = rig(Vec::new());
    rig.write(0, b"first region").unwrap();
    rig.flush();
    let batches = rig.store.count(Operation::Batch);
    for offset in [5 * REGION, 5 * REGION + 9 * STRIPE] {
        rig.write(offset, b"sixth region").unwrap();
        rig.flush();
    }
    assert!(rig.has_region(5) && !rig.has_region(0) && !rig.has_region(4));
    assert_eq!(rig.store.count(Operation::Batch) - batches, 3 + 3, "one mark, two commits, looks");
}

#[test]
fn removing_a_sparse_file_looks_only_where_something_was_written() {
    let rig = rig(Vec::new());
    let places = [0, 700 * REGION, 2500 * REGION];
    for place in places {
        rig.write(place, &pattern(place, 100, 1)).unwrap();
    }
    rig.flush();
    let (trims, batches) = (rig.store.count(Operation::Trim), rig.store.count(Operation::Batch));
    rig.path.delete(HOME, INO, rig.file.size());
    rig.path.close();
    assert_eq!(rig.store.count(Operation::Trim) - trims, 3);
    assert_eq!(
        rig.store.count(Operation::Batch) - batches,
        3 + 2,
        "marks read and removed, inode removed"
    );
    for place in places {
        let key = StripeKey { ino: INO, index: (place / STRIPE) as u32 };
        assert_eq!(rig.store.lengths(&[key]).unwrap(), [0]);
    }
    assert!(!rig.has_region(700) && !rig.has_region(2500));
}

#[test]
fn truncating_forgets_the_regions_beyond() {
    let rig = rig(Vec::new());
    for region in [0, 1, 3] {
        rig.write(region * REGION, b"x").unwrap();
    }
    rig.flush();
    rig.file.truncate(REGION + 1).unwrap();
    assert!(rig.has_region(1) && !rig.has_region(3));
    rig.write(3 * REGION, b"again").unwrap();
    rig.flush();
    assert!(rig.has_region(3));
}

#[test]
fn a_file_given_up_frees_also_what_was_never_committed() {
    let rig = rig(Vec::new());
    rig.write(0, &pattern(0, 6 * S, 1)).unwrap();
    rig.write(2 * REGION, b"far").unwrap();
    super::rig::eventually("stripes are stored", || rig.stripes_stored(6) == 6);
    rig.file.discard(false);
    assert!(!rig.file.is_dirty());
    rig.path.close();
    assert_eq!(rig.stripes_stored(6), 0);
    assert!(!rig.has_region(2));
}

#[test]
fn the_largest_file_takes_its_last_byte_and_no_more() {
    let rig = rig(Vec::new());
    rig.write(FILE_BYTES_MAX - 1, b"z").unwrap();
    rig.flush();
    assert_eq!(rig.inode().size, FILE_BYTES_MAX);
    assert_eq!(rig.read(FILE_BYTES_MAX - 2, 10), b"\0z");
    assert_eq!(rig.file.seek(1, Seek::Data), Ok(FILE_BYTES_MAX - STRIPE));
    assert_eq!(rig.write(FILE_BYTES_MAX, b"z"), Err(Error::FileTooLarge));
    assert_eq!(rig.write(u64::MAX, b"z"), Err(Error::FileTooLarge));
    assert_eq!(rig.file.truncate(FILE_BYTES_MAX + 1), Err(Error::FileTooLarge));
    let beyond = rig.file.allocate(FILE_BYTES_MAX - 1, 2, SpaceMode::Allocate);
    assert_eq!(beyond, Err(Error::FileTooLarge));
    for shared in [false, true] {
        let appended = append(&rig.file, &rig.cursor(), b"z", shared, &new_end());
        assert_eq!(appended, Err(Error::FileTooLarge), "shared: {shared}");
    }
    rig.file.truncate(5).unwrap();
    assert_eq!(rig.all(), [0; 5]);
}

#[test]
fn data_and_holes_are_found_in_buffers_and_in_the_store() {
    let rig = rig(Vec::new());
    rig.write(10 * STRIPE, &[1; S]).unwrap();
    rig.flush();
    rig.write(20 * STRIPE, &[2; 100]).unwrap();
    rig.file.truncate(30 * STRIPE).unwrap();
    let seek = |offset, seek| rig.file.seek(offset, seek);
    assert_eq!(seek(0, Seek::Hole), Ok(0));
    assert_eq!(seek(0, Seek::Data), Ok(10 * STRIPE));
    assert_eq!(seek(10 * STRIPE + 5, Seek::Data), Ok(10 * STRIPE + 5));
    assert_eq!(seek(10 * STRIPE, Seek::Hole), Ok(11 * STRIPE));
    assert_eq!(seek(11 * STRIPE, Seek::Data), Ok(20 * STRIPE));
    assert_eq!(seek(20 * STRIPE, Seek::Hole), Ok(20 * STRIPE + 100));
    assert_eq!(seek(21 * STRIPE, Seek::Data), Err(Error::NoSuchOffset));
    assert_eq!(seek(29 * STRIPE, Seek::Hole), Ok(29 * STRIPE));
    assert_eq!(seek(30 * STRIPE, Seek::Hole), Err(Error::NoSuchOffset));
}

#[test]
fn a_hole_gives_its_memory_back() {
    let rig = rig(Vec::new());
    rig.write(0, &[1; 5 * S]).unwrap();
    rig.flush();
    rig.file.allocate(100, 3 * STRIPE, SpaceMode::PunchHole).unwrap();
    assert_eq!(rig.stripes_stored(5), 3);
    let mut wanted = vec![1; 5 * S];
    wanted[100..100 + 3 * S].fill(0);
    assert_eq!(rig.all(), wanted);
    rig.flush();
    assert_eq!(rig.inode().version, 2, "other mounts learn of the hole");
}

#[test]
fn zeros_in_a_hole_take_no_memory() {
    let rig = rig(Vec::new());
    rig.file.allocate(100, 3 * STRIPE, SpaceMode::Zero).unwrap();
    assert_eq!((rig.file.size(), rig.stripes_stored(5)), (100 + 3 * STRIPE, 0));
    assert_eq!(rig.file.allocate(0, 0, SpaceMode::Zero), Err(Error::Invalid));
}

#[test]
fn a_hole_in_bytes_that_were_never_sent_leaves_the_size() {
    let rig = rig(Vec::new());
    rig.write(50, &[1; 10]).unwrap();
    rig.file.allocate(0, STRIPE, SpaceMode::PunchHole).unwrap();
    assert_eq!(rig.all(), [0; 60]);
    rig.flush();
    assert_eq!((rig.inode().size, rig.stripes_stored(1)), (60, 0));
}
