//! The store itself: what its calls come to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidefs_model::{Ino, Partition, Run, ShardKey, StripeKey, StripeSize};
use tidefs_store::{
    Batch, Bytes, Cursor, Cut, Key, KeyPage, Location, Outcome, Overview, Page, Pin, Store,
    StoreError, StripeRead, StripeWrite, caller,
};

use crate::buffers::Buffers;
use crate::cache::Cache;
use crate::key::{Cipher, SALT_BYTES, Sealing};
use crate::keyring::Keyring;
use crate::layout::{is_of_seals, stripe_of};
use crate::locks::Locks;
use crate::record::{Geometry, NONCE_BYTES, Seal, TAG_BYTES};

/// What a client that seals must be told of the world around it.
pub struct Circumstances {
    /// Which time of being the only client this is, from 1 on; `None` while there may be others.
    pub time_alone: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Where a number stands (8 bytes, big-endian): inodes below it may have lost seals with a node.
    pub losses: (ShardKey, Bytes),
}

/// Any store, with its stripes sealed or, where they are not, as it is.
pub struct Sealed<S> {
    pub(crate) inner: Arc<S>,
    pub(crate) seals: Option<Seals>,
}

pub(crate) struct Seals {
    /// `None`: stripes can be removed and measured, and neither read nor written.
    pub keyring: Option<Keyring>,
    pub geometry: Geometry,
    pub cache: Cache,
    pub locks: Locks,
    pub buffers: Buffers,
    pub circumstances: Circumstances,
    /// Stripes that a failed call of this client has left announced.
    pub left_behind: Mutex<BTreeSet<StripeKey>>,
    /// How many cuts were marked.
    marks: AtomicU64,
    /// Writes and cuts under way of which others could not know, so that they must not begin to work.
    unannounced: AtomicU64,
}

impl<S: Store> Sealed<S> {
    /// The store as it is.
    pub fn plain(inner: Arc<S>) -> Sealed<S> {
        Sealed { inner, seals: None }
    }

    /// Seals stripes. Without a `sealing` they can be removed and measured only.
    pub fn new(
        inner: Arc<S>,
        cipher: Cipher,
        sealing: Option<Sealing>,
        stripe_size: StripeSize,
        circumstances: Circumstances,
    ) -> Sealed<S> {
        let seals = Seals {
            keyring: sealing.map(|sealing| Keyring::new(cipher, sealing)),
            geometry: Geometry::of(stripe_size),
            cache: Cache::new(),
            locks: Locks::new(),
            buffers: Buffers::default(),
            circumstances,
            left_behind: Mutex::default(),
            marks: AtomicU64::new(0),
            unannounced: AtomicU64::new(0),
        };
        Sealed { inner, seals: Some(seals) }
    }

    /// Nothing is under way that another client would have to know of before it begins to work.
    pub fn is_settled(&self) -> bool {
        self.seals.as_ref().is_none_or(|seals| seals.unannounced.load(Ordering::SeqCst) == 0)
    }

    /// No other client has written to the inode, nor will before this one has company.
    pub fn note_new(&self, ino: Ino) {
        if let Some(seals) = &self.seals
            && let Some(alone) = seals.time_alone()
        {
            seals.cache.note_new(ino, alone);
        }
    }

    /// The stripes that have seals among the keys and nothing else, instead of the shards that hold
    /// the seals.
    fn with_stripes_of_seals(&self, keys: Vec<Key>) -> Result<Vec<Key>, StoreError> {
        let (seals, mut others): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key| matches!(key, Key::Shard(it) if is_of_seals(*it)));
        for key in seals {
            let Key::Shard(shard) = key else { continue };
            let mut cursor = Some(Cursor::default());
            while let Some(from) = cursor {
                let page = self.inner.list(&[(shard, from)])?.pop().unwrap_or_default();
                let stripes = page.fields.iter().filter_map(|(field, _)| stripe_of(shard, field));
                let stripes: Vec<_> = stripes.collect();
                let lengths = self.inner.lengths(&stripes)?;
                let bare = stripes.into_iter().zip(lengths).filter(|(_, length)| *length == 0);
                others.extend(bare.map(|(key, _)| Key::Stripe(key)));
                cursor = page.next;
            }
        }
        Ok(others)
    }
}

