//! Renaming. Inside one shard it is one batch; between two it takes the steps that `entry`
//! describes, any of which somebody else can finish or undo. One that gives a directory another parent
//! holds a lock meanwhile; see `rename_lock`.

use tidefs_model::Ino;
use tidefs_store::{Batch, Store, StoreError};

use crate::attr::Kind;
use crate::entering::{Entered, Entering};
use crate::entry::{EntryRecord, Passage, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode;
use crate::keys;
use crate::names::{ATTEMPTS, Settled, check_name, date, recount, touch};
use crate::ops::RenameMode;
use crate::rename_lock::{Intent, changes_parents};

/// A rename whose entries have been found and may take place.
struct Rename {
    old: Place,
    new: Place,
    moved: Settled,
    /// Who has the new name now.
    replaced: Option<Settled>,
    mode: RenameMode,
    /// Between two shards.
    transaction: u64,
}

/// Under the lock for directories' renames: what is said there, and the term.
type Locked<'a> = (&'a Intent, u64);

impl Rename {
    /// What takes another file's name, or one that is no longer, takes no more room than it frees.
    fn reclaims(&self, batch: Batch) -> Batch {
        let is_in_shard = self.old.shard == self.new.shard;
        let is_no_longer = is_in_shard && self.new.name.len() <= self.old.name.len();
        if self.dropped().is_some() || is_no_longer { batch.reclaims() } else { batch }
    }

    /// Who takes the old name in an exchange.
    fn instead(&self) -> Option<Reference> {
        let exchanged = self.replaced.as_ref().filter(|_| self.mode == RenameMode::Exchange);
        exchanged.map(|settled| settled.reference)
    }

    /// Who loses the new name for good.
    fn dropped(&self) -> Option<Reference> {
        let dropped = self.replaced.as_ref().filter(|_| self.mode == RenameMode::Replace);
        dropped.map(|settled| settled.reference)
    }
}

impl<S: Store> Fs<S> {
    /// Gives a file another name, atomically for every observer.
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<(), Error> {
        check_name(new_name)?;
        let old = self.place(parent, name);
        let new = self.place(new_parent, new_name);
        let _moves = self.store.delegations.begin_moves(&old, &new, mode)?;
        let done = self.rename_places(&old, &new, mode);
        self.hints.drop_of(&[&old, &new]);
        done
    }

