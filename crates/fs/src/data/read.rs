//! Reading: from buffers that were not sent yet, from stripes read ahead, and from the store.
//!
//! What lies in buffers is copied first and the store is asked after: bytes that arrive there
//! meanwhile are then seen twice, never missed.

use std::sync::{Arc, Weak};

use tidefs_model::{Piece, pieces};
use tidefs_store::{Store, StoreError, StripeRead};

use super::ahead::{Ahead, Answer};
use super::ranges::Ranges;
use super::read_buffers::unshared;
use super::run::{ReadAhead, Run};
use super::state::State;
use super::striped::Striped;
use crate::sync::MutexGuard;
use crate::{Error, ReadBytes};

/// Forgotten stripes that a file's map of stripes read ahead may have; they are a few bytes each.
const AHEAD_ENTRIES_MAX: usize = 64;

impl<S: Store> Striped<S> {
    pub fn read(
        self: &Arc<Self>,
        reader: &ReadAhead,
        offset: u64,
        length: usize,
    ) -> Result<ReadBytes, Error> {
        let _shared = self.with_others();
        let mut run = reader.run();
        let mut state = self.state();
        let end = state.size().min(offset.saturating_add(length as u64));
        if end <= offset {
            return Ok(ReadBytes::from(Vec::new()));
        }
        let length = (end - offset) as usize;
        self.read_ahead(&mut run, &mut state, offset, end);
        drop(run);
        let pieces: Vec<_> = pieces(self.path.stripe_size, offset, length).collect();
        if pieces.iter().any(|piece| state.stripes.contains_key(&piece.index)) {
            return self.read_with_unsent(state, &pieces, length);
        }
        let ahead: Vec<_> = pieces.iter().map(|piece| state.ahead_of(piece.index)).collect();
        drop(state);
        if let ([piece], [Some(ahead)]) = (&pieces[..], &ahead[..])
            && let Some(buffer) = self.bytes_ahead(ahead, piece)
        {
            let range = piece.within.start as usize..piece.within.end as usize;
            let has_gaps = is_nothing(&buffer[range.clone()]);
            return Ok(ReadBytes { buffer, range, has_gaps });
        }
        let buffers = &self.path.read_buffers;
        let mut out = buffers.lend(length);
        let has_gaps = self.read_stored(&pieces, &ahead, unshared(&mut out))?;
        Ok(ReadBytes { has_gaps, ..buffers.answer(out, length) })
    }

    /// Reads a range of which some bytes at least are here and not in the store.
    fn read_with_unsent(
        &self,
        state: MutexGuard<'_, State>,
        pieces: &[Piece],
        length: usize,
    ) -> Result<ReadBytes, Error> {
        let buffers = &self.path.read_buffers;
        let mut over = buffers.lend(length);
        let bytes = unshared(&mut over);
        for piece in pieces {
            state.lay_over(piece, &mut bytes[piece.at..piece.at + piece.within.len()]);
        }
        let parts: Vec<_> = pieces.iter().map(|piece| state.parts(piece)).collect();
        drop(state);
        let is_all =
            |(piece, parts): (&Piece, &Ranges)| parts.bytes() as usize == piece.within.len();
        if pieces.iter().zip(&parts).all(is_all) {
            return Ok(buffers.answer(over, length));
        }
        let mut out = buffers.lend(length);
        let stored = unshared(&mut out);
        let has_gaps = self.read_stored(pieces, &[], stored)?;
        let bytes = unshared(&mut over);
        for (piece, parts) in pieces.iter().zip(parts) {
            for part in parts.iter() {
                let part = piece.at + part.start as usize..piece.at + part.end as usize;
                stored[part.clone()].copy_from_slice(&bytes[part]);
            }
        }
        // Kept for the next reader; nobody looks at this answer.
        drop(buffers.answer(over, length));
        Ok(ReadBytes { has_gaps, ..buffers.answer(out, length) })
    }

