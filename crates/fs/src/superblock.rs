//! What the file system as a whole keeps in its store: its format, its root, and the next inode
//! number.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use tidefs_model::{Clock, Ino, Partition, StripeSize, Time, serial_at};
use tidefs_sealed::Cipher;
use tidefs_store::{Batch, Store, StoreError};

use crate::config::Format;
use crate::error::Error;
use crate::inode::{Inode, u32_at, u64_at};
use crate::layout::Layout;
use crate::leases::LAPSE;
use crate::{Kind, keys};

/// Version of the layout of all records.
const FORMAT_VERSION: u32 = 4;
const FORMAT: &[u8] = b"format";
const NEXT_INO: &[u8] = b"next-ino";
/// The serial number of the next local file.
const NEXT_SERIAL: &[u8] = b"next-serial";
/// Inodes whose numbers are [before](Ino::is_before) this may have lost records with a node.
pub const LOST_BELOW: &[u8] = b"lost-below";
/// How often records were lost. The number below which they were may stay as it is: clocks differ.
pub const LOSSES: &[u8] = b"losses";
/// The first number for a file; those below are for the file system itself.
const FIRST_INO: u64 = 16;
/// Numbers that a mount takes at a time, so that one create in so many pays for it. Serial numbers are
/// to stay behind the time.
const INOS_PER_GRANT: u64 = 4_096;
const SERIALS_PER_GRANT: u64 = 1_024;

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
        .put(NEXT_SERIAL, 0_u64.to_be_bytes());
    store.batch(keys::SUPERBLOCK, &superblock)?;
    Ok(())
}

fn root(format: &Format, now: Time) -> Inode {
    Inode {
        kind: Kind::Directory,
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
        target: Vec::new(),
    }
}

