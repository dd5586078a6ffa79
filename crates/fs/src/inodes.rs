//! Reading the records of inodes, as a program should see them: a directory's with what its shards
//! know, an open file's with what this mount has not committed yet.

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Store};

use crate::attr::Kind;
use crate::directories::Parts;
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{Inode, u64_at};
use crate::keys::{self, header};

impl<S: Store> Fs<S> {
    /// The inode behind a reference; [`Error::Stale`] when it is gone.
    pub(crate) fn fetch(&self, reference: Reference) -> Result<Inode, Error> {
        self.fetch_all(&[reference])?.pop().flatten().ok_or(Error::Stale)
    }

    /// The inodes behind references, in one round; `None` for those that are gone.
    pub(crate) fn fetch_all(&self, references: &[Reference]) -> Result<Vec<Option<Inode>>, Error> {
        let recalled: Vec<_> = references
            .iter()
            .map(|reference| match reference.kind {
                Kind::Directory => self.recall(reference.ino),
                _ => (None, 0),
            })
            .collect();
        let unknown = references.iter().zip(&recalled).filter(|(_, (parts, _))| parts.is_none());
        let batches: Vec<_> =
            unknown.flat_map(|(reference, _)| self.reads_of(*reference)).collect();
        let mut outcomes = self.read_each(&batches)?.into_iter();
        let each = references.iter().zip(recalled);
        each.map(|(reference, (parts, generation))| {
            let parts = match parts {
                Some(parts) => Some(parts),
                None => self.parts_read(*reference, generation, &mut outcomes),
            };
            let Some((record, headers)) = parts else { return Ok(None) };
            self.complete(*reference, &record, &headers).map(Some)
        })
        .collect()
    }

    /// Makes of the record that was read at a reference what a program should see.
    pub(crate) fn complete(
        &self,
        reference: Reference,
        record: &[u8],
        headers: &[Option<Bytes>],
    ) -> Result<Inode, Error> {
        let mut inode = Inode::decode(reference.ino, record)?;
        for header in headers.iter().flatten() {
            add_header(&mut inode, header);
        }
        if let Some(node) = self.table.find(reference.ino) {
            node.saw(inode.mode, inode.gid);
            if let Some(file) = &node.slot().file {
                file.overlay(&mut inode);
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

    /// Takes what [`Fs::reads_of`] asked for from the outcomes; `None` when the inode is gone.
    fn parts_read(
        &self,
        reference: Reference,
        generation: u64,
        outcomes: &mut impl Iterator<Item = Outcome>,
    ) -> Option<Parts> {
        let record = outcomes.next().and_then(|mut outcome| outcome.take(0));
        if reference.kind != Kind::Directory {
            return Some((record?, Vec::new()));
        }
        let shards = usize::from(self.format.shards);
        let headers = outcomes.take(shards).map(|mut outcome| outcome.take(0)).collect();
        let parts = (record?, headers);
        self.remember(reference.ino, generation, parts.clone());
        Some(parts)
    }

    fn read_each(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, Error> {
        match batches {
            [] => Ok(Vec::new()),
            [(shard, batch)] => Ok(vec![self.store.batch(*shard, batch)?]),
            _ => Ok(self.store.batches(batches)?),
        }
    }
}

/// A directory's links and last change are kept in its shards, so that entries in different
/// shards never meet in one record.
fn add_header(inode: &mut Inode, header: &[u8]) {
    if header.len() < 24 {
        return;
    }
    inode.nlink = inode.nlink.saturating_add(u64_at(header, header::SUBDIRECTORIES));
    let changed = Time(u64_at(header, header::CHANGED));
    inode.mtime = inode.mtime.max(changed);
    inode.ctime = inode.ctime.max(changed);
}
