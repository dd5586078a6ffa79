//! The record in a shard of the mounts that keep what they read there.

use tidefs_model::MountId;

use crate::inode::u64_at;

/// Holders that a shard has room for; whoever comes then asks the store each time.
pub(super) const HOLDERS_MAX: usize = 64;
/// Mount, lease term, and the number of the entering: a record that a holder left is never the same again
/// when it has come back, so a batch that is carried out late takes nobody off who came since.
const HOLDER_BYTES: usize = 24;

/// A mount, and which of its lease terms: one that is over never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub mount: MountId,
    pub lease_term: u64,
}

/// An entering of a holder: who comes back after it has gone has another number.
pub(super) type Entered = (Holder, u64);

/// All holders of a record with the numbers of their enterings, but those of one mount.
pub(super) fn others_entered(record: &[u8], me: MountId) -> Vec<Entered> {
    let all = record.chunks_exact(HOLDER_BYTES).map(|it| (holder_in(it), u64_at(it, 16)));
    all.filter(|(holder, _)| holder.mount != me).collect()
}

/// All holders of a record; an empty one stands for none. What is no whole holder counts for nothing.
pub(crate) fn decode(record: &[u8]) -> Vec<Holder> {
    record.chunks_exact(HOLDER_BYTES).map(holder_in).collect()
}

/// The record with one holder more, which replaces an earlier entering of its mount.
pub(super) fn with(record: &[u8], holder: Holder, entering: u64) -> Vec<u8> {
    let mut record = without(record, |it| it.mount == holder.mount);
    record.extend(
        [holder.mount.0, holder.lease_term, entering].iter().flat_map(|it| it.to_be_bytes()),
    );
    record
}

pub(super) fn without(record: &[u8], goes: impl Fn(&Holder) -> bool) -> Vec<u8> {
    let all = record.chunks_exact(HOLDER_BYTES);
    all.filter(|bytes| !goes(&holder_in(bytes))).flatten().copied().collect()
}

fn holder_in(bytes: &[u8]) -> Holder {
    Holder { mount: MountId(u64_at(bytes, 0)), lease_term: u64_at(bytes, 8) }
}

/// The holders of a record that are other mounts.
pub(super) fn others(record: &[u8], me: MountId) -> Vec<Holder> {
    let mut holders = decode(record);
    holders.retain(|holder| holder.mount != me);
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(mount: u64, lease_term: u64) -> Holder {
        Holder { mount: MountId(mount), lease_term }
    }

    #[test]
    fn a_mount_is_there_once_with_its_last_lease_term() {
        let record = with(&with(&with(&[], holder(1, 7), 1), holder(2, 1), 1), holder(1, 8), 2);
        assert_eq!(decode(&record), [holder(2, 1), holder(1, 8)]);
        assert_eq!(others(&record, MountId(1)), [holder(2, 1)]);
        let first = with(&[], holder(1, 8), 2);
        assert_eq!(without(&record, |it| it.mount == MountId(2)), first);
        assert_ne!(with(&first, holder(1, 8), 3), first);
        assert_eq!(decode(&record[..40]), [holder(2, 1)]);
    }
}
