//! What the file system as a whole keeps in its store: its format, its root, and the next inode
//! number.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidefs_model::{Clock, Granted, Ino, Partition, StripeSize, Time};
use tidefs_sealed::Cipher;
use tidefs_store::{Batch, Store, StoreError};

use crate::config::Format;
use crate::delegations::LAPSE;
use crate::error::Error;
use crate::inode::{Inode, u32_at, u64_at};
use crate::layout::Layout;
use crate::{Kind, keys};

/// Version of the layout of all records.
pub const FORMAT_VERSION: u32 = 9;
const FORMAT: &[u8] = b"format";
const NEXT_INO: &[u8] = b"next-ino";
/// The serial number of the next local file.
const NEXT_SERIAL: &[u8] = b"next-serial";
/// Inodes that this [covers](Granted::covers) may have lost records with a node.
pub const LOST_BELOW: &[u8] = b"lost-below";
/// How often records were lost. Between two losses no number may have been granted.
pub const LOSSES: &[u8] = b"losses";
/// The first number for a file; those below are for the file system itself.
const FIRST_INO: u64 = 16;
/// Numbers that a mount takes at a time, so that one create in so many pays for it.
const INOS_PER_GRANT: u64 = 4_096;
const SERIALS_PER_GRANT: u64 = 1_024;
/// Numbers that are given out before others are asked for again, while there are none.
const BACK_OFF: u64 = 64;

/// Makes an empty file system; leaves one that is there as it is.
pub fn format(store: &impl Store, format: Format, clock: &dyn Clock) -> Result<(), Error> {
    let field = keys::inode(Ino::ROOT);
    let root = root(&format, clock.now());
    let root = Batch::new().absent(field.clone()).put(field, root.encode());
    // The root comes first: a superblock says that the rest is there.
    store.batch(keys::ROOT_HOME, &root)?;
    let superblock = Batch::new()
        .absent(FORMAT)
        .put(FORMAT, encode(&format))
        .put(NEXT_INO, FIRST_INO.to_be_bytes())
        .put(NEXT_SERIAL, 0_u64.to_be_bytes())
        .put(keys::RENAME_TERM, 0_u64.to_be_bytes());
    store.batch(keys::SUPERBLOCK, &superblock)?;
    Ok(())
}

fn root(format: &Format, now: Time) -> Inode {
    Inode {
        kind: Kind::Directory,
        sparse: false,
        capable: false,
        mode: format.root_mode,
        nlink: 2,
        size: 0,
        version: 0,
        mtime: now,
        ctime: now,
        atime: now,
        btime: now,
        uid: format.root_uid,
        gid: format.root_gid,
        rdev: 0,
        layout: Layout::Striped,
        parent: None,
        cut: None,
        holes: Vec::new(),
        target: Vec::new(),
    }
}

/// How far numbers have been granted; `None` where the superblock was lost and is not there again.
pub fn granted(store: &impl Store) -> Result<Option<Granted>, Error> {
    numbers(store, Batch::new().present(FORMAT))
}

/// The same when something was lost, and one inode's number more than was said of any loss before: what was
/// cut between two losses is told from what the second one took.
pub fn granted_at_loss(store: &impl Store) -> Result<Option<Granted>, Error> {
    numbers(store, Batch::new().present(FORMAT).add(NEXT_INO, 0, 1).reclaims())
}

/// Has mounts know of a loss: what they cut from then on is cut after it. To be called after the loss, and
/// before anybody holds anew what was lost.
pub fn tell_loss(store: &impl Store, granted: Granted) -> Result<(), Error> {
    store.batch(keys::MOUNTS, &Batch::new().max(keys::LOST_AT, 0, granted.inos).reclaims())?;
    Ok(())
}

fn numbers(store: &impl Store, batch: Batch) -> Result<Option<Granted>, Error> {
    let batch = batch.read(NEXT_INO).read(NEXT_SERIAL);
    let outcome = store.batch(keys::SUPERBLOCK, &batch)?;
    if !outcome.applied() {
        return Ok(None);
    }
    let numbers: Vec<_> =
        outcome.values.into_iter().flatten().filter(|number| number.len() == 8).collect();
    match &numbers[..] {
        [inos, serials] => Ok(Some(Granted { inos: u64_at(inos, 0), serials: u64_at(serials, 0) })),
        _ => Err(Error::Corrupt { what: "superblock", ino: 0 }),
    }
}

