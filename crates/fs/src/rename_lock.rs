//! The lock under which directories get other parents, one at a time in the whole file system.
//!
//! Whether a directory may move into another one depends on all that lie above that, and only such renames
//! change it. Each says in the superblock's shard what it is about to do, makes sure that no directory ends
//! below itself, moves, writes the new parent into the directory's record, and goes.
//!
//! One that stops half way is ended by whoever finds it after a while, dead or not: it is fenced off where
//! it would happen, or finished if it has happened. Each holder has a *term*, a number that only rises; a
//! record keeps the term with the parent, so that what somebody does too late changes nothing. The mark of a
//! directory that arrived goes only after its new parent was written, so who reads the lock and does not
//! find the rename there knows that its parents are right.

mod moving;

use std::collections::HashSet;
use std::time::Duration;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError};

use crate::attr::Kind;
use crate::entry::{
    self, EntryRecord, Passage, Place, Reference, SHARD_BYTES, put_reference, put_shard,
    take_reference,
};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{self, Parent, u64_at};
use crate::keys::{self, RENAME_LOCK, RENAME_TERM};
use crate::names::{ATTEMPTS, UNFINISHED_AGE_MAX};

use moving::Standing;

/// How long a rename waits for others, by the clock and, where that stands still, by tries.
const WAIT_MAX: Duration = Duration::from_secs(20);
const TRIES_MAX: u32 = 1_500;
const PAUSE_MAX: Duration = Duration::from_millis(16);
/// How often the end of a rename is tried again: whoever comes next would wait.
const ENDINGS_MAX: u32 = 2;

/// A rename that gives directories other parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub transaction: u64,
    pub from: Place,
    /// Where the record of the directory lives that `from` is in.
    pub from_home: ShardKey,
    pub to: Place,
    pub to_home: ShardKey,
    pub moved: Reference,
    /// Who takes the old name in an exchange.
    pub instead: Option<Reference>,
}

impl Intent {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut record = self.transaction.to_be_bytes().to_vec();
        for shard in [self.from.shard, self.from_home, self.to.shard, self.to_home] {
            put_shard(&mut record, shard);
        }
        record.push(self.from.name.len() as u8);
        record.extend(&self.from.name);
        record.push(self.to.name.len() as u8);
        record.extend(&self.to.name);
        put_reference(&mut record, &self.moved);
        self.instead.iter().for_each(|instead| put_reference(&mut record, instead));
        record
    }

    pub(crate) fn decode(record: &[u8]) -> Option<Intent> {
        let (fixed, rest) = record.split_at_checked(8 + 4 * SHARD_BYTES)?;
        let shard = |number: usize| entry::shard_of(&fixed[8 + number * SHARD_BYTES..]);
        let (from, rest) = take_name(rest)?;
        let (to, rest) = take_name(rest)?;
        let (moved, rest) = take_reference(rest)?;
        let instead = match rest.is_empty() {
            true => None,
            false => Some(take_reference(rest).filter(|(_, rest)| rest.is_empty())?.0),
        };
        Some(Intent {
            transaction: u64_at(fixed, 0),
            from: Place { shard: shard(0), name: from },
            from_home: shard(1),
            to: Place { shard: shard(2), name: to },
            to_home: shard(3),
            moved,
            instead,
        })
    }

    pub(crate) fn old_parent(&self) -> Ino {
        self.from.shard.directory
    }

    pub(crate) fn new_parent(&self) -> Ino {
        self.to.shard.directory
    }
}

fn take_name(record: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (&length, rest) = record.split_first()?;
    rest.split_at_checked(length.into()).map(|(name, rest)| (name.to_vec(), rest))
}

/// What the superblock's shard says.
struct Held {
    record: Option<Bytes>,
    term: u64,
}

impl Held {
    fn of(mut outcome: Outcome) -> Held {
        let term = outcome.take(1).filter(|term| term.len() >= 8);
        Held { record: outcome.take(0), term: term.map_or(0, |term| u64_at(&term, 0)) }
    }
}

