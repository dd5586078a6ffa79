//! The record of a file's locks, as it lies in the file's home shard while there are several
//! mounts: one entry of fixed length for each lock, with the mount that vouches for it.

use tidefs_model::{Ino, MountId};

use super::ranges::Held;
use crate::error::Error;
use crate::inode::{u32_at, u64_at};
use crate::ops::{Lock, LockFamily, LockKind};

/// Family, kind, two bytes of nothing, process, mount, owner, start, last byte.
const ENTRY_BYTES: usize = 40;

/// A lock with its mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub mount: MountId,
    pub lock: Lock,
}

pub(super) fn decode(ino: Ino, record: Option<&[u8]>) -> Result<Vec<Entry>, Error> {
    let corrupt = Error::Corrupt { what: "the locks of inode", ino: ino.0 };
    let entries = record.unwrap_or_default().chunks(ENTRY_BYTES);
    entries.map(|entry| decode_entry(entry).ok_or(corrupt.clone())).collect()
}

fn decode_entry(entry: &[u8]) -> Option<Entry> {
    if entry.len() != ENTRY_BYTES {
        return None;
    }
    let family = match entry[0] {
        0 => LockFamily::Record,
        1 => LockFamily::Whole,
        _ => return None,
    };
    let kind = match entry[1] {
        0 => LockKind::Shared,
        1 => LockKind::Exclusive,
        _ => return None,
    };
    let (pid, owner) = (u32_at(entry, 4), u64_at(entry, 16));
    let (start, last) = (u64_at(entry, 24), u64_at(entry, 32));
    let lock = Lock { family, kind, owner, start, last, pid };
    (start <= last).then_some(Entry { mount: MountId(u64_at(entry, 8)), lock })
}

/// `None` where nobody has a lock, hence no record.
pub(super) fn encode(others: &[Entry], mount: MountId, held: &[Held]) -> Option<Vec<u8>> {
    let own = held.iter().map(|held| (mount, &held.lock));
    let entries = others.iter().map(|entry| (entry.mount, &entry.lock)).chain(own);
    let mut record = Vec::with_capacity((others.len() + held.len()) * ENTRY_BYTES);
    for (mount, lock) in entries {
        let family = u8::from(lock.family == LockFamily::Whole);
        let kind = u8::from(lock.kind == LockKind::Exclusive);
        record.extend([family, kind, 0, 0]);
        record.extend(lock.pid.to_be_bytes());
        for number in [mount.0, lock.owner, lock.start, lock.last] {
            record.extend(number.to_be_bytes());
        }
    }
    (!record.is_empty()).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Handle;

    fn lock(owner: u64) -> Lock {
        let family = LockFamily::Whole;
        Lock { family, kind: LockKind::Exclusive, owner, start: 3, last: u64::MAX, pid: 77 }
    }

    #[test]
    fn locks_survive_their_record() {
        let other = Entry { mount: MountId(5), lock: lock(1) };
        let held = Held { lock: lock(2), handle: Handle(1), may_be_over: true };
        let record = encode(std::slice::from_ref(&other), MountId(6), &[held]).expect("a record");
        let own = Entry { mount: MountId(6), lock: lock(2) };
        assert_eq!(decode(Ino(1), Some(&record)), Ok(vec![other, own]));
        assert_eq!(encode(&[], MountId(6), &[]), None);
        assert_eq!(decode(Ino(1), None), Ok(vec![]));
    }

    #[test]
    fn a_cut_record_and_one_of_no_family_are_corrupt() {
        let held = Held { lock: lock(2), handle: Handle(1), may_be_over: false };
        let record = encode(&[], MountId(6), &[held]).expect("a record");
        for length in 1..record.len() {
            assert!(decode(Ino(1), Some(&record[..length])).is_err(), "{length}");
        }
        for at in [0, 1] {
            let mut wrong = record.clone();
            wrong[at] = 9;
            assert!(decode(Ino(1), Some(&wrong)).is_err());
        }
    }
}
