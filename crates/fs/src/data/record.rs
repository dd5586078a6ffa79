//! The changes that the data path makes to an inode's record in its home shard, each one batch.
//!
//! Every one counts the version up, so that other mounts learn that the bytes changed, and answers
//! with the record as it was right after.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Outcome, Store, StoreError, StripeWrite};

use super::delete::without_record;
use super::send::panicked;
use super::state::Stored;
use crate::inode::{CTIME, Inode, MTIME, SIZE, VERSION};
use crate::{Error, FILE_BYTES_MAX, keys};

pub(super) struct Record<S> {
    pub store: Arc<S>,
    pub home: ShardKey,
    pub ino: Ino,
    /// A change of the record failed, so what is known of it may be wrong.
    doubtful: AtomicBool,
}

/// What became of a new size.
pub(super) enum Resized {
    Done(Stored),
    /// Another mount made the file larger than was thought.
    Larger(Stored),
}

impl<S: Store> Record<S> {
    pub fn new(store: Arc<S>, home: ShardKey, ino: Ino) -> Record<S> {
        Record { store, home, ino, doubtful: AtomicBool::new(false) }
    }

    pub fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::SeqCst)
    }

    /// The file was written at `time` and reaches to `size` at least.
    pub fn commit(&self, size: u64, time: Time) -> Result<Stored, Error> {
        let outcome = self.store.batch(self.home, &self.commit_batch(size, time));
        self.applied(self.noted(outcome)?)
    }

    /// The same, and writes bytes at the same time; each succeeds or fails by itself.
    pub fn commit_with(
        &self,
        writes: &[StripeWrite<'_>],
        size: u64,
        time: Time,
    ) -> (Result<(), StoreError>, Result<Stored, Error>) {
        let batch = self.commit_batch(size, time);
        // Whoever waits for these stripes would wait for ever if a panic passed through here.
        let both = AssertUnwindSafe(|| self.store.write_and_batch(writes, self.home, &batch));
        let (written, outcome) =
            catch_unwind(both).unwrap_or_else(|_| (Err(panicked()), Err(panicked())));
        (written, self.noted(outcome).and_then(|outcome| self.applied(outcome)))
    }

    fn commit_batch(&self, size: u64, time: Time) -> Batch {
        let field = keys::inode(self.ino);
        changed(Batch::new().present(&*field).max(&*field, SIZE, size), &field, time)
    }

    /// Sets the size, if the file is no larger than `size_max`.
    pub fn resize(&self, size: u64, size_max: u64, time: Time) -> Result<Resized, Error> {
        let field = keys::inode(self.ino);
        let batch = Batch::new().present(&*field).at_most(&*field, SIZE, size_max);
        let batch = batch.patch(&*field, SIZE, size.to_be_bytes());
        let outcome = self.apply(batch, &field, time)?;
        match outcome.refused_by {
            None => self.applied(outcome).map(Resized::Done),
            Some(0) => Err(Error::Stale),
            Some(_) => self.stored(outcome).map(Resized::Larger),
        }
    }

    /// Makes the file longer by `bytes`, which are zeros until they are written: no other mount
    /// gets the same range.
    pub fn reserve(&self, bytes: u64, time: Time) -> Result<Stored, Error> {
        let field = keys::inode(self.ino);
        let room = FILE_BYTES_MAX.checked_sub(bytes).ok_or(Error::FileTooLarge)?;
        let batch = Batch::new().present(&*field).at_most(&*field, SIZE, room);
        let outcome = self.apply(batch.add(&*field, SIZE, bytes as i64), &field, time)?;
        match outcome.refused_by {
            Some(1) => Err(Error::FileTooLarge),
            _ => self.applied(outcome),
        }
    }

    /// Removes the inode and its extended attributes.
    pub fn remove(&self) -> Result<(), Error> {
        self.store.batch(self.home, &without_record(Batch::new(), self.ino))?;
        Ok(())
    }

    fn apply(&self, batch: Batch, field: &[u8], time: Time) -> Result<Outcome, Error> {
        self.noted(self.store.batch(self.home, &changed(batch, field, time)))
    }

    fn noted(&self, outcome: Result<Outcome, StoreError>) -> Result<Outcome, Error> {
        if outcome.is_err() {
            self.doubtful.store(true, Ordering::SeqCst);
        }
        Ok(outcome?)
    }

    fn applied(&self, outcome: Outcome) -> Result<Stored, Error> {
        if outcome.applied() { self.stored(outcome) } else { Err(Error::Stale) }
    }

    fn stored(&self, mut outcome: Outcome) -> Result<Stored, Error> {
        let record = outcome.take(0).ok_or(Error::Stale)?;
        Ok(Stored::of(&Inode::decode(self.ino, &record)?))
    }
}

/// The status-change time never goes back; the modification time is the program's to move.
fn changed(batch: Batch, field: &[u8], time: Time) -> Batch {
    batch
        .patch(field, MTIME, time.0.to_be_bytes())
        .max(field, CTIME, time.0)
        .add(field, VERSION, 1)
        .read(field)
        .reclaims()
}
