//! Records with any bytes: a node may be hostile, or its memory damaged. None may make a mount
//! panic, take memory without bound or read a wrong value; what does not decode is named.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Store};

use super::bed::{Bed, ME};
use crate::attributes::Attributes;
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage, Place, Reference};
use crate::inode::{BYTES, Inode};
use crate::{Error, Kind, keys};

/// Records that were once worth a thought, a line each: what it is, and its bytes in hexadecimal.
const CORPUS: &str = include_str!("corpus/records.txt");

const INO: Ino = Ino(7);

/// Every decoder must take the bytes, or name what is wrong; what it takes means what it encodes.
fn feed(bytes: &[u8]) {
    let named = |error: Error| {
        assert!(matches!(error, Error::Corrupt { ino: 7, .. }), "{error:?}");
    };
    match EntryRecord::decode(INO, bytes) {
        Ok(record) => assert_eq!(EntryRecord::decode(INO, &record.encode()), Ok(record)),
        Err(error) => named(error),
    }
    match Inode::decode(INO, bytes) {
        Ok(inode) => assert_eq!(Inode::decode(INO, &inode.encode()), Ok(inode)),
        Err(error) => named(error),
    }
    match Closing::decode(INO, bytes) {
        Ok(closing) => assert_eq!(closing.encode(), bytes),
        Err(error) => named(error),
    }
    match Attributes::decode(INO, Some(bytes)) {
        Ok(attributes) => {
            // What is longer than a mount would write is still read.
            if let Ok(record) = attributes.encode() {
                assert_eq!(record.unwrap_or_default(), bytes);
            }
        }
        Err(error) => named(error),
    }
}

fn place() -> Place {
    Place { shard: ShardKey { directory: Ino(9), index: 15 }, name: b"name".to_vec() }
}

fn reference() -> Reference {
    Reference { kind: Kind::File, ino: Ino(3), home: place().shard }
}

/// One record of each kind, as a mount writes them.
fn sound() -> Vec<Vec<u8>> {
    let leaving = Passage::Leaving { transaction: 5, to: place(), instead: Some(reference()) };
    let arrived = Passage::Arrived { transaction: 5, from: place(), instead: None };
    let entry = |passage| EntryRecord { reference: reference(), passage }.encode();
    let mut attributes = Attributes::default();
    attributes.set(b"user.a", b"value");
    attributes.set(b"user.b", b"");
    let attributes = attributes.encode().expect("few").expect("some");
    let closing = Closing { transaction: 9, parent: place() }.encode();
    let inode = vec![0; BYTES + 3];
    vec![entry(None), entry(Some(leaving)), entry(Some(arrived)), attributes, closing, inode]
}

#[test]
fn what_is_in_the_corpus_is_taken_or_named() {
    let seeds = seeds();
    assert!(seeds.len() > 10, "{} records", seeds.len());
    tidefs_fuzz::run(&seeds, 300_000, feed);
}

fn seeds() -> Vec<Vec<u8>> {
    [tidefs_fuzz::corpus(CORPUS), sound()].concat()
}

/// A mount meets any bytes in any of its records: every call answers, and the mount lives on.
#[test]
fn a_mount_that_meets_any_bytes_answers_every_call() {
    let mut seeds = seeds();
    seeds.push(Vec::new());
    let mut turn = 0;
    tidefs_fuzz::run(&seeds, 1_500, |bytes| {
        turn += 1;
        let bed = Bed::new();
        let fs = bed.mount(1);
        assert_eq!(fs.is_admitted(), Ok(true));
        let directory = fs.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
        let file = fs.mknod(ME, directory, b"f", Kind::File, 0o600, 0).expect("made").attr.ino;
        let home = fs.shard_of(directory, b"f");
        let (shard, field) = match turn % 6 {
            0 => (home, keys::entry(b"f")),
            1 => (home, keys::inode(file)),
            2 => (home, keys::xattrs(file)),
            3 => (home, keys::CLOSED.to_vec()),
            4 => (home, keys::HEADER.to_vec()),
            _ => (keys::MOUNTS, keys::mount(tidefs_model::MountId(2))),
        };
        bed.store.batch(shard, &Batch::new().put(field, bytes)).expect("put");
        // A second mount has nothing in memory. What was half done is long given up.
        bed.pass(Duration::from_secs(60));
        let second = bed.mount(3);
        let _ = (second.tick(), second.is_admitted());
        let _ = second.lookup(Ino::ROOT, b"d");
        for call in 0..7 {
            let _ = match call {
                0 => second.lookup(directory, b"f").map(drop),
                1 => second.getattr(file, None).map(drop),
                2 => second.getxattr(file, b"user.a").map(drop),
                3 => second.opendir(directory).and_then(|handle| {
                    let listed = second.readdir(handle, 0, &mut |_| true);
                    second.releasedir(handle).and(listed)
                }),
                4 => second.unlink(directory, b"f"),
                5 => second.mkdir(ME, directory, b"new", 0o755).map(drop),
                _ => second.rmdir(Ino::ROOT, b"d"),
            };
        }
        assert!(second.mkdir(ME, Ino::ROOT, b"elsewhere", 0o755).is_ok(), "the rest goes on");
    });
}

#[test]
fn a_record_that_does_not_decode_is_named() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let file = fs.mknod(ME, Ino::ROOT, b"odd", Kind::File, 0o600, 0).expect("made").attr.ino;
    let shard = fs.shard_of(Ino::ROOT, b"odd");
    let put =
        |field: Vec<u8>| bed.store.batch(shard, &Batch::new().put(field, [9, 9])).expect("put");
    put(keys::xattrs(file));
    let why = fs.getxattr(file, b"user.a").expect_err("its attributes do not decode");
    assert_eq!(
        why.to_string(),
        format!("the record of the attributes of inode {file} does not decode")
    );
    put(keys::inode(file));
    let why = fs.getattr(file, None).expect_err("the inode does not decode");
    assert_eq!(why.to_string(), format!("the record of inode {file} does not decode"));
    put(keys::entry(b"odd"));
    let why = fs.lookup(Ino::ROOT, b"odd").expect_err("the entry does not decode");
    assert_eq!(why.to_string(), "the entry \"odd\" of directory 1 does not decode");
    assert_eq!(fs.unlink(Ino::ROOT, b"odd").expect_err("neither does it here"), why);
    let handle = fs.opendir(Ino::ROOT).expect("opened");
    assert_eq!(fs.readdir(handle, 0, &mut |_| true).expect_err("nor in a listing"), why);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_taken_or_named(bytes in vec(any::<u8>(), 0..200)) {
        feed(&bytes);
    }

    #[test]
    fn a_damaged_record_is_taken_or_named(
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        more in vec(any::<u8>(), 0..4),
    ) {
        let sound = sound();
        let mut record = sound[which.index(sound.len())].clone();
        for (at, byte) in damage {
            let at = at.index(record.len());
            record[at] = byte;
        }
        feed(&record);
        record.extend(more);
        feed(&record);
        record.truncate(cut.index(record.len() + 1));
        feed(&record);
    }
}