    /// Fills `out` with what the store has, in one call for all that is not read ahead. `true`: it has nothing of one
    /// of the pieces, or zeros.
    fn read_stored(
        &self,
        pieces: &[Piece],
        ahead: &[Option<Arc<Ahead>>],
        out: &mut [u8],
    ) -> Result<bool, Error> {
        let mut rest = &mut *out;
        let mut reads = Vec::with_capacity(pieces.len());
        for (at, piece) in pieces.iter().enumerate() {
            let (part, after) = rest.split_at_mut(piece.within.len());
            rest = after;
            let ahead = ahead.get(at).and_then(Option::as_ref);
            match ahead.and_then(|ahead| self.bytes_ahead(ahead, piece)) {
                Some(bytes) => part.copy_from_slice(
                    &bytes[piece.within.start as usize..piece.within.end as usize],
                ),
                None => reads.push(StripeRead {
                    key: self.key(piece.index),
                    offset: piece.within.start,
                    buffer: part,
                }),
            }
        }
        if !reads.is_empty() {
            self.read_stripes(reads)?;
        }
        Ok(pieces.iter().any(|piece| is_nothing(&out[piece.at..piece.at + piece.within.len()])))
    }

    /// The bytes of a stripe that is read ahead, if they reach as far as the piece does.
    fn bytes_ahead(&self, ahead: &Ahead, piece: &Piece) -> Option<Arc<Vec<u8>>> {
        if piece.within.end > ahead.length {
            return None;
        }
        match ahead.answer() {
            Answer::Fetch => self.fetch(ahead).ok(),
            Answer::Bytes(bytes) => Some(bytes),
            Answer::Failed => None,
        }
    }

    /// Reads a stripe for whoever asks for it. The caller has begun it.
    fn fetch(&self, ahead: &Ahead) -> Result<Arc<Vec<u8>>, StoreError> {
        let fetching = ahead.fetching();
        let mut buffer = self.path.read_buffers.take();
        let bytes = &mut unshared(&mut buffer)[..ahead.length as usize];
        let key = self.key(ahead.index);
        self.path.store.read(&mut [StripeRead { key, offset: 0, buffer: bytes }])?;
        self.path.read_buffers.keep(&buffer);
        fetching.done(Arc::clone(&buffer));
        Ok(buffer)
    }

    /// Queues the stripes that a reader going on like this will ask for.
    fn read_ahead(self: &Arc<Self>, run: &mut Run, state: &mut State, offset: u64, end: u64) {
        let stripe_size = self.path.stripe_size;
        let stripe_bytes = u64::from(stripe_size.bytes());
        let window = run.observe(offset, end - offset, stripe_bytes);
        if window == 0 {
            return;
        }
        let (first, last) = (stripe_size.index_of(offset), stripe_size.index_of(end - 1));
        run.release_before(first.saturating_sub(1));
        // A read of whole stripes is as good as reading them ahead.
        let whole = stripe_size.within(offset) == 0 && stripe_size.within(end) == 0;
        let (size, now) = (state.size(), self.path.clock.steady());
        let from = u64::from(if whole { last } else { first }) + u64::from(whole);
        let until = (u64::from(last) + 1 + window).min(size.div_ceil(stripe_bytes));
        for index in (from..until).map(|index| index as u32) {
            if state.stripes.contains_key(&index) || state.ahead_of(index).is_some() {
                continue;
            }
            let length = stripe_bytes.min(size - stripe_size.start_of(index)) as u32;
            let Some(ahead) = self.path.ahead_budget.begin(index, length, now) else { return };
            if !self.queue_fetch(&ahead) {
                return;
            }
            if state.ahead.len() >= AHEAD_ENTRIES_MAX {
                state.ahead.retain(|_, known| known.strong_count() > 0);
            }
            state.ahead.insert(index, Arc::downgrade(&ahead));
            run.hold(ahead);
        }
    }

    /// The job does nothing when the reader has given up, or has fetched the stripe itself.
    fn queue_fetch(self: &Arc<Self>, ahead: &Arc<Ahead>) -> bool {
        let (file, ahead): (_, Weak<Ahead>) = (Arc::clone(self), Arc::downgrade(ahead));
        let job = move || {
            if let Some(ahead) = ahead.upgrade()
                && ahead.begin()
                && let Err(error) = file.fetch(&ahead)
            {
                tracing::debug!(%error, ino = %file.ino(), "a stripe could not be read ahead");
            }
        };
        self.path.helpers.try_push(Box::new(job)).is_ok()
    }
}

/// As the store answers for what it does not have. Bytes that are there end the look at once as a rule.
fn is_nothing(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0) && bytes[1..] == bytes[..bytes.len() - 1]
}
