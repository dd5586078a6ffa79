//! The store as one mount uses it: names that the mount made or removed while it was alone may be
//! answered to programs before the store has them.
//!
//! Such a change waits until the file is closed or synced, until anything else is asked of its
//! shard, until enough of them have come together for one round, or until the next housekeeping. So
//! nothing that is asked of the store through here can tell that a change was still waiting. What
//! cannot be made in the end is told when the file is closed, or the directory synced.

mod change;
mod flush;
mod given_up;
mod now;
mod pending;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_model::{Ino, MountId, Partition, Run, ShardKey, StripeKey};
use tidefs_sealed::Sealed;
use tidefs_store::{
    Batch, Cursor, Cut, KeyPage, Location, Outcome, Overview, Page, Pin, Store, StoreError,
    StripeRead, StripeWrite, caller,
};

pub(crate) use change::{Change, Creation, Removal, less_one_link};
pub(crate) use flush::{Made, Making};
use given_up::GivenUp;
use pending::Pending;

use crate::delegations::Delegations;
use crate::error::Error;
use crate::known_fields::KnownFields;
use crate::terms::EXPELLED;

/// So many changes are worth a round of their own.
pub(crate) const GROUP: usize = 64;

pub(crate) struct WriteBack<S> {
    pub(crate) store: Arc<Sealed<S>>,
    pub(crate) delegations: Arc<Delegations>,
    known: Option<KnownFields>,
    pending: Pending,
    /// Files that could not be made, for whoever closes them.
    failed_creates: Mutex<HashMap<Ino, (Arc<Change>, Error)>>,
    has_failed_creates: AtomicBool,
    /// Those of them that are being tried once more.
    made_again: Mutex<HashSet<Ino>>,
    /// Inodes whose last name went with a removal, and whether somebody is seeing to them.
    nameless: Mutex<HashMap<Ino, (Nameless, bool)>>,
    /// Counts changes that were answered and could not be made: what was concluded from any of
    /// them is no longer right.
    failures: AtomicU64,
    given_up: GivenUp,
    /// Why the first change failed that did so since somebody asked.
    sticky_error: Mutex<Option<Error>>,
}

/// An inode without names and handles, of a file of `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nameless {
    pub home: ShardKey,
    pub ino: Ino,
    pub size: u64,
}

impl<S: Store> WriteBack<S> {
    pub fn over(
        store: Arc<Sealed<S>>,
        known: Option<KnownFields>,
        delegations: Arc<Delegations>,
    ) -> Arc<WriteBack<S>> {
        Arc::new(WriteBack {
            store,
            delegations,
            known,
            pending: Pending::default(),
            failed_creates: Mutex::default(),
            has_failed_creates: AtomicBool::new(false),
            made_again: Mutex::default(),
            nameless: Mutex::default(),
            failures: AtomicU64::new(0),
            given_up: GivenUp::default(),
            sticky_error: Mutex::default(),
        })
    }

    /// Takes a change over, which `batch` makes. How many wait now; `None`: it is not taken, since
    /// one of the same name waits or too many do. `era`: what is known of the shard is right in it.
    pub fn defer(&self, change: Change, batch: &Batch, era: u64) -> Option<usize> {
        let shard = change.place().shard;
        let waiting = self.pending.add(change)?;
        // Afterwards, so that nobody learns meanwhile what is no longer so.
        if let Some(known) = &self.known {
            known.assume(shard, batch, era);
        }
        Some(waiting)
    }

    /// Has a file that still waits to be made made otherwise. `era`: what is known of its shard is right in it.
    /// `false`: it is made, or being made.
    pub fn amend(
        &self,
        home: ShardKey,
        ino: Ino,
        era: u64,
        amend: impl FnOnce(&mut Creation),
    ) -> bool {
        self.pending.amend(home, ino, amend, |change| {
            if let Some(known) = &self.known {
                known.assume(home, &change.batch(), era);
            }
        })
    }

    /// What a batch asks for is remembered here.
    pub fn knows(&self, shard: ShardKey, batch: &Batch) -> bool {
        self.answer(shard, batch).is_some()
    }

    /// It is known that a field is not there, in this era.
    pub fn lacks(&self, shard: ShardKey, field: &[u8], era: u64) -> bool {
        // A file that could not be made may be made once more.
        !self.has_failed_creates.load(Ordering::SeqCst)
            && self.known.as_ref().is_some_and(|known| known.lacks(shard, field, era))
    }

