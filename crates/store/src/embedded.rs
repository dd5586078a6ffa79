//! The store in this process's memory: no server, no socket, nothing on a disk.
//!
//! Shards are maps behind striped locks. Stripes have one of two homes: the heap, which works
//! everywhere; or the files of a tmpfs that only this process can see, which the kernel can serve
//! directly, and which needs the privilege to mount. Either way all bytes share one capacity, and
//! are gone when the process is.
//!
//! Nothing here waits for anything but a lock that is held for one change, or reads a clock.

mod budget;
mod detached;
mod heap;
mod home;
mod lanes;
mod shard;
mod shards;
mod tmpfs;

use std::sync::Arc;

use tidefs_model::{
    ByteSize, Epoch, Ino, NodeClass, NodeId, PARTITIONS, Partition, ShardKey, StripeKey, StripeSize,
};

use self::budget::Budget;
use self::heap::Heap;
use self::home::{Home, check_range, full};
use self::lanes::LANES;
use self::shards::Shards;
use self::tmpfs::Tmpfs;
use crate::{
    Batch, Cursor, Key, KeyPage, Location, NodeOverview, Outcome, Overview, Page, Pin, Store,
    StoreError, StripeRead, StripeWrite,
};
use rustix::system::uname;

/// The one node that this store is. It never restarts, so it needs no identity of its own.
const NODE: NodeId = NodeId([0; 20]);

pub struct Embedded {
    shards: Shards,
    home: Box<dyn Home>,
    capacity: ByteSize,
    stripe_size: StripeSize,
}

impl Embedded {
    /// Keeps stripes on the heap.
    pub fn in_heap(capacity: ByteSize, stripe_size: StripeSize) -> Embedded {
        let budget = Arc::new(Budget::new(capacity.0));
        let home = Box::new(Heap::new(stripe_size, Arc::clone(&budget)));
        Embedded { shards: Shards::new(budget), home, capacity, stripe_size }
    }

    /// Keeps stripes in a tmpfs of its own, so that inodes can be pinned.
    ///
    /// # Errors
    /// Where this process may not mount, or the kernel is older than 5.2.
    pub fn in_tmpfs(capacity: ByteSize, stripe_size: StripeSize) -> std::io::Result<Embedded> {
        let budget = Arc::new(Budget::new(0));
        let home = Box::new(Tmpfs::new(capacity, stripe_size, Arc::clone(&budget))?);
        Ok(Embedded { shards: Shards::new(budget), home, capacity, stripe_size })
    }
}

impl Store for Embedded {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        shard::bounded(&batch.updates)?;
        let outcome = match self.shards.batch(shard, batch) {
            Err(short) if self.home.cede(short.bytes) => self.shards.batch(shard, batch),
            outcome => outcome,
        };
        if !batch.only_reads() {
            self.home.settle();
        }
        outcome.map_err(|_| full())
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        batches.iter().map(|(shard, batch)| self.batch(*shard, batch)).collect()
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        Ok(shards.iter().map(|(shard, cursor)| self.shards.page(*shard, cursor)).collect())
    }

    /// A page is a lane of shards or one of stripes; the cursor says which comes next.
    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        let lane = <[u8; 2]>::try_from(&*cursor.0).map_or(0, u16::from_be_bytes);
        let lanes = LANES as u16;
        let keys = match lane.checked_sub(lanes) {
            None => self.shards.keys(lane).into_iter().map(Key::Shard).collect(),
            Some(lane) => self.home.keys(lane)?.into_iter().map(Key::Stripe).collect(),
        };
        let next = (lane + 1 < 2 * lanes).then(|| Cursor((lane + 1).to_be_bytes().to_vec()));
        Ok(KeyPage { keys, next })
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        shards.iter().for_each(|&shard| self.shards.delete(shard));
        self.home.settle();
        Ok(())
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        reads.iter_mut().try_for_each(|read| {
            check_range(self.stripe_size, read.offset, read.buffer.len())?;
            self.home.read(read)
        })
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        writes.iter().filter(|write| !write.bytes.is_empty()).try_for_each(|write| {
            check_range(self.stripe_size, write.offset, write.bytes.len())?;
            self.home.write(write)
        })
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.home.trim(trims)
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        stripes.iter().map(|&key| self.home.length(key)).collect()
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        let node = NodeOverview {
            id: NODE.to_string(),
            class: NodeClass::Own,
            endpoint: "this process".to_owned(),
            available: true,
            memory_used_bytes: self.home.used_bytes()?,
            memory_capacity_bytes: self.capacity.0,
            partitions: PARTITIONS,
            keys: self.shards.count() + self.home.stripes(),
        };
        Ok(Overview { store: "embedded".to_owned(), epoch: Epoch(1), nodes: vec![node] })
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        let host = uname().nodename().to_string_lossy().into_owned();
        vec![Some(Location { host, node: NODE.to_string() }); partitions.len()]
    }

    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        self.home.remove(ino)
    }

    fn pin(&self, ino: Ino) -> Option<Pin> {
        self.home.pin(ino)
    }

    fn unpin(&self, ino: Ino) {
        self.home.unpin(ino);
    }
}
