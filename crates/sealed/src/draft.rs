//! One stripe's blocks as they are to be: put together in the clear, sealed, and sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tidefs_model::StripeKey;
use tidefs_store::{StoreError, StripeRead, StripeWrite};

use crate::buffers::{Buffer, Buffers};
use crate::change::Change;
use crate::keyring::{Keyring, Place};
use crate::layout::Held;
use crate::plan::lost;
use crate::record::{Geometry, Seal};

pub struct Draft<'s> {
    pub key: StripeKey,
    pub before: Arc<Held>,
    blocks: Vec<Block>,
    buffer: Buffer<'s>,
    /// What is written, to be laid over the bases that are read: offset in the buffer and bytes.
    over: Vec<(usize, Vec<u8>)>,
}

struct Block {
    number: u16,
    /// In the stripe.
    start: u32,
    /// In the buffer; as long as the block is to be.
    range: Range<usize>,
    /// What is there has to be read first, and opens with this.
    base: Option<Seal>,
    seal: Option<Seal>,
}

/// What a draft is made on.
pub struct Canvas<'s> {
    pub geometry: Geometry,
    pub buffers: &'s Buffers,
    /// What is absent from this byte of the stripe on was cut, and is no loss.
    pub cut_from: Option<u32>,
}

impl<'s> Draft<'s> {
    /// `writes` are those of the stripe, in order, and none is empty.
    ///
    /// # Errors
    /// Where something would be written behind bytes whose seals were lost.
    pub fn new(
        Canvas { geometry, buffers, cut_from }: Canvas<'s>,
        key: StripeKey,
        before: Arc<Held>,
        writes: &[StripeWrite<'_>],
    ) -> Result<Draft<'s>, StoreError> {
        let parts = parts(geometry, writes);
        let first = parts.keys().next().copied().unwrap_or(0);
        let mut blocks = Vec::with_capacity(parts.len());
        let mut room = 0;
        for (&number, parts) in &parts {
            let at = usize::from(number - first) * geometry.block_bytes as usize;
            let held = before.record.block(number);
            let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
            let shown = held.map_or(0, |seal| seal.visible);
            let seen = match before.record.rests_lost {
                true => shown,
                // As long as it is seen with whichever seal opens it.
                false => {
                    before.record.candidates(number).map(|seal| seal.visible).max().unwrap_or(0)
                }
            };
            let length = seen.max(end);
            let is_covered = parts.iter().any(|part| part.start == 0 && part.end == length);
            if before.record.rests_lost {
                let start = geometry.start_of(number);
                let cut_from = cut_from.map(|from| from.saturating_sub(start));
                leave_no_gap(shown, parts, cut_from).ok_or_else(|| lost(key))?;
            }
            let base = held.filter(|_| !is_covered).copied();
            room = at + length.max(base.map_or(0, |base| base.sealed)) as usize;
            let range = at..at + length as usize;
            let start = geometry.start_of(number);
            blocks.push(Block { number, start, range, base, seal: None });
        }
        let mut draft = Draft { key, before, blocks, buffer: buffers.take(room), over: Vec::new() };
        draft.lay(geometry.start_of(first), &parts, writes);
        Ok(draft)
    }

    /// Puts bytes where they belong, and aside where a base is read first.
    fn lay(
        &mut self,
        origin: u32,
        parts: &BTreeMap<u16, Vec<Range<u32>>>,
        writes: &[StripeWrite<'_>],
    ) {
        let needs_base = self.blocks.iter().any(|block| block.base.is_some());
        for block in self.blocks.iter().filter(|block| block.base.is_none()) {
            let length = block.range.len() as u32;
            let whole = parts[&block.number].contains(&(0..length));
            if !whole {
                self.buffer.bytes[block.range.clone()].fill(0);
            }
        }
        for write in writes {
            let at = (write.offset - origin) as usize;
            match needs_base {
                true => self.over.push((at, write.bytes.to_vec())),
                false => self.buffer.bytes[at..at + write.bytes.len()].copy_from_slice(write.bytes),
            }
        }
    }

    /// Nothing that is there is changed.
    pub fn is_new(&self) -> bool {
        self.blocks.iter().all(|block| self.before.record.block(block.number).is_none())
    }

    /// What has to be read first.
    pub fn bases(&mut self) -> Vec<StripeRead<'_>> {
        let key = self.key;
        let (mut rest, mut passed) = (&mut self.buffer.bytes[..], 0);
        let mut reads = Vec::new();
        for block in &self.blocks {
            let Some(base) = &block.base else { continue };
            let (_, after) = rest.split_at_mut(block.range.start - passed);
            let (buffer, after) = after.split_at_mut(base.sealed as usize);
            passed = block.range.start + base.sealed as usize;
            rest = after;
            reads.push(StripeRead { key, offset: block.start, buffer });
        }
        reads
    }

