//! Numbers and attributes that requests and answers carry.

use std::fmt;
use std::time::SystemTime;

use rustix::fs::RawMode;

/// Of an inode; 1 is the root, 0 none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct INodeNo(pub u64);

impl fmt::Display for INodeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the file system calls an open file or directory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle(pub u64);

/// What the kernel calls somebody who may have locks by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// Tells apart inodes that have the same number one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub u64);

/// As given to open(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(pub i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    NamedPipe,
    CharDevice,
    Directory,
    BlockDevice,
    RegularFile,
    Symlink,
    Socket,
}

impl FileType {
    /// The bits of a mode that say so.
    pub(crate) fn mode(self) -> RawMode {
        match self {
            FileType::NamedPipe => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::RegularFile => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        }
    }
}

/// What `stat` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttr {
    pub ino: INodeNo,
    /// In bytes.
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    pub atime: SystemTime,
    pub mtime: SystemTime,
    pub ctime: SystemTime,
    pub kind: FileType,
    /// Permissions, with the set-user-id, set-group-id and sticky bits.
    pub perm: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// What programs are told to read and write at a time, in bytes.
    pub blksize: u32,
}

/// What `statfs` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    pub blocks: u64,
    pub blocks_free: u64,
    /// To users other than root.
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    /// What programs are told to read and write at a time, in bytes.
    pub transfer_bytes: u32,
    pub name_bytes_max: u32,
    /// What blocks are counted in.
    pub block_bytes: u32,
}

/// A time since 1970, or before it: seconds downwards, nanoseconds always upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub seconds: i64,
    pub nanoseconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOrNow {
    At(Moment),
    Now,
}
