//! Making what was answered, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Outcome, Store, StoreError, StripeWrite, caller};

use super::pending::Group;
use super::{Change, Creation, Nameless, Removal, WriteBack};
use crate::error::Error;
use crate::inode::Inode;
use crate::keys;

impl<S: Store> WriteBack<S> {
    /// Makes all that waits, in one round where none of it fails.
    pub fn flush_changes(&self) {
        self.flush_together();
        for shard in self.pending.shards() {
            self.flush_shard(self.pending.take_of(shard, self.term()));
        }
    }

    /// The store has all that was answered, or has refused it.
    pub fn settle_all(&self) {
        self.settle(self.pending.held());
    }

    /// Makes what waits of a shard, and what else goes with it.
    pub(super) fn flush_for(&self, shard: ShardKey) {
        self.flush_together();
        self.flush_shard(self.pending.take_of(shard, self.term()));
    }

    /// Makes all that waits in one round. Where that fails it waits again, and some may have been
    /// made.
    fn flush_together(&self) {
        let group = self.pending.take_all(self.term());
        if group.is_of_one_shard() {
            return self.flush_shard(group);
        }
        let make = || caller::without_waiting(|| self.batches_now(&batches_of(&group)));
        match caller::in_term(group.term, make) {
            Ok(outcomes) => {
                self.conclude(&group.changes, outcomes.into_iter().map(Ok).collect());
            }
            Err(_) => group.put_back(),
        }
    }

    /// Where that fails, each finds out for itself, but a node that does not answer is not waited for
    /// again and again. Nothing waits for room: the changes are other programs' than the one that has
    /// them made, and whoever asked for one waits when it wants to be sure.
    fn flush_shard(&self, group: Group<'_>) {
        if !group.changes.is_empty() {
            let term = group.term;
            caller::in_term(term, || caller::without_waiting(|| self.flush_each(group)));
        }
    }

    fn flush_each(&self, group: Group<'_>) {
        let batches = batches_of(&group);
        let mut silent = None;
        let mut each = |(shard, batch): &(ShardKey, Batch)| {
            let outcome = silent.clone().map_or_else(|| self.batch_now(*shard, batch), Err);
            silent = outcome.as_ref().err().filter(|error| is_silence(error)).cloned();
            outcome
        };
        let outcomes = match self.batches_now(&batches) {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(_) => batches.iter().map(&mut each).collect(),
        };
        self.conclude(&group.changes, outcomes);
    }

    /// None of what waits is made.
    pub(super) fn give_up_all(&self, error: &Error) {
        let group = self.pending.take_whatever(self.term());
        group.changes.iter().for_each(|change| self.failed(change, error.clone()));
    }

    /// The file has been made, if it was deferred; or why it could not be.
    ///
    /// # Errors
    /// Each time, until the file is [made again](WriteBack::make_again) or given up.
    pub fn make_sure(&self, home: ShardKey, ino: Ino) -> Result<(), Error> {
        self.settle([home]);
        if !self.has_failed_creates.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.lock(&self.failed_creates).get(&ino).map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Has a file that could not be made tried once more.
    pub fn make_again(&self, ino: Ino) {
        let Some(change) = self.begin_to_make_again(ino) else { return };
        let batch = change.batch();
        let outcome = self.batch_now(change.place().shard, &batch);
        self.conclude(&[change], vec![outcome]);
        self.lock(&self.made_again).remove(&ino);
        // What was read of the directory meanwhile is from before it.
        self.failures.fetch_add(1, Ordering::SeqCst);
    }

    /// Whoever asks meanwhile finds it in one of both lists: the store has no record of it, and it is not gone.
    fn begin_to_make_again(&self, ino: Ino) -> Option<Arc<Change>> {
        let mut made_again = self.lock(&self.made_again);
        let (change, _) = self.take_failed_create(ino)?;
        made_again.insert(ino);
        Some(change)
    }

    /// Nobody has the file open any more.
    pub fn give_up(&self, ino: Ino) {
        if self.has_failed_creates.load(Ordering::SeqCst) {
            self.take_failed_create(ino);
        }
    }

    /// Why a name could not be made, or removed, once.
    pub fn take_sticky_error(&self) -> Result<(), Error> {
        self.lock(&self.sticky_error).take().map_or(Ok(()), Err)
    }

    /// The file is answered for, and nobody is making it yet.
    pub fn waits_to_make(&self, home: ShardKey, ino: Ino) -> bool {
        !self.pending.is_empty() && self.pending.has_creation(home, ino)
    }

    /// The same, or it could not be made and is tried again when it is closed.
    pub fn is_to_be_made(&self, home: ShardKey, ino: Ino) -> bool {
        let has_failed = self.has_failed_creates.load(Ordering::SeqCst);
        self.waits_to_make(home, ino)
            || has_failed && self.lock(&self.failed_creates).contains_key(&ino)
            || self.lock(&self.made_again).contains(&ino)
    }

    /// Takes over to make a file, if it still waits for that.
    pub fn claim(&self, home: ShardKey, ino: Ino) -> Option<Making<'_, S>> {
        if self.pending.is_empty() {
            return None;
        }
        let group = self.pending.take_creation(home, ino, self.term())?;
        Some(Making { write_back: self, group })
    }

