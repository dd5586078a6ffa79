//! Modes, times and extended attributes.

use super::{Inode, Stamp, Tree};
use crate::{Errno, Kind, Path, SetTime, XattrMode};

const MODE_BITS: u32 = 0o7777;

impl Tree {
    pub(super) fn change_mode(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let ino = self.ino_at(at)?;
        self.inode_mut(ino).mode = mode & MODE_BITS;
        self.touch(ino);
        Ok(())
    }

    pub(super) fn change_times(
        &mut self,
        at: &Path,
        atime: SetTime,
        mtime: SetTime,
    ) -> Result<(), Errno> {
        let ino = self.ino_at(at)?;
        let now = Stamp::Step(self.step);
        let inode = self.inode_mut(ino);
        match atime {
            SetTime::Omit => {}
            SetTime::Now => inode.atime = None,
            SetTime::At(time) => inode.atime = Some(time),
        }
        match mtime {
            SetTime::Omit => {}
            SetTime::Now => inode.mtime = now,
            SetTime::At(time) => inode.mtime = Stamp::Set(time),
        }
        inode.ctime = now;
        Ok(())
    }

    pub(super) fn set_attribute(
        &mut self,
        at: &Path,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let ino = self.ino_at(at)?;
        let inode = self.inode_mut(ino);
        if !takes_attributes(inode) {
            return Err(Errno::NotPermitted);
        }
        match (mode, inode.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::Exists),
            (XattrMode::Replace, false) => return Err(Errno::NoAttribute),
            _ => {}
        }
        let before = inode.xattrs.insert(name.to_owned(), value.to_vec());
        // Some see that the value is the same.
        if before.as_deref() == Some(value) {
            self.maybe_touch(ino)
        } else {
            self.touch(ino)
        }
        Ok(())
    }

    pub(super) fn attribute(&self, at: &Path, name: &str) -> Result<Vec<u8>, Errno> {
        let inode = &self.inodes[&self.ino_at(at)?];
        inode.xattrs.get(name).cloned().ok_or(Errno::NoAttribute)
    }

    pub(super) fn attribute_names(&self, at: &Path) -> Result<Vec<String>, Errno> {
        Ok(self.inodes[&self.ino_at(at)?].xattrs.keys().cloned().collect())
    }

    pub(super) fn remove_attribute(&mut self, at: &Path, name: &str) -> Result<(), Errno> {
        let ino = self.ino_at(at)?;
        let inode = self.inode_mut(ino);
        if !takes_attributes(inode) {
            return Err(Errno::NotPermitted);
        }
        inode.xattrs.remove(name).ok_or(Errno::NoAttribute)?;
        self.touch(ino);
        Ok(())
    }
}

/// The user's name space is for files and directories only.
fn takes_attributes(inode: &Inode) -> bool {
    matches!(inode.kind(), Kind::File | Kind::Directory)
}
