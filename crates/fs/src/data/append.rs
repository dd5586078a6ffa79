//! Writing at the end of the file.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tidefs_store::Store;

use super::errors::ErrorCursor;
use super::striped::Striped;
use crate::names::ATTEMPTS;
use crate::{Error, FILE_BYTES_MAX};

/// Where one append goes. It is found once: an append that is begun again from the start goes to where
/// it went before. Until it has ended nobody else of this mount changes the file's size.
#[derive(Debug, Default)]
pub struct AppendedAt(OnceLock<u64>);

impl<S: Store> Striped<S> {
    pub fn append(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        bytes: &[u8],
        shared: bool,
        at: &AppendedAt,
    ) -> Result<Range<u64>, Error> {
        let _one = self.appending.lock().expect("no panic while appending");
        self.state().errors.report(errors)?;
        let offset = match at.0.get() {
            Some(offset) => *offset,
            None if shared && !bytes.is_empty() => self.reserve(bytes.len() as u64)?,
            None => self.state().size(),
        };
        let _ = at.0.set(offset);
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
