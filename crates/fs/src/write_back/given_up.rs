//! Writes and cuts that failed because a node did not answer: it may carry them out when it does. What
//! would let others change the same bytes waits until the store has ended them for good.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidefs_model::{Ino, Partition, StripeKey};
use tidefs_store::{Store, StoreError};

use super::WriteBack;

/// Files that are told apart; those beyond wait for each other.
const FILES_MAX: usize = 4_096;

/// Of each file a stripe for each partition.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    any: AtomicBool,
    files: Mutex<BTreeMap<Ino, BTreeMap<Partition, StripeKey>>>,
}

impl GivenUp {
    fn files(&self) -> MutexGuard<'_, BTreeMap<Ino, BTreeMap<Partition, StripeKey>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what failed.
    pub fn note<T>(&self, done: &Result<T, StoreError>, stripes: impl Iterator<Item = StripeKey>) {
        let failed =
            matches!(done, Err(StoreError::Unavailable { .. } | StoreError::Indeterminate { .. }));
        if !failed {
            return;
        }
        let mut files = self.files();
        for stripe in stripes {
            let is_known = files.len() < FILES_MAX || files.contains_key(&stripe.ino);
            let file = if is_known { stripe.ino } else { Ino::NONE };
            files.entry(file).or_default().insert(stripe.partition(), stripe);
        }
        self.any.store(true, Ordering::Release);
    }
}

impl<S: Store> WriteBack<S> {
    /// To be called now and then: ends what can be ended by now.
    pub fn fence_given_up(&self) {
        if !self.given_up.any.load(Ordering::Acquire) {
            return;
        }
        let files: Vec<_> = self.given_up.files().keys().copied().collect();
        // Each that a node does not answer may take long.
        if let Err(error) = files.into_iter().try_for_each(|ino| self.fence_file(ino)) {
            tracing::debug!(%error, "writes that were given up may still be carried out");
        }
    }

    /// The same; `true`: nothing that was given up can be carried out any more.
    pub fn has_fenced_given_up(&self) -> bool {
        self.fence_given_up();
        !self.given_up.any.load(Ordering::Acquire)
    }

    /// Returns when nothing that was given up of a file can be carried out any more.
    ///
    /// # Errors
    /// When a node may still do that.
    pub fn fence_file(&self, ino: Ino) -> Result<(), StoreError> {
        if !self.given_up.any.load(Ordering::Acquire) {
            return Ok(());
        }
        for file in [ino, Ino::NONE] {
            let Some(stripes) = self.given_up.files().get(&file).cloned() else { continue };
            self.store.fence(&stripes.values().copied().collect::<Vec<_>>())?;
            let mut files = self.given_up.files();
            // What failed meanwhile has to be ended, too.
            if files.get(&file) == Some(&stripes) {
                files.remove(&file);
            }
            self.given_up.any.store(!files.is_empty(), Ordering::Release);
        }
        Ok(())
    }
}
