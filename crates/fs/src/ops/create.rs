//! Making files of every kind: one batch on the shard that the name belongs to, which holds the
//! entry and the inode together.

use tidefs_model::Ino;
use tidefs_store::{Batch, Store, StoreError};

use crate::attr::{Caller, Kind};
use crate::entering::{Entered, Entering};
use crate::entry::{EntryRecord, Place, Reference};
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::{Inode, Parent};
use crate::layout::Layout;
use crate::names::{ATTEMPTS, check_name, recount, touch};
use crate::ops::{Entry, OpenMode, Opened};
use crate::table::Node;
use crate::write_back::{Change, Creation};
use crate::{SYMLINK_BYTES_MAX, keys};

const SET_GROUP_ID: u32 = 0o2000;
const MODE_BITS: u32 = 0o7777;

/// What a new inode starts with.
struct New<'a> {
    kind: Kind,
    mode: u32,
    rdev: u32,
    target: &'a [u8],
}

/// Others' removals may go on and on without making room for this.
const FULL_ATTEMPTS: usize = 16;

impl<S: Store> Fs<S> {
    /// Makes a file, fifo, socket or device file.
    pub fn mknod(
        &self,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        kind: Kind,
        mode: u32,
        rdev: u32,
    ) -> Result<Entry, Error> {
        if matches!(kind, Kind::Directory | Kind::Symlink) {
            return Err(Error::Invalid);
        }
        let (reference, inode) =
            self.make(caller, parent, name, &New { kind, mode, rdev, target: b"" })?;
        Ok(self.enter(reference, &inode, parent))
    }

    pub fn mkdir(
        &self,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
    ) -> Result<Entry, Error> {
        let new = New { kind: Kind::Directory, mode, rdev: 0, target: b"" };
        let alone = self.time_alone();
        let (reference, inode) = self.make(caller, parent, name, &new)?;
        let entry = self.enter(reference, &inode, parent);
        self.was_placed(reference, &self.place(parent, name));
        self.know_empty(reference, alone);
        Ok(entry)
    }

    pub fn symlink(
        &self,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry, Error> {
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        let new = New { kind: Kind::Symlink, mode: 0o777, rdev: 0, target };
        let (reference, inode) = self.make(caller, parent, name, &new)?;
        Ok(self.enter(reference, &inode, parent))
    }

    /// Makes a regular file and opens it; opens one that is there unless `open` is exclusive.
    pub fn create(
        &self,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        open: OpenMode,
    ) -> Result<(Entry, Opened), Error> {
        let new = New { kind: Kind::File, mode, rdev: 0, target: b"" };
        let home = self.shard_of(parent, name);
        for _ in 0..ATTEMPTS {
            let era = self.era(home);
            let made = match self.make_later(caller, parent, name, &new)? {
                Some(made) => Ok(made),
                None => self.make(caller, parent, name, &new),
            };
            match made {
                Ok((reference, inode)) => {
                    let entry = self.enter(reference, &inode, parent);
                    self.table.get(reference.ino)?.set_bare(era);
                    let opened = self.open_new(reference, &inode, open);
                    return opened.map(|opened| (entry, opened)).inspect_err(|_| {
                        self.forget(reference.ino, 1);
                    });
                }
                Err(Error::Exists) if !open.exclusive => {}
                Err(error) => return Err(error),
            }
            match self.lookup(parent, name) {
                Ok(entry) => return self.open_found(entry, open),
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended)
    }

    fn open_found(&self, entry: Entry, open: OpenMode) -> Result<(Entry, Opened), Error> {
        match self.open(entry.attr.ino, open) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.forget(entry.attr.ino, 1);
                Err(error)
            }
        }
    }

    fn make(
        &self,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        new: &New<'_>,
    ) -> Result<(Reference, Inode), Error> {
        check_name(name)?;
        let place = self.place(parent, name);
        let parent = self.table.get(parent)?;
        let ino = self.new_ino(new.kind, parent.inherited().layout)?;
        let reference = Reference { kind: new.kind, ino, home: place.shard };
        let inode = self.new_inode(caller, &parent, new);
        let era = self.era(place.shard);
        self.add_entry(&place, reference, |batch| {
            batch.put(keys::inode(reference.ino), inode.encode())
        })?;
        self.hints.made(&place, reference, era);
        if new.kind == Kind::File {
            self.counters.made_file();
        }
        Ok((reference, inode))
    }