/// Shards were lost when numbers had been granted so far: what the records of those inodes lack may
/// have been there. After `wait` no mount answers from what it read of them, also where this cannot
/// be said, since the superblock itself was lost.
pub fn note_loss(
    store: &impl Store,
    granted: Granted,
    wait: impl FnOnce(Duration),
) -> Result<(), Error> {
    let batch = lost_below(Batch::new().present(FORMAT), granted).reclaims();
    let counted = count_loss(store);
    let said = store.batch(keys::SUPERBLOCK, &batch);
    wait(LAPSE);
    counted?;
    said?;
    Ok(())
}

fn lost_below(batch: Batch, granted: Granted) -> Batch {
    batch.max(LOST_BELOW, 0, granted.inos).max(LOST_BELOW, 8, granted.serials)
}

/// Has mounts end what they keep, also while the superblock is not there.
fn count_loss(store: &impl Store) -> Result<(), Error> {
    store.batch(keys::SUPERBLOCK, &Batch::new().add(LOSSES, 0, 1).reclaims())?;
    Ok(())
}

/// Where the superblock lies.
pub fn partition() -> Partition {
    keys::SUPERBLOCK.partition()
}

/// Makes anew what the file system needs and was lost: the root's record, the superblock. Numbers that
/// were `granted` are not granted again.
pub fn recreate(
    store: &impl Store,
    format: Format,
    granted: Granted,
    now: Time,
) -> Result<(), Error> {
    let field = keys::inode(Ino::ROOT);
    let root = root(&format, now).encode();
    let root = Batch::new().absent(field.clone()).put(field, root).reclaims();
    store.batch(keys::ROOT_HOME, &root)?;
    let superblock = Batch::new()
        .absent(FORMAT)
        .put(FORMAT, encode(&format))
        .put(NEXT_INO, granted.inos.to_be_bytes())
        .put(NEXT_SERIAL, granted.serials.to_be_bytes())
        .put(keys::RENAME_TERM, 0_u64.to_be_bytes());
    store.batch(keys::SUPERBLOCK, &lost_below(superblock, granted).reclaims())?;
    // Nobody was asked who keeps that there is no root.
    count_loss(store)
}

/// The format of the file system in the store.
pub fn read(store: &impl Store) -> Result<Format, Error> {
    let outcome = store.batch(keys::SUPERBLOCK, &Batch::new().read(FORMAT))?;
    let record = outcome.values.into_iter().next().flatten();
    decode(&record.ok_or(Error::NoSuperblock)?)
}

fn encode(format: &Format) -> Vec<u8> {
    [
        FORMAT_VERSION,
        format.stripe_size.bytes(),
        u32::from(format.shards),
        format.root_uid,
        format.root_gid,
        format.root_mode,
        format.cipher.map_or(0, Cipher::number),
    ]
    .iter()
    .flat_map(|number| number.to_be_bytes())
    .collect()
}

fn decode(record: &[u8]) -> Result<Format, Error> {
    let corrupt = Error::Corrupt { what: "superblock", ino: 0 };
    if record.len() < 4 {
        return Err(corrupt);
    }
    // Before the length, which another version may have changed.
    let found = u32_at(record, 0);
    if found != FORMAT_VERSION {
        return Err(Error::WrongFormat { found, needed: FORMAT_VERSION });
    }
    if record.len() < 28 {
        return Err(corrupt);
    }
    let cipher = match u32_at(record, 24) {
        0 => None,
        number => Some(Cipher::of_number(number).ok_or(corrupt.clone())?),
    };
    let shards = u16::try_from(u32_at(record, 8)).ok().filter(|&shards| shards > 0);
    Ok(Format {
        stripe_size: StripeSize::new(u32_at(record, 4)).ok_or(corrupt.clone())?,
        shards: shards.ok_or(corrupt)?,
        root_uid: u32_at(record, 12),
        root_gid: u32_at(record, 16),
        root_mode: u32_at(record, 20),
        cipher,
    })
}

/// Hands out numbers, none of them twice, from ranges granted by the store.
#[derive(Debug)]
pub struct NumberSource {
    field: &'static [u8],
    per_grant: u64,
    granted: Mutex<Range<u64>>,
    /// Those below are given up where others can be had: a loss is said to have taken what theirs lacks.
    least: AtomicU64,
    /// The number at which others are asked for again, after there were none.
    asks_from: AtomicU64,
}

