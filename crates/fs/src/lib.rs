//! File-system semantics over a [`Store`](tidefs_store::Store).
//!
//! [`Fs`] is a plain value with one method for each thing that a program can do to a file system.
//! It knows inodes, directories and handles; it knows no FUSE type, no node and no slot. Callers
//! have checked permissions already (the kernel does, from the mode bits that it is given here).

mod attr;
mod attributes;
mod census;
mod check;
mod closing;
mod config;
mod counters;
mod counting_down;
mod data;
mod delegations;
mod directories;
mod eager_flush;
mod entering;
mod entry;
mod error;
mod fs;
mod hand_over;
mod handles;
mod hints;
mod identity;
mod inode;
mod inodes;
mod keys;
mod known_fields;
mod known_names;
mod known_records;
mod layout;
mod lifetimes;
mod listed;
mod listing;
mod locks;
mod losses;
mod membership;
mod names;
mod openers;
mod ops;
mod rename_lock;
mod space;
mod still_there;
mod superblock;
mod sync;
mod table;
mod terms;
#[cfg(test)]
mod tests;
mod unfinished;
mod whereabouts;
mod write_back;

pub use attr::{Attr, Caller, Kind, SetAttr, SetTime, StatFs};
pub use check::{CheckReport, Finding, Found, Surroundings, check};
pub use config::{Config, Format};
pub use counters::Counters;
pub use data::{AppendedAt, OldPages, Outgrown};
pub use error::Error;
pub use fs::Fs;
pub use hand_over::{HandOverError, VERSION as HAND_OVER_VERSION};
pub use layout::{Layout, PLACEMENT};
pub use lifetimes::{AskedName, KernelCache, Lifetimes, Standing};
pub use locks::Wait;
pub use membership::{Admission, Admitted, LIFETIME_MAX};
pub use ops::{
    DirectoryEntry, Entry, Handle, Lock, LockFamily, LockKind, OpenMode, Opened, ReadBytes,
    RenameMode, Seek, SpaceMode, Taken, XattrMode,
};
pub use superblock::FORMAT_VERSION;
pub use tidefs_sealed::{Cipher, Key, Salt, Sealing, may_lack_seals, partition_of_seals};
pub use whereabouts::WHERE;

/// Longest name of a directory entry, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest target of a symbolic link, in bytes.
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Size of the largest file: 16 TiB.
pub const FILE_BYTES_MAX: u64 = 16 << 40;
/// Most names that one inode can have.
pub const LINKS_MAX: u64 = 65_000;
/// Longest value of one extended attribute, as in Linux's own limit.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Longest name of an extended attribute.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
