//! Files of which a store has lost stripes, and says so: what was cut or punched since is a hole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidefs_model::{ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Cut, Embedded, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead,
    StripeWrite,
};

use super::rig::{INO, Rig, STRIPE, config, embedded, pattern, rig_over};
use crate::data::ReadAhead;
use crate::{Error, SpaceMode};

const S: usize = STRIPE as usize;
/// How many numbers had been granted at the first loss, and at the next one.
const FIRST: u64 = 1_000;
const NEXT: u64 = 1_001;

/// A store that loses stripes, and cannot tell afterwards what is a hole from what was lost.
struct Lossy {
    metadata: Embedded,
    stripes: Mutex<BTreeMap<StripeKey, Stripe>>,
    /// Trims are carried out, and not answered.
    trims_fail: AtomicBool,
}

#[derive(Default)]
struct Stripe {
    bytes: Vec<u8>,
    lost_at: u64,
}

impl Stripe {
    fn check(&self, is_short: bool, as_of: u64) -> Result<(), StoreError> {
        if is_short && self.lost_at > as_of {
            Err(StoreError::Lost { partition: 0 })
        } else {
            Ok(())
        }
    }
}

impl Lossy {
    fn stripes(&self) -> MutexGuard<'_, BTreeMap<StripeKey, Stripe>> {
        self.stripes.lock().unwrap()
    }

    fn lose(&self, index: u32, lost_at: u64) {
        self.stripes().insert(StripeKey { ino: INO, index }, Stripe { bytes: Vec::new(), lost_at });
    }
}

impl Store for Lossy {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.metadata.batch(shard, batch)
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.metadata.batches(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.metadata.list(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.metadata.keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.metadata.delete_shards(shards)
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.read_cut(reads, Cut { as_of: 0, from: 0 })
    }

    fn read_cut(&self, reads: &mut [StripeRead<'_>], cut: Cut) -> Result<(), StoreError> {
        let mut stripes = self.stripes();
        for StripeRead { key, offset, buffer } in reads {
            let stripe = stripes.entry(*key).or_default();
            let there = stripe.bytes.get(*offset as usize..).unwrap_or_default();
            let there = &there[..there.len().min(buffer.len())];
            buffer[..there.len()].copy_from_slice(there);
            buffer[there.len()..].fill(0);
            stripe.check(there.len() < buffer.len(), cut.as_of)?;
        }
        Ok(())
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        self.write_cut(writes, Cut { as_of: 0, from: 0 })
    }

    fn write_cut(&self, writes: &[StripeWrite<'_>], cut: Cut) -> Result<(), StoreError> {
        let mut stripes = self.stripes();
        for StripeWrite { key, offset, bytes } in writes {
            let stripe = stripes.entry(*key).or_default();
            let (stored, end) = (stripe.bytes.len() as u32, *offset as usize + bytes.len());
            stripe.check(stored < *offset, cut.as_of)?;
            stripe.check(stored < cut.from.min(*offset), 0)?;
            stripe.bytes.resize(end.max(stripe.bytes.len()), 0);
            stripe.bytes[*offset as usize..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        let mut stripes = self.stripes();
        for (key, length) in trims {
            stripes.entry(*key).or_default().bytes.truncate(*length as usize);
        }
        match self.trims_fail.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable { endpoint: "a node".into() }),
            false => Ok(()),
        }
    }

    fn lengths(&self, keys: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        let mut stripes = self.stripes();
        let length = |key: &StripeKey| {
            let stripe = stripes.entry(*key).or_default();
            if stripe.lost_at > 0 { STRIPE as u32 } else { stripe.bytes.len() as u32 }
        };
        Ok(keys.iter().map(length).collect())
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.metadata.overview()
    }
}

/// A file of four stripes, of which the second and third were lost and the third has its first bytes anew.
fn rig() -> Rig<Lossy> {
    let store = Lossy {
        metadata: embedded(),
        stripes: Mutex::default(),
        trims_fail: AtomicBool::new(false),
    };
    let rig = rig_over(Arc::new(store), &config());
    rig.write(0, &pattern(0, 4 * S, 1)).unwrap();
    rig.flush();
    rig.store.lose(1, FIRST);
    rig.store.lose(2, FIRST);
    rig.path.note_loss(FIRST);
    rig.write(2 * STRIPE, &[7; 1_000]).unwrap();
    rig.flush();
    rig
}

fn try_read(rig: &Rig<Lossy>, offset: usize, length: usize) -> Result<Vec<u8>, Error> {
    let read = rig.file.read(&ReadAhead::default(), offset as u64, length);
    read.map(|bytes| bytes.as_slice().to_vec())
}

fn is_lost<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Store(StoreError::Lost { .. })))
}

fn punch(rig: &Rig<Lossy>, from: usize, to: usize) {
    rig.file.allocate(from as u64, (to - from) as u64, SpaceMode::PunchHole).unwrap();
}

