//! What this mount remembers of a directory while it is alone, or has delegations of all of its shards: its record
//! and its shards' headers.
//!
//! The kernel asks for a directory's attributes after every change in it, and the answer lies in
//! all of its shards. A mount that makes every change itself keeps what it read
//! and takes each new header from the batch that made the change.
//!
//! A generation tells whether anything changed since a reading began; what was read meanwhile is
//! not kept then. What was learnt in one time of being alone, or under some delegations, is not used in another.

use std::sync::{MutexGuard, PoisonError};

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError, Update};

use crate::attr::Kind;
use crate::delegations::is_change;
use crate::entry::{Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{self, Inode, u64_at};
use crate::keys;
use crate::known_names::{KnownNames, Worked};
use crate::table::Node;
use crate::write_back::Change;

/// The record of a directory and the header of each shard, where it has one.
pub(crate) type Parts = (Bytes, Vec<Option<Bytes>>);

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The time of being alone, or the delegations, to which the rest belongs; 0 is none.
    era: u64,
    /// Counts what changes in the directory.
    generation: u64,
    /// Of all deferred changes, when the parts were read.
    failures: u64,
    parts: Option<Parts>,
    /// The record as it was last read, alone or not, for when its node does not answer.
    last_record: Option<Bytes>,
    /// The record of a directory that this mount removed: programs may be in it still.
    removed: Option<Bytes>,
    /// All of the directory's names, where they are known.
    pub names: Option<KnownNames>,
    /// What its first shard was known by when the directory was there.
    pub there: Option<u64>,
    /// This mount made it with company, and has not asked for a name in it yet.
    pub is_new: bool,
    /// Batches under way that change its names.
    pub entering: u32,
    /// What this mount does in it.
    pub worked: Worked,
}

impl<S: Store> Node<S> {
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Node<S> {
    /// Of a directory that this mount removed: its record.
    pub(crate) fn removed_record(&self) -> Option<Bytes> {
        let memory = self.memory.get()?;
        memory.lock().unwrap_or_else(PoisonError::into_inner).removed.clone()
    }

    pub(crate) fn was_removed(&self, record: Bytes) {
        self.memory().removed = Some(record);
    }
}

impl<S: Store> Fs<S> {
    /// What is remembered of a directory; and what to hand to [`Fs::remember`] with a new reading.
    pub(crate) fn recall(&self, directory: Ino) -> (Option<Parts>, Generation) {
        let failures = self.store.failures();
        let none = (None, Generation::default());
        let Some(node) = self.table.find(directory) else { return none };
        // Asked before the lock is taken: whoever holds that of being alone may take this one.
        let era = self.era_of(&node);
        let memory = node.memory();
        if let Some(record) = &memory.removed {
            return (Some((record.clone(), Vec::new())), Generation::default());
        }
        // A change that has happened and is not learnt yet must not be missed by whoever asks from now on.
        let is_right = era == Some(memory.era) && failures == memory.failures;
        let is_right = is_right && memory.entering == 0;
        let parts = memory.parts.as_ref().filter(|_| is_right);
        (parts.cloned(), Generation { changes: memory.generation, failures, era })
    }

    /// It is remembered that a directory is there.
    pub(crate) fn knows_record(&self, node: &Node<S>) -> bool {
        let is_there = |(record, _): Parts| {
            Inode::decode(node.ino, &record).is_ok_and(|directory| directory.nlink > 0)
        };
        node.removed_record().is_none() && self.recall(node.ino).0.is_some_and(is_there)
    }

    /// Keeps what was read of a directory, if nothing changed since the generation was noted.
    pub(crate) fn remember(&self, directory: Ino, read_at: Generation, parts: Parts) {
        let Some(era) = read_at.era else { return };
        let Some(node) = self.table.find(directory) else { return };
        if self.era_of(&node) != Some(era) {
            return;
        }
        let mut memory = node.memory();
        if memory.generation == read_at.changes {
            (memory.era, memory.failures) = (era, read_at.failures);
            memory.parts = Some(parts);
        }
    }

