//! Locks with company: a file's record in the store, and what this mount puts there.
//!
//! A change replaces the record if it is still what it was when the change was thought out. So a
//! lock on a file that nobody else locks costs one round, and giving it back another.

use tidefs_model::MountId;
use tidefs_store::{Batch, Store, StoreError};

use super::ranges::{Change, Held, LOCKS_MAX, in_the_way};
use super::record::{self, Entry};
use super::{LockedFile, State};
use crate::error::Error;
use crate::fs::Fs;
use crate::keys;
use crate::membership::SILENCE_MAX;
use crate::ops::Lock;

/// Times that other mounts may change a record first.
const ATTEMPTS: usize = 256;

/// Whether what is known of a record does to refuse a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was read for somebody else a moment ago.
    Lately,
    /// It must be read.
    Before,
}

impl<S: Store> Fs<S> {
    /// Changes the locks of a file. [`Error::WouldBlock`]: another program is in the way. Answers
    /// whether there is company.
    ///
    /// What only ends locks does not fail. Where the store does not answer, others see the locks
    /// until the next check finds that they are out of date.
    pub(crate) fn change_locks_of(
        &self,
        file: &LockedFile,
        state: &mut State,
        change: &Change,
        known: Known,
    ) -> Result<bool, Error> {
        if let Change::Take(wanted) = change
            && in_the_way(&state.held, &wanted.lock).next().is_some()
        {
            return Err(Error::WouldBlock);
        }
        if change.only_ends() && change.applied_to(&state.held) == state.held {
            return Ok(!self.is_alone());
        }
        let alone = self.membership.while_alone(self.steady(), |alone| {
            alone.then(|| {
                self.withdraw(file, state)?;
                state.held = bounded(change.applied_to(&state.held))?;
                Ok(())
            })
        });
        let is_shared = alone.is_none();
        match alone.unwrap_or_else(|| self.change_shared(file, state, change, known)) {
            Err(error) if change.only_ends() => {
                tracing::debug!(%error, ino = %file.ino, "others do not know that a lock is free");
                state.held = change.applied_to(&state.held);
                (state.record, state.is_flushed) = (None, true);
                Ok(is_shared)
            }
            changed => changed.map(|()| is_shared),
        }
    }

    fn change_shared(
        &self,
        file: &LockedFile,
        state: &mut State,
        change: &Change,
        known: Known,
    ) -> Result<(), Error> {
        let mut is_fresh = known == Known::Lately;
        for _ in 0..ATTEMPTS {
            let mut others = self.others(file, state)?;
            if let Change::Take(wanted) = change {
                if holder(&others, wanted).is_some() && !is_fresh {
                    is_fresh = true;
                    state.record = self.read_locks(file)?;
                    continue;
                }
                while let Some(mount) = holder(&others, wanted) {
                    if !self.is_gone(mount)? {
                        return Err(Error::WouldBlock);
                    }
                    others.retain(|entry| entry.mount != mount);
                }
            }
            let after = bounded(change.applied_to(&state.held))?;
            if self.put_locks(file, state, &others, after)? {
                return Ok(());
            }
            is_fresh = true;
        }
        Err(Error::Contended)
    }

    /// Others' locks, as far as is known. Where this mount's own are not what they should be, others
    /// have taken it for dead, or the record was lost: locks that are in nobody's way are taken
    /// again with the next change, and the others are gone.
    fn others(&self, file: &LockedFile, state: &mut State) -> Result<Vec<Entry>, Error> {
        let entries = record::decode(file.ino, state.record.as_deref())?;
        let is_own = |entry: &Entry| entry.mount == self.me();
        let (own, mut others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_own);
        if !state.is_flushed && !state.held.is_empty() {
            // They are from the time of being alone. Who else has locks there was gone then, or came
            // while this mount was taken for dead.
            let living = self.membership.others(self.steady());
            others.retain(|entry| living.contains(&entry.mount));
        }
        if !is_same(&own, &state.held) {
            let before = state.held.len();
            state.held.retain(|held| holder(&others, held).is_none());
            if state.held.len() < before {
                tracing::warn!(ino = %file.ino, "locks were lost: this mount was silent for too long");
            }
        }
        Ok(others)
    }

