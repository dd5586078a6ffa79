//! The names of the fields inside a shard: one letter for the kind of record, then its key.
//! This is the only place where they are made.

use tidefs_model::{Ino, MountId, ShardKey};

use crate::entry::{SHARD_BYTES, put_shard, shard_of};

/// Counters of a shard's entries; see [`header`].
pub const HEADER: &[u8] = b"h";
/// Present while the directory is being removed or is gone; no entry may be made.
pub const CLOSED: &[u8] = b"x";
/// The mounts that keep what they read in this shard; see [`crate::delegations`].
pub const HOLDERS: &[u8] = b"k";
/// The mount that may answer for changes of this shard before the store has them: the one holder then.
pub const WRITER: &[u8] = b"w";
/// A rename is finding out whether the directory is there; see [`crate::entering`].
pub const OPENING: &[u8] = b"n";
/// Present beside the registrations where their owner has said who is let in.
pub const ADMITS: &[u8] = b"admits";
/// First letter of the fields that hold entries.
pub const ENTRY_PREFIX: u8 = b'e';
/// First letter of the fields that hold inodes.
pub const INODE_PREFIX: u8 = b'i';

/// First letter of the fields that hold extended attributes.
const XATTRS_PREFIX: u8 = b'a';

/// Offsets inside the record of a mount's lease term.
pub mod lease_term {
    pub const NUMBER: u32 = 0;
    /// How often others have asked the mount to let go of a shard.
    pub const RECALLS: u32 = 8;
}

/// Offsets inside the header's record.
pub mod header {
    pub const ENTRIES: u32 = 0;
    pub const SUBDIRECTORIES: u32 = 8;
    /// When the shard's entries last changed.
    pub const CHANGED: u32 = 16;
    /// 1 once somebody has made sure that the directory was there, for as long as it is.
    pub const ALIVE: u32 = 24;
}

/// Shards of the file system as a whole, by index under [`Ino::NONE`]. Index 3 is the manager's
/// journal.
pub const SUPERBLOCK: ShardKey = ShardKey { directory: Ino::NONE, index: 0 };
/// The rename under way that gives a directory another parent, and how many have begun; in the superblock's
/// shard. See [`crate::rename_lock`].
pub const RENAME_LOCK: &[u8] = b"directory-rename";
pub const RENAME_TERM: &[u8] = b"directory-renames";
/// The mounts that are there.
pub const MOUNTS: ShardKey = ShardKey { directory: Ino::NONE, index: 1 };
/// In the shard of mounts: how many numbers of inodes had been granted when something was lost last.
pub const LOST_AT: &[u8] = b"lost-at";
/// In the shard of mounts: which file all mounts but one are to stand still at; see [`crate::census::standstill`].
pub const STANDSTILL: &[u8] = b"standstill";
/// What a check asks all mounts, and what they answer.
pub const CENSUS: ShardKey = ShardKey { directory: Ino::NONE, index: 4 };
/// Where the root directory's inode lives, since no directory holds its entry.
pub const ROOT_HOME: ShardKey = ShardKey { directory: Ino::NONE, index: 2 };

/// The entry of a name.
pub fn entry(name: &[u8]) -> Vec<u8> {
    prefixed(ENTRY_PREFIX, name)
}

/// The record of an inode.
pub fn inode(ino: Ino) -> Vec<u8> {
    prefixed(INODE_PREFIX, &ino.0.to_be_bytes())
}

/// The inode whose record or extended attributes a field is.
pub fn ino_of(field: &[u8]) -> Option<Ino> {
    let (kind, number) = field.split_first()?;
    let number = number.try_into().ok().filter(|_| [INODE_PREFIX, XATTRS_PREFIX].contains(kind))?;
    Some(Ino(u64::from_be_bytes(number)))
}

/// All extended attributes of an inode.
pub fn xattrs(ino: Ino) -> Vec<u8> {
    prefixed(XATTRS_PREFIX, &ino.0.to_be_bytes())
}

/// The locks that programs of several mounts hold on a file.
pub fn locks(ino: Ino) -> Vec<u8> {
    prefixed(b'l', &ino.0.to_be_bytes())
}

/// The mounts that have a file open.
pub fn openers(ino: Ino) -> Vec<u8> {
    prefixed(b'o', &ino.0.to_be_bytes())
}

