//! The seals of one stripe, as they lie in a shard.
//!
//! Layout, big-endian: flags (1 byte), blocks `n` (2), then `n` seals of blocks 0 to `n` - 1, all
//! zeros for a block that is not there, then announced seals, each after its block's number (2), and
//! with the highest bit of that number set those that were given up.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use tidefs_model::StripeSize;
use tidefs_store::StoreError;

use crate::key::{SALT_BYTES, Salt};

pub const TAG_BYTES: usize = 16;
pub const NONCE_BYTES: usize = 12;
const SEAL_BYTES: usize = SALT_BYTES + NONCE_BYTES + TAG_BYTES + 4 + 4;
const BLOCKS_PER_STRIPE: u32 = 16;
const HEADER_BYTES: usize = 3;
/// In a block's number: its seal was given up.
const LATE: u16 = 1 << 15;
/// Seals of one block that were given up and are remembered.
const LATE_MAX: usize = 4;
/// What is not there was lost with a node.
const RESTS_LOST: u8 = 1;

/// What opens a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Of the client that sealed it.
    pub salt: Salt,
    /// Unlike that of every other block that the client sealed.
    pub nonce: [u8; NONCE_BYTES],
    pub tag: [u8; TAG_BYTES],
    /// Bytes that were sealed; more than none.
    pub sealed: u32,
    /// So many of them, from the first one on, are the block's; the others were cut off.
    pub visible: u32,
}

/// How stripes are cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub stripe_bytes: u32,
    pub block_bytes: u32,
}

impl Geometry {
    /// Large enough that a seal costs a thousandth, small enough that a few bytes are changed
    /// without moving the whole stripe: 64 KiB of 1 MiB.
    pub fn of(stripe_size: StripeSize) -> Geometry {
        let stripe_bytes = stripe_size.bytes();
        Geometry { stripe_bytes, block_bytes: stripe_bytes / BLOCKS_PER_STRIPE }
    }

    pub fn start_of(self, block: u16) -> u32 {
        u32::from(block) * self.block_bytes
    }

    /// The blocks that a range of a stripe touches, which is not empty.
    pub fn blocks(self, range: &Range<u32>) -> RangeInclusive<u16> {
        let block = |at: u32| (at / self.block_bytes) as u16;
        block(range.start)..=block(range.end - 1)
    }

    pub fn check_range(self, offset: u32, length: usize) -> Result<(), StoreError> {
        let bytes = u64::from(offset) + length as u64;
        if bytes > u64::from(self.stripe_bytes) {
            return Err(StoreError::TooLarge { bytes });
        }
        Ok(())
    }
}

/// Whether the bytes of a record say that seals were lost.
pub fn says_of_losses(record: &[u8]) -> bool {
    record.first().is_some_and(|flags| *flags != 0)
}

/// The seals of one stripe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// By block.
    blocks: Vec<Option<Seal>>,
    /// Seals of bytes that are on their way, all of one client.
    pub announced: BTreeMap<u16, Seal>,
    /// Seals of bytes that were given up since they were not there when somebody looked, the last
    /// ones last: a request that nobody waits for any more may still be carried out. Only of blocks
    /// that are there, until their next change.
    late: BTreeMap<u16, Vec<Seal>>,
    /// A block without a seal is no hole: its seal was lost.
    pub rests_lost: bool,
}

impl Record {
    pub fn block(&self, block: u16) -> Option<&Seal> {
        self.blocks.get(usize::from(block))?.as_ref()
    }

