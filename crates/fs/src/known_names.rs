//! The names of directories that this mount made or works in: it knows them all, so it knows what is absent, and a
//! program that makes a file pays no round to the store for the kernel's question whether the name is
//! free. With company it does so under the delegations of the directory's shards, each as long as it lasts.
//!
//! What is known is never less than what is there: a name is added before the batch that may make
//! it is sent, and removed when a batch has removed it and nobody was adding any meanwhile. Where
//! the outcome of a batch that adds a name is not known, nothing is known any more. What was learnt
//! in one time of being alone, or under one delegation, is not used in another.

mod taking;

pub(crate) use taking::Worked;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidefs_model::ShardKey;

use tidefs_store::{Batch, Outcome, Store, StoreError, Update};

use crate::delegations::Delegations;
use crate::entry::Place;
use crate::fs::Fs;
use crate::keys;

/// Of all directories together, so that one of a million files is known: less than 100 MiB. A
/// directory that would need more is not known.
const NAMES_MAX: usize = 1 << 20;

/// How many names are known.
pub(crate) type Budget = Arc<AtomicUsize>;

/// All names of one directory, and perhaps some that are not there.
#[derive(Debug)]
pub(crate) struct KnownNames {
    /// The time of being alone to which they belong, or of each shard its delegation, by number.
    eras: Eras,
    /// Of all deferred changes, when this was begun.
    failures: u64,
    names: HashSet<Box<[u8]>>,
    /// Batches under way that may make names.
    adding: u32,
    /// Grows with each beginning and end of such a batch.
    stamp: u64,
    budget: Budget,
}

#[derive(Debug)]
enum Eras {
    Alone(u64),
    /// `None`: nothing is known of the shard, or not yet.
    Delegations(Vec<Option<u64>>),
}

impl KnownNames {
    /// Of a directory that was made just now.
    pub fn of_empty(alone: u64, failures: u64, budget: &Budget) -> KnownNames {
        KnownNames::known_by(Eras::Alone(alone), failures, budget)
    }

    /// Of a directory whose delegations are about to be taken.
    fn of_new(failures: u64, budget: &Budget) -> KnownNames {
        KnownNames::known_by(Eras::Delegations(Vec::new()), failures, budget)
    }

    fn known_by(eras: Eras, failures: u64, budget: &Budget) -> KnownNames {
        let (names, budget) = (HashSet::new(), Arc::clone(budget));
        KnownNames { eras, failures, names, adding: 0, stamp: 0, budget }
    }

    /// `era`: what a shard of the directory is known by now.
    pub fn belongs_to(&self, shard: u16, era: Option<u64>, failures: u64) -> bool {
        let noted = match &self.eras {
            Eras::Alone(alone) => Some(*alone),
            Eras::Delegations(delegations) => {
                delegations.get(usize::from(shard)).copied().flatten()
            }
        };
        noted.is_some() && noted == era && failures == self.failures
    }