impl<S: Store> Fs<S> {
    /// Does what gives directories other parents, if none ends below itself by it; `work` is given the term,
    /// and answers whether it has happened. What that leaves half done is ended here, or by the next one.
    pub(crate) fn with_rename_lock(
        &self,
        intent: &Intent,
        work: impl FnOnce(u64) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let term = self.lock_renames(intent)?;
        let allowed = self.mark_moving(intent, term).and_then(|known| {
            self.check_ancestry(intent, term)?;
            self.above_known_terms(intent, term, known)
        });
        let term = allowed.inspect_err(|_| {
            self.unmark_all(intent);
            self.unlock_renames(intent);
        })?;
        let done = work(term);
        let mut tries = 0..ENDINGS_MAX;
        let ended = loop {
            match self.end_rename(intent, term, &done) {
                Err(_) if tries.next().is_some() => {}
                ended => break ended,
            }
        };
        match ended {
            Ok(happened) => {
                if !happened {
                    self.unmark_all(intent);
                }
                self.unlock_renames(intent);
                if happened { Ok(true) } else { done }
            }
            Err(error) => {
                tracing::debug!(%error, "a directory's rename is left for the next one to end");
                done
            }
        }
    }

    /// Gives a directory that has no name one, if `is_so` once no directory gets another parent.
    pub(crate) fn attach(
        &self,
        directory: Reference,
        place: &Place,
        is_so: impl FnOnce() -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let (ino, home) = (place.shard.directory, self.table.get(place.shard.directory)?.home);
        let intent = Intent {
            transaction: self.new_transaction(),
            from: place.clone(),
            from_home: home,
            to: place.clone(),
            to_home: home,
            moved: directory,
            instead: None,
        };
        let term = self.lock_renames(&intent)?;
        let attached = is_so().and_then(|is_so| {
            if is_so {
                let known = self.standing_of(directory)?.term();
                let term = self.above_known_terms(&intent, term, known)?;
                self.set_parent(directory, &Parent { term, ino, home })?;
                self.add_entry(place, directory, |batch| batch)?;
            }
            Ok(is_so)
        });
        self.unlock_renames(&intent);
        attached
    }

    /// Whether it has happened, and then its parents are right.
    fn end_rename(
        &self,
        intent: &Intent,
        term: u64,
        done: &Result<bool, Error>,
    ) -> Result<bool, Error> {
        match done {
            Ok(false) => Ok(false),
            Ok(true) if !self.has_arrived(&intent.to, intent.transaction)? => Ok(true),
            _ => {
                let happened = self.end_left(intent, term)?;
                // Nobody is left to be fenced off.
                let fence = Batch::new().delete(keys::aborted(intent.transaction)).reclaims();
                self.store.batch(intent.to.shard, &fence)?;
                Ok(happened)
            }
        }
    }

    /// Takes the lock and answers the term.
    fn lock_renames(&self, intent: &Intent) -> Result<u64, Error> {
        let mine = intent.encode();
        let begun = self.steady();
        // What was left by somebody and is ended.
        let mut ended = None;
        for tries in 0..TRIES_MAX {
            let batch = match ended.take() {
                Some(record) => Batch::new().equals(RENAME_LOCK, record),
                None => Batch::new().absent(RENAME_LOCK),
            };
            let batch = batch.present(RENAME_TERM).put(RENAME_LOCK, mine.clone());
            let batch = batch.add(RENAME_TERM, 0, 1).read(RENAME_LOCK).read(RENAME_TERM);
            let outcome = match self.store.batch(keys::SUPERBLOCK, &batch.reclaims()) {
                // The next try finds out what became of it.
                Err(StoreError::Indeterminate { .. }) => continue,
                outcome => outcome?,
            };
            let Held { record, term } = Held::of(outcome);
            let now = self.steady();
            match record {
                Some(record) if record == mine => return Ok(term),
                Some(record) => {
                    let left = Intent::decode(&record);
                    let age = left.map(|left| self.unfinished.age(left.transaction, now));
                    if age.is_none_or(|age| age > UNFINISHED_AGE_MAX) {
                        self.end_left_by(&record, term)?;
                        ended = Some(record);
                        continue;
                    }
                }
                None => {}
            }
            if now - begun >= WAIT_MAX {
                break;
            }
            std::thread::sleep(Duration::from_millis(1 << tries.min(8)).min(PAUSE_MAX));
        }
        Err(Error::Contended)
    }

    fn unlock_renames(&self, intent: &Intent) {
        let unlock =
            Batch::new().equals(RENAME_LOCK, intent.encode()).delete(RENAME_LOCK).reclaims();
        let mut tries = 0..ENDINGS_MAX;
        while let Err(error) = self.store.batch(keys::SUPERBLOCK, &unlock) {
            if tries.next().is_none() {
                tracing::debug!(%error, "the lock for directories' renames is left to be broken");
                break;
            }
        }
    }

