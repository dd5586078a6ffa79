//! The record in a shard of the mounts that keep what they read there.

use tidefs_model::MountId;

use crate::inode::u64_at;

/// Keepers that a shard has room for; whoever comes then asks the store each time.
pub(super) const KEEPERS_MAX: usize = 64;
const KEEPER_BYTES: usize = 16;

/// A mount, and which of its tenures: one that is over never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Keeper {
    pub mount: MountId,
    pub tenure: u64,
}

/// All keepers of a record; an empty one stands for none. What is no whole keeper counts for nothing.
pub(super) fn decode(record: &[u8]) -> Vec<Keeper> {
    let keepers = record.chunks_exact(KEEPER_BYTES);
    keepers
        .map(|bytes| Keeper { mount: MountId(u64_at(bytes, 0)), tenure: u64_at(bytes, 8) })
        .collect()
}

pub(super) fn encode(keepers: &[Keeper]) -> Vec<u8> {
    keepers.iter().flat_map(|it| [it.mount.0, it.tenure]).flat_map(u64::to_be_bytes).collect()
}

/// The record with one keeper more, which replaces an earlier tenure of its mount.
pub(super) fn with(record: &[u8], keeper: Keeper) -> Vec<u8> {
    let mut keepers = decode(record);
    keepers.retain(|it| it.mount != keeper.mount);
    keepers.push(keeper);
    encode(&keepers)
}

pub(super) fn without(record: &[u8], goes: impl Fn(&Keeper) -> bool) -> Vec<u8> {
    let mut keepers = decode(record);
    keepers.retain(|keeper| !goes(keeper));
    encode(&keepers)
}

/// The keepers of a record that are other mounts.
pub(super) fn others(record: &[u8], me: MountId) -> Vec<Keeper> {
    let mut keepers = decode(record);
    keepers.retain(|keeper| keeper.mount != me);
    keepers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(mount: u64, tenure: u64) -> Keeper {
        Keeper { mount: MountId(mount), tenure }
    }

    #[test]
    fn a_mount_is_there_once_with_its_last_tenure() {
        let record = with(&with(&with(&[], keeper(1, 7)), keeper(2, 1)), keeper(1, 8));
        assert_eq!(decode(&record), [keeper(2, 1), keeper(1, 8)]);
        assert_eq!(others(&record, MountId(1)), [keeper(2, 1)]);
        assert_eq!(without(&record, |it| it.mount == MountId(2)), encode(&[keeper(1, 8)]));
        assert_eq!(decode(&record[..20]), [keeper(2, 1)]);
    }
}