    /// A name is there. `false`: there is no room for it.
    fn add(&mut self, name: &[u8]) -> bool {
        if self.names.contains(name) {
            return true;
        }
        if self.budget.fetch_add(1, Ordering::Relaxed) >= NAMES_MAX {
            self.budget.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.names.insert(name.into())
    }

    /// Nothing is known of a shard any more. `false`: nor of another one.
    fn forget_shard(&mut self, shard: u16) -> bool {
        let Eras::Delegations(delegations) = &mut self.eras else { return false };
        if let Some(delegation) = delegations.get_mut(usize::from(shard)) {
            *delegation = None;
        }
        delegations.is_empty() || delegations.iter().any(Option::is_some)
    }

    pub fn lacks(&self, name: &[u8]) -> bool {
        !self.names.contains(name)
    }

    /// A batch is about to be sent. `None`: there is no room for its names. Otherwise what to hand
    /// to [`KnownNames::end`].
    pub fn begin(&mut self, batch: &Batch) -> Option<u64> {
        let mut adds = false;
        for name in batch.updates.iter().filter_map(made) {
            adds = true;
            if !self.add(name) {
                return None;
            }
        }
        if adds {
            self.adding += 1;
            self.stamp += 1;
        }
        Some(self.stamp)
    }

    /// The batch has come to its end. `false`: nothing is known any more.
    pub fn end(
        &mut self,
        batch: &Batch,
        begun: u64,
        outcome: &Result<Outcome, StoreError>,
    ) -> bool {
        let adds = batch.updates.iter().any(|update| made(update).is_some());
        if adds {
            self.adding -= 1;
            self.stamp += 1;
            return outcome.is_ok();
        }
        let is_quiet = self.adding == 0 && self.stamp == begun;
        if is_quiet && outcome.as_ref().is_ok_and(Outcome::applied) {
            for name in batch.updates.iter().filter_map(removed) {
                if self.names.remove(name) {
                    self.budget.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        true
    }
}

impl Drop for KnownNames {
    fn drop(&mut self) {
        self.budget.fetch_sub(self.names.len(), Ordering::Relaxed);
    }
}

fn made(update: &Update) -> Option<&[u8]> {
    match update {
        Update::Put { field, .. } => field.strip_prefix(&[keys::ENTRY_PREFIX]),
        _ => None,
    }
}

fn removed(update: &Update) -> Option<&[u8]> {
    match update {
        Update::Delete { field } => field.strip_prefix(&[keys::ENTRY_PREFIX]),
        _ => None,
    }
}

impl<S: Store> Fs<S> {
    /// This mount knows that there is no such name.
    pub(crate) fn is_surely_free(&self, place: &Place) -> bool {
        let Some(node) = self.table.find(place.shard.directory) else { return false };
        self.take_if_new(&node);
        let _turn = self.store.wait_for_turns([place.shard].into_iter(), true);
        self.take_if_worked_in(&node);
        // Asked before the lock is taken: whoever holds that of being alone may take this one.
        let now = self.steady();
        let era = self.store.delegations.era(place.shard, now);
        let failures = self.store.failures();
        let mut memory = node.memory();
        let lacks = |era| self.store.lacks(place.shard, &keys::entry(&place.name), era);
        let was_absent = memory.entering == 0 && era.is_some_and(lacks);
        let Some(names) = &mut memory.names else { return was_absent };
        let is_known = names.belongs_to(place.shard.index, era, failures);
        let is_free = is_known && names.lacks(&place.name);
        if !is_known && !names.forget_shard(place.shard.index) {
            memory.names = None;
        }
        if is_free && era.is_some_and(Delegations::is_delegation) {
            self.store.delegations.was_used(now);
        }
        is_free || was_absent
    }

    /// A name enters a shard of which this mount has known since the directory was there that nobody else does
    /// anything: a removal of the directory by another mount would have closed the shard, which the batch of
    /// the name checks, or cleared it, which would have ended the delegation.
    pub(crate) fn is_surely_there(&self, shard: ShardKey) -> bool {
        let Some(node) = self.table.find(shard.directory) else { return false };
        let era = self.store.delegations.era(shard, self.steady());
        let failures = self.store.failures();
        let memory = node.memory();
        let known = |names: &KnownNames| names.belongs_to(shard.index, era, failures);
        memory.names.as_ref().is_some_and(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn making(name: &str) -> Batch {
        Batch::new().put(keys::entry(name.as_bytes()), "")
    }

    fn removing(name: &str) -> Batch {
        Batch::new().delete(keys::entry(name.as_bytes()))
    }

    fn outcome(applied: bool) -> Result<Outcome, StoreError> {
        let refused_by = (!applied).then_some(0);
        Ok(Outcome { refused_by, shard_was_empty: false, values: Vec::new() })
    }

    fn perform(names: &mut KnownNames, batch: &Batch, applied: bool) {
        let begun = names.begin(batch).expect("room");
        assert!(names.end(batch, begun, &outcome(applied)));
    }

    fn known() -> KnownNames {
        KnownNames::of_empty(1, 0, &Budget::default())
    }

    #[test]
    fn a_name_is_known_from_before_it_is_made_until_it_was_removed() {
        let mut names = known();
        assert!(names.lacks(b"a"));
        let begun = names.begin(&making("a")).expect("room");
        assert!(!names.lacks(b"a"));
        assert!(names.end(&making("a"), begun, &outcome(true)));
        perform(&mut names, &removing("a"), false);
        assert!(!names.lacks(b"a"), "it was not removed");
        perform(&mut names, &removing("a"), true);
        assert!(names.lacks(b"a"));
        // Somebody else may have made it.
        perform(&mut names, &making("b"), false);
        assert!(!names.lacks(b"b"));
    }

    #[test]
    fn a_name_that_was_made_while_it_was_removed_stays() {
        for begins_first in [true, false] {
            let mut names = known();
            perform(&mut names, &making("a"), true);
            let (made, removed) = match begins_first {
                true => {
                    let made = names.begin(&making("a")).expect("room");
                    (made, names.begin(&removing("a")).expect("room"))
                }
                false => {
                    let removed = names.begin(&removing("a")).expect("room");
                    (names.begin(&making("a")).expect("room"), removed)
                }
            };
            assert!(names.end(&making("a"), made, &outcome(true)));
            assert!(names.end(&removing("a"), removed, &outcome(true)));
            assert!(!names.lacks(b"a"));
        }
    }

    #[test]
    fn a_batch_of_unknown_outcome_ends_the_knowledge() {
        let mut names = known();
        let lost = Err(StoreError::Indeterminate { endpoint: "node".into() });
        let begun = names.begin(&making("a")).expect("room");
        assert!(!names.end(&making("a"), begun, &lost));
        let mut names = known();
        perform(&mut names, &making("a"), true);
        let begun = names.begin(&removing("a")).expect("room");
        assert!(names.end(&removing("a"), begun, &lost));
        assert!(!names.lacks(b"a"), "it may still be there");
    }

    #[test]
    fn names_are_counted_and_there_is_an_end() {
        let budget = Budget::default();
        let mut names = KnownNames::of_empty(1, 0, &budget);
        perform(&mut names, &making("a"), true);
        perform(&mut names, &making("a"), false);
        perform(&mut names, &making("b"), true);
        perform(&mut names, &removing("b"), true);
        assert_eq!(budget.load(Ordering::Relaxed), 1);
        budget.store(NAMES_MAX, Ordering::Relaxed);
        assert_eq!(names.begin(&making("c")), None);
        drop(names);
        assert_eq!(budget.load(Ordering::Relaxed), NAMES_MAX - 1);
    }
}
