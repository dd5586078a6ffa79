//! What a check may find: leaks, which nobody misses, and damage, which somebody does.

use std::fmt;

use tidefs_model::{Ino, MountId, ShardKey, Time};

use crate::attr::Kind;
use crate::delegations::Holder;
use crate::entry::Place;

/// Something that does not add up. Two are equal when nothing about it has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// An inode that no name reaches, of a file, or of a directory without entries.
    Unreachable(Record),
    /// The inode says that it has another number of names than it has.
    Links { record: Record, names: u64 },
    /// Stripes of an inode that does not exist.
    Ownerless { ino: Ino, stripes: u64 },
    /// Stripes that lie beyond the end of their file.
    BeyondEnd { record: Record, stripes: u64 },
    /// A rename that its mount has not brought to an end.
    Rename { place: Place, entry: Vec<u8> },
    /// The removal of a directory that its mount has not brought to an end.
    Removal { directory: Ino, closing: Vec<u8> },
    /// What kept a rename or a removal from happening late; nobody is left who could be.
    Fence { shard: ShardKey, transaction: u64 },
    /// A shard of a directory that does not exist, with nothing in it that anybody needs.
    Husk { shard: ShardKey, closing: Vec<u8> },
    /// A record about an inode that does not exist.
    Remains { shard: ShardKey, field: Vec<u8> },
    /// A shard counts other entries than it has.
    Counters { shard: ShardKey, header: Vec<u8>, entries: u64, subdirectories: u64 },
    /// A mount that died without a word.
    Mount { mount: MountId, beats: u64 },
    /// What a mount that is gone has left for its delegations, and others for it.
    LeaseTerm { mount: MountId },
    /// A shard's record says that somebody keeps it whose lease term is over.
    Holder { shard: ShardKey, holder: Holder },
    /// A name whose inode is gone.
    NoInode { ino: Ino },
    /// A directory with entries that no path from the root reaches: it has no name, or leads to itself.
    Unconnected { record: Record, in_loop: bool },
    /// A rename of a directory that its mount has not brought to an end holds the lock for such.
    RenameLock { record: Vec<u8> },
    /// A directory that is gone, with entries in it.
    Stranded { directory: Ino, entries: u64 },
    /// A record that is not what its field's name says.
    Unreadable { shard: ShardKey, field: Vec<u8>, what: &'static str },
}

/// An inode as it was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    pub ino: Ino,
    pub home: ShardKey,
    pub kind: Kind,
    pub nlink: u64,
    pub size: u64,
    pub version: u64,
    pub changed: Time,
}

/// A finding, and the paths below the root that lead there, as far as there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub finding: Finding,
    pub paths: Vec<Vec<u8>>,
}

impl Finding {
    /// A word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Finding::Unreachable(_) => "unreachable",
            Finding::Links { .. } => "links",
            Finding::Ownerless { .. } => "ownerless",
            Finding::BeyondEnd { .. } => "beyond-end",
            Finding::Rename { .. } => "rename",
            Finding::Removal { .. } => "removal",
            Finding::Fence { .. } => "fence",
            Finding::Husk { .. } => "husk",
            Finding::Remains { .. } => "remains",
            Finding::Counters { .. } => "counters",
            Finding::Mount { .. } => "mount",
            Finding::LeaseTerm { .. } => "lease_term",
            Finding::Holder { .. } => "holder",
            Finding::NoInode { .. } => "no-inode",
            Finding::Unconnected { .. } => "unconnected",
            Finding::RenameLock { .. } => "rename-lock",
            Finding::Stranded { .. } => "stranded",
            Finding::Unreadable { .. } => "unreadable",
        }
    }

    /// Something is lost that a program may miss; it cannot be repaired.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Finding::NoInode { .. } | Finding::Stranded { .. } | Finding::Unreadable { .. }
        )
    }

    /// The inode that it is about, where that may have names.
    pub(super) fn ino(&self) -> Option<Ino> {
        match self {
            Finding::Links { record, .. } | Finding::BeyondEnd { record, .. } => Some(record.ino),
            Finding::NoInode { ino } => Some(*ino),
            Finding::Stranded { directory, .. } | Finding::Removal { directory, .. } => {
                Some(*directory)
            }
            Finding::Counters { shard, .. } => Some(shard.directory),
            Finding::Unreadable { field, .. } => super::walk::ino_of(field),
            _ => None,
        }
    }

    /// The entry that it is about.
    pub(super) fn place(&self) -> Option<Place> {
        match self {
            Finding::Rename { place, .. } => Some(place.clone()),
            Finding::Unreadable { shard, field, .. } => {
                let name = field.strip_prefix(&[crate::keys::ENTRY_PREFIX])?;
                Some(Place { shard: *shard, name: name.to_vec() })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Unreachable(record) => {
                let Record { ino, kind, size, .. } = record;
                write!(f, "inode {ino} ({kind:?}, {size} bytes) has no name")
            }
            Finding::Links { record, names } => {
                let Record { ino, nlink, .. } = record;
                write!(f, "inode {ino} counts {nlink} links and has {names} names")
            }
            Finding::Ownerless { ino, stripes } => {
                write!(f, "{stripes} stripes of inode {ino}, which does not exist")
            }
            Finding::BeyondEnd { record, stripes } => {
                let Record { ino, size, .. } = record;
                write!(f, "{stripes} stripes of inode {ino} lie beyond its end at {size}")
            }
            Finding::Rename { place, .. } => {
                let name = String::from_utf8_lossy(&place.name);
                write!(f, "a rename of {name:?} in directory {} stopped", place.shard.directory)
            }
            Finding::Removal { directory, .. } => {
                write!(f, "the removal of directory {directory} stopped")
            }
            Finding::Fence { shard, transaction } => {
                write!(f, "a fence against {transaction:016x} in {}", named(*shard))
            }
            Finding::Husk { shard, .. } => {
                write!(f, "{} is left of a directory that is gone", named(*shard))
            }
            Finding::Remains { shard, field } => {
                write!(f, "record {} in {} belongs to no inode", shown(field), named(*shard))
            }
            Finding::Counters { shard, entries, .. } => {
                write!(f, "{} miscounts its {entries} entries", named(*shard))
            }
            Finding::Mount { mount, .. } => write!(f, "mount {mount} died without a word"),
            Finding::LeaseTerm { mount } => {
                write!(f, "mount {mount} is gone and left a lease_term")
            }
            Finding::Holder { shard, holder } => {
                write!(
                    f,
                    "{} has a record of a delegation of mount {}, which is over",
                    named(*shard),
                    holder.mount
                )
            }
            Finding::NoInode { ino } => write!(f, "inode {ino} is gone and has a name"),
            Finding::Unconnected { record, in_loop } => {
                let why = if *in_loop { "lies below itself" } else { "has no name" };
                write!(f, "no path leads to directory {}, which {why}", record.ino)
            }
            Finding::RenameLock { .. } => {
                write!(f, "a rename that gives a directory another parent stopped")
            }
            Finding::Stranded { directory, entries } => {
                write!(f, "directory {directory} with {entries} entries is gone")
            }
            Finding::Unreadable { shard, field, what } => {
                write!(f, "{what} does not decode: record {} in {}", shown(field), named(*shard))
            }
        }
    }
}

fn named(shard: ShardKey) -> String {
    format!("shard {} of directory {}", shard.index, shard.directory)
}

/// A field's name is a letter and bytes.
fn shown(field: &[u8]) -> String {
    field.escape_ascii().to_string()
}
