//! Removing names, and the inodes and bytes that have none any more.

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use crate::attr::Kind;
use crate::closing::Closing;
use crate::entry::{EntryRecord, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::hints::Hint;
use crate::inode::{self, Inode};
use crate::keys;
use crate::names::{ATTEMPTS, Settled, recount, touch};
use crate::table::Slot;
use crate::write_back::{Change, Removal, less_one_link};

impl<S: Store> Fs<S> {
    /// Removes a name of a file that is not a directory. The file goes with its last name and its
    /// last handle in this mount.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<(), Error> {
        let place = self.place(parent, name);
        let removed = self.unlink_at(&place);
        // Somebody may have looked it up meanwhile.
        self.hints.drop_of(&[&place]);
        removed
    }

    fn unlink_at(&self, place: &Place) -> Result<(), Error> {
        if self.unlink_as_hinted(place)? {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            let found = self.settle(place)?.ok_or(Error::NotFound)?;
            if found.reference.kind == Kind::Directory {
                return Err(Error::IsADirectory);
            }
            if self.unlink_settled(place, &found)? {
                return Ok(());
            }
        }
        Err(Error::Contended)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<(), Error> {
        let place = self.place(parent, name);
        let removed = self.rmdir_at(&place);
        self.hints.drop_of(&[&place]);
        removed
    }

    fn rmdir_at(&self, place: &Place) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let found = self.settle(place)?.ok_or(Error::NotFound)?;
            if found.reference.kind != Kind::Directory {
                return Err(Error::NotADirectory);
            }
            match self.rmdir_settled(place, &found) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Error::Contended) => self.reopen_closed(&found)?,
                Err(Error::NotEmpty) if self.settle_leavers(found.reference.ino)? => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended)
    }

    /// `false`: the entry changed meanwhile.
    fn unlink_settled(&self, place: &Place, found: &Settled) -> Result<bool, Error> {
        let reference = found.reference;
        let node = self.table.find(reference.ino);
        let _counting_down = node.as_ref().map(|node| node.counting_down.begin(&*self.clock));
        // Held so that nobody opens or releases the file between the count and its consequence.
        let mut slot = node.as_ref().map(|node| node.slot());
        let is_open = node.as_ref().is_some_and(|node| node.is_open());
        let open = slot.as_deref_mut().filter(|_| is_open);
        let removed = self.unlink_locked(place, found, open);
        if let Some(slot) = &mut slot {
            slot.removals += 1;
        }
        self.record_changed(slot.as_deref_mut());
        removed
    }

    /// `open` is the slot of a file that is open.
    fn unlink_locked(
        &self,
        place: &Place,
        found: &Settled,
        open: Option<&mut Slot<S>>,
    ) -> Result<bool, Error> {
        let reference = found.reference;
        if reference.home != place.shard {
            if !self.change_entries(place.shard, self.removal(place, found))?.applied() {
                return Ok(false);
            }
            let left = self.drop_link(reference);
            buried(reference, left.and_then(|left| self.bury(reference, left, open)));
            return Ok(true);
        }
        let field = keys::inode(reference.ino);
        let batch = self.removal(place, found).present(field.clone());
        let batch = less_one_link(batch, reference.ino, self.now()).read(field);
        let mut outcome = self.change_entries(place.shard, batch)?;
        if !outcome.applied() {
            return Ok(false);
        }
        let left = decode(reference, outcome.take(0));
        buried(reference, left.and_then(|left| self.bury(reference, left, open)));
        Ok(true)
    }

    /// Tries what the name stood for when it was last seen; the store checks it.
    fn unlink_as_hinted(&self, place: &Place) -> Result<bool, Error> {
        let Some(Hint { reference, era }) = self.hints.take(place) else { return Ok(false) };
        if reference.kind == Kind::Directory {
            return Ok(false);
        }
        if self.remove_later(place, reference, era) {
            return Ok(true);
        }
        let record = EntryRecord::settled(reference).encode();
        self.unlink_settled(place, &Settled { reference, record })
    }

    /// Removes a name of a file that is not open, once the store comes to it. `noted`: what the name was
    /// known in to stand for that. `false`: nothing was done.
    fn remove_later(&self, place: &Place, reference: Reference, noted: Option<u64>) -> bool {
        let current = noted.is_some() && noted == self.era(place.shard);
        if !current || !self.may_defer() || reference.home != place.shard {
            return false;
        }
        let node = self.table.find(reference.ino);
        let _counting_down = node.as_ref().map(|node| node.counting_down.begin(&*self.clock));
        let mut slot = node.as_ref().map(|node| node.slot());
        if node.as_ref().is_some_and(|node| node.is_open()) {
            return false;
        }
        let removal = Removal { place: place.clone(), reference, at: self.now() };
        let deferred = self.defer(Change::Removal(removal), noted).is_some();
        if deferred {
            if let Some(slot) = &mut slot {
                slot.removals += 1;
            }
            self.record_changed(slot.as_deref_mut());
        }
        deferred
    }

    /// The entry's removal from its shard, on condition that it is still the same.
    pub(crate) fn removal(&self, place: &Place, found: &Settled) -> Batch {
        let entry = keys::entry(&place.name);
        let batch =
            Batch::new().equals(entry.clone(), found.record.clone()).delete(entry).reclaims();
        touch(recount(batch, None, Some(found.reference)), self.now())
    }

    /// Takes one link from an inode and answers what it is then; `None` if it is gone.
    pub(crate) fn drop_link(&self, reference: Reference) -> Result<Option<Inode>, Error> {
        let field = keys::inode(reference.ino);
        let batch = Batch::new().at_least(field.clone(), inode::NLINK, 1).reclaims();
        let batch = less_one_link(batch, reference.ino, self.now()).read(field);
        let mut outcome = self.store.batch(reference.home, &batch)?;
        if outcome.applied() { decode(reference, outcome.take(0)) } else { Ok(None) }
    }

    /// What becomes of an inode that lost a link: without any, it goes at once, or with the last
    /// handle where `open` is its slot.
    fn bury(
        &self,
        reference: Reference,
        left: Option<Inode>,
        open: Option<&mut Slot<S>>,
    ) -> Result<(), Error> {
        match (left.filter(|inode| inode.nlink == 0), open) {
            (None, _) => Ok(()),
            (Some(_), Some(slot)) => {
                slot.unlinked = true;
                if slot.is_left && self.is_alone() {
                    self.data.expect_removed(reference.ino);
                }
                Ok(())
            }
            (Some(inode), None) => {
                let size = if reference.kind == Kind::File { inode.size } else { 0 };
                let later = !self.is_alone();
                match self.data.keep_for_kernel(reference.home, reference.ino, size, later) {
                    true => Ok(()),
                    false => self.remove_record(reference, inode.size),
                }
            }
        }
    }

    /// Removes an inode that has no name, with its attributes and bytes.
    pub(crate) fn remove_inode(&self, reference: Reference) -> Result<(), Error> {
        let read = Batch::new().read(keys::inode(reference.ino));
        let record = self.store.batch(reference.home, &read)?.take(0);
        match decode(reference, record)? {
            Some(inode) => self.remove_record(reference, inode.size),
            None => Ok(()),
        }
    }

    /// A file's record goes after its stripes, in the background, so that a crash in between
    /// leaves a record without links that says what is left to free.
    /// Other mounts may just have found it, so with company it all stays for a while.
    fn remove_record(&self, reference: Reference, size: u64) -> Result<(), Error> {
        if !self.is_alone() {
            self.data.delete_later(reference.home, reference.ino, size);
            return Ok(());
        }
        if reference.kind == Kind::File {
            self.data.delete(reference.home, reference.ino, size);
            return Ok(());
        }
        let batch = Batch::new()
            .delete(keys::inode(reference.ino))
            .delete(keys::xattrs(reference.ino))
            .reclaims();
        self.store.batch(reference.home, &batch)?;
        Ok(())
    }

    /// What a rename does to the file, not a directory, whose name it takes.
    pub(crate) fn drop_replaced(&self, replaced: Reference) -> Result<(), Error> {
        let node = self.table.find(replaced.ino);
        let _counting_down = node.as_ref().map(|node| node.counting_down.begin(&*self.clock));
        let mut slot = node.as_ref().map(|node| node.slot());
        let is_open = node.as_ref().is_some_and(|node| node.is_open());
        let open = slot.as_deref_mut().filter(|_| is_open);
        let dropped = self.drop_link(replaced).and_then(|left| self.bury(replaced, left, open));
        if let Some(slot) = &mut slot {
            slot.removals += 1;
        }
        self.record_changed(slot.as_deref_mut());
        dropped
    }

    fn rmdir_settled(&self, place: &Place, found: &Settled) -> Result<bool, Error> {
        self.while_empty(found.reference, place, |fence| {
            let mut batch = self.removal(place, found);
            if let Some(transaction) = fence {
                batch = batch.absent(keys::aborted(transaction));
            }
            Ok(self.change_entries(place.shard, batch)?.applied())
        })
    }

    /// Runs the step at which an empty directory is removed, with its shards closed if there are
    /// other mounts, and afterwards removes what is left of it. The step answers whether it
    /// happened, and takes the transaction that may have been fenced off.
    pub(crate) fn while_empty(
        &self,
        directory: Reference,
        parent: &Place,
        step: impl FnOnce(Option<u64>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        // Where it cannot be read, whoever is in it learns that it is gone.
        let was = self.find_inode(directory).ok().flatten();
        self.membership.while_alone(self.steady(), |alone| {
            let happened = match alone {
                true if !self.is_empty(directory.ino)? => return Err(Error::NotEmpty),
                true => step(None)?,
                false => self.while_closed(directory.ino, parent, step)?,
            };
            if happened {
                was.into_iter().for_each(|was| self.outlive(directory.ino, was));
                let removed = self.remove_directory(directory);
                self.forget_directory(directory.ino);
                self.store.delegations.watch_no_more(self.shards_of(directory.ino));
                // Its shards stay closed as long as somebody could take it for one that is there.
                if let Err(error) = removed.and_then(|()| self.leave_shards(directory.ino, alone)) {
                    let ino = directory.ino;
                    tracing::warn!(%error, %ino, "a removed directory is left for fsck to free");
                }
            }
            Ok(happened)
        })
    }

    /// A directory's record counts no links in the end, as any other's, so that it is known for
    /// removed while it is still there.
    fn remove_directory(&self, directory: Reference) -> Result<(), Error> {
        if !self.is_alone() {
            let field = keys::inode(directory.ino);
            let batch =
                Batch::new().present(field.clone()).patch(field, inode::NLINK, [0; 8]).reclaims();
            self.store.batch(directory.home, &batch)?;
        }
        self.remove_record(directory, 0)
    }

    fn while_closed(
        &self,
        directory: Ino,
        parent: &Place,
        step: impl FnOnce(Option<u64>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let closing = Closing { transaction: self.new_transaction(), parent: parent.clone() };
        self.close_shards(directory, &closing)?;
        let happened = step(Some(closing.transaction));
        if !matches!(happened, Ok(true)) {
            self.reopen(self.shards_of(directory), &closing.encode())?;
            let fence = Batch::new().delete(keys::aborted(closing.transaction)).reclaims();
            self.store.batch(parent.shard, &fence)?;
        }
        happened
    }

    fn reopen_closed(&self, found: &Settled) -> Result<(), Error> {
        let directory = found.reference.ino;
        for shard in self.shards_of(directory) {
            self.reopen_or_fail(&Place { shard, name: Vec::new() })?;
        }
        Ok(())
    }
}

/// A name is gone, whatever becomes of the file that it stood for.
fn buried(reference: Reference, done: Result<(), Error>) {
    if let Err(error) = done {
        let ino = reference.ino;
        tracing::warn!(%error, %ino, "a file that lost a name is left for fsck to settle");
    }
}

fn decode(reference: Reference, record: Option<Vec<u8>>) -> Result<Option<Inode>, Error> {
    record.map(|record| Inode::decode(reference.ino, &record)).transpose()
}