impl NumberSource {
    /// Numbers of inodes.
    pub fn inos() -> NumberSource {
        NumberSource::of(NEXT_INO, INOS_PER_GRANT)
    }

    /// Serial numbers of local files.
    pub fn serials() -> NumberSource {
        NumberSource::of(NEXT_SERIAL, SERIALS_PER_GRANT)
    }

    fn of(field: &'static [u8], per_grant: u64) -> NumberSource {
        let (granted, least, asks_from) = Default::default();
        NumberSource { field, per_grant, granted, least, asks_from }
    }

    /// What is made from now on has a number that had not been granted at a loss. Does not wait.
    pub fn note_loss(&self, granted: u64) {
        self.least.fetch_max(granted, Ordering::SeqCst);
    }

    pub fn next(&self, store: &impl Store) -> Result<u64, Error> {
        let mut granted = self.granted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if granted.is_empty() {
            *granted = self.grant(store)?;
        } else if granted.start < self.least.load(Ordering::SeqCst)
            && granted.start >= self.asks_from.load(Ordering::SeqCst)
        {
            match self.grant(store) {
                Ok(others) => *granted = others,
                // While the counter is lost itself those that are left will do.
                Err(_) => self.asks_from.store(granted.start + BACK_OFF, Ordering::SeqCst),
            }
        }
        let number = granted.start;
        granted.start += 1;
        Ok(number)
    }

    fn grant(&self, store: &impl Store) -> Result<Range<u64>, Error> {
        let NumberSource { field, per_grant, .. } = *self;
        // A superblock that was lost must not begin anew with numbers that inodes have.
        // It counts, and takes no room: nobody waits for that while others wait for this one's numbers.
        let batch =
            Batch::new().present(FORMAT).add(field, 0, per_grant as i64).read(field).reclaims();
        let mut outcome = match store.batch(keys::SUPERBLOCK, &batch) {
            // A grant that may have been made is given up: numbers are plenty.
            Err(StoreError::Indeterminate { .. }) => store.batch(keys::SUPERBLOCK, &batch)?,
            other => other?,
        };
        if !outcome.applied() {
            return Err(StoreError::Lost { partition: partition().number() }.into());
        }
        let record = outcome.take(0).filter(|record| record.len() >= 8);
        let end = u64_at(&record.ok_or(Error::Corrupt { what: "superblock", ino: 0 })?, 0);
        let begin = end.checked_sub(per_grant);
        Ok(begin.ok_or(Error::Corrupt { what: "superblock", ino: 0 })?..end)
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::ByteSize;
    use tidefs_store::{Embedded, Fault, Faulty, Operation};

    use super::*;

    const NOW: Time = Time(1_000_000_000_000);

    #[test]
    fn a_store_without_a_superblock_is_told_from_one_of_another_version() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        assert_eq!(read(&store).err(), Some(Error::NoSuperblock));
    }

