//! The changes that the data path makes to an inode's record in its home shard, each one batch.
//!
//! Every one counts the version up, so that other mounts learn that the bytes changed, and answers
//! with the record as it was right after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError, StripeWrite};

use super::delete::without_record;
use super::regions::marking;
use super::state::Stored;
use crate::inode::{
    APPENDS, BYTES, CTIME, CUT_AS_OF, CUT_FROM, CutAt, HOLES, Hole, Inode, MTIME, SIZE, SPARSE,
    VERSION, u64_at,
};
use crate::write_back::{Made, Making, WriteBack};
use crate::{Error, FILE_BYTES_MAX, keys};

/// Nanoseconds. A batch takes less, and nobody sets a time to so near a future.
const SLACK: u64 = 1_000_000_000;

pub(super) struct Record<S: Store> {
    pub store: Arc<WriteBack<S>>,
    pub home: ShardKey,
    pub ino: Ino,
    /// A change of the record failed, so what is known of it may be wrong.
    doubtful: AtomicBool,
    /// The version that was read or made last.
    version: AtomicU64,
    /// What the next change says of gaps.
    sparse: AtomicBool,
}

/// What became of a new size.
pub(super) enum Resized {
    Done(Stored),
    /// Another mount made the file larger than was thought, or wrote to it.
    Changed(Stored),
}

impl<S: Store> Record<S> {
    pub fn new(store: Arc<WriteBack<S>>, home: ShardKey, ino: Ino) -> Record<S> {
        Record {
            store,
            home,
            ino,
            doubtful: AtomicBool::new(false),
            version: AtomicU64::new(0),
            sparse: AtomicBool::new(false),
        }
    }

    /// The record is to say that the file may have gaps, or that it has none.
    pub fn set_sparse(&self, sparse: bool) {
        self.sparse.store(sparse, Ordering::Release);
    }

    pub fn is_to_be_sparse(&self) -> bool {
        self.sparse.load(Ordering::Acquire)
    }

    /// The record was read and had this version.
    pub fn saw(&self, version: u64) {
        self.version.fetch_max(version, Ordering::SeqCst);
    }

