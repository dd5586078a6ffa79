//! Each operation as the requests that a kernel makes of it.

use tidefs_fs::{AppendedAt, Kind, SetAttr};
use tidefs_oracle as oracle;
use tidefs_oracle::{
    Driver, Errno, Facts, Fd, OpenFlags, Operations, Path, RenameMode, SeekFor, SetTime, SpaceMode,
    XattrMode,
};
use tidefs_store::Store;

use super::{FsDriver, ME, Opened};
use crate::kernel::{may_change_xattrs, may_read_xattrs};
use crate::words::{self, errno};

impl<S: Store> Operations for FsDriver<S> {
    fn open(&mut self, fd: Fd, at: &Path, flags: OpenFlags, mode: u32) -> Result<(), Errno> {
        let (ino, handle) = self.open_at(at, flags, mode)?;
        self.open.insert(fd, Opened { handle, ino, flags });
        Ok(())
    }

    fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        let file = self.open.remove(&fd).ok_or(Errno::BadHandle)?;
        let flushed = if file.flags.writes() { self.fs().flush(file.handle) } else { Ok(()) };
        self.fs().release(file.handle).map_err(errno)?;
        flushed.map_err(errno)
    }

    fn read(&mut self, fd: Fd, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let file = self.opened(fd)?;
        let bytes = self.fs().read(file.handle, offset, length).map_err(errno)?;
        Ok(bytes.as_slice().to_vec())
    }

    fn write(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        if bytes.is_empty() && file.flags.writes() {
            return Ok(());
        }
        let append = file.flags.append;
        let end = AppendedAt::default();
        let append = append.then_some(&end);
        let written = self.fs().write(file.handle, offset, bytes, append, false).map_err(errno)?;
        assert_eq!(written, bytes.len(), "a write is whole or fails");
        self.fs().make_eagerly(file.handle, offset, written);
        Ok(())
    }

    fn resize(&mut self, fd: Fd, size: u64) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        if !file.flags.writes() {
            return Err(Errno::Invalid);
        }
        let changes = SetAttr { size: Some(size), ..SetAttr::default() };
        self.set_attr(file.ino, Some(file.handle), changes)
    }

    fn resize_path(&mut self, at: &Path, size: u64) -> Result<(), Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        self.set_attr(ino, None, SetAttr { size: Some(size), ..SetAttr::default() })
    }

    fn allocate(&mut self, fd: Fd, offset: u64, length: u64, mode: SpaceMode) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        if length == 0 {
            return Err(Errno::Invalid);
        }
        let mode = words::space_mode(mode);
        self.fs().allocate(file.handle, offset, length, mode, false).map_err(errno)
    }

    fn seek(&mut self, fd: Fd, offset: u64, what: SeekFor) -> Result<u64, Errno> {
        let file = self.opened(fd)?;
        self.fs().seek(file.handle, offset, words::seek(what)).map_err(errno)
    }

    fn copy_range(
        &mut self,
        source: Fd,
        source_offset: u64,
        target: Fd,
        target_offset: u64,
        length: u64,
    ) -> Result<u64, Errno> {
        let (from, to) = (self.opened(source)?, self.opened(target)?);
        if !from.flags.reads() || !to.flags.writes() || to.flags.append {
            return Err(Errno::BadHandle);
        }
        let size = self.stat_open(source)?.size;
        let length = length.min(size.saturating_sub(source_offset));
        let overlaps =
            target_offset + length > source_offset && target_offset < source_offset + length;
        if from.ino == to.ino && overlaps {
            return Err(Errno::Invalid);
        }
        self.fs()
            .copy_range(from.handle, source_offset, to.handle, target_offset, length, false)
            .map_err(errno)
    }

    fn sync(&mut self, fd: Fd) -> Result<(), Errno> {
        let file = self.opened(fd)?;
        self.fs().fsync(file.handle).map_err(errno)
    }

    fn stat(&mut self, at: &Path) -> Result<Facts, Errno> {
        self.attr(at).map(|observed| observed.facts)
    }

    fn stat_open(&mut self, fd: Fd) -> Result<Facts, Errno> {
        self.observe_open(fd).map(|observed| observed.facts)
    }

    fn mkdir(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let parent = self.kernel().walk_to_parent(at)?;
        let made = self.fs().mkdir(ME, parent, at.name().as_bytes(), mode).map_err(errno)?;
        self.kernel().learned(made);
        Ok(())
    }

    fn mkfifo(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let parent = self.kernel().walk_to_parent(at)?;
        let name = at.name().as_bytes();
        let made = self.fs().mknod(ME, parent, name, Kind::Fifo, mode, 0).map_err(errno)?;
        self.kernel().learned(made);
        Ok(())
    }

    fn rmdir(&mut self, at: &Path) -> Result<(), Errno> {
        let parent = self.kernel().walk_to_parent(at)?;
        self.kernel().walk(at)?;
        self.fs().rmdir(parent, at.name().as_bytes()).map_err(errno)
    }

    fn unlink(&mut self, at: &Path) -> Result<(), Errno> {
        let parent = self.kernel().walk_to_parent(at)?;
        self.kernel().walk(at)?;
        self.fs().unlink(parent, at.name().as_bytes()).map_err(errno)?;
        self.sync_names()
    }

    fn readdir(&mut self, at: &Path) -> Result<Vec<(String, oracle::Kind)>, Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        let handle = self.fs().opendir(ino).map_err(errno)?;
        let mut found = Vec::new();
        let mut offset = Some(0);
        while let Some(from) = offset {
            offset = self.list_some(handle, from, &mut found)?;
        }
        self.fs().releasedir(handle).map_err(errno)?;
        found.sort();
        Ok(found)
    }

    fn rename(&mut self, from: &Path, to: &Path, mode: RenameMode) -> Result<(), Errno> {
        self.kernel().may_rename(from, to, mode)?;
        let parent = self.kernel().walk_to_parent(from)?;
        let new_parent = self.kernel().walk_to_parent(to)?;
        self.kernel().walk(from)?;
        match self.kernel().walk(to) {
            Ok(_) | Err(Errno::NotFound) => {}
            Err(error) => return Err(error),
        }
        let (name, new_name) = (from.name().as_bytes(), to.name().as_bytes());
        let mode = words::rename_mode(mode);
        self.fs().rename(parent, name, new_parent, new_name, mode).map_err(errno)
    }

    fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let (ino, _) = self.kernel().walk(from)?;
        let new_parent = self.kernel().walk_to_parent(to)?;
        match self.kernel().walk(to) {
            Ok(_) => return Err(Errno::Exists),
            Err(Errno::NotFound) => {}
            Err(error) => return Err(error),
        }
        let made = self.fs().link(ino, new_parent, to.name().as_bytes()).map_err(errno)?;
        self.kernel().learned(made);
        Ok(())
    }

    fn symlink(&mut self, at: &Path, target: &str) -> Result<(), Errno> {
        let parent = self.kernel().walk_to_parent(at)?;
        let made = self.fs().symlink(ME, parent, at.name().as_bytes(), target.as_bytes());
        let made = made.map_err(errno)?;
        self.kernel().learned(made);
        Ok(())
    }

    fn readlink(&mut self, at: &Path) -> Result<String, Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        let target = self.fs().readlink(ino).map_err(errno)?;
        Ok(String::from_utf8_lossy(&target).into_owned())
    }

    fn chmod(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        self.set_attr(ino, None, SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    fn set_times(&mut self, at: &Path, atime: SetTime, mtime: SetTime) -> Result<(), Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        let (atime, mtime) = (words::set_time(atime), words::set_time(mtime));
        self.set_attr(ino, None, SetAttr { atime, mtime, ..SetAttr::default() })
    }

    fn set_xattr(
        &mut self,
        at: &Path,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let (ino, kind) = self.kernel().walk(at)?;
        may_change_xattrs(kind)?;
        let mode = words::xattr_mode(mode);
        self.fs().setxattr(ino, name.as_bytes(), value, mode).map_err(errno)
    }

    fn get_xattr(&mut self, at: &Path, name: &str) -> Result<Vec<u8>, Errno> {
        let (ino, kind) = self.kernel().walk(at)?;
        may_read_xattrs(kind)?;
        self.fs().getxattr(ino, name.as_bytes()).map_err(errno)
    }

    fn list_xattrs(&mut self, at: &Path) -> Result<Vec<String>, Errno> {
        let (ino, _) = self.kernel().walk(at)?;
        let list = self.fs().listxattr(ino).map_err(errno)?;
        let names = list.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let mut names: Vec<_> =
            names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn remove_xattr(&mut self, at: &Path, name: &str) -> Result<(), Errno> {
        let (ino, kind) = self.kernel().walk(at)?;
        may_change_xattrs(kind)?;
        self.fs().removexattr(ino, name.as_bytes()).map_err(errno)
    }

    fn switch(&mut self, mount: usize) {
        self.mount = mount % self.mounts.len();
    }
}
