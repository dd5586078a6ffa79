//! Why an operation on the file system failed: facts of the file system, one variant each.

use tidefs_store::StoreError;

/// A failure of a file-system operation. Nothing was changed unless the store's own error says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no such file or directory")]
    NotFound,
    #[error("a file of that name exists")]
    Exists,
    #[error("not a directory")]
    NotADirectory,
    #[error("is a directory")]
    IsADirectory,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("the name is longer than 255 bytes")]
    NameTooLong,
    #[error("the argument is not valid here")]
    Invalid,
    #[error("the file would be larger than the largest file")]
    FileTooLarge,
    #[error("the inode has as many names as it can have")]
    TooManyLinks,
    #[error("the operation is not permitted on this kind of file")]
    NotPermitted,
    #[error("the handle is not open, or not for this")]
    BadHandle,
    #[error("no such extended attribute")]
    NoAttribute,
    #[error("the value does not fit the caller's buffer")]
    RangeTooSmall,
    #[error("the extended attributes are larger than an inode can have")]
    AttributesTooLarge,
    #[error("there is no data, or no hole, from there on")]
    NoSuchOffset,
    #[error("not supported")]
    NotSupported,
    /// A lock that conflicts is held by somebody else.
    #[error("the lock is held by somebody else")]
    WouldBlock,
    #[error("waiting for the lock would never end")]
    Deadlock,
    #[error("there are as many locks as there can be")]
    TooManyLocks,
    /// The inode vanished under its handle, by another mount's doing.
    #[error("the file was removed elsewhere")]
    Stale,
    /// A record in the store does not decode.
    #[error("the record of {what} {ino} does not decode")]
    Corrupt { what: &'static str, ino: u64 },
    /// The record of a name does not decode.
    #[error("the entry {name:?} of directory {directory} does not decode")]
    CorruptEntry { directory: u64, name: Box<str> },
    /// Other mounts kept changing the same entry until the attempts ran out.
    #[error("the entry kept changing; try again")]
    Contended,
    /// What others wrote to a file and have not recorded cannot be told from what a failed write left.
    #[error("another mount does not stand still at the file")]
    NotStill,
    /// The store holds no file system, or has just lost what says that it holds one.
    #[error("the store does not hold the superblock of a file system")]
    NoSuperblock,
    /// The store holds a file system of another format.
    #[error("the store holds format {found} of the file system; this program needs {needed}")]
    WrongFormat { found: u32, needed: u32 },
    /// The stripes are sealed, and this mount was given no key.
    #[error("the file system's stripes are sealed; the key in its state directory is needed")]
    NoKey,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Error {
    /// Nobody waits for what was asked for any more: it is neither done nor given up.
    pub(crate) fn is_interruption(&self) -> bool {
        matches!(self, Error::Store(StoreError::Interrupted { .. }))
    }

    /// Whoever holds what was asked for does not say what it holds, so nobody can change it there
    /// either.
    pub(crate) fn is_of_silence(&self) -> bool {
        let Error::Store(error) = self else { return false };
        match error {
            StoreError::Unavailable { .. }
            | StoreError::Unplaced { .. }
            | StoreError::Lost { .. }
            | StoreError::Denied { .. }
            | StoreError::Malformed { .. } => true,
            StoreError::Full { .. }
            | StoreError::Interrupted { .. }
            | StoreError::Indeterminate { .. }
            | StoreError::Expelled
            | StoreError::Forged { .. }
            | StoreError::TooLarge { .. } => false,
        }
    }
}
