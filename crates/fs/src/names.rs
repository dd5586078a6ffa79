//! Names: which are allowed, what they stand for, and bringing renames that somebody left half
//! done to an end.

use std::time::Duration;

use tidefs_model::{Ino, Time};
use tidefs_store::{Batch, Store};

use crate::entry::{EntryRecord, Passage, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::{NAME_BYTES_MAX, delegations, keys};

/// Attempts at an entry that others keep changing.
pub(crate) const ATTEMPTS: usize = 200;
/// A rename or a removal that a mount has seen under way for so long is given up by it. One of its steps
/// may wait for a holder that was killed.
pub(crate) const UNFINISHED_AGE_MAX: Duration = Duration::from_millis(delegations::KILLED_MS + 750);
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// An entry that no rename is moving, with its record as it lies in the store.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub reference: Reference,
    pub record: Vec<u8>,
}

/// Lets a moment pass for what began so long ago. So many attempts last longer than it may.
pub(crate) fn wait_for_end(age: Duration) {
    std::thread::sleep((age / 20).clamp(PAUSE, PAUSE_MAX));
}

/// A name that an entry may have.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    let reserved = name.is_empty() || name == b"." || name == b"..";
    if reserved || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Invalid);
    }
    Ok(())
}

impl<S: Store> Fs<S> {
    /// What an entry's record stands for at this moment, without changing anything. `None`: the
    /// record is on its way to another name and that rename has happened.
    pub(crate) fn resolve(&self, place: &Place, record: &EntryRecord) -> Result<Resolved, Error> {
        let Some(Passage::Leaving { transaction, to, instead, .. }) = &record.passage else {
            return Ok(Resolved::Is(Some(record.reference)));
        };
        if self.has_arrived(to, *transaction)? {
            return Ok(Resolved::Is(*instead));
        }
        // The new entry's mark is removed after the old entry; if the old entry is still the
        // same, the rename had not happened when the new one was read.
        let again = self.read_entry(place)?;
        if again.as_deref() == Some(&record.encode()[..]) {
            Ok(Resolved::Is(Some(record.reference)))
        } else {
            Ok(Resolved::Changed)
        }
    }

    /// The entry of a name, after any rename that it takes part in is over. `None`: no such name.
    pub(crate) fn settle(&self, place: &Place) -> Result<Option<Settled>, Error> {
        self.settle_within(place, UNFINISHED_AGE_MAX)
    }

    /// The same, where a rename is given up that was seen under way for longer than `age_max`.
    pub(crate) fn settle_within(
        &self,
        place: &Place,
        age_max: Duration,
    ) -> Result<Option<Settled>, Error> {
        for _ in 0..ATTEMPTS {
            let Some(raw) = self.read_entry(place)? else { return Ok(None) };
            let record = EntryRecord::decode_at(place, &raw)?;
            match &record.passage {
                None => return Ok(Some(Settled { reference: record.reference, record: raw })),
                Some(Passage::Arrived { transaction, from, instead }) => {
                    self.finish_old(from, *transaction, *instead)?;
                    self.finish_parents(&record, place)?;
                    self.clear_mark(place, &record)?;
                }
                Some(Passage::Leaving { transaction, to, instead }) => {
                    let age = self.unfinished.age(*transaction, self.steady());
                    if self.has_arrived(to, *transaction)? {
                        self.finish_old(place, *transaction, *instead)?;
                    } else if age >= age_max {
                        self.give_up(place, &record, to, *transaction)?;
                    } else {
                        wait_for_end(age);
                    }
                }
            }
        }
        Err(Error::Contended)
    }

    pub(crate) fn read_entry(&self, place: &Place) -> Result<Option<Vec<u8>>, Error> {
        let batch = Batch::new().read(keys::entry(&place.name));
        Ok(self.store.batch(place.shard, &batch)?.take(0))
    }

    /// The entry at `to` came there by this transaction.
    pub(crate) fn has_arrived(&self, to: &Place, transaction: u64) -> Result<bool, Error> {
        let Some(raw) = self.read_entry(to)? else { return Ok(false) };
        let record = EntryRecord::decode_at(to, &raw)?;
        Ok(
            matches!(record.passage, Some(Passage::Arrived { transaction: by, .. }) if by == transaction),
        )
    }