    /// The block is changed; what was given up before counts no more.
    pub fn set(&mut self, block: u16, seal: Option<Seal>) {
        self.late.remove(&block);
        let at = usize::from(block);
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, None);
        }
        self.blocks[at] = seal;
        while self.blocks.last() == Some(&None) {
            self.blocks.pop();
        }
    }

    /// One of the candidates opened the block: it holds, and the others may still arrive.
    pub fn found(&mut self, block: u16, seal: Seal) {
        let announced = self.announced.get(&block).filter(|seal| !seal.is_mark());
        let in_doubt = self.late(block).iter().chain(announced).filter(|it| **it != seal);
        let mut late: Vec<Seal> = in_doubt.copied().collect();
        late.drain(..late.len().saturating_sub(LATE_MAX));
        self.set(block, Some(seal));
        self.give_up(block, late);
    }

    /// Cuts a block to so many bytes.
    pub fn cut(&mut self, block: u16, length: u32) {
        let cut = |seal: &Seal| Seal { visible: seal.visible.min(length), ..*seal };
        let held = self.block(block).filter(|_| length > 0).map(cut);
        let late = self.late(block).iter().map(cut).collect();
        self.set(block, held);
        if held.is_some() {
            self.give_up(block, late);
        }
    }

    fn give_up(&mut self, block: u16, late: Vec<Seal>) {
        if !late.is_empty() {
            self.late.insert(block, late);
        }
    }

    fn late(&self, block: u16) -> &[Seal] {
        self.late.get(&block).map_or(&[], Vec::as_slice)
    }

    /// Blocks of which it is not known which seal opens them.
    pub fn in_doubt(&self) -> BTreeSet<u16> {
        self.announced.keys().chain(self.late.keys()).copied().collect()
    }

    pub fn is_in_doubt(&self, block: u16) -> bool {
        self.announced.contains_key(&block) || self.late.contains_key(&block)
    }

    /// What may open a block's bytes: what was announced last, what holds, what was given up.
    pub fn candidates(&self, block: u16) -> impl Iterator<Item = &Seal> {
        self.announced.get(&block).into_iter().chain(self.block(block)).chain(self.late(block))
    }

    /// The bytes to ask for so that any of the candidates can be tried.
    pub fn sealed(&self, block: u16) -> u32 {
        self.candidates(block).map(|seal| seal.sealed).max().unwrap_or(0)
    }

    /// The last block that is there, with the length that it has at most.
    pub fn last(&self) -> Option<(u16, u32)> {
        let held = self.blocks.len().checked_sub(1).map(|at| at as u16);
        let announced = self.announced.last_key_value().map(|(block, _)| *block);
        let last = held.max(announced)?;
        Some((last, self.candidates(last).map(|seal| seal.visible).max().unwrap_or(0)))
    }

    /// How many blocks have a place in the record.
    pub fn count(&self) -> u16 {
        self.last().map_or(0, |(last, _)| last + 1)
    }

    /// The client whose bytes are on their way.
    pub fn announcer(&self) -> Option<&Salt> {
        self.announced.first_key_value().map(|(_, seal)| &seal.salt)
    }

    /// A record that says nothing need not be kept.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.announced.is_empty() && !self.rests_lost
    }

    pub fn encode(&self) -> Vec<u8> {
        let seals = self.blocks.len() + self.announced.len();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + seals * (SEAL_BYTES + 2));
        bytes.push(if self.rests_lost { RESTS_LOST } else { 0 });
        bytes.extend((self.blocks.len() as u16).to_be_bytes());
        for seal in &self.blocks {
            match seal {
                Some(seal) => seal.encode(&mut bytes),
                None => bytes.extend([0; SEAL_BYTES]),
            }
        }
        for (block, seal) in &self.announced {
            bytes.extend(block.to_be_bytes());
            seal.encode(&mut bytes);
        }
        for (block, seal) in
            self.late.iter().flat_map(|(at, late)| late.iter().map(move |it| (at, it)))
        {
            bytes.extend((block | LATE).to_be_bytes());
            seal.encode(&mut bytes);
        }
        bytes
    }

    /// `None` where the bytes are no record of a stripe.
    pub fn decode(bytes: &[u8], geometry: Geometry) -> Option<Record> {
        let blocks_max = (geometry.stripe_bytes / geometry.block_bytes) as u16;
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let count = u16::from_be_bytes([header[1], header[2]]);
        if count > blocks_max || header[0] > RESTS_LOST {
            return None;
        }
        let (held, in_doubt) = rest.split_at_checked(usize::from(count) * SEAL_BYTES)?;
        let mut record = Record { rests_lost: header[0] == RESTS_LOST, ..Record::default() };
        for (block, bytes) in (0..).zip(held.chunks_exact(SEAL_BYTES)) {
            if bytes != [0; SEAL_BYTES] {
                record.set(block, Some(Seal::decode(bytes, geometry)?));
            }
        }
        for entry in in_doubt.chunks(2 + SEAL_BYTES) {
            let (number, seal) = entry.split_first_chunk::<2>()?;
            let number = u16::from_be_bytes(*number);
            let block = number & !LATE;
            if seal.len() != SEAL_BYTES || block >= blocks_max {
                return None;
            }
            let seal = Seal::decode(seal, geometry)?;
            match number == block {
                true => drop(record.announced.insert(block, seal)),
                false => record.late.entry(block).or_default().push(seal),
            }
        }
        Some(record)
    }
}

