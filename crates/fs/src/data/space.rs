//! Holes and zeros on demand, and space that is claimed by making the file longer.
//!
//! Nothing is set aside for a range that is allocated: memory is taken when bytes are written, and
//! a full store says so then.

use std::ops::Range;
use std::sync::Arc;

use tidefs_model::StripeKey;
use tidefs_store::{Store, StoreError, StripeRead, StripeWrite};

use super::regions::stripe_count;
use super::state::State;
use super::striped::Striped;
use crate::{Error, SpaceMode};

/// At most, of a stripe that is sealed.
const BLOCKS_PER_STRIPE: u32 = 16;

impl<S: Store> Striped<S> {
    pub fn allocate(self: &Arc<Self>, range: Range<u64>, mode: SpaceMode) -> Result<(), Error> {
        match mode {
            SpaceMode::AllocateKeepSize => Ok(()),
            SpaceMode::Allocate => self.extend(range.end),
            SpaceMode::PunchHole | SpaceMode::ZeroKeepSize => self.zero(range),
            SpaceMode::Zero => {
                self.zero(range.clone())?;
                self.extend(range.end)
            }
        }
    }

    /// Makes the file reach to `size` at least; what was not written up to there is zeros.
    fn extend(self: &Arc<Self>, size: u64) -> Result<(), Error> {
        if self.state().size() >= size {
            return Ok(());
        }
        self.clear_residue_before(size)?;
        let _alone = self.alone_to_reach(size)?;
        let _order = self.committing();
        self.record.set_sparse(true);
        let now = self.path.clock.now();
        let stored = self.record.commit(size, &[], Some(now), now)?;
        let mut state = self.state();
        self.adopt(&mut state, stored);
        // What is left to be committed was written before.
        state.changed = state.changed.map(|changed| changed.max(now));
        Ok(())
    }

    /// Makes zeros of a range, up to the end of the file's last stripe.
    fn zero(self: &Arc<Self>, range: Range<u64>) -> Result<(), Error> {
        let _alone = self.alone();
        let stripe_size = self.path.stripe_size;
        let stripe_bytes = u64::from(stripe_size.bytes());
        if range.is_empty() {
            return Ok(());
        }
        // Before anything goes: of what has gone without that, the record would say that it was lost. It may say more than
        // is zeros yet, since what is there is read as it is.
        self.note_hole(&range)?;
        let end = stripe_count(stripe_size, self.state().size()) * stripe_bytes;
        let range = range.start..range.end.min(end);
        if range.is_empty() {
            return Ok(());
        }
        self.record.set_sparse(true);
        self.forget(&range);
        self.zero_stripes(range)
    }

    /// The same in the store, of a range that is not empty.
    fn zero_stripes(&self, range: Range<u64>) -> Result<(), Error> {
        let stripe_size = self.path.stripe_size;
        let stripe_bytes = u64::from(stripe_size.bytes());
        let (first, last) =
            (stripe_size.index_of(range.start), stripe_size.index_of(range.end - 1));
        let (start, end) = (stripe_size.within(range.start), stripe_size.within(range.end - 1) + 1);
        if first == last {
            return self.zero_within(first, start..end);
        }
        if start > 0 {
            self.zero_within(first, start..stripe_size.bytes())?;
        }
        if end < stripe_size.bytes() {
            self.zero_within(last, 0..end)?;
        }
        let whole = stripe_count(stripe_size, range.start)..range.end / stripe_bytes;
        self.record.remove_stripes(whole)?;
        Ok(())
    }

    /// Drops what is buffered of a range and waits for what is on its way.
    fn forget(&self, range: &Range<u64>) {
        let stripe_size = self.path.stripe_size;
        let (first, last) =
            (stripe_size.index_of(range.start), stripe_size.index_of(range.end - 1));
        let mut state = self.state();
        state.ahead.clear();
        let end = state.pending_end();
        let within = stripe_size.within(range.start)..stripe_size.within(range.end - 1) + 1;
        // The bytes are given up; the size they gave the file is not.
        let cut = |state: &mut State| {
            let indices: Vec<_> = state.stripes.range(first..=last).map(|it| *it.0).collect();
            for index in indices {
                let from = if index == first { within.start } else { 0 };
                let to = if index == last { within.end } else { stripe_size.bytes() };
                state.cut(index, from..to, &self.path.unsent);
            }
            if state.pending_end() < end {
                state.arrived.reaches(range.end.min(end));
            }
        };
        cut(&mut state);
        state.changed = Some(self.path.clock.now());
        cut(&mut self.call_sends_off(state, first..=last));
    }

    /// Makes zeros of a part of one stripe, without making the stripe any longer.
    ///
    /// Bytes behind the part may arrive at any time, from here or from another mount. A trim could
    /// take them away, so it is for parts that nothing lies behind.
    fn zero_within(&self, index: u32, range: Range<u32>) -> Result<(), Error> {
        let key = self.key(index);
        if range.end == self.path.stripe_size.bytes() {
            return Ok(self.path.store.trim(&[(key, range.start)])?);
        }
        let range = range.start..range.end.min(self.length(key)?);
        if range.is_empty() {
            return Ok(());
        }
        let zeros = vec![0; range.len()];
        let zero = |part: Range<u32>| {
            let bytes = &zeros[..part.len()];
            self.write_stripes(&[StripeWrite { key, offset: part.start, bytes }])
        };
        match zero(range.clone()) {
            // Block by block: where nothing of one is there, nothing is to be made zeros.
            Err(StoreError::Lost { .. }) => {
                self.blocks(&range).try_for_each(|block| match zero(block.clone()) {
                    Err(StoreError::Lost { .. }) if !self.is_there(key, block.start)? => Ok(()),
                    zeroed => Ok(zeroed?),
                })
            }
            zeroed => Ok(zeroed?),
        }
    }

    /// `false`: a byte of a stripe was lost, or is part of a hole after a loss.
    fn is_there(&self, key: StripeKey, offset: u32) -> Result<bool, Error> {
        let read = StripeRead { key, offset, buffer: &mut [0] };
        match self.path.store.read(&mut [read]) {
            Err(StoreError::Lost { .. }) => Ok(false),
            read => Ok(read.map(|()| true)?),
        }
    }

    /// A range of a stripe, cut where a block of a sealed one may end.
    fn blocks(&self, range: &Range<u32>) -> impl Iterator<Item = Range<u32>> + use<S> {
        let (range, bytes) = (range.clone(), self.path.stripe_size.bytes() / BLOCKS_PER_STRIPE);
        let blocks = range.start / bytes..=(range.end - 1) / bytes;
        blocks.map(move |at| range.start.max(at * bytes)..range.end.min((at + 1) * bytes))
    }

    fn length(&self, key: StripeKey) -> Result<u32, Error> {
        Ok(self.path.store.lengths(&[key])?.first().copied().unwrap_or(0))
    }
}