    /// Makes a file that the store need not have before it is closed. `None`: it must, since this
    /// mount does not know that the name is free, or what others do.
    fn make_later(
        &self,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        new: &New<'_>,
    ) -> Result<Option<(Reference, Inode)>, Error> {
        check_name(name)?;
        let place = self.place(parent, name);
        if !self.may_defer() || !self.is_surely_free(&place) {
            return Ok(None);
        }
        let parent = self.table.get(parent)?;
        if !self.is_surely_there(place.shard) && !self.stays_there(&parent) {
            return Ok(None);
        }
        let ino = self.new_ino(new.kind, parent.inherited().layout)?;
        let reference = Reference { kind: new.kind, ino, home: place.shard };
        let inode = self.new_inode(caller, &parent, new);
        let creation = Creation { place: place.clone(), reference, inode: inode.clone() };
        let Some(era) = self.defer(Change::Creation(creation), None) else { return Ok(None) };
        self.hints.made(&place, reference, Some(era));
        self.counters.made_file();
        Ok(Some((reference, inode)))
    }

    fn new_inode(&self, caller: Caller, directory: &Node<S>, new: &New<'_>) -> Inode {
        let parent = directory.inherited();
        let is_directory = new.kind == Kind::Directory;
        let inherits_group = parent.mode & SET_GROUP_ID != 0;
        let mut mode = new.mode & MODE_BITS;
        if inherits_group && is_directory {
            mode |= SET_GROUP_ID;
        }
        let layout = match new.kind {
            Kind::Directory => parent.layout,
            _ => Layout::default(),
        };
        let now = self.now();
        Inode {
            kind: new.kind,
            sparse: false,
            capable: false,
            mode,
            // A directory is also its own "."; its subdirectories are counted in its shards.
            nlink: if is_directory { 2 } else { 1 },
            size: new.target.len() as u64,
            version: 0,
            mtime: now,
            ctime: now,
            atime: now,
            btime: now,
            uid: caller.uid,
            gid: if inherits_group { parent.gid } else { caller.gid },
            rdev: new.rdev,
            layout,
            parent: is_directory.then_some(Parent {
                term: 0,
                ino: directory.ino,
                home: directory.home,
            }),
            cut: None,
            holes: Vec::new(),
            target: new.target.to_vec(),
        }
    }

    /// Adds an entry where there is none. `also` adds updates of the same shard.
    pub(crate) fn add_entry(
        &self,
        place: &Place,
        reference: Reference,
        also: impl Fn(Batch) -> Batch,
    ) -> Result<(), Error> {
        let entry = keys::entry(&place.name);
        let record = EntryRecord::settled(reference).encode();
        for attempt in 0..ATTEMPTS {
            let batch = Batch::new().absent(entry.clone()).put(entry.clone(), record.clone());
            let batch = touch(recount(also(batch), Some(reference), None), self.now());
            let before = self.data.freed();
            let entered = match self.add_name(place, batch, Entering::New(reference)) {
                Err(Error::Store(lost @ StoreError::Indeterminate { .. })) => {
                    return self.entry_after_lost_reply(place, &record, lost);
                }
                Err(Error::Store(StoreError::Full { .. }))
                    if attempt < FULL_ATTEMPTS && self.data.wait_for_room(before, None) =>
                {
                    continue;
                }
                other => other?,
            };
            match entered {
                Entered::Done => return Ok(()),
                Entered::Refused if self.settle(place)?.is_some() => return Err(Error::Exists),
                Entered::Refused | Entered::NotYet => {}
            }
        }
        Err(Error::Contended)
    }

    /// The reply to a create was lost: the entry itself tells whether it was made.
    fn entry_after_lost_reply(
        &self,
        place: &Place,
        record: &[u8],
        lost: StoreError,
    ) -> Result<(), Error> {
        match self.read_entry(place)? {
            Some(there) if there == record => Ok(()),
            _ => Err(lost.into()),
        }
    }
}
