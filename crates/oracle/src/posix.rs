//! The driver that reaches a file system through system calls, beneath a directory of this
//! machine; or beneath several, which show the same tree.
//!
//! It leaves the process's file creation mask alone; steps make files for their owner only, which
//! no usual mask changes.

mod convert;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, Timestamps};

use self::convert::{
    fallocate_flags, kind_of, last_error, name, now, observed, open_flags, rename_flags, timespec,
    xattr_flags,
};
use crate::{
    Abilities, Driver, Errno, Facts, Fd, Kind, Observed, OpenFlags, Operations, Path, RenameMode,
    SeekFor, SetTime, SpaceMode, XattrMode,
};

const USER_XATTRS: &str = "user.";
const XATTR_BYTES_MAX: usize = 64 << 10;

pub struct PosixDriver {
    roots: Vec<PathBuf>,
    directories: Vec<OwnedFd>,
    mount: usize,
    open: BTreeMap<Fd, OwnedFd>,
    abilities: Abilities,
}

impl PosixDriver {
    /// The directories are empty and show the same tree.
    pub fn new(roots: Vec<PathBuf>, abilities: Abilities) -> io::Result<PosixDriver> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |root: &PathBuf| Ok(rustix::fs::openat(CWD, root, flags, Mode::empty())?);
        let directories = roots.iter().map(open).collect::<io::Result<_>>()?;
        Ok(PosixDriver { roots, directories, mount: 0, open: BTreeMap::new(), abilities })
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.directories[self.mount].as_fd()
    }

    fn file(&self, fd: Fd) -> Result<BorrowedFd<'_>, Errno> {
        self.open.get(&fd).map(AsFd::as_fd).ok_or(Errno::BadHandle)
    }

    fn absolute(&self, at: &Path) -> PathBuf {
        self.roots[self.mount].join(at.as_str())
    }
}

impl Operations for PosixDriver {
    fn open(&mut self, fd: Fd, at: &Path, flags: OpenFlags, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        let file = rustix::fs::openat(self.directory(), name(at), open_flags(flags), mode)?;
        self.open.insert(fd, file);
        Ok(())
    }

    fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        let file = self.open.remove(&fd).ok_or(Errno::BadHandle)?;
        // Dropping it would hide what close has to say.
        match unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(file)) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    fn read(&mut self, fd: Fd, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        loop {
            let position = offset + filled as u64;
            let count = rustix::io::pread(self.file(fd)?, &mut bytes[filled..], position)?;
            filled += count;
            if count == 0 || filled == length {
                bytes.truncate(filled);
                return Ok(bytes);
            }
        }
    }

    fn write(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut written = 0;
        loop {
            let position = offset + written as u64;
            written += rustix::io::pwrite(self.file(fd)?, &bytes[written..], position)?;
            if written == bytes.len() {
                return Ok(());
            }
        }
    }

    fn resize(&mut self, fd: Fd, size: u64) -> Result<(), Errno> {
        Ok(rustix::fs::ftruncate(self.file(fd)?, size)?)
    }

    fn resize_path(&mut self, at: &Path, size: u64) -> Result<(), Errno> {
        let at = CString::new(self.absolute(at).as_os_str().as_bytes());
        let at = at.map_err(|_| Errno::Invalid)?;
        let size = libc::off_t::try_from(size).map_err(|_| Errno::FileTooLarge)?;
        // SAFETY: the path ends with a zero byte and outlives the call.
        match unsafe { libc::truncate(at.as_ptr(), size) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    fn allocate(&mut self, fd: Fd, offset: u64, length: u64, mode: SpaceMode) -> Result<(), Errno> {
        Ok(rustix::fs::fallocate(self.file(fd)?, fallocate_flags(mode), offset, length)?)
    }

    fn seek(&mut self, fd: Fd, offset: u64, what: SeekFor) -> Result<u64, Errno> {
        let from = match what {
            SeekFor::Data => SeekFrom::Data(offset),
            SeekFor::Hole => SeekFrom::Hole(offset),
        };
        Ok(rustix::fs::seek(self.file(fd)?, from)?)
    }

    fn copy_range(
        &mut self,
        source: Fd,
        source_offset: u64,
        target: Fd,
        target_offset: u64,
        length: u64,
    ) -> Result<u64, Errno> {
        let (reader, writer) = (self.file(source)?, self.file(target)?);
        // A copy into the source itself makes it longer; only what was there is to be copied.
        let there = rustix::fs::fstat(reader)?.st_size as u64;
        let goal = length.min(there.saturating_sub(source_offset));
        let mut copied = 0;
        loop {
            let (mut from, mut to) = (source_offset + copied, target_offset + copied);
            let rest = usize::try_from(length - copied).map_err(|_| Errno::Invalid)?;
            let count =
                rustix::fs::copy_file_range(reader, Some(&mut from), writer, Some(&mut to), rest)?;
            copied += count as u64;
            if count == 0 || copied >= goal {
                return Ok(copied);
            }
        }
    }

    fn sync(&mut self, fd: Fd) -> Result<(), Errno> {
        Ok(rustix::fs::fsync(self.file(fd)?)?)
    }

    fn stat(&mut self, at: &Path) -> Result<Facts, Errno> {
        self.observe(at).map(|observed| observed.facts)
    }

    fn stat_open(&mut self, fd: Fd) -> Result<Facts, Errno> {
        self.observe_open(fd).map(|observed| observed.facts)
    }

    fn mkdir(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        Ok(rustix::fs::mkdirat(self.directory(), name(at), Mode::from_raw_mode(mode))?)
    }

    fn mkfifo(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::mknodat(self.directory(), name(at), FileType::Fifo, mode, 0)?)
    }

    fn rmdir(&mut self, at: &Path) -> Result<(), Errno> {
        Ok(rustix::fs::unlinkat(self.directory(), name(at), AtFlags::REMOVEDIR)?)
    }

    fn unlink(&mut self, at: &Path) -> Result<(), Errno> {
        Ok(rustix::fs::unlinkat(self.directory(), name(at), AtFlags::empty())?)
    }

    fn readdir(&mut self, at: &Path) -> Result<Vec<(String, Kind)>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(self.directory(), name(at), flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                entries.push((name, kind_of(entry.file_type())?));
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn rename(&mut self, from: &Path, to: &Path, mode: RenameMode) -> Result<(), Errno> {
        let (directory, flags) = (self.directory(), rename_flags(mode));
        Ok(rustix::fs::renameat_with(directory, name(from), directory, name(to), flags)?)
    }

    fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let directory = self.directory();
        let (from, to) = (name(from), name(to));
        Ok(rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?)
    }

    fn symlink(&mut self, at: &Path, target: &str) -> Result<(), Errno> {
        Ok(rustix::fs::symlinkat(target, self.directory(), name(at))?)
    }

    fn readlink(&mut self, at: &Path) -> Result<String, Errno> {
        let target = rustix::fs::readlinkat(self.directory(), name(at), Vec::new())?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn chmod(&mut self, at: &Path, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(self.directory(), name(at), mode, AtFlags::empty())?)
    }

    fn set_times(&mut self, at: &Path, atime: SetTime, mtime: SetTime) -> Result<(), Errno> {
        let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(self.directory(), name(at), &times, flags)?)
    }

    fn set_xattr(
        &mut self,
        at: &Path,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        Ok(rustix::fs::lsetxattr(self.absolute(at), name, value, xattr_flags(mode))?)
    }

    fn get_xattr(&mut self, at: &Path, name: &str) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; XATTR_BYTES_MAX];
        let length = rustix::fs::lgetxattr(self.absolute(at), name, &mut value[..])?;
        value.truncate(length);
        Ok(value)
    }

    fn list_xattrs(&mut self, at: &Path) -> Result<Vec<String>, Errno> {
        let mut list = vec![0; XATTR_BYTES_MAX];
        let length = rustix::fs::llistxattr(self.absolute(at), &mut list[..])?;
        let names = list[..length].split(|&byte| byte == 0);
        let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(USER_XATTRS)).collect();
        names.sort();
        Ok(names)
    }

    fn remove_xattr(&mut self, at: &Path, name: &str) -> Result<(), Errno> {
        Ok(rustix::fs::lremovexattr(self.absolute(at), name)?)
    }

    fn switch(&mut self, mount: usize) {
        self.mount = mount % self.roots.len();
    }
}

impl Driver for PosixDriver {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// The kernel stamps files with a clock that moves in steps, hence is late.
    fn begin(&mut self) -> u64 {
        now(libc::CLOCK_REALTIME_COARSE)
    }

    fn end(&mut self) -> u64 {
        now(libc::CLOCK_REALTIME)
    }

    fn observe(&mut self, at: &Path) -> Result<Observed, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        observed(&rustix::fs::statat(self.directory(), name(at), flags)?)
    }

    fn observe_open(&mut self, fd: Fd) -> Result<Observed, Errno> {
        observed(&rustix::fs::fstat(self.file(fd)?)?)
    }
}
