//! Files that are open, and their bytes.

use super::{Body, OpenFile, Tree};
use crate::{Errno, Fd, Kind, OpenFlags, Path, SeekFor, SpaceMode};

const MODE_BITS: u32 = 0o7777;

impl Tree {
    pub(super) fn open_file(
        &mut self,
        fd: Fd,
        at: &Path,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(), Errno> {
        let parent = self.parent_of(at)?;
        let ino = match self.entry(parent, at.name())? {
            Some(_) if flags.create && flags.exclusive => return Err(Errno::Exists),
            Some(ino) => self.may_open(ino, flags)?,
            None if flags.create => self.make(at, Body::File(Vec::new()), mode & MODE_BITS)?,
            None => return Err(Errno::NotFound),
        };
        self.next_fd = self.next_fd.max(fd.0 + 1);
        self.open.insert(fd, OpenFile { ino, flags });
        Ok(())
    }

    /// Opening an inode that is there; empties it if it is to be emptied.
    fn may_open(&mut self, ino: u64, flags: OpenFlags) -> Result<u64, Errno> {
        match self.inodes[&ino].kind() {
            Kind::Symlink => return Err(Errno::SymbolicLink),
            Kind::Directory => return Err(Errno::IsADirectory),
            Kind::File | Kind::Fifo => {}
        }
        if flags.truncate {
            self.set_size(ino, 0);
            self.modify(ino);
        }
        Ok(ino)
    }

    pub(super) fn close_file(&mut self, fd: Fd) -> Result<(), Errno> {
        let file = self.open.remove(&fd).ok_or(Errno::BadHandle)?;
        self.collect(file.ino);
        Ok(())
    }

    pub(super) fn read_bytes(&self, fd: Fd, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let file = self.opened(fd)?;
        if !file.flags.reads() {
            return Err(Errno::BadHandle);
        }
        let bytes = self.bytes_of(file.ino);
        let start = bytes.len().min(offset as usize);
        let end = bytes.len().min(start + length);
        Ok(bytes[start..end].to_vec())
    }

    pub(super) fn write_bytes(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        if !file.flags.writes() {
            return Err(Errno::BadHandle);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let content = self.bytes_mut(file.ino);
        let start = if file.flags.append { content.len() } else { offset as usize };
        let end = start + bytes.len();
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(bytes);
        self.modify(file.ino);
        Ok(())
    }

    pub(super) fn resize_open(&mut self, fd: Fd, size: u64) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        if !file.flags.writes() {
            return Err(Errno::Invalid);
        }
        self.set_size(file.ino, size);
        self.modify(file.ino);
        Ok(())
    }

    pub(super) fn resize_at(&mut self, at: &Path, size: u64) -> Result<(), Errno> {
        let ino = self.ino_at(at)?;
        match self.inodes[&ino].kind() {
            Kind::File => {}
            Kind::Directory => return Err(Errno::IsADirectory),
            Kind::Symlink | Kind::Fifo => return Err(Errno::Invalid),
        }
        if self.set_size(ino, size) {
            self.modify(ino)
        } else {
            self.maybe_modify(ino)
        }
        Ok(())
    }

    pub(super) fn allocate_space(
        &mut self,
        fd: Fd,
        offset: u64,
        length: u64,
        mode: SpaceMode,
    ) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        if length == 0 {
            return Err(Errno::Invalid);
        }
        if !file.flags.writes() {
            return Err(Errno::BadHandle);
        }
        let content = self.bytes_mut(file.ino);
        let end = (offset + length) as usize;
        if matches!(mode, SpaceMode::Allocate | SpaceMode::Zero) {
            content.resize(content.len().max(end), 0);
        }
        if !matches!(mode, SpaceMode::Allocate | SpaceMode::AllocateKeepSize) {
            let end = content.len().min(end);
            content[end.min(offset as usize)..end].fill(0);
        }
        self.maybe_modify(file.ino);
        Ok(())
    }

    /// Where the bytes are not zero, or the first that is.
    pub(super) fn seek_bytes(&self, fd: Fd, offset: u64, what: SeekFor) -> Result<u64, Errno> {
        let bytes = self.bytes_of(self.opened(fd)?.ino);
        if offset >= bytes.len() as u64 {
            return Err(Errno::NoSuchOffset);
        }
        let rest = &bytes[offset as usize..];
        let found = match what {
            SeekFor::Data => rest.iter().position(|&byte| byte != 0),
            SeekFor::Hole => rest.iter().position(|&byte| byte == 0).or(Some(rest.len())),
        };
        found.map(|found| offset + found as u64).ok_or(Errno::NoSuchOffset)
    }

    pub(super) fn copy_bytes(
        &mut self,
        (source, source_offset): (Fd, u64),
        (target, target_offset): (Fd, u64),
        length: u64,
    ) -> Result<u64, Errno> {
        let (reader, writer) = (self.opened(source)?, self.opened(target)?);
        if !reader.flags.reads() || !writer.flags.writes() || writer.flags.append {
            return Err(Errno::BadHandle);
        }
        let rest = (self.bytes_of(reader.ino).len() as u64).saturating_sub(source_offset);
        let length = length.min(rest);
        let overlaps =
            target_offset + length > source_offset && target_offset < source_offset + length;
        if reader.ino == writer.ino && overlaps {
            return Err(Errno::Invalid);
        }
        let bytes = self.read_bytes(source, source_offset, length as usize)?;
        self.write_bytes(target, target_offset, &bytes)?;
        if bytes.is_empty() {
            self.maybe_modify(writer.ino);
        }
        Ok(length)
    }

    /// The bytes of an inode; none for what is no file.
    pub(crate) fn bytes_of(&self, ino: u64) -> &[u8] {
        match &self.inodes[&ino].body {
            Body::File(bytes) => bytes,
            _ => &[],
        }
    }

    fn bytes_mut(&mut self, ino: u64) -> &mut Vec<u8> {
        match &mut self.inode_mut(ino).body {
            Body::File(bytes) => bytes,
            other => panic!("inode {ino} is no file but {other:?}"),
        }
    }

    /// `true`: the size is another one now.
    fn set_size(&mut self, ino: u64, size: u64) -> bool {
        let bytes = self.bytes_mut(ino);
        let before = bytes.len();
        bytes.resize(size as usize, 0);
        bytes.len() != before
    }

    pub(super) fn opened(&self, fd: Fd) -> Result<OpenFile, Errno> {
        self.open.get(&fd).copied().ok_or(Errno::BadHandle)
    }
}
