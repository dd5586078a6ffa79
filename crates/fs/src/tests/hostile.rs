//! Records with any bytes: a node may be hostile, or its memory damaged. None may make a mount
//! panic, take memory without bound or read a wrong value; what does not decode is named.

use proptest::collection::vec;
use proptest::prelude::*;
use tidefs_model::{Ino, ShardKey, Time};

use crate::attributes::Attributes;
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage, Place, Reference};
use crate::inode::{BYTES, Inode};
use crate::{Error, Kind};

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
    let since = Time(8);
    let leaving =
        Passage::Leaving { transaction: 5, to: place(), since, instead: Some(reference()) };
    let arrived = Passage::Arrived { transaction: 5, from: place(), instead: None };
    let entry = |passage| EntryRecord { reference: reference(), passage }.encode();
    let mut attributes = Attributes::default();
    attributes.set(b"user.a", b"value");
    attributes.set(b"user.b", b"");
    let attributes = attributes.encode().expect("few").expect("some");
    let closing = Closing { transaction: 9, since, parent: place() }.encode();
    let inode = vec![0; BYTES + 3];
    vec![entry(None), entry(Some(leaving)), entry(Some(arrived)), attributes, closing, inode]
}

#[test]
fn what_is_in_the_corpus_is_taken_or_named() {
    let mut count = 0;
    for line in CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let digits: Vec<u8> = line
            .rsplit(' ')
            .next()
            .into_iter()
            .flat_map(str::chars)
            .map(|digit| digit.to_digit(16).expect("a hexadecimal digit") as u8)
            .collect();
        feed(&digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<_>>());
        count += 1;
    }
    assert!(count > 5, "{count} records");
    sound().iter().for_each(|record| feed(record));
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
