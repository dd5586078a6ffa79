//! Writing at the end of the file.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tidefs_store::Store;

use super::errors::ErrorCursor;
use super::striped::Striped;
use crate::names::ATTEMPTS;
use crate::{Error, FILE_BYTES_MAX};

/// Where one append goes. It is found once: an append that is begun again from the start goes to where
/// it went before, and nobody else of this mount goes there meanwhile.
#[derive(Debug, Default)]
pub struct AppendedAt(Mutex<Option<Place>>);

#[derive(Debug)]
struct Place {
    offset: u64,
    /// The store has made the file longer for it: no other mount's bytes go there either.
    is_reserved: bool,
    _promise: Promise,
}

/// What is promised to appends that have not ended.
#[derive(Debug, Default)]
pub struct Promised {
    /// One beyond the last byte; no more than the file's size where there are none.
    end: u64,
    appends: usize,
    /// Something was appended without the store's knowing, and may not be in the store yet: the store
    /// would let another mount append to the same place.
    is_private: bool,
}

/// A range that others do not append to.
#[derive(Debug)]
struct Promise(Arc<Mutex<Promised>>);

impl Drop for Promise {
    fn drop(&mut self) {
        let mut promised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        promised.appends -= 1;
        if promised.appends == 0 {
            promised.end = 0;
        }
    }
}

impl<S: Store> Striped<S> {
    /// Answers where the bytes are that were taken: all, unless whoever writes has gone meanwhile, or
    /// another mount has come between two tries.
    pub fn append(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        bytes: &[u8],
        shared: bool,
        at: &AppendedAt,
    ) -> Result<Range<u64>, Error> {
        self.state().errors.report(errors)?;
        let mut place = at.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Place { offset, is_reserved: false, .. }) = *place
            && shared
        {
            // What has been taken counts among what was written before the other mount came.
            let taken = self.state().size().saturating_sub(offset).min(bytes.len() as u64);
            if taken > 0 {
                return Ok(offset..offset + taken);
            }
            *place = None;
        }
        let offset = match &*place {
            Some(place) => place.offset,
            None => place.insert(self.place(bytes.len() as u64, shared)?).offset,
        };
        if offset + bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        let taken = self.write(errors, offset, bytes)?;
        Ok(offset..offset + taken as u64)
    }

    /// The store knows of all that was appended.
    pub fn has_told_appends(&self) -> bool {
        !self.appending.lock().unwrap_or_else(PoisonError::into_inner).is_private
    }

    /// Has the store know of what was appended, now that others may append; later, where an append has
    /// not ended.
    pub fn tell_appends(self: &Arc<Self>) -> Result<(), Error> {
        {
            let mut promised = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
            if !promised.is_private || promised.appends > 0 {
                return Ok(());
            }
            promised.is_private = false;
        }
        let settled = self.settle();
        if settled.is_err() && self.state().has_uncommitted() {
            self.appending.lock().unwrap_or_else(PoisonError::into_inner).is_private = true;
        }
        settled
    }

    /// A place for so many bytes behind all that was written and promised.
    fn place(self: &Arc<Self>, bytes: u64, shared: bool) -> Result<Place, Error> {
        let mut promised = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reserved = shared && bytes > 0;
        let offset = match is_reserved {
            true => self.reserve(bytes)?,
            false => self.state().size().max(promised.end),
        };
        promised.end = promised.end.max(offset.saturating_add(bytes));
        promised.appends += 1;
        promised.is_private |= !is_reserved && bytes > 0;
        Ok(Place { offset, is_reserved, _promise: Promise(Arc::clone(&self.appending)) })
    }

    /// Has the store make the file longer. Bytes that this mount wrote beyond the committed size
    /// come first: the store would hand out their range.
    fn reserve(self: &Arc<Self>, bytes: u64) -> Result<u64, Error> {
        let ahead_of_record = {
            let state = self.state();
            state.pending_end() > state.stored.size
        };
        if ahead_of_record {
            self.settle()?;
        }
        for _ in 0..ATTEMPTS {
            let order = self.committing();
            let least = self.state().pending_end();
            let reserved = self.record.reserve(bytes, least, self.path.clock.now())?;
            if let Some(stored) = reserved {
                self.adopt(&mut self.state(), stored);
                return Ok(stored.size - bytes);
            }
            // Another mount cut the file below what this one wrote.
            drop(order);
            self.settle()?;
        }
        Err(Error::Contended)
    }
}
