//! Little written bytes and their commit in one round to the store.
//!
//! Elsewhere the bytes go first and the record follows, so that no other mount can read a size, or
//! keep a version, whose bytes are still on their way. A mount that is alone, or the writer of the shard that has the
//! record, owes that order to nobody but the program that waits for this very call, so it sends both at the same time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidefs_model::Time;
use tidefs_store::{Store, StoreError};

use super::record::{Record, Resized};
use super::regions::region_of;
use super::send::{Sending, panicked};
use super::state::Stored;
use super::striped::Striped;
use crate::Error;
use crate::membership::Membership;

/// More than this is worth a round of its own, and keeps the record waiting behind it.
pub(crate) const LITTLE_BYTES_MAX: u32 = 64 << 10;
const STRIPES_MAX: usize = 8;

/// What the record is to say.
struct Commit {
    size: u64,
    /// The size that the record had before.
    before: u64,
    /// `None`: what the file will be made with says so.
    changed: Option<Time>,
}

impl<S: Store> Striped<S> {
    /// As [`Striped::settle`], in one round where that is possible.
    pub fn settle_at_once(self: &Arc<Self>, membership: &Membership) -> Result<(), Error> {
        let order = self.committing();
        let Some((group, commit)) = self.begin_little() else {
            drop(order);
            return self.settle();
        };
        let Record { store, home, .. } = &self.record;
        let both = store.while_unseen(*home, membership, |_| {
            let (written, committed) = self.send_both(&group, &commit);
            // Nobody may see a size without its bytes, whether or not they arrive in the end.
            let taken_back = match written {
                Ok(()) => Ok(()),
                Err(_) => self.take_back(&commit, &committed),
            };
            (written, committed, taken_back)
        });
        match both {
            Some((Ok(()), Ok(stored), _)) => {
                self.state().commits_up_to(commit.size);
                self.let_go(group);
                self.note_commit(stored, commit.changed);
                drop(order);
            }
            Some((Ok(()), Err(error), _)) => {
                let arrived = group.iter().map(|_| Ok(())).collect();
                self.end_sends(group, arrived);
                if !matches!(error, Error::Store(StoreError::Full { .. })) {
                    return Err(error);
                }
                drop(order);
            }
            Some((Err(_), _, taken_back)) => {
                drop(order);
                self.send_begun(group);
                taken_back?;
            }
            None => {
                drop(order);
                self.send_begun(group);
            }
        }
        self.settle()
    }

    /// Takes all that is written, if it is little and nothing is on its way.
    fn begin_little(&self) -> Option<(Vec<Sending>, Commit)> {
        if self.path.is_in_doubt() {
            return None;
        }
        let is_to_be_made = self.record.store.waits_to_make(self.record.home, self.ino());
        let mut state = self.state();
        let indices = state.little_unsent(STRIPES_MAX, LITTLE_BYTES_MAX)?;
        if state.has_uncommitted_regions() || indices.iter().any(|&index| region_of(index) != 0) {
            return None;
        }
        let changed = state.changed;
        if changed.is_none() && !is_to_be_made {
            return None;
        }
        state.begin_commit(u64::MAX);
        // Under one lock: what is written from here on is not among the bytes, nor part of the size.
        let commit = Commit { size: state.pending_end(), before: state.stored.size, changed };
        for &index in &indices {
            state.call_due(index);
        }
        let group = self.begin(&mut state, &indices);
        Some((group, commit))
    }

    fn send_both(
        &self,
        group: &[Sending],
        commit: &Commit,
    ) -> (Result<(), StoreError>, Result<Stored, Error>) {
        let (writes, now) = (self.writes_of(group), self.path.clock.now());
        // Whoever waits for these stripes would wait for ever if a panic passed through here.
        let both =
            AssertUnwindSafe(|| self.record.commit_with(&writes, commit.size, commit.changed, now));
        catch_unwind(both).unwrap_or_else(|_| (Err(panicked()), Err(panicked().into())))
    }

    /// The record counts bytes that did not arrive, if it was changed: it says again what it said before.
    fn take_back(&self, commit: &Commit, committed: &Result<Stored, Error>) -> Result<(), Error> {
        let may_count = match committed {
            Ok(_) => true,
            // With a lost reply nobody knows.
            Err(error) => matches!(error, Error::Store(StoreError::Indeterminate { .. })),
        };
        if !may_count || commit.before >= commit.size {
            return Ok(());
        }
        let now = self.path.clock.now();
        match self.record.resize(commit.before, commit.size, None, None, now) {
            Ok(Resized::Done(stored) | Resized::Changed(stored)) => {
                self.adopt(&mut self.state(), stored);
                Ok(())
            }
            // It was not made.
            Err(Error::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
