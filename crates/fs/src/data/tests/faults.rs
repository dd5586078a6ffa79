//! Writes that fail after they returned, and a store that is full.

use std::sync::Arc;

use tidefs_model::StripeKey;
use tidefs_store::{Fault, Faulty, Operation, Store, StripeRead};

use super::rig::{
    self, Rig, STRIPE, append, eventually, full, gone, new_end, pattern, rig, rig_over,
};
use crate::Error;
use crate::data::ReadAhead;

const S: usize = STRIPE as usize;

/// Writes stripe after stripe, each whole, and lets each arrive or fail before the next.
fn write_stripes(rig: &Rig, count: u64) {
    for index in 0..count {
        rig.write(index * STRIPE, &pattern(index * STRIPE, S, 1)).unwrap();
        let sent = || rig.store.count(Operation::Write) > index;
        eventually("a full stripe is sent without being asked for", sent);
    }
}

#[test]
fn a_write_that_failed_later_is_reported_once_by_each_handle() {
    let rig = rig(vec![Fault::nth(Operation::Write, 3, gone())]);
    let (writer, syncer, idle) = (rig.cursor(), rig.cursor(), rig.cursor());
    write_stripes(&rig, 3);
    eventually("the third write fails", || rig.file.size() == 2 * STRIPE);
    let error = Err(Error::Store(gone()));
    assert_eq!(rig.file.write(&writer, 9 * STRIPE, b"not done").map(drop), error);
    assert_eq!(rig.file.size(), 2 * STRIPE, "nothing of the write that reported was done");
    assert_eq!(rig.file.flush(&syncer), error);
    assert_eq!(rig.file.flush(&writer), Ok(()));
    assert_eq!(rig.file.flush(&syncer), Ok(()));
    assert_eq!(idle.report(&rig.file), error);
    assert_eq!(idle.report(&rig.file), Ok(()));
    assert_eq!(rig.cursor().report(&rig.file), Ok(()), "opened after it was reported");
}

#[test]
fn what_failed_reads_as_the_store_has_it_and_the_size_falls_back() {
    let rig = rig(vec![Fault::nth(Operation::Write, 3, gone())]);
    write_stripes(&rig, 3);
    let cursor = rig.cursor();
    assert_eq!(rig.file.flush(&cursor), Err(Error::Store(gone())));
    assert_eq!(rig.inode().size, 2 * STRIPE, "what arrived is committed");
    assert_eq!(rig.all(), pattern(0, 2 * S, 1));
}

#[test]
fn a_stripe_that_failed_before_one_that_arrived_is_a_hole() {
    let rig = rig(vec![Fault::nth(Operation::Write, 2, gone())]);
    write_stripes(&rig, 2);
    assert!(rig.file.flush(&rig.cursor()).is_err());
    rig.write(2 * STRIPE, &pattern(2 * STRIPE, S, 1)).unwrap();
    rig.flush();
    let mut wanted = pattern(0, 3 * S, 1);
    wanted[S..2 * S].fill(0);
    assert_eq!(rig.all(), wanted);
}

#[test]
fn what_a_failed_write_left_in_the_store_does_not_turn_up_when_the_file_grows() {
    let lost_reply = Fault::nth(Operation::Write, 1, gone()).after();
    for grow_by_writing in [false, true] {
        let rig = rig(vec![lost_reply.clone()]);
        rig.write(0, &[7; 100]).unwrap();
        assert!(rig.file.flush(&rig.cursor()).is_err());
        assert_eq!(rig.file.size(), 0);
        if grow_by_writing {
            rig.write(2 * STRIPE, b"x").unwrap();
        } else {
            rig.file.truncate(2 * STRIPE + 1).unwrap();
        }
        assert_eq!(rig.read(0, 2 * S), vec![0; 2 * S]);
    }
}

/// Whoever closed the file knew of it, and nobody does any more.
#[test]
fn what_a_failed_write_left_does_not_turn_up_when_another_mount_makes_the_file_longer() {
    let lost_reply = Fault::nth(Operation::Write, 1, gone()).after();
    let rig = rig(vec![lost_reply]);
    rig.write(0, &[7; 100]).unwrap();
    assert!(rig.file.flush(&rig.cursor()).is_err());
    let other = rig.other_mount();
    other.file.truncate(2 * STRIPE).unwrap();
    assert!(other.read(0, 2 * S) == vec![0; 2 * S]);
}