    /// Removes the old entry of a rename that has happened, or puts the other file there.
    pub(crate) fn finish_old(
        &self,
        place: &Place,
        transaction: u64,
        instead: Option<Reference>,
    ) -> Result<(), Error> {
        let Some(raw) = self.read_entry(place)? else { return Ok(()) };
        let record = EntryRecord::decode_at(place, &raw)?;
        let leaves_by_it = matches!(
            record.passage,
            Some(Passage::Leaving { transaction: by, .. }) if by == transaction
        );
        if leaves_by_it {
            let batch = self.old_entry_batch(place, raw, record.reference, instead);
            self.change_entries(place.shard, batch)?;
        }
        Ok(())
    }

    /// The third step of a rename between shards: the old entry goes.
    pub(crate) fn old_entry_batch(
        &self,
        place: &Place,
        raw: Vec<u8>,
        moved: Reference,
        instead: Option<Reference>,
    ) -> Batch {
        let entry = keys::entry(&place.name);
        let batch = Batch::new().equals(entry.clone(), raw).reclaims();
        let batch = match instead {
            Some(other) => {
                let batch = batch.put(entry, EntryRecord::settled(other).encode());
                recount(batch, Some(other), Some(moved))
            }
            None => recount(batch.delete(entry), None, Some(moved)),
        };
        touch(batch, self.now())
    }

    /// The fourth step: the new entry becomes an ordinary one.
    pub(crate) fn clear_mark(&self, place: &Place, arrived: &EntryRecord) -> Result<(), Error> {
        let entry = keys::entry(&place.name);
        let batch = Batch::new()
            .equals(entry.clone(), arrived.encode())
            .put(entry, EntryRecord::settled(arrived.reference).encode())
            .reclaims();
        self.store.batch(place.shard, &batch)?;
        Ok(())
    }

    /// Fences a rename off at the place where it would happen, then undoes its first step.
    fn give_up(
        &self,
        place: &Place,
        leaving: &EntryRecord,
        to: &Place,
        transaction: u64,
    ) -> Result<(), Error> {
        let fence = Batch::new().put(keys::aborted(transaction), b"").reclaims();
        self.store.batch(to.shard, &fence)?;
        if self.has_arrived(to, transaction)? {
            return Ok(());
        }
        self.clear_mark(place, leaving)
    }

    pub(crate) fn place(&self, directory: Ino, name: &[u8]) -> Place {
        Place { shard: self.shard_of(directory, name), name: name.to_vec() }
    }
}

/// What a record stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resolved {
    Is(Option<Reference>),
    /// The record is no longer what was read.
    Changed,
}

/// Counts an entry that appears and one that goes in the shard's header.
pub(crate) fn recount(batch: Batch, appears: Option<Reference>, goes: Option<Reference>) -> Batch {
    use crate::keys::header::{ENTRIES, SUBDIRECTORIES};
    let entries = i64::from(appears.is_some()) - i64::from(goes.is_some());
    let is_directory = |reference: Option<Reference>| {
        i64::from(reference.is_some_and(|reference| reference.kind == crate::Kind::Directory))
    };
    let subdirectories = is_directory(appears) - is_directory(goes);
    let mut batch = batch;
    for (at, delta) in [(ENTRIES, entries), (SUBDIRECTORIES, subdirectories)] {
        if delta != 0 {
            batch = batch.add(keys::HEADER, at, delta);
        }
    }
    batch
}

/// Notes in the shard's header that its entries change now.
pub(crate) fn touch(batch: Batch, now: Time) -> Batch {
    date(batch, keys::HEADER, keys::header::CHANGED, now)
}

/// Notes that names, or what counts them, change now. The time moves on in any case, also where another
/// host's clock was ahead: whoever looks twice must see by it that something has changed.
pub(crate) fn date(batch: Batch, field: &[u8], place: u32, now: Time) -> Batch {
    batch.add(field, place, 1).max(field, place, now.0)
}
