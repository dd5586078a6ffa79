//! Finding an inode by name or number, and forgetting it.

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use crate::attr::{Attr, Kind};
use crate::entry::{self, EntryRecord, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::Inode;
use crate::keys;
use crate::known_records::Before;
use crate::names::{ATTEMPTS, Resolved};
use crate::ops::{Entry, Handle};

impl<S: Store> Fs<S> {
    /// The entry `name` of a directory.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry, Error> {
        self.look_up(parent, name, Extent::Whole)
    }

    /// The same for a kernel on its way along a path: it asks for attributes again that it may not keep, so of a
    /// directory in which others may be at work it is told what the record says, and no shard is asked.
    pub fn lookup_on_the_way(&self, parent: Ino, name: &[u8]) -> Result<Entry, Error> {
        self.look_up(parent, name, Extent::WhatIsKept)
    }

    fn look_up(&self, parent: Ino, name: &[u8], extent: Extent) -> Result<Entry, Error> {
        if name.len() > crate::NAME_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let place = self.place(parent, name);
        self.is_gone_through(parent);
        if self.is_surely_free(&place) {
            return Err(Error::NotFound);
        }
        self.read_names_ahead(parent, name);
        let before_hint = self.hints.before(&place, self.era(place.shard));
        let Some(seen) = self.find_to(&place, extent)? else {
            // Another mount removed it, and nobody here ever will.
            self.hints.is_gone(&place);
            return Err(Error::NotFound);
        };
        let Seen { before, reference, inode, settled, is_whole } = seen;
        self.hints.saw(&place, reference, settled, before_hint);
        if self.is_loop_for_kernel(reference, &place) {
            return Err(Error::Stale);
        }
        let entry = Entry { is_whole, ..self.enter(reference, &inode, parent) };
        self.was_found(reference, &place);
        self.keep_record(reference.ino, &inode, before);
        Ok(entry)
    }

    /// What a name stands for now.
    pub(crate) fn find_now(&self, place: &Place) -> Result<Option<Seen>, Error> {
        self.find_to(place, Extent::Whole)
    }

    fn find_to(&self, place: &Place, extent: Extent) -> Result<Option<Seen>, Error> {
        for _ in 0..ATTEMPTS {
            let before = self.before_reading();
            match self.find(place, extent)? {
                Found::Nothing => return Ok(None),
                Found::Changed => {}
                Found::Inode { reference, inode, settled, is_whole } => {
                    return Ok(Some(Seen { before, reference, inode, settled, is_whole }));
                }
            }
        }
        Err(Error::Contended)
    }

    /// The kernel gives up some of its look-ups of an inode.
    pub fn forget(&self, ino: Ino, lookups: u64) {
        if self.table.forget(ino, lookups) {
            self.data.forgotten(ino, !self.is_alone());
        }
    }

    /// The attributes of an inode that the kernel knows.
    pub fn getattr(&self, ino: Ino, _handle: Option<Handle>) -> Result<Attr, Error> {
        let node = self.table.get(ino)?;
        let inode = self.fetch(node.reference())?;
        Ok(self.attr_of(node.reference(), &inode))
    }

    /// The target of a symbolic link.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let node = self.table.get(ino)?;
        match node.kind {
            Kind::Symlink => Ok(self.fetch(node.reference())?.target),
            _ => Err(Error::Invalid),
        }
    }

    /// Hands an inode to the kernel, with a name in a directory: one more look-up.
    pub(crate) fn enter(&self, reference: Reference, inode: &Inode, parent: Ino) -> Entry {
        let node = self.table.look_up(reference);
        node.saw(inode);
        if reference.kind != Kind::Directory {
            node.set_parent(parent);
        }
        Entry { attr: self.attr_of(reference, inode), is_whole: true }
    }

    /// The inode behind a name that stands for what it did when it was last seen. Both fields are
    /// named, which costs a store less than following the entry to the inode.
    fn find_as_hinted(&self, place: &Place) -> Result<Option<Found>, Error> {
        let Some(reference) = self.hints.get(place) else { return Ok(None) };
        if reference.home != place.shard || reference.kind == Kind::Directory {
            return Ok(None);
        }
        let (entry, inode) = (keys::entry(&place.name), keys::inode(reference.ino));
        let mut outcome = self.store.batch(place.shard, &Batch::new().read(entry).read(inode))?;
        let Some(raw) = outcome.take(0) else { return Ok(Some(Found::Nothing)) };
        match outcome.take(1) {
            Some(inode) if raw == EntryRecord::settled(reference).encode() => {
                let inode = self.complete(reference, &inode, &[])?;
                Ok(Some(Found::Inode { reference, inode, settled: true, is_whole: true }))
            }
            _ => Ok(None),
        }
    }

    /// The inode behind a name. For most names this is one operation on one shard, since an inode
    /// lives where its file was created.
    fn find(&self, place: &Place, extent: Extent) -> Result<Found, Error> {
        if let Some(found) = self.find_as_hinted(place)? {
            return Ok(found);
        }
        let field = keys::entry(&place.name);
        let prefix = [keys::INODE_PREFIX];
        let batch = Batch::new().read(field.clone()).read_linked(
            field,
            entry::INO_AT,
            entry::INO_BYTES,
            prefix,
        );
        let mut outcome = self.store.batch(place.shard, &batch)?;
        let Some(raw) = outcome.take(0) else { return Ok(Found::Nothing) };
        let record = EntryRecord::decode_at(place, &raw)?;
        let settled = record.passage.is_none();
        let reference = match self.resolve(place, &record)? {
            Resolved::Is(Some(reference)) => reference,
            Resolved::Is(None) => return Ok(Found::Nothing),
            Resolved::Changed => return Ok(Found::Changed),
        };
        let is_whole = extent == Extent::Whole || self.may_be_kept(reference);
        let is_here = reference == record.reference && reference.home == place.shard;
        // All that there is of others than directories.
        let is_enough = reference.kind != Kind::Directory || !is_whole;
        let found = match outcome.take(1).filter(|_| is_here && is_enough) {
            Some(inode) => Some(self.complete(reference, &inode, &[])?),
            None if is_whole => self.find_inode(reference)?,
            None => self.find_record(reference)?,
        };
        if let Some(inode) = found {
            return Ok(Found::Inode { reference, inode, settled, is_whole });
        }
        // The inode went between the two reads, with its entry; or the entry dangles.
        match self.read_entry(place)? {
            Some(again) if again == raw => {
                Err(Error::Corrupt { what: "the entry of inode", ino: reference.ino.0 })
            }
            _ => Ok(Found::Changed),
        }
    }
}

/// How much is to be known of what a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    /// What nobody may keep only as far as it is at hand.
    WhatIsKept,
}

/// What a name stands for.
pub(crate) struct Seen {
    /// How things stood before that was read.
    pub before: Before,
    pub reference: Reference,
    pub inode: Inode,
    /// No rename is moving the name.
    pub settled: bool,
    /// As in [`Entry`].
    pub is_whole: bool,
}

#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each look-up")]
enum Found {
    Nothing,
    /// The entry changed meanwhile; look again.
    Changed,
    Inode {
        reference: Reference,
        inode: Inode,
        settled: bool,
        is_whole: bool,
    },
}
