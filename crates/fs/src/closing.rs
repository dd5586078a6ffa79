//! Closing a directory's shards, so that none of them takes an entry while it is removed.
//!
//! A removal closes every shard that is empty, then removes the entry in the parent, which is the
//! instant at which it happens. If it finds a shard in use it reopens the others. Whoever meets a
//! closed shard waits; a removal that does not come to its end is fenced off at the parent's
//! shard and its work undone.

use std::sync::PoisonError;
use std::time::Duration;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Store};

use crate::entry::{self, EntryRecord, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::u64_at;
use crate::keys::{self, header};
use crate::names::{UNFINISHED_AGE_MAX, wait_for_end};

/// How long the shards of a removed directory stay closed.
pub(crate) const CLOSED_AGE_MAX: Duration = Duration::from_secs(60);
/// Removed directories whose shards are still closed; beyond it the oldest are cleared early.
const CLOSED_MAX: usize = 4_096;
const CLEARED_PER_CALL: usize = 64;

/// Who closed a shard: the removal of the directory whose entry is at `parent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    pub transaction: u64,
    pub parent: Place,
}

impl Closing {
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(self.transaction.to_be_bytes());
        entry::put_shard(&mut record, self.parent.shard);
        record.extend(&self.parent.name);
        record
    }

    pub fn decode(directory: Ino, record: &[u8]) -> Result<Closing, Error> {
        let (fixed, name) = record
            .split_at_checked(8 + entry::SHARD_BYTES)
            .ok_or(Error::Corrupt { what: "the closing of directory", ino: directory.0 })?;
        let parent = Place { shard: entry::shard_of(&fixed[8..]), name: name.to_vec() };
        Ok(Closing { transaction: u64_at(fixed, 0), parent })
    }
}

impl<S: Store> Fs<S> {
    /// Closes all shards of a directory, or none and says why.
    pub(crate) fn close_shards(&self, directory: Ino, closing: &Closing) -> Result<(), Error> {
        let record = closing.encode();
        let batch = Batch::new()
            .absent(keys::CLOSED)
            .at_most(keys::HEADER, header::ENTRIES, 0)
            .put(keys::CLOSED, record.clone())
            .delete(keys::OPENING)
            .reclaims();
        let shards: Vec<_> = self.shards_of(directory).collect();
        let batches: Vec<_> = shards.iter().map(|shard| (*shard, batch.clone())).collect();
        let outcomes = self.store.batches(&batches)?;
        let refusal = outcomes.iter().filter_map(|outcome| outcome.refused_by).max();
        let Some(refusal) = refusal else { return Ok(()) };
        let closed = shards.iter().zip(&outcomes).filter(|(_, outcome)| outcome.applied());
        self.reopen(closed.map(|(shard, _)| *shard), &record)?;
        Err(if refusal == 0 { Error::Contended } else { Error::NotEmpty })
    }

    /// Opens shards again that were closed by this record.
    pub(crate) fn reopen(
        &self,
        shards: impl Iterator<Item = ShardKey>,
        record: &[u8],
    ) -> Result<(), Error> {
        let batch = Batch::new().equals(keys::CLOSED, record).delete(keys::CLOSED).reclaims();
        let batches: Vec<_> = shards.map(|shard| (shard, batch.clone())).collect();
        self.store.batches(&batches)?;
        Ok(())
    }

    /// A directory has no entries; asked only where nobody can add one meanwhile.
    pub(crate) fn is_empty(&self, directory: Ino) -> Result<bool, Error> {
        let batch = Batch::new().at_most(keys::HEADER, header::ENTRIES, 0);
        let batches: Vec<_> =
            self.shards_of(directory).map(|shard| (shard, batch.clone())).collect();
        Ok(self.store.batches(&batches)?.iter().all(|outcome| outcome.applied()))
    }

    /// Disposes of what a removed directory leaves in its shards. Alone, at once: the kernel itself
    /// refuses to make entries in a removed directory. With other mounts the shards stay closed
    /// for a while, so that a late create there fails without asking anybody else.
    pub(crate) fn leave_shards(&self, directory: Ino, alone: bool) -> Result<(), Error> {
        if alone {
            return self.clear_shards(directory);
        }
        let mut closed = self.closed();
        closed.push_back((self.steady(), directory));
        let oldest = (closed.len() > CLOSED_MAX).then(|| closed.pop_front()).flatten();
        drop(closed);
        oldest.map_or(Ok(()), |(_, directory)| self.clear_shards(directory))
    }

