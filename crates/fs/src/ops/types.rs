//! What the operations take and give.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use tidefs_model::Ino;

use crate::attr::{Attr, Kind};

/// A name that was found or made. It counts as one look-up of its inode until it is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub attr: Attr,
    /// `false`: of a directory, whose times and number of links are those of its record alone. Whoever wants to know
    /// them has to ask, and may keep none of the attributes.
    pub is_whole: bool,
}

/// An open file or directory of this mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// What a file is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenMode {
    pub read: bool,
    pub write: bool,
    /// Each write goes to the end of the file.
    pub append: bool,
    /// The file is emptied.
    pub truncate: bool,
    /// With a create: the name must not exist.
    pub exclusive: bool,
    /// Each write has reached the store before it returns.
    pub sync: bool,
}

impl OpenMode {
    pub(crate) fn only_reads(&self) -> bool {
        self.read && !self.write
    }
}

/// A file that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    pub handle: Handle,
    /// What the kernel cached of the file's bytes earlier is still right.
    pub keep_cache: bool,
    /// The kernel must not keep bytes of this open: it would place them where it thinks the end
    /// of the file is, which another mount may have moved.
    pub uncached: bool,
    /// The file's bytes, which the kernel may read and write by itself while the handle is open; not
    /// those of a file that lends privileges, since that ends when an ordinary user changes them.
    pub pinned: Option<Arc<File>>,
}

/// Bytes that were read: part of a buffer that may be shared with the read-ahead.
#[derive(Clone, Debug)]
pub struct ReadBytes {
    pub buffer: Arc<Vec<u8>>,
    pub range: Range<usize>,
    /// The store had nothing, or zeros, of a stripe: a hole, if the file is still there.
    pub(crate) has_gaps: bool,
}

impl ReadBytes {
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl From<Vec<u8>> for ReadBytes {
    fn from(bytes: Vec<u8>) -> ReadBytes {
        let range = 0..bytes.len();
        ReadBytes { buffer: Arc::new(bytes), range, has_gaps: false }
    }
}

/// What a rename does about a file that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    Replace,
    NoReplace,
    /// The two swap names.
    Exchange,
}

/// What to look for from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    Data,
    Hole,
}

/// What to do to the space of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceMode {
    /// The file reaches at least to the end of the range. No memory is reserved.
    Allocate,
    /// As [`SpaceMode::Allocate`], but the size stays.
    AllocateKeepSize,
    /// The range reads as zeros and its memory is given back; the size stays.
    PunchHole,
    /// The range reads as zeros; the size grows to its end.
    Zero,
    /// As [`SpaceMode::Zero`], but the size stays.
    ZeroKeepSize,
}

/// Whether an extended attribute must be new or must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    Any,
    Create,
    Replace,
}

/// An entry as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: Kind,
    /// The offset at which a listing goes on behind this entry.
    pub next: u64,
}

/// The two families of locks. One is never in the way of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockFamily {
    /// A range of bytes, as `fcntl` locks it.
    Record,
    /// All of the file, as `flock` does.
    Whole,
}

/// Whether others may have a lock of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    Shared,
    Exclusive,
}

/// A lock on a file that a program of this mount holds or wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    pub family: LockFamily,
    pub kind: LockKind,
    /// Whoever holds it, as the kernel of the mount calls it: a process or an open file.
    pub owner: u64,
    /// First and last byte.
    pub start: u64,
    pub last: u64,
    /// The process that asked; 0 where it is on another mount.
    pub pid: u32,
}