    fn take_failed_create(&self, ino: Ino) -> Option<(Arc<Change>, Error)> {
        let mut failed_creates = self.lock(&self.failed_creates);
        let taken = failed_creates.remove(&ino);
        self.has_failed_creates.store(!failed_creates.is_empty(), Ordering::SeqCst);
        taken
    }

    fn conclude(&self, changes: &[Arc<Change>], outcomes: Vec<Result<Outcome, StoreError>>) {
        for (change, outcome) in changes.iter().zip(outcomes) {
            let concluded = match &**change {
                Change::Creation(_) => self.conclude_creation(change, outcome).map(drop),
                Change::Removal(removal) => self.conclude_removal(change, removal, outcome),
            };
            if let Err(error) = concluded {
                self.failed(change, error);
            }
        }
    }

    /// How the file was made, if it was.
    fn conclude_creation(
        &self,
        change: &Change,
        outcome: Result<Outcome, StoreError>,
    ) -> Result<Made, Error> {
        let error = match outcome {
            Ok(outcome) if outcome.applied() => return Ok(Made::AsAsked),
            Ok(_) => Error::Stale,
            Err(error @ (StoreError::Full { .. } | StoreError::Unavailable { .. })) => {
                return Err(error.into());
            }
            Err(error) => error.into(),
        };
        // It may have been made although nobody was told.
        let there = self.read(change.place().shard, keys::entry(&change.place().name))?;
        if there == Some(change.entry_record()) { Ok(Made::Perhaps) } else { Err(error) }
    }

    fn conclude_removal(
        &self,
        change: &Change,
        removal: &Removal,
        outcome: Result<Outcome, StoreError>,
    ) -> Result<(), Error> {
        let shard = change.place().shard;
        let outcome = match outcome {
            Err(error) if is_silence(&error) => Err(error),
            // It may have been removed although nobody was told; then this one is refused.
            Err(_) => self.batch_now(shard, &change.batch()),
            outcome => outcome,
        }?;
        if !outcome.applied() {
            let there = self.read(shard, keys::entry(&change.place().name))?;
            if there.is_some() {
                return Err(Error::Stale);
            }
        }
        let record = match outcome.applied() {
            true => outcome.values.into_iter().next().flatten(),
            false => self.read(shard, keys::inode(change.ino()))?,
        };
        let Some(record) = record else { return Ok(()) };
        let inode = Inode::decode(change.ino(), &record)?;
        if inode.nlink == 0 {
            let Removal { reference, .. } = removal;
            let nameless = Nameless { home: reference.home, ino: reference.ino, size: inode.size };
            self.lock(&self.nameless).insert(reference.ino, (nameless, false));
        }
        Ok(())
    }

    fn read(&self, shard: ShardKey, field: Vec<u8>) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.batch_now(shard, &Batch::new().read(field))?.take(0))
    }

    fn failed(&self, change: &Arc<Change>, error: Error) {
        if let Some(known) = &self.known {
            known.forget(change.place().shard, &change.batch());
        }
        self.failures.fetch_add(1, Ordering::SeqCst);
        // Whoever closes a file that met a full store waits for room.
        if !matches!(error, Error::Store(StoreError::Full { .. })) {
            self.lock(&self.sticky_error).get_or_insert(error.clone());
        }
        let name = String::from_utf8_lossy(&change.place().name).into_owned();
        let directory = change.place().shard.directory;
        match &**change {
            Change::Creation(_) => {
                tracing::warn!(%error, name, %directory, "a file could not be made");
                let mut failed_creates = self.lock(&self.failed_creates);
                failed_creates.insert(change.ino(), (Arc::clone(change), error));
                self.has_failed_creates.store(true, Ordering::SeqCst);
            }
            Change::Removal(_) => {
                tracing::warn!(%error, name, %directory, "a name that was removed is still there");
            }
        }
    }
}

fn batches_of(group: &Group<'_>) -> Vec<(ShardKey, Batch)> {
    group.changes.iter().map(|change| (change.place().shard, change.batch())).collect()
}

fn is_silence(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { .. })
}

/// How a file was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    AsAsked,
    /// Its name is there, perhaps by an earlier attempt, which made it empty.
    Perhaps,
}

/// A file that its holder makes.
pub(crate) struct Making<'d, S: Store> {
    write_back: &'d WriteBack<S>,
    group: Group<'d>,
}

impl<S: Store> Making<'_, S> {
    fn creation(&self) -> &Creation {
        match &*self.group.changes[0] {
            Change::Creation(creation) => creation,
            Change::Removal(_) => unreachable!("a creation was asked for"),
        }
    }

    /// The inode as it was made.
    pub fn inode(&self) -> Inode {
        self.creation().inode.clone()
    }

    /// Makes the file as `inode` has it, and writes bytes at the same time; each succeeds or fails by
    /// itself.
    pub fn make_with(
        self,
        writes: &[StripeWrite<'_>],
        inode: &Inode,
    ) -> (Result<(), StoreError>, Result<Made, Error>) {
        let (write_back, creation) = (self.write_back, self.creation());
        let batch = creation.batch(inode);
        let change = &self.group.changes[0];
        let (written, made) = caller::in_term(self.group.term, || {
            let (written, outcome) =
                write_back.write_and_batch_now(writes, creation.place.shard, &batch);
            (written, write_back.conclude_creation(change, outcome))
        });
        if let Err(error) = &made {
            write_back.failed(change, error.clone());
        }
        (written, made)
    }
}