    /// Attributes of this inode that are read now may be kept; of others than directories nothing is found out.
    pub(crate) fn may_be_kept(&self, reference: Reference) -> bool {
        reference.kind != Kind::Directory || self.era_in(reference.ino, reference.home).is_some()
    }

    /// What all that was read of a directory since it began is still right in.
    fn era_of(&self, directory: &Node<S>) -> Option<u64> {
        self.era_in(directory.ino, directory.home)
    }

    fn era_in(&self, directory: Ino, home: ShardKey) -> Option<u64> {
        let shards = self.shards_of(directory).chain([home]);
        self.store.delegations.era_of_all(shards, self.steady())
    }

    /// Keeps the record that was read last.
    pub(crate) fn saw_record(&self, directory: Ino, record: &Bytes) {
        if let Some(node) = self.table.find(directory) {
            node.memory().last_record = Some(record.clone());
        }
    }

    /// The record as this mount read it last; it may have changed since.
    pub(crate) fn last_record(&self, directory: Ino) -> Option<Bytes> {
        self.table.find(directory)?.memory().last_record.clone()
    }

    /// A batch has changed the record of a directory: what was read before is as it was.
    pub(crate) fn record_of_directory_changed(&self, directory: Ino, batch: &Batch) {
        if let Some(node) = self.table.find(directory)
            && let Some(record) = &mut node.memory().last_record
        {
            apply_to_record(record, &keys::inode(directory), batch);
        }
    }

    /// The directory's record or headers are about to be changed, or were, in another way than by
    /// [`Fs::change_entries`].
    pub(crate) fn forget_directory(&self, directory: Ino) {
        let node = self.table.find(directory);
        if let Some(node) = node.filter(|node| node.kind == Kind::Directory) {
            let mut memory = node.memory();
            memory.generation += 1;
            memory.parts = None;
        }
    }

    /// Keeps the attributes of a directory that was removed, for programs that have it open or are in
    /// it, until the kernel forgets it.
    pub(crate) fn outlive(&self, directory: Ino, was: Inode) {
        if let Some(node) = self.table.find(directory) {
            let now = self.now();
            let left = Inode { nlink: 0, size: 0, ctime: was.ctime.max(now), ..was };
            node.memory().removed = Some(left.encode());
        }
    }

    /// Puts bytes at places of the record of a directory that was removed, which changed at a time.
    /// `false`: it was not removed.
    pub(crate) fn change_removed(
        &self,
        directory: Ino,
        patches: impl Iterator<Item = (u32, Vec<u8>)>,
        changed: Time,
    ) -> bool {
        let Some(node) = self.table.find(directory) else { return false };
        let mut memory = node.memory();
        let Some(record) = &mut memory.removed else { return false };
        let changed = changed.0.max(u64_at(record, inode::CTIME)).to_be_bytes().to_vec();
        for (place, bytes) in patches.chain([(inode::CTIME, changed)]) {
            let place = place as usize;
            record[place..place + bytes.len()].copy_from_slice(&bytes);
        }
        true
    }

    /// Applies a batch that changes the entries of a shard, and learns its new header.
    pub(crate) fn change_entries(&self, shard: ShardKey, batch: Batch) -> Result<Outcome, Error> {
        let node = self.table.find(shard.directory);
        let begun = node.as_ref().map(|node| {
            let mut memory = node.memory();
            memory.entering += 1;
            memory.worked.count();
            memory.begin(&batch)
        });
        let header = batch.reads.len();
        let batch = batch.read(keys::HEADER);
        let outcome = self.store.batch(shard, &batch);
        if outcome.is_err() && is_change(&batch) {
            // It may arrive yet: what is asked from here on is asked in another delegation, in which it is refused.
            self.store.delegations.end_sole(shard);
        }
        if let (Some(node), Some(begun)) = (node, begun) {
            let learnt = outcome.as_ref().ok().and_then(|outcome| outcome.values.get(header));
            let mut memory = node.memory();
            memory.learn(shard.index, begun.generation, learnt.cloned());
            memory.end(&batch, &begun, &outcome);
            memory.entering -= 1;
        }
        Ok(outcome?)
    }
}

/// How things stood before a directory was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    changes: u64,
    /// Changes that were taken for made, and were not.
    failures: u64,
    era: Option<u64>,
}

