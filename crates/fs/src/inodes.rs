//! Reading the records of inodes, as a program should see them: a directory's with what its shards
//! know, an open file's with what this mount has not committed yet.

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError};

use crate::attr::Kind;
use crate::directories::{Generation, Parts};
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{Inode, u64_at};
use crate::keys::{self, header};

impl<S: Store> Fs<S> {
    /// The inode behind a reference; [`Error::Stale`] when it is gone.
    pub(crate) fn fetch(&self, reference: Reference) -> Result<Inode, Error> {
        self.find_inode(reference)?.ok_or(Error::Stale)
    }

    /// The inode behind a reference; `None` when it is gone.
    pub(crate) fn find_inode(&self, reference: Reference) -> Result<Option<Inode>, Error> {
        self.fetch_all(&[reference]).pop().unwrap_or(Ok(None))
    }

    /// The same by the record alone: of a directory without what its shards know, which are not asked.
    pub(crate) fn find_record(&self, reference: Reference) -> Result<Option<Inode>, Error> {
        let read = self.store.batch(reference.home, &Batch::new().read(keys::inode(reference.ino)));
        let record = self.record_read(reference, Some(read))?;
        record.map(|record| self.complete(reference, &record, &[])).transpose()
    }

    /// The inodes behind references, in one round; `None` for those that are gone. What lies on a
    /// node that does not answer fails for itself. A directory's attributes are then put together
    /// from the shards that do answer and the record that was read last, since without them no path
    /// through it would lead anywhere.
    pub(crate) fn fetch_all(&self, references: &[Reference]) -> Vec<Result<Option<Inode>, Error>> {
        let recalled: Vec<_> = references
            .iter()
            .map(|reference| match reference.kind {
                Kind::Directory => self.recall_in_turn(reference.ino),
                _ => (None, Generation::default()),
            })
            .collect();
        let unknown = references.iter().zip(&recalled).filter(|(_, (parts, _))| parts.is_none());
        let batches: Vec<_> =
            unknown.flat_map(|(reference, _)| self.reads_of(*reference)).collect();
        let mut outcomes = self.batch_each(&batches).into_iter();
        let each = references.iter().zip(recalled);
        each.map(|(reference, (parts, generation))| {
            let parts = match parts {
                Some(parts) => Some(parts),
                None => self.parts_read(*reference, generation, &mut outcomes)?,
            };
            let Some((record, headers)) = parts else { return Ok(None) };
            self.complete(*reference, &record, &headers).map(Some)
        })
        .collect()
    }

    /// What is remembered of a directory. What is about to be read of it is to be remembered for the turn in which it is
    /// read, so that turn begins before.
    fn recall_in_turn(&self, directory: Ino) -> (Option<Parts>, Generation) {
        let recalled = self.recall(directory);
        if recalled.0.is_some() || !self.store.delegations.is_disputed(directory) {
            return recalled;
        }
        drop(self.store.wait_for_turns(self.shards_of(directory), true));
        self.recall(directory)
    }

    /// Makes of the record that was read at a reference what a program should see.
    pub(crate) fn complete(
        &self,
        reference: Reference,
        record: &[u8],
        headers: &[Option<Bytes>],
    ) -> Result<Inode, Error> {
        let mut inode = Inode::decode(reference.ino, record)?;
        add_headers(&mut inode, headers);
        if let Some(node) = self.table.find(reference.ino) {
            node.saw(&inode);
            let slot = node.slot();
            match &slot.file {
                Some(file) => {
                    // A size that is told is one that can be read.
                    file.refresh(&inode);
                    file.overlay(&mut inode);
                }
                // It may have been open when the record was read.
                None => slot.left.iter().for_each(|left| left.overlay(&mut inode)),
            }
        }
        Ok(inode)
    }