    /// What the lock says, if anything.
    pub(crate) fn rename_lock(&self) -> Result<Option<Bytes>, Error> {
        let read = Batch::new().read(RENAME_LOCK);
        Ok(self.store.batch(keys::SUPERBLOCK, &read)?.take(0))
    }

    /// Ends what the lock says and takes it away. `false`: the lock says something else meanwhile.
    pub(crate) fn break_rename_lock(&self, record: &[u8]) -> Result<bool, Error> {
        let read = Batch::new().read(RENAME_LOCK).read(RENAME_TERM);
        let held = Held::of(self.store.batch(keys::SUPERBLOCK, &read)?);
        if held.record.as_deref() != Some(record) {
            return Ok(false);
        }
        self.end_left_by(record, held.term)?;
        let unlock = Batch::new().equals(RENAME_LOCK, record).delete(RENAME_LOCK).reclaims();
        Ok(self.store.batch(keys::SUPERBLOCK, &unlock)?.applied())
    }

    fn end_left_by(&self, record: &[u8], term: u64) -> Result<(), Error> {
        match Intent::decode(record) {
            Some(intent) => self.end_left(&intent, term).map(drop),
            None => {
                tracing::warn!("the lock for directories' renames does not decode; it is broken");
                Ok(())
            }
        }
    }

    /// Finishes a rename that has happened, or sees to it that it never does. Answers which, as far as
    /// nobody else has finished it.
    pub(crate) fn end_left(&self, intent: &Intent, term: u64) -> Result<bool, Error> {
        let Intent { transaction, from, to, .. } = intent;
        let fence = Batch::new().put(keys::aborted(*transaction), b"").reclaims();
        self.store.batch(to.shard, &fence)?;
        let happened = self.has_arrived(to, *transaction)?;
        if happened {
            self.finish_old(from, *transaction, intent.instead)?;
            self.set_parents(intent, term)?;
        }
        for place in [from, to] {
            let Some(raw) = self.read_entry(place)? else { continue };
            let record = EntryRecord::decode_at(place, &raw)?;
            if transaction_of(&record) == Some(*transaction) {
                self.clear_mark(place, &record)?;
            }
        }
        if !happened {
            self.unmark_all(intent);
        }
        Ok(happened)
    }

    /// To be called before the mark of an entry that arrived is cleared.
    pub(crate) fn finish_parents(&self, record: &EntryRecord, to: &Place) -> Result<(), Error> {
        let Some(Passage::Arrived { transaction, from, instead }) = &record.passage else {
            return Ok(());
        };
        if !changes_parents(from, to, Some(record.reference), *instead) {
            return Ok(());
        }
        let read = Batch::new().read(RENAME_LOCK).read(RENAME_TERM);
        let held = Held::of(self.store.batch(keys::SUPERBLOCK, &read)?);
        match held.record.as_deref().and_then(Intent::decode) {
            Some(intent) if intent.transaction == *transaction => {
                self.set_parents(&intent, held.term)
            }
            // It was ended before the lock went, unless that was lost.
            _ => [Some(record.reference), *instead]
                .into_iter()
                .flatten()
                .filter(|it| it.kind == Kind::Directory)
                .try_for_each(|directory| self.finish_moving(directory, *transaction)),
        }
    }

    /// Writes the new parents of what a rename has moved, unless that was done already.
    pub(crate) fn set_parents(&self, intent: &Intent, term: u64) -> Result<(), Error> {
        let mark = intent.encode();
        for (moved, parent) in intent.directories() {
            let marked = keys::moving(moved.ino);
            let batch = Batch::new().equals(marked.clone(), mark.clone()).delete(marked);
            self.write_parent(moved, &Parent { term, ..parent }, batch)?;
        }
        Ok(())
    }

    pub(crate) fn set_parent(&self, directory: Reference, parent: &Parent) -> Result<(), Error> {
        self.write_parent(directory, parent, Batch::new())
    }