    /// Clears the shards of directories that were removed long enough ago, a few at a time.
    pub(crate) fn clear_closed(&self, age: Duration) -> Result<(), Error> {
        for _ in 0..CLEARED_PER_CALL {
            let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = closed.front().is_some_and(|(since, _)| self.steady() - *since >= age);
            let due = if is_due { closed.pop_front() } else { None };
            drop(closed);
            let Some((_, directory)) = due else { return Ok(()) };
            self.clear_shards(directory)?;
        }
        Ok(())
    }

    /// Clears what a removed directory leaves in its shards. Inodes that live there stay.
    fn clear_shards(&self, directory: Ino) -> Result<(), Error> {
        let batch = Batch::new().delete(keys::CLOSED).delete(keys::HEADER);
        let batch = batch.delete(keys::OPENING).reclaims();
        let batches: Vec<_> =
            self.shards_of(directory).map(|shard| (shard, batch.clone())).collect();
        self.store.batches(&batches)?;
        Ok(())
    }

    /// Ends renames that keep entries in a directory although they have left it. `true` when
    /// there were any.
    pub(crate) fn settle_leavers(&self, directory: Ino) -> Result<bool, Error> {
        let found = self.find_entries(directory)?;
        let moving = found.moving();
        for name in &moving {
            self.settle(&self.place(directory, name))?;
        }
        Ok(!moving.is_empty())
    }

    /// What to do about a closed shard: `Ok` means try again, now that time has passed or the
    /// removal was undone; [`Error::NotFound`] that the directory is gone.
    pub(crate) fn reopen_or_fail(&self, place: &Place) -> Result<(), Error> {
        let directory = place.shard.directory;
        let closed = Batch::new().read(keys::CLOSED);
        let Some(record) = self.store.batch(place.shard, &closed)?.take(0) else {
            return Ok(());
        };
        let closing = Closing::decode(directory, &record)?;
        if !self.is_entered(&closing.parent, directory)? {
            return Err(Error::NotFound);
        }
        let age = self.unfinished.age(closing.transaction, self.steady());
        if age > UNFINISHED_AGE_MAX {
            return self.give_up_removal(directory, &closing);
        }
        wait_for_end(age);
        Ok(())
    }

    /// Undoes removals of a directory that were left half done; before it gets another name.
    pub(crate) fn clear_closings(&self, directory: Reference) -> Result<(), Error> {
        let read = Batch::new().read(keys::CLOSED);
        let batches: Vec<_> =
            self.shards_of(directory.ino).map(|shard| (shard, read.clone())).collect();
        for mut outcome in self.store.batches(&batches)? {
            if let Some(record) = outcome.take(0) {
                let closing = Closing::decode(directory.ino, &record)?;
                self.give_up_removal(directory.ino, &closing)?;
            }
        }
        Ok(())
    }

    pub(crate) fn is_entered(&self, parent: &Place, directory: Ino) -> Result<bool, Error> {
        let Some(raw) = self.read_entry(parent)? else { return Ok(false) };
        let record = EntryRecord::decode_at(parent, &raw)?;
        Ok(record.reference.ino == directory)
    }

    pub(crate) fn give_up_removal(&self, directory: Ino, closing: &Closing) -> Result<(), Error> {
        let fence = Batch::new()
            .present(keys::entry(&closing.parent.name))
            .put(keys::aborted(closing.transaction), b"")
            .reclaims();
        if self.store.batch(closing.parent.shard, &fence)?.applied() {
            self.reopen(self.shards_of(directory), &closing.encode())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closing_decodes_to_what_was_encoded() {
        let shard = ShardKey { directory: Ino(4), index: 2 };
        let parent = Place { shard, name: b"work".to_vec() };
        let closing = Closing { transaction: 9, parent };
        assert_eq!(Closing::decode(Ino(5), &closing.encode()), Ok(closing));
        assert!(Closing::decode(Ino(5), &[0; 17]).is_err());
    }
}