/// How a memory was when a batch began.
struct Begun {
    generation: u64,
    names: Option<u64>,
}

impl Memory {
    fn begin(&mut self, batch: &Batch) -> Begun {
        let names = self.names.as_mut().and_then(|names| names.begin(batch));
        if names.is_none() {
            self.names = None;
        }
        Begun { generation: self.generation, names }
    }

    fn end(&mut self, batch: &Batch, begun: &Begun, outcome: &Result<Outcome, StoreError>) {
        let (Some(names), Some(begun)) = (&mut self.names, begun.names) else { return };
        if !names.end(batch, begun, outcome) {
            self.names = None;
        }
    }

    /// Whether a change may be taken for made: of a name that is made it must be known that it is
    /// free.
    /// `was_absent`: the store had no such name, in this era.
    pub fn admits(&self, change: &Change, era: u64, failures: u64, was_absent: bool) -> bool {
        let Place { shard, name } = change.place();
        match change {
            Change::Removal(_) => true,
            Change::Creation(_) => {
                let lacks = |names: &KnownNames| {
                    names.belongs_to(shard.index, Some(era), failures) && names.lacks(name)
                };
                self.names.as_ref().is_some_and(lacks) || self.entering == 0 && was_absent
            }
        }
    }

    /// The batch of a change will be applied.
    pub fn assume(&mut self, shard: u16, batch: &Batch) {
        self.worked.count();
        let begun = self.begin(batch);
        let headers = self.parts.as_mut().map(|(_, headers)| headers);
        if let Some(header) = headers.and_then(|headers| headers.get_mut(usize::from(shard))) {
            apply_to_header(header.get_or_insert_default(), batch);
        }
        self.generation += 1;
        let applied = Outcome { refused_by: None, shard_was_empty: false, values: Vec::new() };
        self.end(batch, &begun, &Ok(applied));
    }

    /// `header` is what the batch answered; `None` when it is not known whether it was applied.
    fn learn(&mut self, shard: u16, generation: u64, header: Option<Option<Bytes>>) {
        let known = self.parts.as_mut().filter(|_| self.generation == generation);
        let slot = known.and_then(|(_, headers)| headers.get_mut(usize::from(shard)));
        match (slot, header) {
            (Some(slot), Some(header)) => *slot = header,
            _ => self.parts = None,
        }
        self.generation += 1;
    }
}

/// Does to a record what a store did, where it can be told.
fn apply_to_record(record: &mut Bytes, record_field: &[u8], batch: &Batch) {
    for update in batch.updates.iter().filter(|update| update.field() == record_field) {
        let (at, bytes) = match update {
            Update::Patch { at, bytes, .. } => (*at as usize, bytes.clone()),
            Update::Max { at, value, .. } => {
                (*at as usize, u64_at(record, *at).max(*value).to_be_bytes().to_vec())
            }
            Update::Put { .. } | Update::Delete { .. } | Update::Add { .. } => continue,
        };
        if let Some(place) = record.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(&bytes);
        }
    }
}

/// Does to a header what a store will.
fn apply_to_header(header: &mut Bytes, batch: &Batch) {
    for update in &batch.updates {
        let (at, change): (u32, &dyn Fn(u64) -> u64) = match update {
            Update::Add { field, at, delta } if field == keys::HEADER => {
                (*at, &|number| number.wrapping_add_signed(*delta))
            }
            Update::Max { field, at, value } if field == keys::HEADER => {
                (*at, &|number| number.max(*value))
            }
            _ => continue,
        };
        let end = at as usize + 8;
        header.resize(header.len().max(end), 0);
        let number = change(u64_at(header, at));
        header[end - 8..end].copy_from_slice(&number.to_be_bytes());
    }
}
