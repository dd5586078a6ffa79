//! The model's side of [`Operations`].

use super::{Body, Tree};
use crate::{
    Errno, Facts, Fd, Kind, OpenFlags, Operations, Path, RenameMode, SeekFor, SetTime, SpaceMode,
    XattrMode,
};

/// Mode of every symbolic link.
const SYMLINK_MODE: u32 = 0o777;
const MODE_BITS: u32 = 0o7777;

impl Operations for Tree {
    fn open(&mut self, fd: Fd, at: &Path, flags: OpenFlags, mode: u32) -> Result<(), Errno> {
        self.open_file(fd, at, flags, mode)
    }

    fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        self.close_file(fd)
    }

    fn read(&mut self, fd: Fd, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        self.read_bytes(fd, offset, length)
    }

    fn write(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.write_bytes(fd, offset, bytes)
    }

    fn resize(&mut self, fd: Fd, size: u64) -> Result<(), Errno> {
        self.resize_open(fd, size)
    }

    fn resize_path(&mut self, at: &Path, size: u64) -> Result<(), Errno> {
        self.resize_at(at, size)
    }

    fn allocate(&mut self, fd: Fd, offset: u64, length: u64, mode: SpaceMode) -> Result<(), Errno> {
        self.allocate_space(fd, offset, length, mode)
    }

    fn seek(&mut self, fd: Fd, offset: u64, what: SeekFor) -> Result<u64, Errno> {
        self.seek_bytes(fd, offset, what)
    }

    fn copy_range(
        &mut self,
        source: Fd,
        source_offset: u64,
        target: Fd,
        target_offset: u64,
        length: u64,
    ) -> Result<u64, Errno> {
        self.copy_bytes((source, source_offset), (target, target_offset), length)
    }

    fn sync(&mut self, fd: Fd) -> Result<(), Errno> {
        self.opened(fd).map(|_| ())
    }

    fn stat(&mut self, at: &Path) -> Result<Facts, Errno> {
        self.ino_at(at).map(|ino| self.facts(ino))
    }

    fn stat_open(&mut self, fd: Fd) -> Result<Facts, Errno> {
        self.opened(fd).map(|file| self.facts(file.ino))
    }

    fn mkdir(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        self.make_directory(at, mode)
    }

    fn mkfifo(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        self.make(at, Body::Fifo, mode & MODE_BITS).map(|_| ())
    }

    fn rmdir(&mut self, at: &Path) -> Result<(), Errno> {
        self.remove_directory(at)
    }

    fn unlink(&mut self, at: &Path) -> Result<(), Errno> {
        self.remove_name(at)
    }

    fn readdir(&mut self, at: &Path) -> Result<Vec<(String, Kind)>, Errno> {
        let ino = self.ino_at(at)?;
        let Body::Directory(entries) = &self.inodes[&ino].body else {
            return Err(Errno::NotADirectory);
        };
        let with_kind = |(name, ino): (&String, &u64)| (name.clone(), self.inodes[ino].kind());
        Ok(entries.iter().map(with_kind).collect())
    }

    fn rename(&mut self, from: &Path, to: &Path, mode: RenameMode) -> Result<(), Errno> {
        self.move_name(from, to, mode)
    }

    fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.add_name(from, to)
    }

    fn symlink(&mut self, at: &Path, target: &str) -> Result<(), Errno> {
        self.make(at, Body::Symlink(target.to_owned()), SYMLINK_MODE).map(|_| ())
    }

    fn readlink(&mut self, at: &Path) -> Result<String, Errno> {
        let ino = self.ino_at(at)?;
        match &self.inodes[&ino].body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::Invalid),
        }
    }

    fn chmod(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        self.change_mode(at, mode)
    }

    fn set_times(&mut self, at: &Path, atime: SetTime, mtime: SetTime) -> Result<(), Errno> {
        self.change_times(at, atime, mtime)
    }

    fn set_xattr(
        &mut self,
        at: &Path,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        self.set_attribute(at, name, value, mode)
    }

    fn get_xattr(&mut self, at: &Path, name: &str) -> Result<Vec<u8>, Errno> {
        self.attribute(at, name)
    }

    fn list_xattrs(&mut self, at: &Path) -> Result<Vec<String>, Errno> {
        self.attribute_names(at)
    }

    fn remove_xattr(&mut self, at: &Path, name: &str) -> Result<(), Errno> {
        self.remove_attribute(at, name)
    }

    /// All mounts show the same tree.
    fn switch(&mut self, _mount: usize) {}
}