    /// Nothing waits, nor is anything under way that other mounts would have to know of.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.store.is_settled()
    }

    /// The term of the mount.
    pub fn term(&self) -> u64 {
        self.delegations.identity().term()
    }

    /// Begins a term, under another name. What was answered before and is not made never is.
    pub fn begin_term(&self, mount: MountId, term: u64) {
        // Nobody gets this far with them any more.
        caller::in_term(self.term(), || self.give_up_all(&EXPELLED));
        self.delegations.begin_term(mount, term);
    }

    /// To be called now and then: see [`Sealed::tidy`].
    pub fn tidy(&self) {
        self.store.tidy();
    }

    /// The number was granted to this mount just now.
    pub fn note_new(&self, ino: Ino) {
        self.store.note_new(ino);
    }

    /// How many changes were answered and could not be made.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    /// Has each inode that lost its last name freed by `free`, once.
    pub fn free_nameless(&self, mut free: impl FnMut(Nameless)) {
        let mut nameless = self.lock(&self.nameless);
        let left = nameless
            .values_mut()
            .filter_map(|(nameless, taken)| (!std::mem::replace(taken, true)).then_some(*nameless));
        let left: Vec<_> = left.collect();
        drop(nameless);
        for inode in left {
            free(inode);
            self.lock(&self.nameless).remove(&inode.ino);
        }
    }

    /// A program has yet to hear that a name could not be made or removed.
    pub fn has_untold(&self) -> bool {
        self.has_failed_creates.load(Ordering::SeqCst) || self.lock(&self.sticky_error).is_some()
    }

    /// The inode lost its last name, and has not been freed.
    pub fn is_nameless(&self, ino: Ino) -> bool {
        self.lock(&self.nameless).contains_key(&ino)
    }

    /// The store has what was answered of these shards, or has refused it.
    pub(crate) fn settle(&self, shards: impl IntoIterator<Item = ShardKey>) {
        if self.pending.is_empty() {
            return;
        }
        for shard in shards {
            if let Some(last) = self.pending.last_of(shard) {
                self.flush_for(shard);
                while !self.pending.wait(shard, last) {
                    self.flush_for(shard);
                }
            }
        }
    }

    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Store for WriteBack<S> {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        if let Some(outcome) = self.answer(shard, batch) {
            return Ok(outcome);
        }
        let _turn = self.wait_for_turns([shard].into_iter(), batch.only_reads());
        self.batch_after(shard, batch, || self.settle([shard]))
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        let looks = batches.iter().all(|(_, batch)| batch.only_reads());
        let _turn = self.wait_for_turns(batches.iter().map(|(shard, _)| *shard), looks);
        self.batches_unknown(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        let _turn = self.wait_for_turns(shards.iter().map(|(shard, _)| *shard), true);
        self.settle(shards.iter().map(|(shard, _)| *shard));
        self.list_unknown(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.flush_changes();
        self.store.keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.settle(shards.iter().copied());
        let forget = || self.known.iter().for_each(|known| known.forget_shards(shards));
        forget();
        let deleted = self.store.delete_shards(shards);
        forget();
        deleted
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.store.read(reads)
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        let written = self.store.write(writes);
        self.given_up.note(&written, writes.iter().map(|write| write.key));
        written
    }

    fn read_cut(&self, reads: &mut [StripeRead<'_>], cut: Cut) -> Result<(), StoreError> {
        self.store.read_cut(reads, cut)
    }

    fn write_cut(&self, writes: &[StripeWrite<'_>], cut: Cut) -> Result<(), StoreError> {
        let written = self.store.write_cut(writes, cut);
        self.given_up.note(&written, writes.iter().map(|write| write.key));
        written
    }

    fn write_and_batch(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        let _turn = self.wait_for_turns([shard].into_iter(), false);
        self.write_and_batch_after(writes, shard, batch, || self.settle([shard]))
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        let cut = self.store.trim(trims);
        self.given_up.note(&cut, trims.iter().map(|(stripe, _)| *stripe));
        cut
    }

    fn fence(&self, stripes: &[StripeKey]) -> Result<(), StoreError> {
        self.store.fence(stripes)
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.store.lengths(stripes)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.store.overview()
    }

    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        self.store.remove(ino)
    }

    fn pin(&self, ino: Ino) -> Option<Pin> {
        self.store.pin(ino)
    }

    fn unpin(&self, ino: Ino) {
        self.store.unpin(ino);
    }

    fn stop_waiting(&self) {
        self.store.stop_waiting();
    }

    fn near(&self, asker: u64, chance: u64) -> Option<Run> {
        self.store.near(asker, chance)
    }

    fn places(&self, partitions: &[Partition]) -> Vec<Option<Location>> {
        self.store.places(partitions)
    }
}
