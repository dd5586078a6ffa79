//! Changing attributes.

use tidefs_model::{Ino, Time};
use tidefs_store::{Batch, Store};

use crate::attr::{Attr, Kind, SetAttr, SetTime};
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{self, Inode};
use crate::keys::{self, header};
use crate::names::ATTEMPTS;
use crate::ops::Handle;
use crate::table::{Inherited, Node};

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;
pub(super) const MODE_BITS: u32 = 0o7777;

impl<S: Store> Fs<S> {
    /// Changes attributes and answers what they are then; a size through a handle as a write through it would.
    pub fn setattr(
        &self,
        ino: Ino,
        handle: Option<Handle>,
        changes: &SetAttr,
    ) -> Result<Attr, Error> {
        match handle.filter(|_| changes.size.is_some()) {
            Some(handle) => self.through(handle, |_| self.set_attributes(ino, changes)),
            None => self.set_attributes(ino, changes),
        }
    }

    fn set_attributes(&self, ino: Ino, changes: &SetAttr) -> Result<Attr, Error> {
        let node = self.table.get(ino)?;
        let reference = node.reference();
        if self.amend(&node, changes) {
            let inode = self.fetch(reference)?;
            return Ok(self.attr_of(reference, &inode));
        }
        if node.kind == Kind::File && node.is_open() && changes.size.is_none() {
            // It was made too early, if it is a new one.
            self.close_predictor.was_written_again();
        }
        if changes.size.is_some() || changes.uid.is_some() || changes.gid.is_some() {
            self.end_capabilities(&node)?;
        }
        if let Some(size) = changes.size {
            self.resize(reference, size)?;
        }
        if has_others(changes) {
            let changed = self
                .prepare_times(reference, changes)
                .and_then(|changes| self.change(reference, &changes));
            self.forget_directory(reference.ino);
            self.record_of_changed(reference.ino);
            changed?;
        }
        let inode = self.fetch(reference)?;
        Ok(self.attr_of(reference, &inode))
    }

    fn resize(&self, reference: Reference, size: u64) -> Result<(), Error> {
        match reference.kind {
            Kind::File => {}
            Kind::Directory => return Err(Error::IsADirectory),
            _ => return Err(Error::Invalid),
        }
        if size > crate::FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        self.with_file(reference.ino, |file| file.truncate(size))
    }

    /// Makes the record the only place that knows the times which are about to be set. The answer is
    /// what is to be changed then.
    fn prepare_times(&self, reference: Reference, changes: &SetAttr) -> Result<SetAttr, Error> {
        if changes.mtime.is_none() {
            return Ok(*changes);
        }
        if reference.kind == Kind::Directory {
            // What the shards knew of others' changes is not to be lost.
            let was = self.fetch(reference)?;
            let batch = Batch::new()
                .at_least(keys::HEADER, header::CHANGED, 1)
                .patch(keys::HEADER, header::CHANGED, [0; 8])
                .reclaims();
            let batches: Vec<_> =
                self.shards_of(reference.ino).map(|shard| (shard, batch.clone())).collect();
            self.store.batches(&batches)?;
            // Later than what the shards knew.
            let now = self.now();
            let changed = changes.ctime.unwrap_or(now).max(was.ctime);
            let mtime = match changes.mtime {
                Some(SetTime::Now) if was_changed_after(&was, now) => Some(SetTime::At(was.mtime)),
                mtime => mtime,
            };
            return Ok(SetAttr { mtime, ctime: Some(changed), ..*changes });
        }
        let file = self.table.get(reference.ino)?.slot().file.clone();
        let at = match changes.mtime {
            Some(SetTime::At(time)) => Some(time),
            _ => None,
        };
        file.map_or(Ok(()), |file| file.settle_times(at))?;
        Ok(*changes)
    }