impl Seal {
    /// It keeps others away and opens nothing.
    pub fn is_mark(&self) -> bool {
        self.tag == [0; TAG_BYTES]
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.salt);
        bytes.extend(self.nonce);
        bytes.extend(self.tag);
        bytes.extend(self.sealed.to_be_bytes());
        bytes.extend(self.visible.to_be_bytes());
    }

    /// `bytes` are as many as a seal has.
    fn decode(bytes: &[u8], geometry: Geometry) -> Option<Seal> {
        let (salt, rest) = bytes.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (tag, rest) = rest.split_first_chunk()?;
        let (sealed, visible) = rest.split_first_chunk()?;
        let seal = Seal {
            salt: *salt,
            nonce: *nonce,
            tag: *tag,
            sealed: u32::from_be_bytes(*sealed),
            visible: u32::from_be_bytes(visible.try_into().ok()?),
        };
        let fits = (1..=geometry.block_bytes).contains(&seal.sealed);
        (fits && seal.visible <= seal.sealed).then_some(seal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { stripe_bytes: 16 * 4_096, block_bytes: 4_096 };

    fn seal(number: u8) -> Seal {
        let (nonce, tag) = ([number; NONCE_BYTES], [number; TAG_BYTES]);
        Seal { salt: [9; SALT_BYTES], nonce, tag, sealed: 100, visible: 60 }
    }

    fn record() -> Record {
        let mut record = Record::default();
        record.set(2, Some(seal(1)));
        record.announced.insert(5, seal(2));
        record.give_up(2, vec![seal(3), seal(4)]);
        record
    }

    #[test]
    fn a_record_survives_its_bytes() {
        for lost in [false, true] {
            let record = Record { rests_lost: lost, ..record() };
            assert_eq!(Record::decode(&record.encode(), GEOMETRY), Some(record));
        }
        assert_eq!(Record::decode(&Record::default().encode(), GEOMETRY), Some(Record::default()));
    }

    #[test]
    fn other_bytes_are_no_record() {
        let bytes = record().encode();
        for length in 0..bytes.len() {
            let cut = Record::decode(&bytes[..length], GEOMETRY);
            assert!(cut.is_none_or(|cut| cut != record()), "{length} bytes");
        }
        let smaller = |blocks: u32| Geometry { stripe_bytes: blocks * 4_096, ..GEOMETRY };
        assert_eq!(Record::decode(&bytes, smaller(2)), None, "more blocks than there can be");
        assert_eq!(Record::decode(&bytes, smaller(5)), None);
        let short = Geometry { block_bytes: 99, ..GEOMETRY };
        assert_eq!(Record::decode(&bytes, short), None, "longer than a block");
    }
}