    /// Opens what was read and lays what is written over it. `false`: it is not what was written.
    pub fn open_bases(&mut self, keyring: &Keyring) -> bool {
        for block in &self.blocks {
            let Some(base) = &block.base else { continue };
            let start = block.range.start;
            let bytes = &mut self.buffer.bytes[start..start + base.sealed as usize];
            let place = Place { stripe: self.key, block: block.number };
            if !keyring.open(place, base, bytes) {
                return false;
            }
            let visible = start + base.visible as usize;
            self.buffer.bytes[visible..block.range.end].fill(0);
        }
        for (at, bytes) in self.over.drain(..) {
            self.buffer.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        true
    }

    /// Seals all blocks. The change makes their seals hold.
    pub fn seal(&mut self, keyring: &Keyring) -> Change {
        let mut record = self.before.record.clone();
        for block in &mut self.blocks {
            let place = Place { stripe: self.key, block: block.number };
            let seal = keyring.seal(place, &mut self.buffer.bytes[block.range.clone()]);
            record.set(block.number, Some(seal));
            block.seal = Some(seal);
        }
        Change::new(self.key, &self.before, record)
    }

    /// The change that announces the seals.
    pub fn announcement(&self) -> Change {
        let seals = self.blocks.iter().filter_map(|block| Some((block.number, block.seal?)));
        let mut record = self.before.record.clone();
        record.announced = seals.collect();
        Change::new(self.key, &self.before, record)
    }

    /// What to write, blocks that lie one after the other in one piece.
    pub fn runs(&self) -> Vec<StripeWrite<'_>> {
        let mut runs: Vec<(u32, Range<usize>)> = Vec::new();
        for block in &self.blocks {
            match runs.last_mut() {
                Some((_, run)) if run.end == block.range.start => run.end = block.range.end,
                _ => runs.push((block.start, block.range.clone())),
            }
        }
        let write = |(offset, run): (u32, Range<usize>)| StripeWrite {
            key: self.key,
            offset,
            bytes: &self.buffer.bytes[run],
        };
        runs.into_iter().map(write).collect()
    }
}

/// `None`: between what a block shows and parts that are written, something would be taken for a hole that was not cut.
fn leave_no_gap(shown: u32, parts: &[Range<u32>], cut_from: Option<u32>) -> Option<()> {
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| part.start);
    let mut reach = shown;
    for part in parts {
        let is_cut = cut_from.is_some_and(|from| from <= reach);
        if part.start > reach && !is_cut {
            return None;
        }
        reach = reach.max(part.end);
    }
    Some(())
}

/// The parts of each block that are written, as ranges inside the block.
fn parts(geometry: Geometry, writes: &[StripeWrite<'_>]) -> BTreeMap<u16, Vec<Range<u32>>> {
    let mut parts: BTreeMap<u16, Vec<Range<u32>>> = BTreeMap::new();
    for write in writes {
        let range = write.offset..write.offset + write.bytes.len() as u32;
        for block in geometry.blocks(&range) {
            let start = geometry.start_of(block);
            let from = range.start.max(start) - start;
            let to = (range.end - start).min(geometry.block_bytes);
            parts.entry(block).or_default().push(from..to);
        }
    }
    parts
}
