//! How much space a file takes. Of nearly all files that follows from the size; the store is asked about
//! those that were made longer without being written, or had holes punched, and the answer is kept for as
//! long as the file has the same version.

use tidefs_store::Store;

use crate::attr::{Attr, Kind};
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::Inode;

/// What `stat` counts space in.
const UNIT: u64 = 512;

impl<S: Store> Fs<S> {
    /// What a program should see of an inode.
    pub(crate) fn attr_of(&self, reference: Reference, inode: &Inode) -> Attr {
        let attr = inode.attr(reference.ino);
        if !inode.sparse || inode.size == 0 || inode.kind != Kind::File {
            return attr;
        }
        match self.stored_bytes(reference, inode) {
            Ok(bytes) => Attr { blocks: bytes.div_ceil(UNIT), ..attr },
            Err(error) => {
                tracing::debug!(%error, ino = %reference.ino, "a file counts as full");
                attr
            }
        }
    }

    fn stored_bytes(&self, reference: Reference, inode: &Inode) -> Result<u64, Error> {
        let node = self.table.find(reference.ino);
        let (file, kept) = match &node {
            Some(node) => {
                let slot = node.slot();
                (slot.file.clone(), slot.stored.as_deref().copied())
            }
            None => (None, None),
        };
        if let Some(file) = file {
            return file.stored_bytes();
        }
        if let Some((version, bytes)) = kept
            && version == inode.version
        {
            return Ok(bytes);
        }
        let bytes = self.data.stored_bytes(reference.home, reference.ino, inode.size)?;
        if let Some(node) = node {
            node.slot().stored = Some(Box::new((inode.version, bytes)));
        }
        Ok(bytes)
    }
}