    /// Replaces the record if it is still what it was. `false`: it was not; what it is now is
    /// known then.
    fn put_locks(
        &self,
        file: &LockedFile,
        state: &mut State,
        others: &[Entry],
        after: Vec<Held>,
    ) -> Result<bool, Error> {
        // Who gets a lock next must not meet bytes of before it.
        self.store.fence_file(file.ino)?;
        let field = keys::locks(file.ino);
        let record = record::encode(others, self.me(), &after);
        if record == state.record && state.is_flushed {
            state.held = after;
            return Ok(true);
        }
        let batch = match &state.record {
            Some(before) => Batch::new().equals(field.clone(), before.clone()),
            None => Batch::new().absent(field.clone()),
        };
        let batch = match &record {
            Some(record) => batch.present(keys::inode(file.ino)).put(field.clone(), record.clone()),
            None => batch.delete(field.clone()),
        };
        // Whoever takes a lock sees what was written before: also how long the file is, at no other cost.
        let batch = batch.read(field).read(keys::inode(file.ino)).reclaims();
        let outcome = match self.store.batch(file.home, &batch) {
            Err(StoreError::Indeterminate { .. }) => return self.was_put(file, state, after),
            outcome => outcome?,
        };
        match outcome.refused_by {
            None => {
                state.inode = outcome.values.into_iter().nth(1).flatten();
                state.is_flushed = !after.is_empty();
                (state.held, state.record) = (after, record);
                Ok(true)
            }
            // The file is gone from the store. Whoever still has it open is in this mount.
            Some(1) => {
                (state.held, state.record, state.is_flushed) = (after, None, false);
                Ok(true)
            }
            Some(_) => {
                state.record = outcome.values.into_iter().next().flatten();
                Ok(false)
            }
        }
    }

    /// Finds out what became of a change that may have been made.
    fn was_put(
        &self,
        file: &LockedFile,
        state: &mut State,
        after: Vec<Held>,
    ) -> Result<bool, Error> {
        state.is_flushed = true;
        state.record = self.read_locks(file)?;
        let before = std::mem::replace(&mut state.held, after);
        let was_put = self.is_intact(file, state)?;
        if !was_put {
            state.held = before;
        }
        Ok(was_put)
    }

    /// What the store has of this mount's locks on a file is what it should be.
    pub(super) fn is_intact(&self, file: &LockedFile, state: &State) -> Result<bool, Error> {
        let mut own = record::decode(file.ino, state.record.as_deref())?;
        own.retain(|entry| entry.mount == self.me());
        Ok(is_same(&own, &state.held))
    }

    pub(super) fn read_locks(&self, file: &LockedFile) -> Result<Option<Vec<u8>>, Error> {
        let read = Batch::new().read(keys::locks(file.ino));
        Ok(self.store.batch(file.home, &read)?.take(0))
    }

    /// The first lock of other mounts that is in the way, for whoever asks.
    pub(crate) fn foreign_lock(
        &self,
        file: &LockedFile,
        state: &mut State,
        wanted: &Held,
    ) -> Result<Option<Lock>, Error> {
        state.record = self.read_locks(file)?;
        let mut others = self.others(file, state)?;
        others.retain(|entry| entry.lock.conflicts_with(&wanted.lock));
        others.sort_by_key(|entry| entry.lock.start);
        for Entry { mount, lock } in others {
            if !self.is_gone(mount)? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// Removes this mount's locks from the store: alone, they are kept here.
    fn withdraw(&self, file: &LockedFile, state: &mut State) -> Result<(), Error> {
        if state.is_flushed {
            let batch = Batch::new().delete(keys::locks(file.ino)).reclaims();
            self.store.batch(file.home, &batch)?;
            (state.record, state.is_flushed) = (None, false);
        }
        Ok(())
    }

    /// A mount's locks count no more: it has left, or is taken for dead and cannot go on without
    /// noticing.
    fn is_gone(&self, mount: MountId) -> Result<bool, Error> {
        let now = self.steady();
        let Some(silence) = self.membership.silence_of(mount, now) else {
            if self.membership.is_owned() {
                return self.membership.is_expelled(&self.store, mount);
            }
            let watched = self.membership.watched(now);
            let since = *self.locks.absent().entry(mount).or_insert(watched);
            return Ok(watched - since >= SILENCE_MAX);
        };
        self.locks.absent().remove(&mount);
        Ok(silence >= SILENCE_MAX && self.membership.expel(&self.store, mount)?)
    }
}

/// The mount of a lock that is in the way.
fn holder(others: &[Entry], wanted: &Held) -> Option<MountId> {
    let entry = others.iter().find(|entry| entry.lock.conflicts_with(&wanted.lock));
    entry.map(|entry| entry.mount)
}

fn is_same(entries: &[Entry], held: &[Held]) -> bool {
    entries.iter().map(|entry| &entry.lock).eq(held.iter().map(|held| &held.lock))
}

fn bounded(held: Vec<Held>) -> Result<Vec<Held>, Error> {
    if held.len() > LOCKS_MAX { Err(Error::TooManyLocks) } else { Ok(held) }
}