#[test]
fn what_was_punched_after_a_loss_is_a_hole_and_what_lies_around_it_is_lost() {
    let rig = rig();
    // From the middle of what is there to the middle of what was lost, of what is there in part too.
    punch(&rig, 100, S + 200);
    punch(&rig, 2 * S + 900, 2 * S + 2_000);
    // Nothing is there.
    punch(&rig, S + 300, S + 600);
    punch(&rig, 2 * S + 3_000, 2 * S + 3_500);
    for rig in [&rig, &rig.other_mount()] {
        assert_eq!(try_read(rig, 0, 100), Ok(pattern(0, 100, 1)));
        assert_eq!(try_read(rig, 100, S + 100), Ok(vec![0; S + 100]));
        assert!(is_lost(&try_read(rig, S + 200, 1)) && is_lost(&try_read(rig, S + 299, 2)));
        assert_eq!(try_read(rig, S + 300, 300), Ok(vec![0; 300]));
        assert!(is_lost(&try_read(rig, S + 600, 1)));
        assert_eq!(try_read(rig, 2 * S + 3_000, 500), Ok(vec![0; 500]));
        assert!(is_lost(&try_read(rig, 2 * S - 1, 2)));
        let mut wanted = vec![7; 900];
        wanted.resize(2_000, 0);
        assert_eq!(try_read(rig, 2 * S, 2_000), Ok(wanted));
        assert!(is_lost(&try_read(rig, 2 * S, 2_001)));
        assert_eq!(try_read(rig, 3 * S, S), Ok(pattern(3 * STRIPE, S, 1)));
    }
}

#[test]
fn a_hole_that_was_punched_after_a_loss_is_written_to_in_any_order_and_lost_with_the_next_one() {
    let rig = rig();
    punch(&rig, S, 2 * S);
    punch(&rig, 2 * S + 1_200, 3 * S);
    rig.write(STRIPE + 50, b"end").unwrap();
    rig.flush();
    let mut wanted = vec![0; S];
    wanted[50..53].copy_from_slice(b"end");
    assert_eq!(try_read(&rig, S, S), Ok(wanted));
    // A gap over what was lost between two that are known is none.
    let cursor = rig.cursor();
    rig.file.write(&cursor, 2 * STRIPE + 1_500, b"end").unwrap();
    let flushed = rig.file.flush(&cursor);
    assert!(is_lost(&flushed), "{flushed:?}");
    assert_eq!(try_read(&rig, 2 * S + 1_200, 300), Ok(vec![0; 300]));

    rig.store.lose(1, NEXT);
    assert!(is_lost(&try_read(&rig, S, 1)), "it was lost after it was punched");
    assert_eq!(try_read(&rig, 2 * S + 1_200, S - 1_200), Ok(vec![0; S - 1_200]));
    // Whoever has not heard of the next loss says of the first one alone.
    punch(&rig, S, 2 * S);
    assert!(is_lost(&try_read(&rig, S, 1)));
    rig.path.note_loss(NEXT);
    punch(&rig, S, 2 * S);
    assert_eq!(try_read(&rig, S, S), Ok(vec![0; S]));
}

#[test]
fn what_was_cut_after_a_loss_is_a_hole_also_where_something_was_punched() {
    let rig = rig();
    punch(&rig, S + 10, S + 20);
    rig.file.truncate(STRIPE + 100).unwrap();
    rig.file.truncate(3 * STRIPE).unwrap();
    assert_eq!(try_read(&rig, S + 100, 2 * S - 100), Ok(vec![0; 2 * S - 100]));
    assert_eq!(try_read(&rig, S + 10, 10), Ok(vec![0; 10]));
    assert!(is_lost(&try_read(&rig, S, 11)));
}

#[test]
fn more_holes_than_a_record_lists_are_lost_and_a_later_file_lists_none() {
    let rig = rig();
    let places = (0..70).map(|at| S + at * 20);
    places.clone().for_each(|at| punch(&rig, at, at + 10));
    let lost = places.filter(|at| is_lost(&try_read(&rig, *at, 10))).count();
    assert_eq!((lost, rig.inode().holes.len()), (6, 64));

    let rig = rig_over(Arc::clone(&rig.store), &config());
    rig.path.note_loss(INO.0);
    rig.write(0, &[1; S]).unwrap();
    punch(&rig, 0, 10);
    assert_eq!(rig.inode().holes, []);
}

#[test]
fn what_a_punch_that_failed_has_removed_is_a_hole() {
    let rig = rig();
    rig.store.stripes().get_mut(&StripeKey { ino: INO, index: 2 }).unwrap().bytes = vec![7; S];
    rig.store.trims_fail.store(true, Ordering::Relaxed);
    let from = 2 * STRIPE + 100;
    let punched = rig.file.allocate(from, STRIPE - 100, SpaceMode::PunchHole);
    assert!(matches!(punched, Err(Error::Store(StoreError::Unavailable { .. }))), "{punched:?}");
    for rig in [&rig, &rig.other_mount()] {
        assert_eq!(try_read(rig, from as usize, S - 100), Ok(vec![0; S - 100]));
        assert_eq!(try_read(rig, 2 * S, 100), Ok(vec![7; 100]));
    }
}
