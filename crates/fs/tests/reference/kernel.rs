//! What a kernel does above a mounted file system: it walks paths by look-ups, counts those and
//! forgets them in time, and refuses by itself what no file system is asked for.

use std::collections::BTreeMap;

use tidefs_fs::{Attr, Entry, Fs, Kind};
use tidefs_model::Ino;
use tidefs_oracle::{Errno, Path, RenameMode};
use tidefs_store::Store;

use crate::words;

/// One mount and what its kernel knows.
pub struct Kernel<S: Store> {
    pub fs: Fs<S>,
    lookups: BTreeMap<Ino, u64>,
}

impl<S: Store> Kernel<S> {
    pub fn new(fs: Fs<S>) -> Kernel<S> {
        Kernel { fs, lookups: BTreeMap::new() }
    }

    /// The inode of a path. Permissions are checked on the way, for which the root's attributes
    /// are asked for; those of the others come with their look-ups.
    pub fn walk(&mut self, at: &Path) -> Result<(Ino, Kind), Errno> {
        self.fs.getattr(Ino::ROOT, None).map_err(words::errno)?;
        at.names().try_fold((Ino::ROOT, Kind::Directory), |(parent, kind), name| {
            if kind != Kind::Directory {
                return Err(Errno::NotADirectory);
            }
            let found = self.fs.lookup(parent, name.as_bytes()).map_err(words::errno)?;
            let found = self.learned(found);
            Ok((found.ino, found.kind))
        })
    }

    /// The directory that a path's last name is in.
    pub fn walk_to_parent(&mut self, at: &Path) -> Result<Ino, Errno> {
        match self.walk(&at.parent())? {
            (ino, Kind::Directory) => Ok(ino),
            _ => Err(Errno::NotADirectory),
        }
    }

    /// An entry that was handed out counts as a look-up.
    pub fn learned(&mut self, entry: Entry) -> Attr {
        self.looked_up(entry.attr.ino);
        entry.attr
    }

    pub fn looked_up(&mut self, ino: Ino) {
        *self.lookups.entry(ino).or_default() += 1;
    }

    /// Forgets every inode except those that are open.
    pub fn forget_all_but(&mut self, open: &[Ino]) {
        for (ino, lookups) in std::mem::take(&mut self.lookups) {
            if open.contains(&ino) {
                self.lookups.insert(ino, lookups);
            } else {
                self.fs.forget(ino, lookups);
            }
        }
    }

    /// A rename between a path and one beneath it never reaches a file system.
    pub fn may_rename(&mut self, from: &Path, to: &Path, mode: RenameMode) -> Result<(), Errno> {
        if !to.is_beneath(from) && !from.is_beneath(to) {
            return Ok(());
        }
        self.walk_to_parent(from)?;
        self.walk_to_parent(to)?;
        self.walk(from)?;
        match (self.walk(to), mode) {
            (Ok(_), RenameMode::NoReplace) => Err(Errno::Exists),
            (Err(Errno::NotFound), RenameMode::Exchange) => Err(Errno::NotFound),
            (Err(error), _) if error != Errno::NotFound => Err(error),
            (Ok(_), RenameMode::Replace) if from.is_beneath(to) => Err(Errno::NotEmpty),
            _ => Err(Errno::Invalid),
        }
    }
}

/// The user's extended attributes are for files and directories only.
pub fn may_change_xattrs(kind: Kind) -> Result<(), Errno> {
    match kind {
        Kind::File | Kind::Directory => Ok(()),
        _ => Err(Errno::NotPermitted),
    }
}

pub fn may_read_xattrs(kind: Kind) -> Result<(), Errno> {
    may_change_xattrs(kind).map_err(|_| Errno::NoAttribute)
}
