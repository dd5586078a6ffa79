//! Removed files that other mounts have open: their bytes stay until nobody has them open any more,
//! or until this mount leaves; then whoever closes such a file last frees it.
//!
//! Before anything of a file goes its record says so, in the same instant in which nobody stands in the record of
//! those who have it open: who comes later finds that, and takes nothing that is missing for a hole.

use std::sync::PoisonError;

use tidefs_model::{Ino, MountId, ShardKey};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError};

use super::DataPath;
use super::delete::Removed;
use crate::{inode, keys, openers};

/// Files that are asked about in one round.
const ASKED_AT_ONCE: usize = 256;
/// How often others may enter or leave meanwhile.
const ATTEMPTS: usize = 4;
/// Of those, so many may fail before the others are left for later.
const FAILURES_MAX: u32 = 4;

impl<S: Store> DataPath<S> {
    /// The mounts that may have files open besides this one.
    pub fn set_others(&self, others: Vec<MountId>) {
        *self.others.lock().unwrap_or_else(PoisonError::into_inner) = others;
    }

    /// Others may look at files while this mount works on them.
    pub(super) fn has_company(&self) -> bool {
        !self.others.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Those of some removed files that no other mount has open, which are to be freed now. The rest is asked
    /// about again later.
    pub(super) fn unused(&self, removed: Vec<Removed>) -> Vec<Removed> {
        let (unused, used) = self.parted(removed);
        let now = self.clock.steady();
        used.into_iter().for_each(|removed| self.lingering.hold(removed, now));
        unused
    }

    /// First those that are to be freed now.
    pub(super) fn parted(&self, removed: Vec<Removed>) -> (Vec<Removed>, Vec<Removed>) {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if others.is_empty() {
            return (removed, Vec::new());
        }
        let (mut unused, mut used) = (Vec::new(), Vec::new());
        for files in removed.chunks(ASKED_AT_ONCE) {
            let mut asked: Vec<Asked> = files.iter().map(|file| (*file, None)).collect();
            for _ in 0..ATTEMPTS {
                asked = self.take_unused(asked, &others, (&mut unused, &mut used));
            }
            used.extend(asked.into_iter().map(|(file, _)| file));
        }
        (unused, used)
    }

    /// Whether another mount has a file open that is open here.
    pub fn is_open_elsewhere(&self, home: ShardKey, ino: Ino) -> Result<bool, StoreError> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read = Batch::new().read(keys::openers(ino));
        let record = self.store.batch(home, &read)?.take(0);
        Ok(stands_in(record.as_deref(), &others))
    }

    /// Answers those whose openers are others than was thought, of whom none is there any more.
    fn take_unused(
        &self,
        asked: Vec<Asked>,
        others: &[MountId],
        (unused, used): (&mut Vec<Removed>, &mut Vec<Removed>),
    ) -> Vec<Asked> {
        let batches: Vec<_> = asked.iter().map(begin_to_free).collect();
        let mut again = Vec::new();
        for ((file, _), outcome) in asked.into_iter().zip(self.outcomes(&batches)) {
            // Where the store does not answer, a file counts as used, and is asked about again: who has it
            // open reads its bytes on nodes that do answer.
            let Some(mut outcome) = outcome else {
                used.push(file);
                continue;
            };
            let record = outcome.take(0);
            match outcome.refused_by {
                // What is left of one that has no record any more goes as well.
                None | Some(0) => unused.push(file),
                Some(NAMED) => used.push(file),
                Some(_) if stands_in(record.as_deref(), others) => used.push(file),
                Some(_) => again.push((file, record)),
            }
        }
        again
    }

    /// Of one call, or where that fails of one for each, as long as few fail.
    fn outcomes(&self, batches: &[(ShardKey, Batch)]) -> Vec<Option<Outcome>> {
        if batches.is_empty() {
            return Vec::new();
        }
        if let Ok(outcomes) = self.store.batches(batches) {
            return outcomes.into_iter().map(Some).collect();
        }
        let mut failures = 0;
        let mut outcome = |(shard, batch): &(ShardKey, Batch)| {
            // Each that a node does not answer may take long.
            if failures == FAILURES_MAX {
                return None;
            }
            let outcome = self.store.batch(*shard, batch);
            failures += u32::from(outcome.is_err());
            outcome.ok()
        };
        batches.iter().map(&mut outcome).collect()
    }
}

/// A file, and the record of its openers as it was found.
type Asked = (Removed, Option<Bytes>);

/// Which condition of that refuses it for a file that has a name.
const NAMED: usize = 2;

/// It takes no room in a store that is full.
fn begin_to_free((file, openers): &Asked) -> (ShardKey, Batch) {
    let (record, field) = (keys::inode(file.ino), keys::openers(file.ino));
    let batch = Batch::new().present(record.clone());
    let batch = match openers {
        None => batch.absent(field.clone()),
        Some(openers) => batch.equals(field.clone(), openers.clone()),
    };
    // Whatever this mount takes for removed: bytes of what has a name are not freed.
    let batch = batch.at_most(record.clone(), inode::NLINK, 0);
    (file.home, batch.patch(record, inode::FREED, [1]).read(field).reclaims())
}

fn stands_in(openers: Option<&[u8]>, others: &[MountId]) -> bool {
    openers::decode(openers).any(|opener| others.contains(&opener))
}
