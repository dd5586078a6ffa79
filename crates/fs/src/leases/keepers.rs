//! The record in a shard of the mounts that keep what they read there.

use tidefs_model::MountId;

use crate::inode::u64_at;

/// Keepers that a shard has room for; whoever comes then asks the store each time.
pub(super) const KEEPERS_MAX: usize = 64;
/// Mount, tenure, and the number of the entering: a record that a keeper left is never the same again
/// when it has come back, so a batch that is carried out late takes nobody off who came since.
const KEEPER_BYTES: usize = 24;

/// A mount, and which of its tenures: one that is over never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keeper {
    pub mount: MountId,
    pub tenure: u64,
}

/// All keepers of a record; an empty one stands for none. What is no whole keeper counts for nothing.
pub(crate) fn decode(record: &[u8]) -> Vec<Keeper> {
    record.chunks_exact(KEEPER_BYTES).map(keeper_in).collect()
}

/// The record with one keeper more, which replaces an earlier entering of its mount.
pub(super) fn with(record: &[u8], keeper: Keeper, entering: u64) -> Vec<u8> {
    let mut record = without(record, |it| it.mount == keeper.mount);
    record.extend([keeper.mount.0, keeper.tenure, entering].iter().flat_map(|it| it.to_be_bytes()));
    record
}

pub(super) fn without(record: &[u8], goes: impl Fn(&Keeper) -> bool) -> Vec<u8> {
    let all = record.chunks_exact(KEEPER_BYTES);
    all.filter(|bytes| !goes(&keeper_in(bytes))).flatten().copied().collect()
}

fn keeper_in(bytes: &[u8]) -> Keeper {
    Keeper { mount: MountId(u64_at(bytes, 0)), tenure: u64_at(bytes, 8) }
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
        let record = with(&with(&with(&[], keeper(1, 7), 1), keeper(2, 1), 1), keeper(1, 8), 2);
        assert_eq!(decode(&record), [keeper(2, 1), keeper(1, 8)]);
        assert_eq!(others(&record, MountId(1)), [keeper(2, 1)]);
        let first = with(&[], keeper(1, 8), 2);
        assert_eq!(without(&record, |it| it.mount == MountId(2)), first);
        assert_ne!(with(&first, keeper(1, 8), 3), first);
        assert_eq!(decode(&record[..40]), [keeper(2, 1)]);
    }
}