impl Seals {
    pub fn time_alone(&self) -> Option<u64> {
        (self.circumstances.time_alone)()
    }

    /// # Errors
    /// Without a key.
    pub fn keyring(&self) -> Result<&Keyring, StoreError> {
        let denied = || StoreError::Denied { endpoint: "who has no key to the stripes".into() };
        self.keyring.as_ref().ok_or_else(denied)
    }

    /// What keeps others from a stripe while it is cut: a seal of this client, unlike every other of
    /// its marks, that opens nothing.
    pub fn mark(&self) -> Seal {
        let salt = self.keyring.as_ref().map_or([0; SALT_BYTES], |keyring| *keyring.salt());
        let number = self.marks.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; NONCE_BYTES];
        nonce[NONCE_BYTES - size_of::<u64>()..].copy_from_slice(&number.to_be_bytes());
        Seal { salt, nonce, tag: [0; TAG_BYTES], sealed: 1, visible: 0 }
    }

    /// Leave to cut, and to write what is new, without announcing it; others wait until it is given
    /// back.
    pub fn go_unannounced(&self) -> Option<Unannounced<'_>> {
        self.unannounced.fetch_add(1, Ordering::SeqCst);
        let leave = Unannounced(&self.unannounced);
        // Afterwards, so that whoever ends the time alone sees this write.
        self.time_alone().is_some().then_some(leave)
    }
}

/// See [`Seals::go_unannounced`].
pub(crate) struct Unannounced<'s>(&'s AtomicU64);

impl Drop for Unannounced<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: Store> Store for Sealed<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.inner.batch(shard, batch)
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.inner.batches(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.inner.list(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        let page = self.inner.keys(cursor)?;
        match &self.seals {
            None => Ok(page),
            Some(_) => Ok(KeyPage { keys: self.with_stripes_of_seals(page.keys)?, ..page }),
        }
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.inner.delete_shards(shards)
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        match &self.seals {
            None => self.inner.read(reads),
            Some(seals) => self.read_sealed(seals, reads, None),
        }
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        match &self.seals {
            None => self.inner.write(writes),
            // A write holds its stripes, and keeps others from trimming them, so it does not wait.
            Some(seals) => self.inner.patiently(&|| self.write_sealed(seals, writes, None)),
        }
    }

    fn read_cut(&self, reads: &mut [StripeRead<'_>], cut: Cut) -> Result<(), StoreError> {
        match &self.seals {
            None => self.inner.read_cut(reads, cut),
            Some(seals) => self.read_sealed(seals, reads, Some(cut)),
        }
    }

    fn write_cut(&self, writes: &[StripeWrite<'_>], cut: Cut) -> Result<(), StoreError> {
        match &self.seals {
            None => self.inner.write_cut(writes, cut),
            Some(seals) => self.inner.patiently(&|| self.write_sealed(seals, writes, Some(cut))),
        }
    }

    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        match &self.seals {
            None => self.inner.write_and_batch(writes, shard, batch),
            Some(seals) => {
                caller::without_waiting(|| self.write_sealed_and_batch(seals, writes, shard, batch))
            }
        }
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        match &self.seals {
            None => self.inner.trim(trims),
            Some(seals) => self.trim_sealed(seals, trims),
        }
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        match &self.seals {
            None => self.inner.lengths(stripes),
            Some(seals) => self.lengths_sealed(seals, stripes),
        }
    }

    fn fence(&self, stripes: &[StripeKey]) -> Result<(), StoreError> {
        self.inner.fence(stripes)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.inner.overview()
    }

    /// The seals of each stripe have to go, too.
    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        if self.seals.is_some() { Ok(false) } else { self.inner.remove(ino) }
    }

    /// A file that the kernel reads by itself cannot be sealed.
    fn pin(&self, ino: Ino) -> Option<Pin> {
        if self.seals.is_some() { None } else { self.inner.pin(ino) }
    }

    fn unpin(&self, ino: Ino) {
        if self.seals.is_none() {
            self.inner.unpin(ino);
        }
    }

    fn stop_waiting(&self) {
        self.inner.stop_waiting();
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.inner.near(asker, chance)
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        self.inner.places(partitions)
    }
}
