//! Attributes that are set on a new file before it is closed: it is made with them.
//!
//! What unpacks or copies files sets owner, mode and times of each right after its bytes were written. Each would be a
//! round to the store, and would have the file made first.

use tidefs_store::Store;

use crate::attr::{Kind, SetAttr, SetTime};
use crate::fs::Fs;
use crate::inode::Inode;
use crate::ops::setattr::{MODE_BITS, without_privileges};
use crate::table::Node;

impl<S: Store> Fs<S> {
    /// Sets attributes of a file that still waits to be made. `false`: it does not, and nothing was done.
    pub(super) fn amend(&self, node: &Node<S>, changes: &SetAttr) -> bool {
        let (home, ino) = (node.home, node.ino);
        let is_of_bytes = changes.size.is_some() || changes.clear_privileges;
        if node.kind != Kind::File || is_of_bytes || !self.store.waits_to_make(home, ino) {
            return false;
        }
        let Some(file) = node.slot().file.clone() else { return false };
        let now = self.now();
        let changed = changes.ctime.unwrap_or(now);
        let at = |time| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        // What was written before must not date the file when it is made; where it is made meanwhile, the
        // time is set in its record after this.
        if !file.times_set(changes.mtime.map(at), changed) {
            return false;
        }
        let set = |inode: &Inode| {
            let mut inode = inode.clone();
            if changes.uid.is_some() || changes.gid.is_some() {
                inode.mode = without_privileges(inode.mode);
            }
            inode.mode = changes.mode.map_or(inode.mode, |mode| mode & MODE_BITS);
            inode.uid = changes.uid.unwrap_or(inode.uid);
            inode.gid = changes.gid.unwrap_or(inode.gid);
            inode.atime = changes.atime.map_or(inode.atime, at);
            inode.mtime = changes.mtime.map_or(inode.mtime, at);
            inode.ctime = inode.ctime.max(changed);
            inode
        };
        let amended = self.store.while_unseen(home, &self.membership, |era| {
            self.store.amend(home, ino, era, |creation| creation.inode = set(&creation.inode))
        });
        amended == Some(true)
    }
}