    /// One batch where nothing depends on what was there before; otherwise the record is read,
    /// changed and written if nobody else changed it.
    fn change(&self, reference: Reference, changes: &SetAttr) -> Result<(), Error> {
        let field = keys::inode(reference.ino);
        let now = self.now();
        if reference.kind == Kind::Directory
            && self.change_removed(reference.ino, patches(changes, now), changed_at(changes, now))
        {
            return Ok(());
        }
        let depends = changes.clear_privileges
            || (reference.kind != Kind::Directory
                && (changes.uid.is_some() || changes.gid.is_some()));
        if !depends {
            let batch = patch(Batch::new().present(field.clone()), &field, changes, now);
            let is_touched =
                changes.mtime == Some(SetTime::Now) && reference.kind != Kind::Directory;
            let batch = match is_touched {
                true => batch.at_most(field.clone(), inode::MTIME, now.0),
                false => batch,
            };
            match self.store.batch(reference.home, &batch)?.refused_by {
                None => {
                    self.record_of_directory_changed(reference.ino, &batch);
                    return Ok(());
                }
                Some(0) => return Err(Error::Stale),
                Some(_) => {}
            }
        }
        for _ in 0..ATTEMPTS {
            let read = Batch::new().read(field.clone());
            let record = self.store.batch(reference.home, &read)?.take(0).ok_or(Error::Stale)?;
            let inode = Inode::decode(reference.ino, &record)?;
            let mut changes = *changes;
            if depends {
                changes.mode = changes.mode.or(Some(without_privileges(inode.mode)));
            }
            if changes.mtime == Some(SetTime::Now) && was_changed_after(&inode, now) {
                changes.mtime = None;
            }
            let batch = Batch::new().equals(field.clone(), record);
            let batch = patch(batch, &field, &changes, now);
            if self.store.batch(reference.home, &batch)?.applied() {
                self.record_of_directory_changed(reference.ino, &batch);
                return Ok(());
            }
        }
        Err(Error::Contended)
    }

    /// What a change of its bytes does to a file that lends privileges, as far as this mount has seen; one
    /// by an ordinary user to set-user-id.
    pub(crate) fn end_privileges(&self, node: &Node<S>, is_ordinary: bool) -> Result<(), Error> {
        self.end_capabilities(node)?;
        if !is_ordinary || !lends_privileges(node.inherited().mode) {
            return Ok(());
        }
        self.clear_privileges(node.ino)?;
        self.fetch(node.reference()).map(drop)
    }

    /// What a write or a change of owner does to the bits that lend privileges.
    pub(crate) fn clear_privileges(&self, ino: Ino) -> Result<(), Error> {
        let changes = SetAttr { clear_privileges: true, ..SetAttr::default() };
        let changed = self.change(self.table.get(ino)?.reference(), &changes);
        self.record_of_changed(ino);
        changed
    }
}

fn has_others(changes: &SetAttr) -> bool {
    let size_only = SetAttr { size: changes.size, ..SetAttr::default() };
    *changes != size_only
}

impl Inherited {
    /// To those who run it.
    pub(crate) fn lends_anything(&self) -> bool {
        self.capable || lends_privileges(self.mode)
    }
}

/// Set-user-id, or set-group-id of a program.
fn lends_privileges(mode: u32) -> bool {
    without_privileges(mode) != mode
}

pub(super) fn without_privileges(mode: u32) -> u32 {
    let group = if mode & GROUP_EXECUTE != 0 { SET_GROUP_ID } else { 0 };
    mode & !(SET_USER_ID | group)
}

/// Somebody has changed the bytes, or a directory's entries, after `now`, by a clock that is ahead or
/// since that was read. A time that a program has set to the future is later than the change itself.
fn was_changed_after(inode: &Inode, now: Time) -> bool {
    inode.mtime > now && inode.mtime <= inode.ctime
}

/// What is put at which place of a record, but for the time of the change.
fn patches(changes: &SetAttr, now: Time) -> impl Iterator<Item = (u32, Vec<u8>)> {
    let at = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    let small = [
        (inode::MODE, changes.mode.map(|mode| mode & MODE_BITS)),
        (inode::UID, changes.uid),
        (inode::GID, changes.gid),
    ];
    let times = [(inode::ATIME, changes.atime.map(at)), (inode::MTIME, changes.mtime.map(at))];
    let small = small.map(|(place, value)| Some((place, value?.to_be_bytes().to_vec())));
    let times = times.map(|(place, time)| Some((place, time?.0.to_be_bytes().to_vec())));
    small.into_iter().chain(times).flatten()
}

fn changed_at(changes: &SetAttr, now: Time) -> Time {
    changes.ctime.unwrap_or(now)
}

fn patch(batch: Batch, field: &[u8], changes: &SetAttr, now: Time) -> Batch {
    let batch = batch.max(field, inode::CTIME, changed_at(changes, now).0).reclaims();
    patches(changes, now).fold(batch, |batch, (place, bytes)| batch.patch(field, place, bytes))
}
