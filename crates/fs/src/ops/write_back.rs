//! Names that are answered before the store has them, while no other mount can look at their shard.
//!
//! What the mount remembers of the directory changes together with what waits, under the lock of
//! that memory: whoever reads the directory's shards afterwards has the change made first.

use std::sync::Arc;

use tidefs_store::Store;

use crate::error::Error;
use crate::fs::Fs;
use crate::keys;
use crate::write_back::{Change, GROUP};

impl<S: Store> Fs<S> {
    /// Names need not be in the store when they are answered. They are where rounds to the store
    /// cost nothing, and while there may be no room for them.
    pub(crate) fn may_defer(&self) -> bool {
        self.config.remembers() && !self.data.is_in_doubt()
    }

    /// Has a change made later. `None`: it is not, since others may look, or the name is not known
    /// to be free, or it is the change before it that waits. `noted`: what the name was known in, where
    /// that matters. Otherwise what all that is known of the shard is right in.
    pub(crate) fn defer(&self, change: Change, noted: Option<u64>) -> Option<u64> {
        let shard = change.place().shard;
        let defer = |era| {
            if noted.is_some_and(|noted| noted != era) {
                return None;
            }
            let node = self.table.find(shard.directory)?;
            let failures = self.store.failures();
            let mut memory = node.memory();
            let was_absent = self.store.lacks(shard, &keys::entry(&change.place().name), era);
            if !memory.admits(&change, era, failures, was_absent) {
                return None;
            }
            let batch = change.batch();
            let waiting = self.store.defer(change, &batch, era)?;
            memory.assume(shard.index, &batch);
            Some((era, waiting))
        };
        let (era, waiting) = self.store.while_unseen(shard, &self.membership, defer).flatten()?;
        if waiting >= GROUP {
            self.flush_soon();
        }
        Some(era)
    }

    /// Waits until the store has what was answered.
    ///
    /// # Errors
    /// When a name, in any directory, could not be made or removed.
    pub fn sync_directory(&self) -> Result<(), Error> {
        self.flush_changes();
        self.store.take_sticky_error()
    }

    /// Waits until nothing waits, and has freed what nobody can reach any more.
    pub(crate) fn flush_changes(&self) {
        self.store.settle_all();
        self.free_nameless();
    }

    /// Others may have found an inode by its name while this mount did not know of them.
    pub(crate) fn free_nameless(&self) {
        let alone = self.is_alone();
        self.data.free_nameless(!alone);
    }

    fn flush_soon(&self) {
        let store = Arc::clone(&self.store);
        if !self.data.try_help(move || store.flush_changes()) {
            self.store.flush_changes();
        }
    }
}
