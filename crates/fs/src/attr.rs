//! What the file system says about a file, and what a caller may change of it.

use tidefs_model::{Ino, Time};

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// The attributes of an inode at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    pub ino: Ino,
    pub kind: Kind,
    /// Permission bits with set-user-id, set-group-id and sticky: the low 12 bits of `st_mode`.
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    /// Device number of a device file, as the kernel encodes it; else 0.
    pub rdev: u32,
    pub size: u64,
    /// What is stored, in units of 512 bytes; of a sparse file that is asked of the store.
    pub blocks: u64,
    /// Set by hand only; reading a file does not move it.
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
}

/// On whose behalf an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
}

/// A new value for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    Now,
    At(Time),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// Given by a kernel that keeps times itself; otherwise a change sets it to now.
    pub ctime: Option<Time>,
    /// Clear set-user-id, and set-group-id of a group-executable file, as a write does.
    pub clear_privileges: bool,
}

/// Totals of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    /// What a transfer should be a multiple of.
    pub block_bytes: u32,
    pub inodes: u64,
    pub inodes_free: u64,
}
