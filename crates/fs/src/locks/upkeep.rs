//! What a mount does about its locks by and by: puts them into the store before it shares, sees to
//! it that they are still there, and takes them out when it leaves.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidefs_model::Time;
use tidefs_store::{Batch, Outcome, Store};

use super::ranges::Change;
use super::shared::Known;
use super::{LockedFile, State};
use crate::error::Error;
use crate::fs::Fs;
use crate::keys;

/// How often a mount with company looks whether its locks are still in the store.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Files whose records are read in one round.
const CHECKED_AT_ONCE: usize = 256;

impl<S: Store> Fs<S> {
    /// Puts the locks from a time of being alone into the store, where others may rely on finding them
    /// if the answer is `true`.
    pub(crate) fn publish_locks(&self) -> Result<bool, Error> {
        for file in self.locks.all() {
            let mut state = file.state();
            if state.is_unflushed() {
                if self.membership.yields(self.steady()) {
                    return Ok(false);
                }
                match self.renew(&file, &mut state) {
                    // Nobody can take them there. They are put there when it answers.
                    Err(error) if error.is_of_silence() => {}
                    renewed => renewed?,
                }
            }
        }
        Ok(true)
    }

    /// Puts locks back that were lost with a node, or with this mount's registration.
    pub(crate) fn check_locks(&self, now: Time) {
        let mut checked = self.locks.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_alone() || now - *checked < CHECK_EVERY {
            return;
        }
        *checked = now;
        drop(checked);
        for files in self.locks.all().chunks(CHECKED_AT_ONCE) {
            if let Err(error) = self.check_files(files) {
                tracing::debug!(%error, "whether locks are still in the store is not known");
            }
        }
    }

    fn check_files(&self, files: &[Arc<LockedFile>]) -> Result<(), Error> {
        let read = |file: &Arc<LockedFile>| (file.home, Batch::new().read(keys::locks(file.ino)));
        let records = self.batch_each(&files.iter().map(read).collect::<Vec<_>>());
        let mut checked = Ok(());
        for (file, outcome) in files.iter().zip(records) {
            let one = outcome.map_err(Error::from).and_then(|it| self.check_file(file, it));
            checked = checked.and(one);
        }
        checked
    }

    fn check_file(&self, file: &Arc<LockedFile>, mut outcome: Outcome) -> Result<(), Error> {
        let record = outcome.take(0);
        let mut state = file.state();
        if state.is_unflushed() && !self.membership.yields(self.steady()) {
            self.renew(file, &mut state)?;
        }
        if state.is_flushed && !state.is_over && state.record != record {
            // It was read before the state was locked, so it may be older than what is known.
            state.record = self.read_locks(file)?;
            if !self.is_intact(file, &state)? {
                // What could not be put is looked for again.
                self.renew(file, &mut state).inspect_err(|_| state.record = None)?;
                self.locks.leave_if_free(file, &mut state);
            }
        }
        Ok(())
    }

    fn renew(&self, file: &LockedFile, state: &mut State) -> Result<(), Error> {
        self.change_locks_of(file, state, &Change::Nothing, Known::Before).map(drop)
    }

    /// Leaves no lock of this mount in the store.
    pub(crate) fn end_all_locks(&self) {
        for file in self.locks.all() {
            let mut state = file.state();
            let held = state.held.clone();
            for held in held {
                let end = Change::Leave(held.handle);
                if let Err(error) = self.change_locks_of(&file, &mut state, &end, Known::Before) {
                    tracing::info!(%error, "locks end when others take this mount for dead");
                    return;
                }
            }
        }
    }
}
