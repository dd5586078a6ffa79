//! Making, moving and removing names.

use std::collections::BTreeMap;

use super::{Body, Tree};
use crate::{Errno, Kind, Path, RenameMode};

const SET_GROUP_ID: u32 = 0o2000;
/// What of a new directory's mode is obeyed.
const DIRECTORY_MODE: u32 = 0o1777;

impl Tree {
    pub(super) fn make_directory(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let parent = self.parent_of(at)?;
        let inherited = self.inodes[&parent].mode & SET_GROUP_ID;
        self.make(at, Body::Directory(BTreeMap::new()), mode & DIRECTORY_MODE | inherited)?;
        Ok(())
    }

    /// A new inode under a new name.
    pub(super) fn make(&mut self, at: &Path, body: Body, mode: u32) -> Result<u64, Errno> {
        let parent = self.parent_of(at)?;
        if at.is_root() || self.entry(parent, at.name())?.is_some() {
            return Err(Errno::Exists);
        }
        let ino = self.next_ino;
        self.next_ino += 1;
        let inode = self.fresh(body, mode);
        self.inodes.insert(ino, inode);
        self.add_entry(parent, at.name(), ino);
        Ok(ino)
    }

    pub(super) fn remove_directory(&mut self, at: &Path) -> Result<(), Errno> {
        let parent = self.parent_of(at)?;
        let ino = self.entry(parent, at.name())?.ok_or(Errno::NotFound)?;
        match &self.inodes[&ino].body {
            Body::Directory(entries) if entries.is_empty() => {}
            Body::Directory(_) => return Err(Errno::NotEmpty),
            _ => return Err(Errno::NotADirectory),
        }
        self.remove_entry(parent, at.name());
        self.drop_name(ino);
        Ok(())
    }

    pub(super) fn remove_name(&mut self, at: &Path) -> Result<(), Errno> {
        let parent = self.parent_of(at)?;
        let ino = self.entry(parent, at.name())?.ok_or(Errno::NotFound)?;
        if self.inodes[&ino].kind() == Kind::Directory {
            return Err(Errno::IsADirectory);
        }
        self.remove_entry(parent, at.name());
        self.drop_name(ino);
        Ok(())
    }

    pub(super) fn add_name(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let ino = self.ino_at(from)?;
        let parent = self.parent_of(to)?;
        if self.entry(parent, to.name())?.is_some() {
            return Err(Errno::Exists);
        }
        if self.inodes[&ino].kind() == Kind::Directory {
            return Err(Errno::NotPermitted);
        }
        self.add_entry(parent, to.name(), ino);
        self.inode_mut(ino).names += 1;
        self.touch(ino);
        Ok(())
    }

    pub(super) fn move_name(
        &mut self,
        from: &Path,
        to: &Path,
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let (old_parent, new_parent) = (self.parent_of(from)?, self.parent_of(to)?);
        let moved = self.entry(old_parent, from.name())?.ok_or(Errno::NotFound)?;
        let replaced = self.entry(new_parent, to.name())?;
        match (mode, replaced) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::Exists),
            (RenameMode::Exchange, None) => return Err(Errno::NotFound),
            _ => {}
        }
        if to.is_beneath(from) || (mode == RenameMode::Exchange && from.is_beneath(to)) {
            return Err(Errno::Invalid);
        }
        if from.is_beneath(to) {
            return Err(Errno::NotEmpty);
        }
        match replaced {
            Some(other) if other == moved => return Ok(()),
            Some(other) if mode == RenameMode::Exchange => {
                self.remove_entry(old_parent, from.name());
                self.add_entry(old_parent, from.name(), other);
                self.touch(other);
            }
            Some(other) => {
                self.may_replace(moved, other)?;
                self.remove_entry(old_parent, from.name());
                self.drop_name(other);
            }
            None => self.remove_entry(old_parent, from.name()),
        }
        self.add_entry(new_parent, to.name(), moved);
        self.touch(moved);
        Ok(())
    }

    fn may_replace(&self, moved: u64, other: u64) -> Result<(), Errno> {
        let is_directory = |ino: u64| self.inodes[&ino].kind() == Kind::Directory;
        match (is_directory(moved), is_directory(other)) {
            (true, false) => Err(Errno::NotADirectory),
            (false, true) => Err(Errno::IsADirectory),
            (true, true) if !self.entries(other).is_empty() => Err(Errno::NotEmpty),
            _ => Ok(()),
        }
    }

    fn add_entry(&mut self, directory: u64, name: &str, ino: u64) {
        if let Body::Directory(entries) = &mut self.inode_mut(directory).body {
            entries.insert(name.to_owned(), ino);
        }
        self.modify(directory);
    }

    fn remove_entry(&mut self, directory: u64, name: &str) {
        if let Body::Directory(entries) = &mut self.inode_mut(directory).body {
            entries.remove(name);
        }
        self.modify(directory);
    }

    fn drop_name(&mut self, ino: u64) {
        self.inode_mut(ino).names -= 1;
        self.touch(ino);
        self.collect(ino);
    }
}
