//! Identities that the file system hands out and never uses twice.

use std::fmt;

/// Number of an inode: unique in its file system for ever, also after the inode is gone. That of a
/// local file says where its stripes lie; see [`Ino::run`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// No inode. Its shards hold what belongs to the file system as a whole.
    pub const NONE: Ino = Ino(0);
    /// The root directory; FUSE fixes the number.
    pub const ROOT: Ino = Ino(1);
}

impl fmt::Debug for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ino {}", self.0)
    }
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One mount of a file system, drawn at random when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MountId(pub u64);

impl fmt::Display for MountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