/// Has all inode numbers that are granted from now on lie above `now` in nanoseconds, and so above
/// all that were granted until now. `records_lost`: shards were lost, so that what the records of earlier
/// inodes lack may have been there. After `wait` no mount answers from what it read of them, also where
/// this cannot be said, since the superblock itself was lost.
pub fn outdate(
    store: &impl Store,
    now: Time,
    records_lost: bool,
    wait: impl FnOnce(Duration),
) -> Result<(), Error> {
    let batch = Batch::new().present(FORMAT).max(NEXT_INO, 0, now.0);
    let batch = batch.max(NEXT_SERIAL, 0, serial_at(now.0));
    let batch = if records_lost { batch.max(LOST_BELOW, 0, now.0) } else { batch };
    let counted = if records_lost { count_loss(store) } else { Ok(()) };
    let said = store.batch(keys::SUPERBLOCK, &batch.reclaims());
    if records_lost {
        wait(LAPSE);
    }
    counted?;
    said?;
    Ok(())
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

/// Makes anew what the file system needs and was lost: the root's record, the superblock. Inode
/// numbers that may have been granted are not granted again.
pub fn mend(store: &impl Store, format: Format, now: Time) -> Result<(), Error> {
    let field = keys::inode(Ino::ROOT);
    let root = root(&format, now).encode();
    let root = Batch::new().absent(field.clone()).put(field, root).reclaims();
    store.batch(keys::ROOT_HOME, &root)?;
    let superblock = Batch::new()
        .absent(FORMAT)
        .put(FORMAT, encode(&format))
        .put(NEXT_INO, now.0.to_be_bytes())
        .put(NEXT_SERIAL, serial_at(now.0).to_be_bytes())
        .put(LOST_BELOW, now.0.to_be_bytes())
        .reclaims();
    store.batch(keys::SUPERBLOCK, &superblock)?;
    // Nobody was asked who keeps that there is no root.
    count_loss(store)
}

/// The format of the file system in the store.
pub fn read(store: &impl Store) -> Result<Format, Error> {
    let outcome = store.batch(keys::SUPERBLOCK, &Batch::new().read(FORMAT))?;
    let record = outcome.values.into_iter().next().flatten();
    decode(&record.ok_or(Error::WrongFormat { found: 0, needed: FORMAT_VERSION })?)
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
}

impl NumberSource {
    /// Numbers of inodes.
    pub fn inos() -> NumberSource {
        NumberSource { field: NEXT_INO, per_grant: INOS_PER_GRANT, granted: Mutex::default() }
    }

    /// Serial numbers of local files.
    pub fn serials() -> NumberSource {
        let per_grant = SERIALS_PER_GRANT;
        NumberSource { field: NEXT_SERIAL, per_grant, granted: Mutex::default() }
    }

    pub fn next(&self, store: &impl Store) -> Result<u64, Error> {
        let mut granted = self.granted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if granted.is_empty() {
            *granted = self.grant(store)?;
        }
        let number = granted.start;
        granted.start += 1;
        Ok(number)
    }

    fn grant(&self, store: &impl Store) -> Result<Range<u64>, Error> {
        let NumberSource { field, per_grant, .. } = *self;
        let batch = Batch::new().add(field, 0, per_grant as i64).read(field);
        let mut outcome = match store.batch(keys::SUPERBLOCK, &batch) {
            // A grant that may have been made is given up: numbers are plenty.
            Err(StoreError::Indeterminate { .. }) => store.batch(keys::SUPERBLOCK, &batch)?,
            other => other?,
        };
        let record = outcome.take(0).filter(|record| record.len() >= 8);
        let end = u64_at(&record.ok_or(Error::Corrupt { what: "superblock", ino: 0 })?, 0);
        let begin = end.checked_sub(per_grant);
        Ok(begin.ok_or(Error::Corrupt { what: "superblock", ino: 0 })?..end)
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::ByteSize;
    use tidefs_store::Embedded;

    use super::*;

    const NOW: Time = Time(1_000_000_000_000);

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
        outdate(&store, NOW, true, |time| assert_eq!((time, losses()), (LAPSE, 1))).unwrap();
        mend(&store, Format::default(), NOW).unwrap();
        assert_eq!((losses(), read(&store).unwrap()), (2, Format::default()));
    }

    #[test]
    fn what_was_lost_is_made_anew_and_no_number_is_granted_twice() {
        let store = Embedded::in_heap(ByteSize::mib(16), StripeSize::DEFAULT);
        mend(&store, Format::default(), NOW).unwrap();
        assert_eq!(read(&store).unwrap(), Format::default());
        let root = store.batch(keys::ROOT_HOME, &Batch::new().read(keys::inode(Ino::ROOT)));
        assert!(root.unwrap().values[0].is_some());
        assert!(NumberSource::inos().next(&store).unwrap() >= NOW.0);
        // What is there is left alone.
        mend(&store, Format { root_uid: 7, ..Format::default() }, Time(NOW.0 * 2)).unwrap();
        assert_eq!(read(&store).unwrap(), Format::default());
        assert!(NumberSource::inos().next(&store).unwrap() < NOW.0 * 2);
        let now = Time(2_000_000_000_000_000_000);
        let serial = NumberSource::serials().next(&store).unwrap();
        let lost_below = || {
            let read = store.batch(keys::SUPERBLOCK, &Batch::new().read(LOST_BELOW));
            read.unwrap().values[0].clone().map(|value| u64_at(&value, 0))
        };
        let before = lost_below();
        outdate(&store, now, false, |_| unreachable!("nobody kept anything")).unwrap();
        assert_eq!(lost_below(), before, "all records are there");
        assert!(serial < serial_at(now.0), "it was granted before");
        assert!(NumberSource::serials().next(&store).unwrap() >= serial_at(now.0));
        outdate(&store, Time(NOW.0 * 3), true, |_| ()).unwrap();
        assert!(NumberSource::inos().next(&store).unwrap() >= NOW.0 * 3);
        assert_eq!(lost_below(), Some(NOW.0 * 3));
    }
}
