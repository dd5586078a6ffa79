//! Changing the size, and removing bytes that must not come back.
//!
//! Downwards the stripes are trimmed first and the size is set last: a crash in between leaves
//! zeros, and never bytes that turn up again when the file grows.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidefs_store::Store;

use super::DataPath;
use super::cut::cut_at;
use super::record::Resized;
use super::regions::{Part, region_of, stripe_count};
use super::state::State;
use super::striped::Striped;
use crate::Error;
use crate::census::standstill::{Call, Standstill};
use crate::sync::{MutexGuard, RwLockWriteGuard};
use crate::write_back::WriteBack;

/// How often another mount may change the file while it is truncated.
const ATTEMPTS: usize = 32;
/// So often it may write without making the file longer. Whoever does that all the time must not
/// keep the file from being cut; of what it wrote at the last moment, bytes may lie beyond the end.
const EXACT_ATTEMPTS: usize = 24;

impl<S: Store> Striped<S> {
    pub fn truncate(self: &Arc<Self>, size: u64) -> Result<(), Error> {
        let (_alone, _order) = self.alone_without_residue(size)?;
        let mut gone = {
            let state = self.state();
            // What it grows by is never written, and of nothing nothing is missing.
            if size == 0 || state.size() < size {
                self.record.set_sparse(size > 0);
            }
            size..state.size().max(state.residue_end)
        };
        self.drop_from(size);
        // Before anything goes: of a later loss nobody says that it was cut.
        let lost_at = self.path.lost_at();
        for attempt in 0..ATTEMPTS {
            let parts = self.trim(gone)?;
            let known = self.state().stored;
            let size_max = known.size.max(size);
            // Bytes that another mount wrote after they were trimmed here would come back.
            let version = (attempt < EXACT_ATTEMPTS).then_some(known.version);
            let now = self.path.clock.now();
            let cut = cut_at(size, lost_at, known);
            match self.record.resize(size, size_max, version, cut, now)? {
                Resized::Done(stored) => {
                    // Both at once: whoever looks for the end finds it where it is now.
                    let mut appends = self.appends();
                    let mut state = self.state();
                    self.adopt(&mut state, stored);
                    state.truncated(now);
                    appends.forget_promises();
                    drop((state, appends));
                    return self.unmark_beyond(size, &parts, stored.version);
                }
                Resized::Changed(stored) => {
                    gone = size..stored.size;
                    self.learn(&mut self.state(), stored);
                }
            }
        }
        Err(Error::Contended)
    }

    /// Gives up all bytes of a file that nobody can reach any more, also those that the record
    /// never counted; `later`: other mounts may just have found it.
    pub fn discard(self: &Arc<Self>, later: bool) {
        let _alone = self.alone();
        let end = {
            let state = self.state();
            state.size().max(state.residue_end)
        };
        self.drop_from(0);
        let mut state = self.state();
        let regions: Vec<_> = state.begin_commit(u64::MAX).regions.into_iter().collect();
        drop(state);
        // Another mount may have removed their marks. Where that fails, or the inode is gone, they
        // are lost memory, as with everything that could not be freed.
        let _ = self.record.mark(&regions);
        let mut state = self.state();
        state.errors.forgive();
        state.truncated(self.path.clock.now());
        drop(state);
        if end > 0 {
            let delete = if later { DataPath::delete_later } else { DataPath::delete };
            delete(&self.path, self.record.home, self.record.ino, end);
        }
    }

    /// Has the file alone, and changes of its record, to make it reach to `size`, with nothing before that which a
    /// failed write left beyond the end.
    fn alone_without_residue(
        self: &Arc<Self>,
        size: u64,
    ) -> Result<(RwLockWriteGuard<'_, ()>, MutexGuard<'_, ()>), Error> {
        for _ in 0..ATTEMPTS {
            self.clear_residue_before(size)?;
            let alone = self.alone_to_reach(size)?;
            let order = self.committing();
            // Another write may have failed since.
            if !self.state().has_residue_before(size) {
                return Ok((alone, order));
            }
        }
        Err(Error::Contended)
    }

    /// A write beyond the end leaves a gap of zeros. Where an earlier write failed half-way, the
    /// store may have other bytes there.
    pub fn clear_residue_before(self: &Arc<Self>, offset: u64) -> Result<(), Error> {
        if !self.state().has_residue_before(offset) {
            return Ok(());
        }
        // Before the file is had alone: another mount may ask the same of this one.
        let still = self.others_stand_still()?;
        self.learn_what_others_wrote()?;
        let _alone = self.alone();
        let are_still = || still.as_ref().map_or(Ok(()), |still| still.check(&*self.path.clock));
        let residue = {
            let state = self.state();
            state.size()..state.residue_end
        };
        self.trim_while(residue, are_still)?;
        self.state().residue_end = 0;
        Ok(())
    }