/// With company it stays, for others may have written there since; who had failed finds out before he writes behind it.
#[test]
fn what_others_wrote_where_a_write_failed_is_not_taken_for_what_it_left() {
    let lost_reply = Fault::nth(Operation::Write, 1, gone()).after();
    let rig = rig(vec![lost_reply]);
    rig.path.set_others(vec![tidefs_model::MountId(2)]);
    rig.write(0, &[7; 100]).unwrap();
    assert!(rig.file.flush(&rig.cursor()).is_err());
    let other = rig.other_mount();
    other.write(0, &[8; 100]).unwrap();
    other.flush();
    rig.write(2 * STRIPE, b"x").unwrap();
    rig.flush();
    let mut wanted = vec![0; 2 * S];
    wanted[..100].fill(8);
    assert!(rig.other_mount().read(0, 2 * S) == wanted);
}

/// A write of a mount failed whose bytes may be there, and another one has written the same stripe and recorded a part.
fn written_by_two() -> (Rig, Rig) {
    let rig = rig(vec![Fault::nth(Operation::Write, 1, gone()).after()]);
    rig.path.set_others(vec![tidefs_model::MountId(2)]);
    rig.write(0, &[7; S]).unwrap();
    assert!(rig.file.flush(&rig.cursor()).is_err());
    let other = rig.other_mount();
    other.write(0, &[8; 100]).unwrap();
    other.flush();
    other.write(100, &[8; S - 100]).unwrap();
    // Only sent, since the stripe is full.
    let arrived = || {
        let (key, mut last) = (StripeKey { ino: rig::INO, index: 0 }, [0]);
        let read = StripeRead { key, offset: S as u32 - 1, buffer: &mut last };
        rig.store.read(&mut [read]).unwrap();
        last == [8]
    };
    eventually("the stripe arrives", arrived);
    assert_eq!(rig.inode().size, 100);
    (rig, other)
}

/// They may be what the other one has not recorded yet.
#[test]
fn bytes_behind_an_end_that_another_mount_has_moved_are_not_taken_for_what_a_write_left() {
    let (rig, other) = written_by_two();
    rig.file.refresh(&rig.inode());
    rig.file.truncate(2 * STRIPE).unwrap();
    other.flush();
    assert!(rig.other_mount().read(0, S) == vec![8; S]);
}

#[test]
fn who_makes_a_file_longer_where_his_write_failed_looks_first_what_others_did() {
    let (rig, other) = written_by_two();
    rig.file.truncate(2 * STRIPE).unwrap();
    other.flush();
    assert!(rig.other_mount().read(0, S) == vec![8; S]);
}

#[test]
fn one_failing_stripe_among_several_sent_together_is_the_only_one_lost() {
    // The call for all five fails, then each is sent alone, and the second of those fails.
    let faults = [1, 3].map(|nth| Fault::nth(Operation::Write, nth, gone())).into_iter().collect();
    let rig = rig(faults);
    for index in 0..4 {
        rig.write(index * STRIPE, &[index as u8 + 1; 10]).unwrap();
    }
    assert_eq!(rig.file.flush(&rig.cursor()), Err(Error::Store(gone())));
    let firsts: Vec<_> = (0..4).map(|index| rig.read(index * STRIPE, 1)[0]).collect();
    assert_eq!(firsts, [1, 0, 3, 4]);
}

#[test]
fn once_the_store_was_full_the_write_itself_says_so() {
    let rig = rig(vec![Fault::every(Operation::Write, 1, full())]);
    let cursor = rig.cursor();
    rig.file.write(&cursor, 0, &pattern(0, S, 1)).unwrap();
    let no_room = Err(Error::Store(full()));
    assert_eq!(rig.file.flush(&cursor), no_room);
    for attempt in 0..3 {
        assert_eq!(rig.file.write(&cursor, 0, b"small").map(drop), no_room, "attempt {attempt}");
        assert_eq!(rig.file.flush(&cursor), Ok(()), "reported by the write already");
    }
    rig.store.heal();
    assert_eq!(rig.file.write(&cursor, 0, b"small"), Ok(5));
    assert_eq!(rig.read(0, 10), b"small");
}

