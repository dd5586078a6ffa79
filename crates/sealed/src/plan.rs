//! Which bytes to ask the store for, and where they go.
//!
//! A block is opened whole. One that the caller's buffer has room for is read into it and opened
//! there; any other one, and one that several seals may open, is read aside. Blocks that lie one after
//! the other in both places are read in one piece.

use std::ops::Range;
use std::sync::Arc;

use tidefs_model::StripeKey;
use tidefs_store::{StoreError, StripeRead};

use crate::keyring::{Keyring, Place};
use crate::layout::Held;
use crate::record::{Geometry, Seal};

/// One read of a caller.
pub struct Plan {
    key: StripeKey,
    runs: Vec<Run>,
    asides: Vec<Aside>,
    /// Parts of the caller's buffer where there is nothing.
    holes: Vec<Range<usize>>,
}

/// Blocks that are read into the caller's buffer together.
struct Run {
    /// In the caller's buffer.
    range: Range<usize>,
    /// In the stripe.
    offset: u32,
    blocks: Vec<InPlace>,
}

struct InPlace {
    block: u16,
    seal: Seal,
    /// In the caller's buffer.
    range: Range<usize>,
}

struct Aside {
    block: u16,
    /// Any of them may open it; the first that does counts.
    candidates: Vec<Seal>,
    /// Nothing opens it: then it was never written.
    may_be_absent: bool,
    /// What a seal does not show is no hole.
    rests_lost: bool,
    offset: u32,
    bytes: Vec<u8>,
    /// The part of the block that the caller wants, and where it goes.
    wanted: Range<usize>,
    at: usize,
}

impl Plan {
    /// # Errors
    /// Where the range has something whose seals were lost.
    pub fn new(
        geometry: Geometry,
        key: StripeKey,
        offset: u32,
        length: usize,
        held: &Arc<Held>,
    ) -> Result<Plan, StoreError> {
        let mut plan = Plan { key, runs: Vec::new(), asides: Vec::new(), holes: Vec::new() };
        if length == 0 {
            return Ok(plan);
        }
        let range = offset..offset + length as u32;
        for block in geometry.blocks(&range) {
            let start = geometry.start_of(block);
            // What the caller wants of the block, in the block and in its buffer.
            let from = range.start.max(start) - start;
            let to = (range.end - start).min(geometry.block_bytes);
            let at = (start + from - offset) as usize;
            let wanted = from as usize..to as usize;
            let record = &held.record;
            let sealed = record.sealed(block);
            let seen = record.candidates(block).map(|seal| seal.visible).max().unwrap_or(0);
            if record.rests_lost && seen < to {
                return Err(lost(key));
            }
            if sealed == 0 {
                plan.holes.push(at..at + wanted.len());
            } else if record.is_in_doubt(block) || from > 0 || to < sealed {
                plan.asides.push(Aside {
                    block,
                    candidates: record.candidates(block).copied().collect(),
                    may_be_absent: record.block(block).is_none() && !record.rests_lost,
                    rests_lost: record.rests_lost,
                    offset: start,
                    bytes: vec![0; sealed as usize],
                    wanted,
                    at,
                });
            } else if let Some(seal) = record.block(block) {
                plan.put_in_place(block, *seal, start, at);
                plan.holes.push(at + sealed as usize..at + wanted.len());
            }
        }
        Ok(plan)
    }

    fn put_in_place(&mut self, block: u16, seal: Seal, offset: u32, at: usize) {
        let range = at..at + seal.sealed as usize;
        let one = InPlace { block, seal, range: range.clone() };
        let follows =
            |run: &Run| run.range.end == at && run.offset + run.range.len() as u32 == offset;
        match self.runs.last_mut().filter(|run| follows(run)) {
            Some(run) => {
                run.range.end = range.end;
                run.blocks.push(one);
            }
            None => self.runs.push(Run { range, offset, blocks: vec![one] }),
        }
    }

    /// What to ask the store for.
    pub fn reads<'b>(&'b mut self, buffer: &'b mut [u8]) -> Vec<StripeRead<'b>> {
        let mut reads = Vec::with_capacity(self.runs.len() + self.asides.len());
        let (mut rest, mut passed) = (buffer, 0);
        for run in &self.runs {
            let (_, after) = rest.split_at_mut(run.range.start - passed);
            let (part, after) = after.split_at_mut(run.range.len());
            (rest, passed) = (after, run.range.end);
            reads.push(StripeRead { key: self.key, offset: run.offset, buffer: part });
        }
        for aside in &mut self.asides {
            let offset = aside.offset;
            reads.push(StripeRead { key: self.key, offset, buffer: &mut aside.bytes });
        }
        reads
    }

    /// Opens what was read. `false`: some of it is not what was written.
    pub fn open(&mut self, keyring: &Keyring, buffer: &mut [u8]) -> bool {
        let stripe = self.key;
        for hole in &self.holes {
            buffer[hole.clone()].fill(0);
        }
        let in_place = self.runs.iter().flat_map(|run| &run.blocks).all(|one| {
            let bytes = &mut buffer[one.range.clone()];
            let opened = keyring.open(Place { stripe, block: one.block }, &one.seal, bytes);
            bytes[one.seal.visible as usize..].fill(0);
            opened
        });
        in_place && self.asides.iter_mut().all(|aside| aside.open(keyring, stripe, buffer))
    }
}

impl Aside {
    fn open(&mut self, keyring: &Keyring, stripe: StripeKey, buffer: &mut [u8]) -> bool {
        let place = Place { stripe, block: self.block };
        let opened = open_any(keyring, place, &self.candidates, &mut self.bytes);
        let visible = match opened {
            Some(seal) if self.rests_lost && (seal.visible as usize) < self.wanted.end => {
                return false;
            }
            Some(seal) => seal.visible as usize,
            None if self.may_be_absent => 0,
            None => return false,
        };
        let out = &mut buffer[self.at..self.at + self.wanted.len()];
        let there = self.wanted.start..self.wanted.end.min(visible);
        let bytes = self.bytes.get(there).unwrap_or_default();
        out[..bytes.len()].copy_from_slice(bytes);
        out[bytes.len()..].fill(0);
        true
    }
}

/// Opens a block with the first of some seals that does, its bytes at the beginning of `bytes`.
pub fn open_any(
    keyring: &Keyring,
    place: Place,
    candidates: &[Seal],
    bytes: &mut [u8],
) -> Option<Seal> {
    let (last, others) = candidates.split_last()?;
    for seal in others {
        // One that does not open leaves nothing of the bytes.
        let mut copy = bytes.get(..seal.sealed as usize)?.to_vec();
        if keyring.open(place, seal, &mut copy) {
            bytes[..copy.len()].copy_from_slice(&copy);
            return Some(*seal);
        }
    }
    let opened = keyring.open(place, last, bytes.get_mut(..last.sealed as usize)?);
    opened.then_some(*last)
}

pub fn lost(key: StripeKey) -> StoreError {
    StoreError::Lost { partition: crate::layout::shard_of(key).partition().number() }
}

pub fn forged(key: StripeKey) -> StoreError {
    StoreError::Forged { ino: key.ino.0, index: key.index }
}