/// Present when stripes of this region of the file have been written; the first region has none.
pub fn region(ino: Ino, region: u32) -> Vec<u8> {
    let mut field = prefixed(b'r', &ino.0.to_be_bytes());
    field.extend(region.to_be_bytes());
    field
}

/// Fences off a two-shard operation that somebody else gave up.
pub fn aborted(transaction: u64) -> Vec<u8> {
    prefixed(b'f', &transaction.to_be_bytes())
}

/// The rename under way that gives a directory another parent; beside its record. See [`crate::rename_lock`].
pub fn moving(ino: Ino) -> Vec<u8> {
    prefixed(b'g', &ino.0.to_be_bytes())
}

/// A mount's answer in the census.
pub fn answer(mount: MountId) -> Vec<u8> {
    prefixed(b'w', &mount.0.to_be_bytes())
}

/// A mount says that it stands still; in the shard of mounts.
pub fn stands_still(mount: MountId) -> Vec<u8> {
    prefixed(b's', &mount.0.to_be_bytes())
}

/// The registration of a mount.
pub fn mount(mount: MountId) -> Vec<u8> {
    prefixed(b'm', &mount.0.to_be_bytes())
}

/// Of a mount that is let in, where the file system has an owner.
pub fn admitted(mount: MountId) -> Vec<u8> {
    prefixed(b'a', &mount.0.to_be_bytes())
}

/// The mount that a field says is let in.
pub fn admitted_in(field: &[u8]) -> Option<MountId> {
    let mount = field.strip_prefix(b"a")?.try_into().ok()?;
    Some(MountId(u64::from_be_bytes(mount)))
}

/// The lease term in which a mount takes delegations, in the superblock's shard.
pub fn lease_term(mount: MountId) -> Vec<u8> {
    prefixed(b't', &mount.0.to_be_bytes())
}

/// Somebody wants to change what a mount keeps of a shard; in the superblock's shard.
pub fn recall(mount: MountId, shard: ShardKey) -> Vec<u8> {
    let mut field = recalls_for(mount);
    put_shard(&mut field, shard);
    field
}

/// The shard that a field recalls, of this mount.
pub fn shard_of_recall(mount: MountId, field: &[u8]) -> Option<ShardKey> {
    shard_after(&recalls_for(mount), field)
}

/// Somebody wants to look at a shard of which a mount is the [writer](WRITER); in the superblock's shard.
pub fn look(mount: MountId, shard: ShardKey) -> Vec<u8> {
    let mut field = looks_for(mount);
    put_shard(&mut field, shard);
    field
}

/// The shard that a field wants to look at, of this mount.
pub fn shard_of_look(mount: MountId, field: &[u8]) -> Option<ShardKey> {
    shard_after(&looks_for(mount), field)
}

fn shard_after(prefix: &[u8], field: &[u8]) -> Option<ShardKey> {
    let shard = field.strip_prefix(prefix)?;
    (shard.len() == SHARD_BYTES).then(|| shard_of(shard))
}

/// The mount whose lease term a field of the superblock's shard is, or which it recalls.
pub fn mount_of_delegation(field: &[u8]) -> Option<MountId> {
    let (kind, rest) = field.split_first()?;
    let (mount, shard) = rest.split_first_chunk()?;
    let shard_bytes = match kind {
        b't' => 0,
        b'c' | b'u' => SHARD_BYTES,
        _ => return None,
    };
    (shard.len() == shard_bytes).then(|| MountId(u64::from_be_bytes(*mount)))
}

fn recalls_for(mount: MountId) -> Vec<u8> {
    prefixed(b'c', &mount.0.to_be_bytes())
}

fn looks_for(mount: MountId) -> Vec<u8> {
    prefixed(b'u', &mount.0.to_be_bytes())
}

/// Whether a shard is one of a directory's, or the root's home: what delegations are for.
pub fn has_names(shard: ShardKey) -> bool {
    shard.directory != Ino::NONE || shard == ROOT_HOME
}

/// Whether delegations cover a field: a mount that has one on the shard may answer from what it read of it.
pub fn is_delegated(field: &[u8]) -> bool {
    let covered = [ENTRY_PREFIX, INODE_PREFIX, XATTRS_PREFIX];
    field == HEADER || field.first().is_some_and(|kind| covered.contains(kind))
}

fn prefixed(prefix: u8, key: &[u8]) -> Vec<u8> {
    let mut field = Vec::with_capacity(1 + key.len());
    field.push(prefix);
    field.extend(key);
    field
}