    fn rename_places(&self, old: &Place, new: &Place, mode: RenameMode) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let Some(rename) = self.prepare(old, new, mode)? else { return Ok(()) };
            let happened = match self.intent_of(&rename)? {
                Some(intent) => self.with_rename_lock(&intent, |term| {
                    self.carry_out_or_replace(&rename, Some((&intent, term)))
                })?,
                None => self.carry_out_or_replace(&rename, None)?,
            };
            if happened {
                self.follow_up(&rename);
                return Ok(());
            }
        }
        Err(Error::Contended)
    }

    /// What a rename does to directories' parents; `None`: nothing.
    fn intent_of(&self, rename: &Rename) -> Result<Option<Intent>, Error> {
        let (from, to) = (&rename.old, &rename.new);
        let (moved, instead) = (rename.moved.reference, rename.instead());
        if !changes_parents(from, to, Some(moved), instead) {
            return Ok(None);
        }
        let home = |directory| Ok::<_, Error>(self.table.get(directory)?.home);
        Ok(Some(Intent {
            transaction: rename.transaction,
            from_home: home(from.shard.directory)?,
            from: from.clone(),
            to_home: home(to.shard.directory)?,
            to: to.clone(),
            moved,
            instead,
        }))
    }

    /// `false`: an entry changed meanwhile and nothing happened.
    fn carry_out_or_replace(
        &self,
        rename: &Rename,
        locked: Option<Locked<'_>>,
    ) -> Result<bool, Error> {
        match rename.dropped().filter(|dropped| dropped.kind == Kind::Directory) {
            Some(directory) => self.replace_directory(rename, directory, locked),
            None => self.carry_out(rename, None, locked),
        }
    }

    /// What follows a rename that has happened, and makes it no failure any more: each step is tried.
    fn follow_up(&self, rename: &Rename) {
        self.was_placed(rename.moved.reference, &rename.new);
        if let Some(other) = rename.instead() {
            self.was_placed(other, &rename.old);
        }
        for moved in [Some(rename.moved.reference), rename.instead()].into_iter().flatten() {
            if let Err(error) = self.touch_inode(moved) {
                let ino = moved.ino;
                tracing::warn!(%error, %ino, "a file that was renamed keeps its time of change");
            }
        }
        let file = rename.dropped().filter(|file| file.kind != Kind::Directory);
        if let Some(file) = file
            && let Err(error) = self.drop_replaced(file)
        {
            tracing::warn!(%error, ino = %file.ino, "a replaced file is left for fsck to free");
        }
    }

    /// Finds both entries and checks that the rename is allowed. `None`: there is nothing to do.
    fn prepare(&self, old: &Place, new: &Place, mode: RenameMode) -> Result<Option<Rename>, Error> {
        let moved = self.settle(old)?.ok_or(Error::NotFound)?;
        if old == new {
            return if mode == RenameMode::NoReplace { Err(Error::Exists) } else { Ok(None) };
        }
        let replaced = self.settle(new)?;
        match (&replaced, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(Error::Exists),
            (None, RenameMode::Exchange) => return Err(Error::NotFound),
            (Some(other), _) if other.reference.ino == moved.reference.ino => return Ok(None),
            (Some(other), RenameMode::Replace) => {
                match (moved.reference.kind, other.reference.kind) {
                    (Kind::Directory, Kind::Directory) => {}
                    (Kind::Directory, _) => return Err(Error::NotADirectory),
                    (_, Kind::Directory) => return Err(Error::IsADirectory),
                    _ => {}
                }
            }
            _ => {}
        }
        for settled in [Some(&moved), replaced.as_ref()].into_iter().flatten() {
            if settled.reference.kind == Kind::Directory && !self.is_alone() {
                self.clear_closings(settled.reference)?;
            }
        }
        let transaction = self.new_transaction();
        let (old, new) = (old.clone(), new.clone());
        Ok(Some(Rename { old, new, moved, replaced, mode, transaction }))
    }

    fn replace_directory(
        &self,
        rename: &Rename,
        replaced: Reference,
        locked: Option<Locked<'_>>,
    ) -> Result<bool, Error> {
        let step = |fence| self.carry_out(rename, fence, locked);
        match self.while_empty(replaced, &rename.new, step) {
            Err(Error::NotEmpty) if self.settle_leavers(replaced.ino)? => Ok(false),
            Err(Error::Contended) => Ok(false),
            other => other,
        }
    }

    fn carry_out(
        &self,
        rename: &Rename,
        fence: Option<u64>,
        locked: Option<Locked<'_>>,
    ) -> Result<bool, Error> {
        if rename.old.shard == rename.new.shard {
            return self.rename_in_shard(rename, fence);
        }
        let transaction = rename.transaction;
        let leaving = self.leaving(rename);
        if !self.mark_leaving(rename, &leaving)? {
            return Ok(false);
        }
        let arrived = EntryRecord {
            reference: rename.moved.reference,
            passage: Some(Passage::Arrived {
                transaction,
                from: rename.old.clone(),
                instead: rename.instead(),
            }),
        };
        let happened = self.arrive(rename, &arrived, fence);
        match happened {
            Ok(true) => {
                let finished = self
                    .finish_old(&rename.old, transaction, rename.instead())
                    .and_then(|()| {
                        locked.map_or(Ok(()), |(intent, term)| self.set_parents(intent, term))
                    })
                    .and_then(|()| self.clear_mark(&rename.new, &arrived));
                if let Err(error) = finished {
                    tracing::debug!(%error, "a rename is left for the next reader to finish");
                }
            }
            Ok(false) | Err(Error::NotFound) => self.clear_mark(&rename.old, &leaving)?,
            // A full store did nothing, and nobody has to find that out.
            Err(Error::Store(StoreError::Full { .. } | StoreError::Interrupted { .. })) => {
                if let Err(error) = self.clear_mark(&rename.old, &leaving) {
                    tracing::debug!(%error, "a rename is left for the next reader to undo");
                }
            }
            // Nobody knows: whoever reads the old entry next decides.
            Err(_) => {}
        }
        happened
    }

    fn rename_in_shard(&self, rename: &Rename, fence: Option<u64>) -> Result<bool, Error> {
        let (old, new) = (keys::entry(&rename.old.name), keys::entry(&rename.new.name));
        let moved = EntryRecord::settled(rename.moved.reference).encode();
        let batch = Batch::new().equals(old.clone(), rename.moved.record.clone());
        let batch = expect(batch, new.clone(), rename.replaced.as_ref());
        let batch = fence
            .into_iter()
            .fold(batch, |batch, transaction| batch.absent(keys::aborted(transaction)));
        let batch = match rename.instead() {
            Some(other) => batch.put(old, EntryRecord::settled(other).encode()),
            None => recount(batch.delete(old), None, Some(rename.moved.reference)),
        };
        let batch = match rename.mode {
            RenameMode::Exchange => batch,
            _ => recount(batch, Some(rename.moved.reference), rename.dropped()),
        };
        let batch = rename.reclaims(touch(batch.put(new, moved), self.now()));
        let entered = self.add_name(&rename.new, batch, Entering::Within)?;
        Ok(entered == Entered::Done)
    }

    /// The first step: the old entry says where it goes.
    fn mark_leaving(&self, rename: &Rename, leaving: &EntryRecord) -> Result<bool, Error> {
        let entry = keys::entry(&rename.old.name);
        let batch = Batch::new()
            .equals(entry.clone(), rename.moved.record.clone())
            .put(entry, leaving.encode())
            .reclaims();
        Ok(self.store.batch(rename.old.shard, &batch)?.applied())
    }

    fn leaving(&self, rename: &Rename) -> EntryRecord {
        EntryRecord {
            reference: rename.moved.reference,
            passage: Some(Passage::Leaving {
                transaction: rename.transaction,
                to: rename.new.clone(),
                instead: rename.instead(),
            }),
        }
    }

    /// The second step: from here on the file has its new name.
    fn arrive(
        &self,
        rename: &Rename,
        arrived: &EntryRecord,
        fence: Option<u64>,
    ) -> Result<bool, Error> {
        let entry = keys::entry(&rename.new.name);
        let transaction = rename.transaction;
        let batch = expect(Batch::new(), entry.clone(), rename.replaced.as_ref());
        let batch = [Some(transaction), fence]
            .into_iter()
            .flatten()
            .fold(batch, |batch, number| batch.absent(keys::aborted(number)));
        let goes = rename.replaced.as_ref().map(|settled| settled.reference);
        let batch = recount(batch, Some(rename.moved.reference), goes);
        let batch = rename.reclaims(touch(batch.put(entry, arrived.encode()), self.now()));
        let is_within = rename.old.shard.directory == rename.new.shard.directory;
        let name = if is_within { Entering::Within } else { Entering::FromElsewhere };
        let happened = match self.add_name(&rename.new, batch, name) {
            // It is surely not there.
            Err(Error::NotFound) => Err(Error::NotFound),
            entered => Ok(entered? == Entered::Done),
        };
        if happened != Ok(true) {
            let fence = Batch::new().delete(keys::aborted(transaction)).reclaims();
            self.store.batch(rename.new.shard, &fence)?;
        }
        happened
    }

    fn touch_inode(&self, reference: Reference) -> Result<(), Error> {
        let field = keys::inode(reference.ino);
        let batch = Batch::new().present(field.clone());
        let batch = date(batch, &field, inode::CTIME, self.now()).reclaims();
        if self.store.batch(reference.home, &batch)?.applied() {
            self.record_of_directory_changed(reference.ino, &batch);
        }
        self.forget_directory(reference.ino);
        Ok(())
    }
}

/// The new name is as it was found.
fn expect(batch: Batch, entry: Vec<u8>, found: Option<&Settled>) -> Batch {
    match found {
        Some(settled) => batch.equals(entry, settled.record.clone()),
        None => batch.absent(entry),
    }
}
