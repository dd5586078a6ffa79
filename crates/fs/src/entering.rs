//! How a name enters a directory: one that is being removed, or is gone, takes none.
//!
//! A removal closes the directory's shards, removes its name and its record, and much later clears the
//! shards, so that a batch that enters a name checks nothing but that its shard is not closed. What is left
//! to be found out is whether the shard was cleared: whoever brings the first name to a shard asks the
//! directory's record. A new name is simply taken back where that is gone. A name that comes from another
//! directory must not be taken back, since others may have seen it arrive; so the shard must say before
//! that the directory is [alive](header::ALIVE), which a removal takes back as it clears the shard.

use tidefs_model::Ino;
use tidefs_store::{Batch, Outcome, Store};

use crate::entry::{EntryRecord, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{self, u64_at};
use crate::keys::{self, header};
use crate::known_names::KnownNames;
use crate::table::Node;

/// Times that a shard is asked to say that its directory is there.
const OPENINGS_MAX: usize = 4;

/// Which name enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entering {
    /// A new one of this inode.
    New(Reference),
    /// One that another name of the same directory gives way to, which is there as long.
    Within,
    /// One from another directory.
    FromElsewhere,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    Done,
    /// The batch's own checks failed.
    Refused,
    /// The directory was about to be removed, and is no longer: to be tried again.
    NotYet,
}

impl<S: Store> Fs<S> {
    /// Applies a batch with which a name enters a directory. [`Error::NotFound`]: the directory is being
    /// removed or is gone, and nothing has entered.
    pub(crate) fn add_name(
        &self,
        place: &Place,
        batch: Batch,
        name: Entering,
    ) -> Result<Entered, Error> {
        let directory = place.shard.directory;
        let mut must_be_alive = name == Entering::FromElsewhere && directory != Ino::ROOT;
        if must_be_alive && self.is_alone() {
            // Nobody else removes it, and the kernel keeps the two apart.
            must_be_alive = false;
            if !self.is_there(directory)? {
                return Err(Error::NotFound);
            }
        }
        let batch = first(batch, must_be_alive);
        for _ in 0..OPENINGS_MAX {
            let outcome = self.change_entries(place.shard, batch.clone())?;
            match outcome.refused_by {
                None => {
                    if let Entering::New(reference) = name {
                        self.confirm_new(place, reference, &outcome)?;
                    }
                    return Ok(Entered::Done);
                }
                Some(0) => {
                    self.reopen_or_fail(place)?;
                    return Ok(Entered::NotYet);
                }
                Some(1) if must_be_alive => self.open_shard(place)?,
                Some(_) => return Ok(Entered::Refused),
            }
        }
        Ok(Entered::NotYet)
    }

    /// Whether the record of a directory says that it has a name.
    pub(crate) fn is_there(&self, directory: Ino) -> Result<bool, Error> {
        if directory == Ino::ROOT {
            return Ok(true);
        }
        if let (Some((record, _)), _) = self.recall(directory) {
            return Ok(record.len() >= inode::BYTES && u64_at(&record, inode::NLINK) > 0);
        }
        let node = self.table.get(directory)?;
        let (alone, failures) = (self.time_alone(), self.store.failures());
        let known = |names: &KnownNames| names.belongs_to(0, alone, failures);
        if alone.is_some() && node.memory().names.as_ref().is_some_and(known) {
            return Ok(true);
        }
        self.has_record(&node)
    }

    /// The same, asked of the store.
    pub(crate) fn has_record(&self, directory: &Node<S>) -> Result<bool, Error> {
        let batch = Batch::new().at_least(keys::inode(directory.ino), inode::NLINK, 1);
        Ok(self.store.batch(directory.home, &batch)?.applied())
    }

    /// The first name of a shard may have come after the directory was removed and its shards were cleared,
    /// and is taken back then.
    fn confirm_new(
        &self,
        place: &Place,
        reference: Reference,
        outcome: &Outcome,
    ) -> Result<(), Error> {
        let header = outcome.values.last().and_then(Option::as_deref).unwrap_or_default();
        let is_first = header.len() < 8 || u64_at(header, header::ENTRIES) <= 1;
        if !(outcome.shard_was_empty || is_first && header.len() <= header::ALIVE as usize) {
            return Ok(());
        }
        if self.is_surely_there(place.shard) {
            return Ok(());
        }
        let entry = keys::entry(&place.name);
        let is_entered =
            Batch::new().equals(entry.clone(), EntryRecord::settled(reference).encode());
        if self.is_there(place.shard.directory)? {
            let is_root = place.shard.directory == Ino::ROOT;
            if !outcome.shard_was_empty && !is_root && !self.is_alone() {
                // Names come and go in this shard: not every first one is to ask.
                self.change_entries(place.shard, alive(is_entered))?;
            }
            return Ok(());
        }
        let undo = is_entered.delete(entry).delete(keys::HEADER).reclaims();
        let undo = match reference.home == place.shard {
            true => undo.delete(keys::inode(reference.ino)),
            false => undo,
        };
        self.change_entries(place.shard, undo)?;
        Err(Error::NotFound)
    }

    /// Has a shard say that its directory is there, if it is. A removal that closes the shard meanwhile
    /// takes the mark away on which the last step depends.
    fn open_shard(&self, place: &Place) -> Result<(), Error> {
        let mark = self.new_transaction().to_be_bytes();
        let begin = Batch::new().absent(keys::CLOSED).put(keys::OPENING, mark).reclaims();
        if !self.store.batch(place.shard, &begin)?.applied() {
            // The next try finds it closed.
            return Ok(());
        }
        let marked = Batch::new().equals(keys::OPENING, mark).delete(keys::OPENING);
        if !self.is_there(place.shard.directory)? {
            self.store.batch(place.shard, &marked.reclaims())?;
            return Err(Error::NotFound);
        }
        self.change_entries(place.shard, alive(marked))?;
        Ok(())
    }
}

/// What every batch checks with which a name enters.
pub(crate) fn open_for_entries(batch: Batch) -> Batch {
    batch.absent(keys::CLOSED)
}

/// Puts that in front of what else a batch checks.
fn first(batch: Batch, must_be_alive: bool) -> Batch {
    let front = open_for_entries(Batch::new());
    let front = match must_be_alive {
        true => front.at_least(keys::HEADER, header::ALIVE, 1),
        false => front,
    };
    let checks = front.checks.into_iter().chain(batch.checks).collect();
    Batch { checks, ..batch }
}

fn alive(batch: Batch) -> Batch {
    batch.max(keys::HEADER, header::ALIVE, 1).reclaims()
}
