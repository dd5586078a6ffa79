//! The trait that every store implements.

use std::fs::File;
use std::sync::Arc;

use tidefs_model::{Ino, Partition, Run, ShardKey, StripeKey};

use crate::batch::Bytes;
use crate::{Batch, Outcome, Overview, StoreError};

/// Reads the bytes of a stripe from `offset` on into `buffer`. Bytes that were never written read
/// as zeros.
#[derive(Debug)]
pub struct StripeRead<'a> {
    pub key: StripeKey,
    pub offset: u32,
    pub buffer: &'a mut [u8],
}

/// Writes `bytes` into a stripe from `offset` on. A gap before them reads as zeros.
#[derive(Clone, Copy, Debug)]
pub struct StripeWrite<'a> {
    pub key: StripeKey,
    pub offset: u32,
    pub bytes: &'a [u8],
}

/// What stripes of an inode lacked when their file was cut is no loss: only a later one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How many numbers of inodes had been granted at the last loss before it.
    pub as_of: u64,
    /// The byte of a stripe from which on it was cut.
    pub from: u32,
}

/// Where a listing of a shard goes on; opaque to the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub Bytes);

/// Part of a shard's fields, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub fields: Vec<(Bytes, Bytes)>,
    /// `None` when the listing is complete.
    pub next: Option<Cursor>,
}

/// What a store keeps something under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Shard(ShardKey),
    Stripe(StripeKey),
}

/// Part of a store's keys, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    pub keys: Vec<Key>,
    /// `None` when the listing is complete.
    pub next: Option<Cursor>,
}

/// Where a partition lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// This machine's name, or the address of another one.
    pub host: String,
    pub node: String,
}

/// The file of an inode that is pinned.
#[derive(Clone, Debug)]
pub struct Pin {
    pub file: Arc<File>,
    /// Nobody else had pinned it.
    pub is_first: bool,
}