    /// With company, all that others wrote to the file is recorded, and nothing is added while this is held.
    fn others_stand_still(&self) -> Result<Option<Standstill<'_, WriteBack<S>>>, Error> {
        if !self.path.has_company() {
            return Ok(None);
        }
        let mount = self.path.store.delegations.identity().mount();
        let number = self.path.calls.fetch_add(1, Ordering::SeqCst);
        let call = Call { mount, number, ino: self.ino() };
        Standstill::begin(&*self.path.store, &*self.path.clock, call).map(Some)
    }

    /// Others may have written where a write failed here.
    fn learn_what_others_wrote(&self) -> Result<(), Error> {
        if self.path.has_company() {
            let (stored, _) = self.record.look()?;
            self.learn(&mut self.state(), stored);
        }
        Ok(())
    }

    /// Where a write failed, what the store may have of it beyond the end goes while somebody knows that it may be
    /// there: whoever makes the file longer, after it was closed, does not. With company it stays, for others may be
    /// writing there.
    pub fn leave_no_residue(self: &Arc<Self>) {
        if self.path.has_company() || !self.state().has_residue_before(u64::MAX) {
            return;
        }
        if let Err(error) = self.clear_residue_before(u64::MAX) {
            tracing::debug!(%error, ino = %self.ino(), "what a failed write left is still there");
        }
    }

    /// Forgets buffered bytes from `size` on and waits for those on their way.
    fn drop_from(&self, size: u64) {
        let stripe_size = self.path.stripe_size;
        let mut state = self.state();
        state.ahead.clear();
        let first = size / u64::from(stripe_size.bytes());
        let Ok(first) = u32::try_from(first) else { return };
        let cut = |state: &mut State| {
            state.cut(first, stripe_size.within(size)..stripe_size.bytes(), &self.path.unsent);
            if first < u32::MAX {
                state.cut_stripes(first + 1..=u32::MAX, &self.path.unsent);
            }
        };
        cut(&mut state);
        cut(&mut self.call_sends_off(state, first..=u32::MAX));
    }

    /// Trims what lies in a range of the file's bytes that ends at or beyond the file's end.
    fn trim(&self, bytes: Range<u64>) -> Result<Vec<Part>, Error> {
        self.trim_while(bytes, || Ok(()))
    }

    /// The same, where it is asked before each call of the store whether it may be made.
    fn trim_while(
        &self,
        bytes: Range<u64>,
        may_go_on: impl Fn() -> Result<(), Error>,
    ) -> Result<Vec<Part>, Error> {
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let stripe_size = self.path.stripe_size;
        let within = stripe_size.within(bytes.start);
        if within > 0 {
            let key = self.key(stripe_size.index_of(bytes.start));
            may_go_on()?;
            self.path.store.trim(&[(key, within)])?;
        }
        let stripes = stripe_count(stripe_size, bytes.start)..stripe_count(stripe_size, bytes.end);
        self.record.remove_stripes_while(stripes, may_go_on)
    }

    /// Removes the marks of the regions among `parts` that a file of `size` bytes has nothing of.
    fn unmark_beyond(&self, size: u64, parts: &[Part], version: u64) -> Result<(), Error> {
        let last = size.checked_sub(1).map(|last| self.path.stripe_size.index_of(last));
        let last = last.map_or(0, region_of);
        let gone: Vec<_> =
            parts.iter().map(|part| part.region).filter(|&region| region > last).collect();
        self.marked().retain(|&region| region <= last);
        self.record.unmark(&gone, version)
    }

    /// Waits until what is on its way to some stripes now has arrived or failed. What waits for room
    /// does not go on with that: it is back among what was written, for whoever cuts to cut.
    pub fn call_sends_off<'a>(
        &self,
        state: MutexGuard<'a, State>,
        stripes: RangeInclusive<u32>,
    ) -> MutexGuard<'a, State> {
        let Some(youngest) = state.youngest() else { return state };
        self.calls_off.fetch_add(1, Ordering::AcqRel);
        let waits = |state: &mut State| state.is_sending(stripes.clone(), youngest);
        let state = self.settled.wait_while(state, waits).expect("no panic in a file's state");
        self.calls_off.fetch_sub(1, Ordering::AcqRel);
        state
    }
}
