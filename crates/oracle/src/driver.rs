//! What a file system must offer to be compared: the operations, and a look at what they left.

use crate::{
    Errno, Facts, Fd, Kind, OpenFlags, Path, RenameMode, SeekFor, SetTime, SpaceMode, XattrMode,
};

/// The operations, one method each. The model implements them as well as every driver.
pub trait Operations {
    /// Opens a regular file under a number that is free.
    fn open(&mut self, fd: Fd, at: &Path, flags: OpenFlags, mode: u32) -> Result<(), Errno>;
    fn close(&mut self, fd: Fd) -> Result<(), Errno>;
    /// Reads `length` bytes; fewer only at the end of the file.
    fn read(&mut self, fd: Fd, offset: u64, length: usize) -> Result<Vec<u8>, Errno>;
    /// Writes all bytes. A descriptor that appends ignores the offset.
    fn write(&mut self, fd: Fd, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
    fn resize(&mut self, fd: Fd, size: u64) -> Result<(), Errno>;
    fn resize_path(&mut self, at: &Path, size: u64) -> Result<(), Errno>;
    fn allocate(&mut self, fd: Fd, offset: u64, length: u64, mode: SpaceMode) -> Result<(), Errno>;
    fn seek(&mut self, fd: Fd, offset: u64, what: SeekFor) -> Result<u64, Errno>;
    /// Copies until `length` bytes are copied or the source ends, and answers how many.
    fn copy_range(
        &mut self,
        source: Fd,
        source_offset: u64,
        target: Fd,
        target_offset: u64,
        length: u64,
    ) -> Result<u64, Errno>;
    fn sync(&mut self, fd: Fd) -> Result<(), Errno>;
    fn stat(&mut self, at: &Path) -> Result<Facts, Errno>;
    fn stat_open(&mut self, fd: Fd) -> Result<Facts, Errno>;
    fn mkdir(&mut self, at: &Path, mode: u32) -> Result<(), Errno>;
    fn mkfifo(&mut self, at: &Path, mode: u32) -> Result<(), Errno>;
    fn rmdir(&mut self, at: &Path) -> Result<(), Errno>;
    fn unlink(&mut self, at: &Path) -> Result<(), Errno>;
    /// The entries, without "." and "..", in the order of their names.
    fn readdir(&mut self, at: &Path) -> Result<Vec<(String, Kind)>, Errno>;
    fn rename(&mut self, from: &Path, to: &Path, mode: RenameMode) -> Result<(), Errno>;
    fn link(&mut self, from: &Path, to: &Path) -> Result<(), Errno>;
    fn symlink(&mut self, at: &Path, target: &str) -> Result<(), Errno>;
    fn readlink(&mut self, at: &Path) -> Result<String, Errno>;
    fn chmod(&mut self, at: &Path, mode: u32) -> Result<(), Errno>;
    fn set_times(&mut self, at: &Path, atime: SetTime, mtime: SetTime) -> Result<(), Errno>;
    fn set_xattr(
        &mut self,
        at: &Path,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno>;
    fn get_xattr(&mut self, at: &Path, name: &str) -> Result<Vec<u8>, Errno>;
    /// Names in the user's name space, in order.
    fn list_xattrs(&mut self, at: &Path) -> Result<Vec<String>, Errno>;
    fn remove_xattr(&mut self, at: &Path, name: &str) -> Result<(), Errno>;
    /// From here on everything goes through another mount of the same tree. No file is open.
    fn switch(&mut self, mount: usize);
}

/// An inode as a driver sees it. Times are in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    pub facts: Facts,
    /// Tells living inodes apart; may be used again after the inode is gone.
    pub ino: u64,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
}

/// What a file system may lack. The operations that need it are then left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    pub zero_range: bool,
    pub user_xattrs: bool,
}

impl Abilities {
    pub const ALL: Abilities = Abilities { zero_range: true, user_xattrs: true };
}

/// A file system under test, empty when it is handed over.
pub trait Driver: Operations {
    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    /// A step begins: the earliest time that it can leave on an inode.
    fn begin(&mut self) -> u64;
    /// A step has ended: the latest such time.
    fn end(&mut self) -> u64;

    fn observe(&mut self, at: &Path) -> Result<Observed, Errno>;
    fn observe_open(&mut self, fd: Fd) -> Result<Observed, Errno>;
}
