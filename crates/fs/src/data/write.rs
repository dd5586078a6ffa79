//! Writing into buffers, and straight through them when the store has been full.

use std::sync::Arc;

use tidefs_model::{Piece, pieces};
use tidefs_store::{Store, StoreError, caller};

use super::errors::ErrorCursor;
use super::state::{Left, Placed};
use super::striped::Striped;
use crate::Error;
use crate::sync::RwLockReadGuard;

impl<S: Store> Striped<S> {
    /// How many bytes were taken: all, unless whoever writes has gone meanwhile.
    pub fn write(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        // `None` is for those who ask for it.
        Ok(self.write_unless_cut(errors, offset, bytes, None)?.unwrap_or(0))
    }

    /// `placed`: of an append. `None`: the file has been cut since its place was found, and all of it is to be
    /// written anew, elsewhere.
    pub fn write_unless_cut(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        offset: u64,
        bytes: &[u8],
        mut placed: Option<&mut Placed>,
    ) -> Result<Option<usize>, Error> {
        self.state().errors.report(errors)?;
        if bytes.is_empty() {
            return Ok(Some(0));
        }
        self.clear_residue_before(offset)?;
        let mut shared = Some(self.with_others());
        for piece in pieces(self.path.stripe_size, offset, bytes.len()) {
            let length = piece.within.len();
            let bytes = &bytes[piece.at..piece.at + length];
            match self.write_piece(piece.clone(), bytes, placed.as_deref_mut(), &mut shared) {
                Err(error) if piece.at > 0 && is_taken(&error) => return Ok(Some(piece.at)),
                Ok(false) => return Ok(None),
                done => done?,
            };
        }
        drop(shared);
        if self.path.is_in_doubt() {
            match self.drain() {
                // What becomes of the bytes is for the next call to tell.
                Err(error) if is_taken(&error) => return Ok(Some(bytes.len())),
                drained => drained.map(drop)?,
            }
            self.state().errors.report(errors)?;
            self.path.store_had_room();
        }
        Ok(Some(bytes.len()))
    }

    /// `shared` is let go of while it waits for a buffer: whoever cuts the file does not wait for room.
    /// `false`: as with [`Striped::write_unless_cut`].
    fn write_piece<'a>(
        self: &'a Arc<Self>,
        mut piece: Piece,
        mut bytes: &[u8],
        mut placed: Option<&mut Placed>,
        shared: &mut Option<RwLockReadGuard<'a, ()>>,
    ) -> Result<bool, Error> {
        let mut spare = None;
        let mut opened = false;
        let start = self.path.stripe_size.start_of(piece.index) + u64::from(piece.within.start);
        let send = loop {
            let mut state = self.state();
            self.check_term(&state)?;
            if let Some(placed) = &placed {
                match state.left_of(placed, start, bytes.len() as u64) {
                    Left::Elsewhere => return Ok(false),
                    Left::Bytes(0) => return Ok(true),
                    Left::Bytes(left) => bytes = &bytes[..left as usize],
                }
                piece.within.end = piece.within.start + bytes.len() as u32;
            }
            // A buffer without bytes would count up to its beginning.
            let leaves_gap = start > state.size();
            if state.wants_buffer(piece.index) {
                let Some(buffer) = spare.take() else {
                    drop(state);
                    spare = self.path.buffer_at_once();
                    if spare.is_none() {
                        shared.take();
                        spare = Some(self.path.buffer()?);
                        *shared = Some(self.with_others());
                    }
                    continue;
                };
                let birth = self.path.unsent.add(&Arc::downgrade(self), piece.index);
                state.open_buffer(piece.index, buffer, birth, self.path.clock.steady());
                opened = true;
            }
            if leaves_gap {
                self.record.set_sparse(true);
            }
            if let Some(placed) = &mut placed {
                placed.is_begun = true;
            }
            break state.put(&piece, bytes, self.path.clock.now());
        };
        if send {
            self.hand_over([piece.index]);
        }
        if opened {
            self.path.relieve();
        }
        Ok(true)
    }
}

/// Whoever wrote has gone, and what was written until then stays written: it was not nothing, which a
/// failure would say.
fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError::Interrupted { .. })) && !caller::begins_again()
}