    /// What has to be read of an inode: its record, and of a directory also each shard's header.
    fn reads_of(&self, reference: Reference) -> impl Iterator<Item = (ShardKey, Batch)> {
        let record = (reference.home, Batch::new().read(keys::inode(reference.ino)));
        let shards = match reference.kind {
            Kind::Directory => self.format.shards,
            _ => 0,
        };
        let headers = (0..shards).map(move |index| {
            let shard = ShardKey { directory: reference.ino, index };
            (shard, Batch::new().read(keys::HEADER))
        });
        std::iter::once(record).chain(headers)
    }

    /// Takes what [`Fs::reads_of`] asked for from the outcomes; `None` when the inode is gone. What
    /// is not complete is not remembered.
    fn parts_read(
        &self,
        reference: Reference,
        generation: Generation,
        outcomes: &mut impl Iterator<Item = Result<Outcome, StoreError>>,
    ) -> Result<Option<Parts>, Error> {
        let record = outcomes.next();
        let headers: Vec<_> = match reference.kind {
            Kind::Directory => outcomes.take(usize::from(self.format.shards)).collect(),
            _ => Vec::new(),
        };
        let is_complete =
            record.as_ref().is_some_and(Result::is_ok) && headers.iter().all(Result::is_ok);
        let record = self.record_read(reference, record)?;
        let Some(record) = record else { return Ok(None) };
        let headers = headers.into_iter().map(|header| header.ok()?.take(0)).collect();
        let parts = (record, headers);
        if is_complete && reference.kind == Kind::Directory {
            self.remember(reference.ino, generation, parts.clone());
        }
        Ok(Some(parts))
    }

    /// A directory whose record's node does not answer has the one that was read last: the
    /// entries in its other shards must not be lost with that node.
    fn record_read(
        &self,
        reference: Reference,
        read: Option<Result<Outcome, StoreError>>,
    ) -> Result<Option<Bytes>, Error> {
        let is_directory = reference.kind == Kind::Directory;
        match read.transpose() {
            Err(lost @ StoreError::Unavailable { .. }) if is_directory => {
                self.last_record(reference.ino).map(Some).ok_or(lost.into())
            }
            read => {
                let record = read?.and_then(|mut outcome| outcome.take(0));
                if let (Some(record), true) = (&record, is_directory) {
                    self.saw_record(reference.ino, record);
                }
                Ok(record)
            }
        }
    }

    /// As [`Fs::batch_each`] for what nobody waits for and is tried again: each that fails may take
    /// long, so after `failures` more the others are not asked, and have no answer.
    pub(crate) fn batch_some(
        &self,
        batches: &[(ShardKey, Batch)],
        failures: &mut u32,
    ) -> Vec<Result<Outcome, StoreError>> {
        if let Ok(outcomes) = self.store.batches(batches) {
            return outcomes.into_iter().map(Ok).collect();
        }
        let mut outcomes = Vec::new();
        for (shard, batch) in batches {
            if *failures == 0 {
                break;
            }
            let outcome = self.store.batch(*shard, batch);
            *failures -= u32::from(outcome.is_err());
            outcomes.push(outcome);
        }
        outcomes
    }

    /// All in one round; where that fails, each by itself.
    pub(crate) fn batch_each(
        &self,
        batches: &[(ShardKey, Batch)],
    ) -> Vec<Result<Outcome, StoreError>> {
        let one_by_one = || batches.iter().map(|(shard, batch)| self.store.batch(*shard, batch));
        if batches.len() < 2 {
            return one_by_one().collect();
        }
        match self.store.batches(batches) {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(_) => one_by_one().collect(),
        }
    }
}

/// A directory's links and last change are kept in its shards, so that entries in different
/// shards never meet in one record. Setting the time by hand clears them there, so whatever a shard
/// says is later than the record, also where the time that was set lies in the future.
fn add_headers(inode: &mut Inode, headers: &[Option<Bytes>]) {
    let mut changed = Time::default();
    for header in headers.iter().flatten().filter(|header| header.len() >= 24) {
        inode.nlink = inode.nlink.saturating_add(u64_at(header, header::SUBDIRECTORIES));
        changed = changed.max(Time(u64_at(header, header::CHANGED)));
    }
    if changed > Time::default() {
        inode.mtime = changed;
        inode.ctime = inode.ctime.max(changed);
    }
}
