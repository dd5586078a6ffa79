//! Removed files that other mounts have open: their bytes stay until nobody has them open any more,
//! or until this mount leaves; then whoever closes such a file last frees it.

use std::sync::PoisonError;

use tidefs_model::{MountId, ShardKey};
use tidefs_store::{Batch, Store};

use super::DataPath;
use super::delete::Removed;
use crate::keys;
use crate::openers;

/// Files that are asked about in one round.
const ASKED_AT_ONCE: usize = 256;
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

    /// Those of some removed files that no other mount has open. The rest is asked about again
    /// later.
    pub(super) fn unused(&self, removed: Vec<Removed>) -> Vec<Removed> {
        let (unused, used) = self.parted(removed);
        let now = self.clock.steady();
        used.into_iter().for_each(|removed| self.lingering.hold(removed, now));
        unused
    }

    /// First those that may be freed.
    pub(super) fn parted(&self, removed: Vec<Removed>) -> (Vec<Removed>, Vec<Removed>) {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if others.is_empty() {
            return (removed, Vec::new());
        }
        let (mut unused, mut used) = (Vec::new(), Vec::new());
        for files in removed.chunks(ASKED_AT_ONCE) {
            for (file, is_used) in files.iter().zip(self.are_used(files, &others)) {
                if is_used { used.push(*file) } else { unused.push(*file) }
            }
        }
        (unused, used)
    }

    /// Where the store does not answer, a file counts as used, and is asked about again: who has it open
    /// reads its bytes on nodes that do answer.
    fn are_used(&self, files: &[Removed], others: &[MountId]) -> Vec<bool> {
        let read = |file: &Removed| (file.home, Batch::new().read(keys::openers(file.ino)));
        let batches: Vec<(ShardKey, Batch)> = files.iter().map(read).collect();
        let is_used = |record: Option<Vec<u8>>| {
            openers::decode(record.as_deref()).any(|opener| others.contains(&opener))
        };
        match self.store.batches(&batches) {
            Ok(outcomes) => {
                outcomes.into_iter().map(|mut outcome| is_used(outcome.take(0))).collect()
            }
            Err(_) => {
                let mut failures = 0;
                let mut is_used_or_silent = |(shard, batch): &(ShardKey, Batch)| {
                    // Each that a node does not answer may take long.
                    if failures == FAILURES_MAX {
                        return true;
                    }
                    let outcome = self.store.batch(*shard, batch);
                    failures += u32::from(outcome.is_err());
                    outcome.map_or(true, |mut outcome| is_used(outcome.take(0)))
                };
                batches.iter().map(&mut is_used_or_silent).collect()
            }
        }
    }
}