#[test]
fn a_store_with_a_real_limit_takes_what_fits_and_frees_what_is_truncated() {
    use tidefs_model::ByteSize;
    use tidefs_store::Embedded;
    let store = Embedded::in_heap(ByteSize(64 * STRIPE), rig::stripe_size());
    let rig = rig_over(Arc::new(Faulty::new(store, Vec::new())), &rig::config());
    let cursor = rig.cursor();
    let refused = (0..200).find_map(|index| {
        rig.file.write(&cursor, index * STRIPE, &pattern(index * STRIPE, S, 1)).err()
    });
    assert!(matches!(refused, Some(Error::Store(tidefs_store::StoreError::Full { .. }))));
    let stored = rig.file.size();
    // What is on its way in one of the eight buffers counts until it is refused.
    assert!((30 * STRIPE..=72 * STRIPE).contains(&stored), "{stored} bytes stored");
    // What was still on its way then may have failed too, which is another report.
    let late = rig.file.flush(&cursor);
    assert!(matches!(late, Ok(()) | Err(Error::Store(tidefs_store::StoreError::Full { .. }))));
    rig.file.truncate(0).unwrap();
    rig.file.write(&cursor, 0, &pattern(0, S, 2)).unwrap();
    rig.file.flush(&cursor).unwrap();
    assert_eq!(rig.all(), pattern(0, S, 2));
}

#[test]
fn a_commit_that_fails_is_made_up_for_by_the_next_flush() {
    let rig = rig(vec![Fault::nth(Operation::Batch, 2, gone())]);
    let cursor = rig.cursor();
    rig.file.write(&cursor, 0, b"bytes").unwrap();
    assert_eq!(rig.file.flush(&cursor), Err(Error::Store(gone())));
    assert_eq!((rig.inode().size, rig.file.size()), (0, 5));
    assert!(rig.file.is_dirty());
    assert_eq!(rig.file.flush(&cursor), Ok(()));
    assert_eq!(rig.inode().size, 5);
}

#[test]
fn a_file_that_another_mount_removed_is_stale() {
    let rig = rig(Vec::new());
    let cursor = rig.cursor();
    let gone = tidefs_store::Batch::new().delete(crate::keys::inode(rig::INO));
    rig.store.batch(rig::HOME, &gone).unwrap();
    rig.file.write(&cursor, 0, b"late").unwrap();
    assert_eq!(rig.file.flush(&cursor), Err(Error::Stale));
    assert_eq!(rig.file.truncate(0), Err(Error::Stale));
    assert_eq!(append(&rig.file, &cursor, b"late", true, &new_end()), Err(Error::Stale));
}

#[test]
fn a_read_that_fails_says_so_and_the_next_one_is_tried_again() {
    let rig = rig(vec![Fault::nth(Operation::Read, 1, gone())]);
    rig.write(0, &pattern(0, 100, 1)).unwrap();
    rig.flush();
    let reader = ReadAhead::default();
    let failed = rig.file.read(&reader, 0, 100).map(|_| ());
    assert_eq!(failed, Err(Error::Store(gone())));
    assert_eq!(rig.read_with(&reader, 0, 100), pattern(0, 100, 1));
}

#[test]
fn a_store_that_panics_in_a_thread_of_the_pool_is_an_error_and_nobody_hangs() {
    let rig = rig_over(Arc::new(panicking::Panicking(rig::embedded())), &rig::config());
    let cursor = rig.cursor();
    rig.file.write(&cursor, 0, &pattern(0, 2 * S, 1)).unwrap();
    assert!(matches!(rig.file.flush(&cursor), Err(Error::Store(_))));
    assert_eq!(rig.file.size(), 0);
    rig.path.close();
}

mod panicking {
    //! A store whose writes panic.

    use tidefs_model::{ShardKey, StripeKey};
    use tidefs_store::*;

    pub struct Panicking(pub Embedded);

    impl Store for Panicking {
        fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
            self.0.batch(shard, batch)
        }
        fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
            self.0.batches(batches)
        }
        fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
            self.0.list(shards)
        }
        fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
            self.0.keys(cursor)
        }
        fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
            self.0.delete_shards(shards)
        }
        fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
            self.0.read(reads)
        }
        fn write(&self, _: &[StripeWrite<'_>]) -> Result<(), StoreError> {
            panic!("on purpose")
        }
        fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
            self.0.trim(trims)
        }
        fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
            self.0.lengths(stripes)
        }
        fn overview(&self) -> Result<Overview, StoreError> {
            self.0.overview()
        }
    }
}