    fn write_parent(
        &self,
        directory: Reference,
        parent: &Parent,
        batch: Batch,
    ) -> Result<(), Error> {
        let field = keys::inode(directory.ino);
        let batch = batch
            .present(field.clone())
            .at_most(field.clone(), inode::PARENT, parent.term.saturating_sub(1))
            .patch(field, inode::PARENT, parent.encode())
            .reclaims();
        if self.store.batch(directory.home, &batch)?.applied() {
            self.record_of_directory_changed(directory.ino, &batch);
        }
        self.forget_directory(directory.ino);
        Ok(())
    }

    /// The term, or a later one where the directories' records have later ones already: the count of terms was
    /// lost with a node.
    fn above_known_terms(&self, intent: &Intent, term: u64, known: u64) -> Result<u64, Error> {
        if known < term {
            return Ok(term);
        }
        let batch = Batch::new()
            .equals(RENAME_LOCK, intent.encode())
            .max(RENAME_TERM, 0, known)
            .add(RENAME_TERM, 0, 1)
            .read(RENAME_LOCK)
            .read(RENAME_TERM)
            .reclaims();
        let outcome = self.store.batch(keys::SUPERBLOCK, &batch)?;
        if !outcome.applied() {
            return Err(Error::Contended);
        }
        Ok(Held::of(outcome).term)
    }

    /// No directory ends below itself. Right as long as the lock is held.
    fn check_ancestry(&self, intent: &Intent, term: u64) -> Result<(), Error> {
        let mine = intent.encode();
        for (moved, Parent { ino, home, .. }) in intent.directories() {
            let parent = Reference { kind: Kind::Directory, ino, home };
            if self.is_at_or_below(parent, moved.ino, (&mine, term))? {
                return Err(Error::Invalid);
            }
        }
        Ok(())
    }

    /// Whether the way from a directory up to the root leads through `above`; what others have begun to move on it, and
    /// lost the lock, is ended first. [`Error::NotFound`]: it does not lead to the root.
    fn is_at_or_below(
        &self,
        mut at: Reference,
        above: Ino,
        (mine, term): (&[u8], u64),
    ) -> Result<bool, Error> {
        let (mut passed, mut ended) = (HashSet::new(), 0);
        while at.ino != above {
            if at.ino == Ino::ROOT {
                return Ok(false);
            }
            let Standing { inode, moving } = self.standing_of(at)?;
            if let Some(moving) = moving.filter(|moving| moving != mine) {
                ended += 1;
                if ended > ATTEMPTS {
                    return Err(Error::Contended);
                }
                self.end_moving(at, &moving, term)?;
                continue;
            }
            if inode.nlink == 0 || !passed.insert(at.ino) {
                return Err(Error::NotFound);
            }
            let missing = Error::Corrupt { what: "the parent of inode", ino: at.ino.0 };
            let Parent { ino, home, .. } = inode.parent.ok_or(missing)?;
            at = Reference { ino, home, ..at };
        }
        Ok(true)
    }
}

/// Whether a directory comes to lie in another one.
pub(crate) fn changes_parents(
    from: &Place,
    to: &Place,
    moved: Option<Reference>,
    instead: Option<Reference>,
) -> bool {
    let is_directory = |reference: Reference| reference.kind == Kind::Directory;
    from.shard.directory != to.shard.directory
        && [moved, instead].into_iter().flatten().any(is_directory)
}

fn transaction_of(record: &EntryRecord) -> Option<u64> {
    match record.passage.as_ref()? {
        Passage::Leaving { transaction, .. } | Passage::Arrived { transaction, .. } => {
            Some(*transaction)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_decodes_to_what_was_encoded_and_no_part_of_it_does() {
        let shard = |directory, index| ShardKey { directory: Ino(directory), index };
        let place =
            |directory, name: &[u8]| Place { shard: shard(directory, 3), name: name.into() };
        let reference = |kind, ino| Reference { kind, ino: Ino(ino), home: shard(9, 1) };
        for instead in [None, Some(reference(Kind::File, 8))] {
            let intent = Intent {
                transaction: 5,
                from: place(4, b"old"),
                from_home: shard(1, 2),
                to: place(6, b"a new name"),
                to_home: shard(2, 7),
                moved: reference(Kind::Directory, 7),
                instead,
            };
            let record = intent.encode();
            assert_eq!(Intent::decode(&record), Some(intent));
            let whole = record.len() - if instead.is_some() { 19 } else { 0 };
            for length in (0..record.len()).filter(|length| *length != whole) {
                assert_eq!(Intent::decode(&record[..length]), None, "{length} bytes");
            }
        }
    }
}
