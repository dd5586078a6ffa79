//! Making written bytes part of the file: size and times go to the inode's record after the bytes
//! have reached the store.

use std::sync::Arc;

use tidefs_model::Time;
use tidefs_store::{Store, StoreError, caller};

use super::errors::ErrorCursor;
use super::regions::MARKS_PER_BATCH;
use super::state::Stored;
use super::striped::Striped;
use crate::Error;
use crate::membership::Membership;
use crate::names::ATTEMPTS;

impl<S: Store> Striped<S> {
    /// What arrived is committed also when something else did not.
    pub fn flush(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        membership: Option<&Membership>,
    ) -> Result<(), Error> {
        let committed = match membership {
            Some(membership) => self.settle_at_once(membership),
            None => self.settle(),
        };
        self.state().errors.report(errors)?;
        committed
    }

    /// The same without a handle to report to; failed writes stay on record for every handle.
    pub fn settle(self: &Arc<Self>) -> Result<(), Error> {
        let made = self.make_sure();
        let drained = self.drain();
        made?;
        self.commit(drained?)
    }

    /// Has the record count what arrived, for those who look from elsewhere while the file stays open.
    pub fn commit_aged(&self) -> Result<(), Error> {
        self.make_sure()?;
        self.commit(0)
    }

    /// A file whose making was answered early is in the store, or its closer learns why not.
    pub fn make_sure(&self) -> Result<(), Error> {
        let (store, ino) = (&self.record.store, self.ino());
        for attempt in 0..ATTEMPTS {
            let before = self.path.freed();
            match store.make_sure(self.record.home, ino) {
                // Names do not wait for room when they are made; whoever has the file does.
                Err(Error::Store(StoreError::Full { .. }))
                    if attempt == 0 || self.path.wait_for_room(before, Some(ino)) => {}
                Err(Error::Store(StoreError::Interrupted { .. })) if !caller::has_gone() => {}
                made => return made,
            }
            store.make_again(ino);
        }
        Err(Error::Contended)
    }

    /// `owed`: as [`State::begin_commit`](super::state::State::begin_commit) has it.
    fn commit(&self, owed: u64) -> Result<(), Error> {
        let _order = self.committing();
        let (arrived, changed) = {
            let mut state = self.state();
            if !state.has_uncommitted() {
                return Ok(());
            }
            (state.begin_commit(owed), state.changed)
        };
        let now = self.path.clock.now();
        let regions: Vec<_> = arrived.regions.into_iter().collect();
        let (first, rest) = regions.split_at(regions.len().min(MARKS_PER_BATCH));
        for marks in rest.chunks(MARKS_PER_BATCH) {
            let stored = self.record.commit(0, marks, changed, now)?;
            self.adopt(&mut self.state(), stored);
        }
        let stored = self.record.commit(arrived.end, first, changed, now)?;
        self.note_commit(stored, changed);
        Ok(())
    }

    pub fn note_commit(&self, stored: Stored, changed: Option<Time>) {
        let mut state = self.state();
        self.adopt(&mut state, stored);
        state.committed(changed);
    }
}
