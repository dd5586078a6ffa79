//! Reading the records of inodes, as a program should see them: a directory's with what its shards
//! know, an open file's with what this mount has not committed yet.

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Outcome, Store};

use crate::attr::Kind;
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
        let mut batches = Vec::with_capacity(references.len());
        for reference in references {
            batches.push((reference.home, Batch::new().read(keys::inode(reference.ino))));
            batches.extend(self.header_reads(*reference));
        }
        let mut outcomes = self.read_each(&batches)?.into_iter();
        references
            .iter()
            .map(|reference| {
                let record = outcomes.next().and_then(|mut outcome| outcome.take(0));
                let headers: Vec<_> = match reference.kind {
                    Kind::Directory => {
                        outcomes.by_ref().take(usize::from(self.format.shards)).collect()
                    }
                    _ => Vec::new(),
                };
                let Some(record) = record else { return Ok(None) };
                self.complete(*reference, &record, headers).map(Some)
            })
            .collect()
    }

    /// Makes of the record that was read at a reference what a program should see.
    pub(crate) fn complete(
        &self,
        reference: Reference,
        record: &[u8],
        headers: Vec<Outcome>,
    ) -> Result<Inode, Error> {
        let mut inode = Inode::decode(reference.ino, record)?;
        for mut header in headers {
            add_header(&mut inode, header.take(0));
        }
        if let Some(node) = self.table.find(reference.ino) {
            node.saw(inode.mode, inode.gid);
            if let Some(file) = &node.slot().file {
                file.overlay(&mut inode);
            }
        }
        Ok(inode)
    }

    /// Reads of all headers of a directory; nothing for other kinds.
    pub(crate) fn header_reads(
        &self,
        reference: Reference,
    ) -> impl Iterator<Item = (ShardKey, Batch)> {
        let shards = match reference.kind {
            Kind::Directory => self.format.shards,
            _ => 0,
        };
        (0..shards).map(move |index| {
            let shard = ShardKey { directory: reference.ino, index };
            (shard, Batch::new().read(keys::HEADER))
        })
    }

    fn read_each(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, Error> {
        match batches {
            [(shard, batch)] => Ok(vec![self.store.batch(*shard, batch)?]),
            _ => Ok(self.store.batches(batches)?),
        }
    }
}

/// A directory's links and last change are kept in its shards, so that entries in different
/// shards never meet in one record.
fn add_header(inode: &mut Inode, header: Option<Vec<u8>>) {
    let Some(header) = header.filter(|header| header.len() >= 24) else { return };
    inode.nlink = inode.nlink.saturating_add(u64_at(&header, header::SUBDIRECTORIES));
    let changed = Time(u64_at(&header, header::CHANGED));
    inode.mtime = inode.mtime.max(changed);
    inode.ctime = inode.ctime.max(changed);
}
