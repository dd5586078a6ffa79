//! Directories that are about to get another parent: their own records' shards say so, before anybody looks whether they
//! may.
//!
//! The [lock](super) for such renames lies with one node, and is lost with it. A rename that had it then may
//! have happened, with its directory's record still naming the old parent, or may be about to happen. Whoever takes the
//! lock that is made anew meets the mark of such a directory on the way up to the root, and ends the rename first: it is
//! finished if it has happened, or else refused. Of two that both take the lock for theirs each puts its marks before it
//! looks, so at least one of them meets the other's if they would close a circle.
//!
//! The mark goes in the batch that writes the new parent, so who finds none knows that the parent is right.

use tidefs_store::{Batch, Bytes, Store};

use super::Intent;
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{Inode, Parent};
use crate::keys;
use crate::names::ATTEMPTS;

/// What a directory's shard says of it.
pub(crate) struct Standing {
    pub inode: Inode,
    /// The rename under way that gives it another parent.
    pub moving: Option<Bytes>,
}

impl Standing {
    pub fn term(&self) -> u64 {
        self.inode.parent.map_or(0, |parent| parent.term)
    }
}

impl<S: Store> Fs<S> {
    /// # Errors
    /// [`Error::NotFound`]: the directory is gone.
    pub(crate) fn standing_of(&self, directory: Reference) -> Result<Standing, Error> {
        let Reference { ino, home, .. } = directory;
        let read = Batch::new().read(keys::inode(ino)).read(keys::moving(ino));
        let mut outcome = self.store.batch(home, &read)?;
        let record = outcome.take(0).ok_or(Error::NotFound)?;
        Ok(Standing { inode: Inode::decode(ino, &record)?, moving: outcome.take(1) })
    }

    /// Marks the directories of a rename, with the lock held, and answers the latest term that their records have. Ends
    /// what they are marked with.
    pub(crate) fn mark_moving(&self, intent: &Intent, term: u64) -> Result<u64, Error> {
        let mut known = 0;
        for (directory, _) in intent.directories() {
            known = known.max(self.mark_one(directory, intent, term)?);
        }
        Ok(known)
    }

    fn mark_one(&self, directory: Reference, intent: &Intent, term: u64) -> Result<u64, Error> {
        let (field, mine) = (keys::moving(directory.ino), intent.encode());
        for _ in 0..ATTEMPTS {
            let batch = Batch::new().present(keys::inode(directory.ino)).absent(field.clone());
            let batch = batch.put(field.clone(), mine.clone()).reclaims();
            // Where its answer is lost, the look says what became of it.
            let marked = self.store.batch(directory.home, &batch);
            let standing = self.standing_of(directory)?;
            match &standing.moving {
                Some(moving) if *moving == mine => return Ok(standing.term()),
                Some(moving) => self.end_moving(directory, moving, term)?,
                None => drop(marked?),
            }
        }
        Err(Error::Contended)
    }

    /// Ends the rename that a directory is marked with: finishes it if it has happened, or sees to it that it never does.
    pub(crate) fn end_moving(
        &self,
        directory: Reference,
        moving: &[u8],
        term: u64,
    ) -> Result<(), Error> {
        match Intent::decode(moving) {
            Some(intent) => self.end_left(&intent, self.term_above(&intent, term)?).map(drop)?,
            None => tracing::warn!(ino = %directory.ino, "a directory's mark does not decode"),
        }
        // Of one that has happened it is gone.
        self.unmark(directory, moving)
    }

    /// A term with which new parents can be written: the count of terms may have been lost with a node.
    pub(crate) fn term_above(&self, intent: &Intent, term: u64) -> Result<u64, Error> {
        let known = intent.directories().into_iter().map(|(directory, _)| {
            match self.standing_of(directory) {
                Ok(standing) => Ok(standing.term()),
                Err(Error::NotFound) => Ok(0),
                Err(error) => Err(error),
            }
        });
        let known = known.collect::<Result<Vec<_>, _>>()?;
        Ok(known.into_iter().max().map_or(term, |known| term.max(known + 1)))
    }

    /// The rename has not happened and never will. What cannot be told is left to whoever meets the mark.
    pub(crate) fn unmark_all(&self, intent: &Intent) {
        let mine = intent.encode();
        for (directory, _) in intent.directories() {
            if let Err(error) = self.unmark(directory, &mine) {
                tracing::debug!(%error, "the mark of a directory that stays is left");
            }
        }
    }

    fn unmark(&self, directory: Reference, moving: &[u8]) -> Result<(), Error> {
        let field = keys::moving(directory.ino);
        let batch = Batch::new().equals(field.clone(), moving).delete(field).reclaims();
        Ok(self.store.batch(directory.home, &batch).map(drop)?)
    }

    /// The rename of a directory that arrived, where the lock says nothing of it: it was lost with its node unless the
    /// parents were written.
    pub(crate) fn finish_moving(
        &self,
        directory: Reference,
        transaction: u64,
    ) -> Result<(), Error> {
        let standing = match self.standing_of(directory) {
            Err(Error::NotFound) => return Ok(()),
            standing => standing?,
        };
        let intent = standing.moving.and_then(|moving| Intent::decode(&moving));
        match intent.filter(|intent| intent.transaction == transaction) {
            Some(intent) => self.set_parents(&intent, self.term_above(&intent, 0)?),
            None => Ok(()),
        }
    }
}

impl Intent {
    /// The directories that move, with their new parents, of no term yet.
    pub(crate) fn directories(&self) -> Vec<(Reference, Parent)> {
        let to = Parent { term: 0, ino: self.new_parent(), home: self.to_home };
        let from = Parent { term: 0, ino: self.old_parent(), home: self.from_home };
        let both = [(Some(self.moved), to), (self.instead, from)];
        let directories = both.into_iter().filter_map(|(moved, parent)| Some((moved?, parent)));
        directories.filter(|(moved, _)| moved.kind == crate::attr::Kind::Directory).collect()
    }
}
