//! The record of a directory entry: which inode a name stands for, and, while a rename between
//! two shards is under way, what any reader needs to finish or undo it.
//!
//! Such a rename marks the old entry `Leaving`, then writes the new entry as `Arrived`, which is
//! the instant at which it happens; then it removes the old entry and the mark of the new one. The
//! old name stands for its inode exactly as long as the new entry is not `Arrived` with the same
//! transaction.

use tidefs_model::{Ino, ShardKey};

use crate::attr::Kind;
use crate::error::Error;
use crate::inode::{kind_byte, kind_of_byte, u64_at};

/// Offset and length of the inode's number in an entry's record, for linked reads.
pub const INO_AT: u32 = 1;
pub const INO_BYTES: u32 = 8;
const REFERENCE_BYTES: usize = 19;
pub(crate) const SHARD_BYTES: usize = 10;

/// What a name stands for: an inode and the shard where its record lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    pub kind: Kind,
    pub ino: Ino,
    pub home: ShardKey,
}

/// A name in a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub shard: ShardKey,
    pub name: Vec<u8>,
}

/// The part that an entry plays in a rename between two shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The entry is on its way to `to`. In an exchange `instead` takes its name.
    Leaving { transaction: u64, to: Place, instead: Option<Reference> },
    /// The entry came from `from`, where its old entry may still have to be removed or, in an
    /// exchange, to be replaced by `instead`.
    Arrived { transaction: u64, from: Place, instead: Option<Reference> },
}

/// The record of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    pub reference: Reference,
    pub passage: Option<Passage>,
}

impl EntryRecord {
    pub fn settled(reference: Reference) -> EntryRecord {
        EntryRecord { reference, passage: None }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(REFERENCE_BYTES);
        put_reference(&mut record, &self.reference);
        match &self.passage {
            None => {}
            Some(Passage::Leaving { transaction, to, instead }) => {
                record.push(b'>');
                put_passage(&mut record, *transaction, instead.as_ref(), to);
            }
            Some(Passage::Arrived { transaction, from, instead }) => {
                record.push(b'<');
                put_passage(&mut record, *transaction, instead.as_ref(), from);
            }
        }
        record
    }

    /// The record of the entry at a place, which the error names.
    pub fn decode_at(place: &Place, record: &[u8]) -> Result<EntryRecord, Error> {
        EntryRecord::decode_named(place.shard.directory, &place.name, record)
    }

    pub fn decode_named(directory: Ino, name: &[u8], record: &[u8]) -> Result<EntryRecord, Error> {
        decode(record).ok_or_else(|| Error::CorruptEntry {
            directory: directory.0,
            name: String::from_utf8_lossy(name).into(),
        })
    }

    /// `directory` names the shard's directory in the error.
    pub fn decode(directory: Ino, record: &[u8]) -> Result<EntryRecord, Error> {
        decode(record).ok_or(Error::Corrupt { what: "an entry of directory", ino: directory.0 })
    }
}

fn decode(record: &[u8]) -> Option<EntryRecord> {
    let (reference, rest) = take_reference(record)?;
    let Some((&mark, rest)) = rest.split_first() else {
        return Some(EntryRecord::settled(reference));
    };
    let (number, rest) = rest.split_at_checked(8)?;
    let transaction = u64_at(number, 0);
    let (&has_instead, rest) = rest.split_first()?;
    let (instead, rest) = match has_instead {
        0 => (None, rest),
        1 => take_reference(rest).map(|(reference, rest)| (Some(reference), rest))?,
        _ => return None,
    };
    let (place, name) = rest.split_at_checked(SHARD_BYTES)?;
    let place = Place { shard: shard_of(place), name: name.to_vec() };
    let passage = match mark {
        b'>' => Passage::Leaving { transaction, to: place, instead },
        b'<' => Passage::Arrived { transaction, from: place, instead },
        _ => return None,
    };
    Some(EntryRecord { reference, passage: Some(passage) })
}

pub(crate) fn put_reference(record: &mut Vec<u8>, reference: &Reference) {
    record.push(kind_byte(reference.kind));
    record.extend(reference.ino.0.to_be_bytes());
    put_shard(record, reference.home);
}

pub(crate) fn put_shard(record: &mut Vec<u8>, shard: ShardKey) {
    record.extend(shard.directory.0.to_be_bytes());
    record.extend(shard.index.to_be_bytes());
}

fn put_passage(record: &mut Vec<u8>, transaction: u64, instead: Option<&Reference>, place: &Place) {
    record.extend(transaction.to_be_bytes());
    record.push(u8::from(instead.is_some()));
    if let Some(reference) = instead {
        put_reference(record, reference);
    }
    put_shard(record, place.shard);
    record.extend(&place.name);
}

pub(crate) fn take_reference(record: &[u8]) -> Option<(Reference, &[u8])> {
    let (reference, rest) = record.split_at_checked(REFERENCE_BYTES)?;
    let kind = kind_of_byte(reference[0])?;
    let ino = Ino(u64_at(reference, INO_AT));
    Some((Reference { kind, ino, home: shard_of(&reference[9..]) }, rest))
}

pub(crate) fn shard_of(bytes: &[u8]) -> ShardKey {
    ShardKey { directory: Ino(u64_at(bytes, 0)), index: u16::from_be_bytes([bytes[8], bytes[9]]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(ino: u64) -> Reference {
        let home = ShardKey { directory: Ino(7), index: 3 };
        Reference { kind: Kind::File, ino: Ino(ino), home }
    }

    #[test]
    fn records_decode_to_what_was_encoded() {
        let place = Place { shard: ShardKey { directory: Ino(9), index: 15 }, name: b"b".to_vec() };
        let leaving = |instead| Passage::Leaving { transaction: 5, to: place.clone(), instead };
        let arrived = Passage::Arrived { transaction: 5, from: place.clone(), instead: None };
        for passage in [None, Some(leaving(None)), Some(leaving(Some(reference(2)))), Some(arrived)]
        {
            let record = EntryRecord { reference: reference(1), passage };
            assert_eq!(EntryRecord::decode(Ino(1), &record.encode()), Ok(record));
        }
    }

    #[test]
    fn a_cut_or_strange_record_is_corrupt_and_nothing_worse() {
        let place = Place { shard: ShardKey { directory: Ino(9), index: 15 }, name: Vec::new() };
        let passage = Passage::Leaving { transaction: 5, to: place, instead: Some(reference(2)) };
        let full = EntryRecord { reference: reference(1), passage: Some(passage) }.encode();
        let corrupt = Err(Error::Corrupt { what: "an entry of directory", ino: 1 });
        for length in (0..full.len()).filter(|&length| length != REFERENCE_BYTES) {
            assert_eq!(EntryRecord::decode(Ino(1), &full[..length]), corrupt, "{length} bytes");
        }
        let mut strange = full;
        strange[REFERENCE_BYTES] = b'?';
        assert_eq!(EntryRecord::decode(Ino(1), &strange), corrupt);
    }
}