/// Keeps shards and stripes. Calls block until they are done and may be made from many threads;
/// every call ends within a bounded time.
///
/// Calls that take several keys have them served at the same time where the store can, and fail
/// as a whole with the first error; what was written before it stays written.
pub trait Store: Send + Sync + 'static {
    /// Applies a batch to a shard, atomically.
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError>;

    /// Applies batches to several shards, each atomically, together not.
    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError>;

    /// Lists some of the fields of each shard from a cursor on; the first call takes
    /// [`Cursor::default`]. A field that is there from the first page to the last appears at
    /// least once; one that comes or goes meanwhile may appear or not.
    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError>;

    /// Lists some of the keys under which there is anything, from a cursor on; the first call takes
    /// [`Cursor::default`]. A key that is there, and on one node, from the first page to the last
    /// appears at least once; one that comes, goes or moves meanwhile may appear or not. A page is a
    /// small part of all keys, a few thousand where there are few. For checks of the whole store: a
    /// store may ask for more rights than its other calls need.
    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError>;

    /// Removes shards whole.
    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError>;

    /// Reads ranges of stripes.
    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError>;

    /// Writes ranges of stripes. Writing no bytes does nothing, whatever the offset. A write that
    /// fails may have been made in part.
    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError>;

    /// [`Store::read`] of what lies where a file was cut. Only stores that can lose a part of what they
    /// hold, and say so, do anything else.
    fn read_cut(&self, reads: &mut [StripeRead<'_>], _cut: Cut) -> Result<(), StoreError> {
        self.read(reads)
    }

    /// The same for [`Store::write`]. A gap that begins before the cut must not hold a loss.
    fn write_cut(&self, writes: &[StripeWrite<'_>], _cut: Cut) -> Result<(), StoreError> {
        self.write(writes)
    }

    /// [`Store::write`] and [`Store::batch`] at the same time where the store can: in no order, and
    /// each succeeds or fails by itself.
    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        (self.write(writes), self.batch(shard, batch))
    }

    /// Cuts stripes to at most the given lengths; a stripe cut to nothing is gone. What was cut
    /// off reads as zeros, also when later writes make the stripe longer again.
    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError>;

    /// Bytes up to the last one ever written (and not trimmed) of each stripe; 0 where there is
    /// no stripe. A length may be rounded up to whole pages of memory, and may count a gap that
    /// a trim has left at the end.
    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError>;

    /// Returns when no write or trim of these stripes that failed before can be carried out any more: a
    /// request that nobody waits for may still be on its way. No call of this store overtakes one that was
    /// given up; this is for those who let others change the stripes.
    ///
    /// # Errors
    /// When a node may still carry one out.
    fn fence(&self, _stripes: &[StripeKey]) -> Result<(), StoreError> {
        Ok(())
    }

    /// What the store says of itself. A node that does not answer is listed as unavailable.
    fn overview(&self) -> Result<Overview, StoreError>;

    /// Removes all stripes of an inode at once where they are kept together; programs that have
    /// them mapped keep them until they let go. `false`: nothing was done, and each has to be
    /// trimmed.
    fn remove(&self, _ino: Ino) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Pins all stripes of an inode in one file of this machine's memory, stripe after stripe,
    /// and returns it, where the store can; bytes in the file and bytes of the stripes are then
    /// the same. The file ends where the last stripe does: writing makes it longer, trimming the
    /// last stripe makes it shorter, and the caller may set its length. It stays pinned until it
    /// was unpinned as often. `None`: this store or this moment offers none.
    fn pin(&self, _ino: Ino) -> Option<Pin> {
        None
    }

    /// Ends one pin of an inode; its holder is done with the file.
    fn unpin(&self, _ino: Ino) {}

    /// Does work that writes, and that may be repeated from the start when it has failed. In it no call
    /// of this store waits for room; between two tries stores that wait do, for whoever may hold
    /// something during the work that others want.
    fn patiently(&self, work: &dyn Fn() -> Result<(), StoreError>) -> Result<(), StoreError> {
        work()
    }

    /// Nobody is to wait for room any more, now and from now on: what would wait is interrupted. Only
    /// stores that wait do anything.
    fn stop_waiting(&self) {}

    /// Data partitions that a node of this host holds, as far as is known here: of several nodes the
    /// same for the same `asker` as long as it has room, and which of its partitions follows from
    /// `chance`. Only nodes reserved for this file system count, and nobody is asked. `None`: there are
    /// none, or all keys lie equally near.
    fn near(&self, _asker: u64, _chance: u64) -> Option<Run> {
        None
    }

    /// Where each of these partitions lies, as far as is known here. `None`: on no node that is known.
    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        vec![None; partitions.len()]
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        (**self).batch(shard, batch)
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        (**self).batches(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        (**self).list(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        (**self).keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        (**self).delete_shards(shards)
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        (**self).read(reads)
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        (**self).write(writes)
    }

    fn read_cut(&self, reads: &mut [StripeRead<'_>], cut: Cut) -> Result<(), StoreError> {
        (**self).read_cut(reads, cut)
    }

    fn write_cut(&self, writes: &[StripeWrite<'_>], cut: Cut) -> Result<(), StoreError> {
        (**self).write_cut(writes, cut)
    }

    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        (**self).write_and_batch(writes, shard, batch)
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        (**self).trim(trims)
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        (**self).lengths(stripes)
    }

    fn fence(&self, stripes: &[StripeKey]) -> Result<(), StoreError> {
        (**self).fence(stripes)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        (**self).overview()
    }

    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        (**self).remove(ino)
    }

    fn pin(&self, ino: Ino) -> Option<Pin> {
        (**self).pin(ino)
    }

    fn unpin(&self, ino: Ino) {
        (**self).unpin(ino)
    }

    fn patiently(&self, work: &dyn Fn() -> Result<(), StoreError>) -> Result<(), StoreError> {
        (**self).patiently(work)
    }

    fn stop_waiting(&self) {
        (**self).stop_waiting();
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        (**self).near(asker, chance)
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        (**self).places(partitions)
    }
}
