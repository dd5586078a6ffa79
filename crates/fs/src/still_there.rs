//! Reading files that other mounts may have removed, and freed, while they are open here.
//!
//! A store answers zeros for what it does not have: a hole of a file that is there, and anything of one that was freed.
//! Where a mount stands in the record of those who have a file open nobody frees it. Until it has got round to that, what
//! reads as zeros has it enter at once: a round at most for each open of a file that has holes, and none for others.

use tidefs_store::{Store, StoreError, caller};

use crate::data::OpenFile;
use crate::error::Error;
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::ops::ReadBytes;
use crate::table::Node;

impl<S: Store> Fs<S> {
    pub(crate) fn read_what_is_there(
        &self,
        handle: &FileHandle<S>,
        offset: u64,
        length: usize,
    ) -> Result<ReadBytes, Error> {
        handle.node.is_there()?;
        let bytes = handle.file.read(&handle.reader, offset, length)?;
        if bytes.has_gaps {
            self.make_sure_of(&handle.node, &handle.file)?;
        }
        Ok(bytes)
    }

    /// What was missing of a file when it was read was a hole.
    ///
    /// # Errors
    /// When the file was freed, or nobody knows.
    pub(crate) fn make_sure_of(&self, node: &Node<S>, file: &OpenFile<S>) -> Result<(), Error> {
        // What is pinned stays, and nobody can have removed what is still to be made.
        if file.pinned().is_some() || self.store.is_to_be_made(node.home, node.ino) {
            return Ok(());
        }
        let alone = self.time_alone();
        if alone.is_some() && file.is_as_of(alone) || self.is_kept_from_others(node.ino) {
            return node.is_there();
        }
        if alone.is_none() {
            match caller::without_waiting(|| self.keep_from_others(node)) {
                // Where there is no room to enter, or many do, what is there now was so when it was read, and no longer.
                Err(Error::Store(StoreError::Full { .. }) | Error::Contended) => {}
                kept => return kept,
            }
        }
        // Others may have freed it, also before they left.
        match self.record_as_stored(node)? {
            Some(inode) => {
                file.refresh(&inode);
                file.set_as_of(alone);
            }
            None => self.may_be_gone(node),
        }
        node.is_there()
    }
}
