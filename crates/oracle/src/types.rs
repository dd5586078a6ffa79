//! What operations take and give, in the words of POSIX and independent of any implementation.

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
}

/// A file descriptor, by the number that the test gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fd(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

/// How a file is opened. Symbolic links are never followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags {
    pub access: Access,
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    pub append: bool,
}

impl OpenFlags {
    /// To read a file that is there.
    pub const READ: OpenFlags = OpenFlags {
        access: Access::Read,
        create: false,
        exclusive: false,
        truncate: false,
        append: false,
    };

    pub fn reads(self) -> bool {
        self.access != Access::Write
    }

    pub fn writes(self) -> bool {
        self.access != Access::Read
    }
}

/// What every implementation must say the same of an inode. The size of a directory is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    pub mode: u32,
    pub links: u64,
    pub size: u64,
}

/// Modes of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceMode {
    Allocate,
    AllocateKeepSize,
    PunchHole,
    Zero,
    ZeroKeepSize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekFor {
    Data,
    Hole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    Replace,
    NoReplace,
    Exchange,
}

/// A time given to `utimensat`; nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    Omit,
    Now,
    At(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    Any,
    Create,
    Replace,
}