    #[test]
    fn another_version_is_told_from_a_record_that_does_not_decode() {
        let other = 1_u32.to_be_bytes();
        let needed = FORMAT_VERSION;
        assert_eq!(decode(&other), Err(Error::WrongFormat { found: 1, needed }));
        assert!(matches!(decode(&needed.to_be_bytes()), Err(Error::Corrupt { .. })));
        assert!(matches!(decode(&[0; 3]), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn losses_are_counted_also_where_the_superblock_was_lost_and_again_when_the_root_is_there() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        let losses = || {
            let read = store.batch(keys::SUPERBLOCK, &Batch::new().read(LOSSES));
            read.unwrap().values[0].clone().map_or(0, |value| u64_at(&value, 0))
        };
        let granted = Granted::default();
        note_loss(&store, granted, |time| assert_eq!((time, losses()), (LAPSE, 1))).unwrap();
        recreate(&store, Format::default(), granted, NOW).unwrap();
        assert_eq!((losses(), read(&store).unwrap()), (2, Format::default()));
    }

    #[test]
    fn others_are_asked_for_now_and_then_while_the_counter_is_lost() {
        let embedded = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        format(&embedded, Format::default(), &tidefs_model::ManualClock::at(NOW)).unwrap();
        let store = Faulty::new(embedded, Vec::new());
        let numbers = NumberSource::inos();
        let first = numbers.next(&store).unwrap();
        let lost_at = first + INOS_PER_GRANT;
        numbers.note_loss(lost_at);
        let gone = StoreError::Unavailable { endpoint: "a node".into() };
        store.add(Fault::every(Operation::Batch, 1, gone));
        let before = store.count(Operation::Batch);
        for number in 1..=BACK_OFF {
            assert_eq!(numbers.next(&store), Ok(first + number));
        }
        assert_eq!(store.count(Operation::Batch) - before, 1);
        assert_eq!(numbers.next(&store), Ok(first + BACK_OFF + 1));
        assert_eq!(store.count(Operation::Batch) - before, 2);
        store.heal();
        let later =
            (1..BACK_OFF).find_map(|_| numbers.next(&store).ok().filter(|it| *it >= lost_at));
        assert_eq!(later, None, "they are not asked for yet");
        assert!(numbers.next(&store).unwrap() >= lost_at);
    }

    fn lost_below(store: &Embedded) -> Option<Granted> {
        let read = store.batch(keys::SUPERBLOCK, &Batch::new().read(LOST_BELOW));
        read.unwrap().values[0].as_deref().map(|bytes| Granted::decode(bytes).unwrap())
    }

    #[test]
    fn what_was_lost_is_made_anew_and_no_number_is_granted_twice() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        assert_eq!(granted(&store), Ok(None));
        let early = NumberSource::inos().next(&store);
        assert!(matches!(early, Err(Error::Store(StoreError::Lost { .. }))), "{early:?}");
        let before = Granted { inos: 1 << 40, serials: 1 << 30 };
        recreate(&store, Format::default(), before, NOW).unwrap();
        assert_eq!(read(&store).unwrap(), Format::default());
        let root = store.batch(keys::ROOT_HOME, &Batch::new().read(keys::inode(Ino::ROOT)));
        assert!(root.unwrap().values[0].is_some());
        assert_eq!((granted(&store), lost_below(&store)), (Ok(Some(before)), Some(before)));
        assert_eq!(NumberSource::inos().next(&store), Ok(before.inos));
        assert_eq!(NumberSource::serials().next(&store), Ok(before.serials));
        // What is there is left alone.
        let other = Granted { inos: 1 << 50, serials: 1 << 40 };
        recreate(&store, Format { root_uid: 7, ..Format::default() }, other, NOW).unwrap();
        assert_eq!(read(&store).unwrap(), Format::default());
        let after = granted(&store).unwrap().unwrap();
        assert_eq!(after.inos, before.inos + INOS_PER_GRANT);
        assert_eq!(after.serials, before.serials + SERIALS_PER_GRANT);
    }

    #[test]
    fn a_loss_covers_all_that_was_granted_and_never_covers_less() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        format(&store, Format::default(), &tidefs_model::ManualClock::at(NOW)).unwrap();
        assert_eq!(lost_below(&store), None);
        let numbers = NumberSource::inos();
        let early = numbers.next(&store).unwrap();
        let first = granted(&store).unwrap().unwrap();
        note_loss(&store, first, |_| ()).unwrap();
        assert!(first.covers(Ino(early)));
        let late = NumberSource::inos().next(&store).unwrap();
        assert!(!first.covers(Ino(late)), "it was granted after the loss");
        let second = granted(&store).unwrap().unwrap();
        note_loss(&store, second, |_| ()).unwrap();
        assert!(second.covers(Ino(late)));
        // Nothing was made between two more, and still they differ.
        let third = granted_at_loss(&store).unwrap().unwrap();
        let fourth = granted_at_loss(&store).unwrap().unwrap();
        assert!(third.inos > second.inos && fourth.inos > third.inos, "{third:?}, {fourth:?}");
        // Numbers that were granted before and not used are given up.
        assert!(fourth.covers(Ino(numbers.next(&store).unwrap())));
        assert_eq!(granted(&store), Ok(Some(fourth)), "to ask is no loss");
        numbers.note_loss(fourth.inos);
        assert!(!fourth.covers(Ino(numbers.next(&store).unwrap())));
        // One that was found earlier and is told late.
        note_loss(&store, first, |_| ()).unwrap();
        assert_eq!(lost_below(&store), Some(second));
    }
}