    pub fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::SeqCst)
    }

    /// The file was written at `time`, reaches to `size` at least, and has stripes in `regions`.
    /// They are marked again in the same batch: another mount may have cut the file, and removed
    /// the marks, after the stripes were written. Without a time: that is in the record already, perhaps a
    /// later one of another mount, and what has arrived since changes the size at most.
    pub fn commit(
        &self,
        size: u64,
        regions: &[u32],
        time: Option<Time>,
        now: Time,
    ) -> Result<Stored, Error> {
        let field = keys::inode(self.ino);
        let batch = marking(self.covering(size), self.ino, regions);
        let outcome = match time {
            Some(time) => self.apply(batch, &field, time, now)?,
            None => {
                let batch = counted(batch, &field, Time(0));
                self.noted(self.store.batch(self.home, &batch))?
            }
        };
        self.applied(outcome)
    }

    /// Nobody is given a place before `end` from now on. The file is as long as it was.
    pub fn promise(&self, end: u64) -> Result<Stored, Error> {
        let field = keys::inode(self.ino);
        let batch = Batch::new().present(&*field).max(&*field, APPENDS, end);
        let outcome = self.noted(self.store.batch(self.home, &batch.read(&*field).reclaims()))?;
        self.applied(outcome)
    }

    /// As [`Record::commit`], and writes bytes at the same time; each succeeds or fails by itself.
    pub fn commit_with(
        &self,
        writes: &[StripeWrite<'_>],
        size: u64,
        time: Option<Time>,
        now: Time,
    ) -> (Result<(), StoreError>, Result<Stored, Error>) {
        if let Some(making) = self.store.claim(self.home, self.ino) {
            return self.make_with(making, writes, size, time, now);
        }
        let Some(time) = time else {
            let written = self.store.write(writes);
            let committed = written.clone().map_err(Error::from);
            return (written, committed.and_then(|()| self.commit(size, &[], None, now)));
        };
        let field = keys::inode(self.ino);
        let batch = dated(counted(self.covering(size), &field, time), &field, time);
        let batch = batch.at_most(&*field, MTIME, time.0);
        let (written, outcome) = self.store.write_and_batch(writes, self.home, &batch);
        let committed = match self.noted(outcome) {
            Ok(outcome) if outcome.applied() => self.stored(outcome),
            // The file is gone, or its time is a later one.
            Ok(_) => self.commit(size, &[], Some(time), now),
            Err(error) => Err(error),
        };
        (written, committed)
    }

    /// The same for a file that is still to be made: it is made as it is to be.
    fn make_with(
        &self,
        making: Making<'_, S>,
        writes: &[StripeWrite<'_>],
        size: u64,
        time: Option<Time>,
        now: Time,
    ) -> (Result<(), StoreError>, Result<Stored, Error>) {
        let made = making.inode();
        let (mtime, ctime) = (time.unwrap_or(made.mtime), made.ctime.max(time.unwrap_or_default()));
        let sparse = made.sparse || self.is_to_be_sparse();
        let inode = Inode { size, version: made.version + 1, mtime, ctime, sparse, ..made };
        let (written, made) = making.make_with(writes, &inode);
        let committed = match made {
            Ok(Made::AsAsked) => {
                self.saw(inode.version);
                Ok(Stored::of(&inode))
            }
            Ok(Made::Perhaps) => self.commit(size, &[], time, now),
            Err(error) => Err(error),
        };
        (written, committed)
    }

    fn covering(&self, size: u64) -> Batch {
        let field = keys::inode(self.ino);
        let batch =
            Batch::new().present(&*field).max(&*field, SIZE, size).max(&*field, APPENDS, size);
        if self.is_to_be_sparse() { batch.patch(&*field, SPARSE, [1]) } else { batch }
    }

    /// Sets the size, if the file is no larger than `size_max` and, where `version` is given, was
    /// not written since it had that. `cut`: the record says so.
    pub fn resize(
        &self,
        size: u64,
        size_max: u64,
        version: Option<u64>,
        cut: Option<CutAt>,
        time: Time,
    ) -> Result<Resized, Error> {
        let field = keys::inode(self.ino);
        let batch = Batch::new().present(&*field).at_most(&*field, SIZE, size_max);
        let batch = version
            .into_iter()
            .fold(batch, |batch, version| batch.at_most(&*field, VERSION, version));
        let batch = batch.patch(&*field, SIZE, size.to_be_bytes());
        let batch = batch.patch(&*field, APPENDS, size.to_be_bytes());
        let batch = match (self.is_to_be_sparse(), size) {
            (true, _) => batch.patch(&*field, SPARSE, [1]),
            (false, 0) => batch.patch(&*field, SPARSE, [0]),
            (false, _) => batch,
        };
        let batch = cut.into_iter().fold(batch, |batch, cut| {
            let batch = batch.patch(&*field, CUT_FROM, cut.from.to_be_bytes());
            batch.patch(&*field, CUT_AS_OF, cut.as_of.to_be_bytes())
        });
        let outcome = self.apply(batch, &field, time, time)?;
        match outcome.refused_by {
            None => self.applied(outcome).map(Resized::Done),
            Some(0) => Err(Error::Stale),
            Some(_) => self.stored(outcome).map(Resized::Changed),
        }
    }

    /// Hands out a place for `bytes` at the end of the file, behind all others that were handed out. The
    /// file is not longer before the bytes are there: others would read zeros in their place. `None`: it
    /// does not reach to `least` any more.
    pub fn reserve(&self, bytes: u64, least: u64) -> Result<Option<(Stored, u64)>, Error> {
        let field = keys::inode(self.ino);
        let room = FILE_BYTES_MAX.checked_sub(bytes).ok_or(Error::FileTooLarge)?;
        let batch = Batch::new().present(&*field).at_most(&*field, APPENDS, room);
        let batch = batch.at_least(&*field, APPENDS, least).add(&*field, APPENDS, bytes as i64);
        let outcome = self.noted(self.store.batch(self.home, &batch.read(&*field).reclaims()))?;
        match outcome.refused_by {
            None => {
                let end = outcome.values.first().and_then(Option::as_deref);
                let end = end.filter(|it| it.len() >= BYTES).map(|it| u64_at(it, APPENDS));
                let stored = self.applied(outcome)?;
                // A record of fewer bytes does not decode.
                Ok(end.map(|end| (stored, end.saturating_sub(bytes))))
            }
            Some(0) => Err(Error::Stale),
            Some(1) => Err(Error::FileTooLarge),
            Some(_) => Ok(None),
        }
    }

    /// Reads the record. Answers as well how far places of appends were handed out.
    pub fn look(&self) -> Result<(Stored, u64), Error> {
        let field = keys::inode(self.ino);
        let mut outcome = self.store.batch(self.home, &Batch::new().read(field))?;
        let record = outcome.take(0).ok_or(Error::Stale)?;
        let stored = Stored::of(&Inode::decode(self.ino, &record)?);
        Ok((stored, u64_at(&record, APPENDS)))
    }

    /// The same with the holes that it says of, and the record itself.
    pub fn look_at_holes(&self) -> Result<(Stored, Vec<Hole>, Bytes), Error> {
        let read = Batch::new().read(keys::inode(self.ino));
        let record = self.store.batch(self.home, &read)?.take(0).ok_or(Error::Stale)?;
        let inode = Inode::decode(self.ino, &record)?;
        Ok((Stored::of(&inode), inode.holes, record))
    }

    /// Has the record, as it was read, say of holes. `false`: somebody else has changed it.
    pub fn note_holes(&self, holes: &[Hole], record: Bytes) -> Result<bool, Error> {
        let field = keys::inode(self.ino);
        let room = record.len().saturating_sub(HOLES as usize);
        let mut list: Bytes = holes.iter().flat_map(|hole| hole.encode()).collect();
        // A record does not get shorter: what it said of more is nothing.
        list.resize(list.len().max(room), 0);
        let batch = Batch::new().equals(&*field, record).patch(&*field, HOLES, list).reclaims();
        Ok(self.store.batch(self.home, &batch)?.applied())
    }

    /// Removes the inode and its extended attributes.
    pub fn remove(&self) -> Result<(), Error> {
        self.store.batch(self.home, &without_record(Batch::new(), self.ino))?;
        Ok(())
    }

    /// The times do not go back because another mount's change was later and came first, whether or not this
    /// mount has seen that since it wrote. A modification time that a program has set to the future, later
    /// than `now`, does: nobody changed the bytes since they were seen last then.
    fn apply(&self, batch: Batch, field: &[u8], time: Time, now: Time) -> Result<Outcome, Error> {
        let batch = counted(batch, field, time);
        let later = batch.checks.len();
        let first = dated(batch.clone(), field, time).at_most(field, MTIME, time.0);
        let outcome = self.noted(self.store.batch(self.home, &first))?;
        if outcome.refused_by != Some(later) {
            return Ok(outcome);
        }
        let found = self.stored(outcome)?;
        let by_others = found.version != self.version.load(Ordering::SeqCst);
        // As the store compares them: a time before 1970 is later than all others. Since `now` was asked for,
        // another mount's write may have been seen.
        let is_set = found.mtime.0 > now.0.saturating_add(SLACK) && !by_others;
        let second = if is_set { dated(batch, field, time) } else { batch };
        self.noted(self.store.batch(self.home, &second))
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
        let stored = Stored::of(&Inode::decode(self.ino, &record)?);
        if outcome.applied() {
            self.saw(stored.version);
        }
        Ok(stored)
    }
}

/// A change of the record: the status-change time never goes back, and the version counts it.
fn counted(batch: Batch, field: &[u8], time: Time) -> Batch {
    batch.max(field, CTIME, time.0).add(field, VERSION, 1).read(field).reclaims()
}

fn dated(batch: Batch, field: &[u8], time: Time) -> Batch {
    batch.patch(field, MTIME, time.0.to_be_bytes())
}
