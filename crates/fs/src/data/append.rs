//! Writing at the end of the file.

use std::ops::Range;
use std::sync::Arc;

use tidefs_store::Store;

use super::errors::ErrorCursor;
use super::striped::Striped;
use crate::names::ATTEMPTS;
use crate::{Error, FILE_BYTES_MAX};

impl<S: Store> Striped<S> {
    pub fn append(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        bytes: &[u8],
        shared: bool,
    ) -> Result<Range<u64>, Error> {
        let _one = self.appending.lock().expect("no panic while appending");
        self.state().errors.report(errors)?;
        let offset = if shared && !bytes.is_empty() {
            self.reserve(bytes.len() as u64)?
        } else {
            self.state().size()
        };
        if offset + bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        let taken = self.write(errors, offset, bytes)?;
        Ok(offset..offset + taken as u64)
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
