//! Waiting for this mount's turn in directories that others change as well, and taking them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Read, Store, StoreError};

use super::asking::Recall;
use super::taking::Taken;
use super::turns::{Before, WAIT_MAX};
use super::{Delegations, holders};
use crate::keys;
use crate::write_back::WriteBack;

/// Between two looks whether a turn has ended, at most.
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// Who has used what it keeps so shortly before others ask for it will go on.
const AT_WORK: Duration = Duration::from_micros(500);
/// Tries to have the other shards, which lookers may keep.
const TRIES: usize = 3;

thread_local! {
    /// This thread relies on it that nobody looks at a shard. Who gives a turn up waits for it.
    static RELIES: Cell<bool> = const { Cell::new(false) };
}

/// Does something that those who give a turn up wait for: it waits for no turn itself.
pub(super) fn without_waiting_for_turns<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            RELIES.set(self.0);
        }
    }
    let _before = Before(RELIES.replace(true));
    work()
}

/// Calls in disputed directories under way.
pub(crate) struct InTurn<'d> {
    delegations: &'d Delegations,
    directories: Vec<Ino>,
}

impl Drop for InTurn<'_> {
    fn drop(&mut self) {
        if !self.directories.is_empty() {
            self.delegations.turns.ended(&self.directories, self.delegations.now());
        }
    }
}

/// A thread that takes a directory.
struct Awaiting<'d> {
    delegations: &'d Delegations,
    directory: Ino,
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.delegations.turns.settle(self.directory, self.delegations.now());
    }
}

impl Delegations {
    /// Names are told to no kernel where others wait for their turn: each would have to be looked at again at its end.
    pub(crate) fn is_disputed(&self, directory: Ino) -> bool {
        self.turns.is_disputed(directory)
    }

    /// What this mount finds out where it waits long for another one that changes the directory.
    #[cfg(test)]
    pub(crate) fn dispute(&self, directory: Ino) {
        self.turns.dispute(directory, self.now());
    }

    /// The recall of those who keep a shard that this mount wants to change. They take turns where one of them changes
    /// it, which the last value that a guarded batch has read says.
    pub(super) fn recall_of(
        &self,
        shard: ShardKey,
        batch: &Batch,
        last: Option<&Option<Bytes>>,
    ) -> Recall {
        let is_guarded =
            matches!(batch.reads.last(), Some(Read::Field { field }) if field == keys::WRITER);
        let claim = last.and_then(Option::as_ref).filter(|_| is_guarded);
        let is_claimed = claim.is_some_and(|it| !holders::others(it, self.me()).is_empty());
        let of_writer = is_claimed || self.turns.knows(shard.directory);
        self.recall_in(shard.directory).of_writer(of_writer)
    }

    /// A recall of those who keep a directory: where they take turns, who waits too long misses the moment between two.
    pub(super) fn recall_in(&self, directory: Ino) -> Recall {
        match self.turns.knows(directory) {
            true => Recall::waiting_at_most(self.now(), PAUSE_MAX),
            false => Recall::begun(self.now()),
        }
    }

    /// Another mount wants to change a directory. Where this one has changed it and is at work, they take turns.
    pub(super) fn is_wanted(&self, directory: Ino, now: Time) {
        let is_at_work = now - Time(self.used.load(Ordering::Relaxed)) < AT_WORK;
        if is_at_work && !self.shards.worked_in(directory, self.per_directory).is_empty() {
            self.turns.dispute(directory, now);
        }
        self.turns.end(directory, now);
    }

    /// Whether any delegation can be taken now.
    fn may_take(&self) -> bool {
        let now = self.now();
        self.keeps() && self.is_valid(now) && self.solitude.time_alone(now).is_none()
    }

    fn is_held(&self, directory: Ino, now: Time) -> bool {
        self.is_valid(now) && self.shards.delegation(first(directory)).is_some()
    }
}

impl<S: Store> WriteBack<S> {
    /// Waits for this mount's turn in directories that others change as well, before something is asked of them, which
    /// `looks` alone; the answer is to be kept until that has ended. To be called by those who serve programs, never by who
    /// lets go.
    pub(crate) fn wait_for_turns(
        &self,
        shards: impl Iterator<Item = ShardKey>,
        looks: bool,
    ) -> InTurn<'_> {
        let delegations = &*self.delegations;
        let mut in_turn = InTurn { delegations, directories: Vec::new() };
        if delegations.turns.is_empty() || !delegations.may_take() || RELIES.get() {
            return in_turn;
        }
        let shards = shards.filter(|shard| keys::has_names(*shard));
        for directory in shards.map(|shard| shard.directory).collect::<BTreeSet<_>>() {
            if self.wait_for_turn(directory, looks) {
                in_turn.directories.push(directory);
            }
        }
        in_turn
    }

    /// Whether it is this mount's turn.
    fn wait_for_turn(&self, directory: Ino, looks: bool) -> bool {
        let delegations = &self.delegations;
        let before = || {
            let now = delegations.now();
            delegations.turns.before(directory, now, looks, delegations.is_held(directory, now))
        };
        match before() {
            Before::Nothing => return false,
            Before::Work => return true,
            Before::Wait => delegations.turns.wait(directory),
            Before::Take => self.take_turn(directory),
        }
        delegations.turns.works(directory, delegations.now())
    }

    fn take_turn(&self, directory: Ino) {
        let _awaiting = Awaiting { delegations: &self.delegations, directory };
        let taken = self.take_first(directory).and_then(|is_taken| match is_taken {
            true => self.take_others(directory),
            false => Ok(()),
        });
        // What it cannot have it changes as it would without a turn.
        if let Err(error) = taken {
            tracing::debug!(%error, %directory, "a directory is not taken as a whole");
        }
    }

    /// Whether the turn has begun.
    fn take_first(&self, directory: Ino) -> Result<bool, StoreError> {
        let delegations = &self.delegations;
        let first = first(directory);
        let since = delegations.now();
        let mut recall = Recall::waiting_at_most(since, PAUSE_MAX).of_writer(true);
        loop {
            let taken = self.take(&[first], Taken::Disputed)?;
            let now = delegations.now();
            if taken.first().is_some_and(Option::is_some) {
                delegations.turns.has_first(directory, now);
                return Ok(true);
            }
            let record = delegations.shards.holders(first);
            let is_free = holders::others(&record, delegations.me()).is_empty();
            if is_free || now - since >= WAIT_MAX {
                return Ok(false);
            }
            self.recall(&mut recall, first, record)?;
        }
    }

    /// Takes the shards but the first. Those that somebody keeps, who looks, are asked for; some of them come late.
    fn take_others(&self, directory: Ino) -> Result<(), StoreError> {
        let delegations = &self.delegations;
        let others = (1..delegations.per_directory).map(|index| ShardKey { directory, index });
        let mut missing: Vec<_> = others.collect();
        let mut recall = Recall::waiting_at_most(delegations.now(), Duration::ZERO);
        for _ in 0..TRIES {
            let taken = self.take(&missing, Taken::Disputed)?;
            let each = missing.into_iter().zip(taken);
            let left = each.filter(|(_, taken)| taken.is_none()).map(|(shard, _)| shard);
            let record = |shard| (shard, delegations.shards.holders(shard));
            let is_kept = |record: &[u8]| !holders::others(record, delegations.me()).is_empty();
            let kept: Vec<_> = left.map(record).filter(|(_, record)| is_kept(record)).collect();
            missing = kept.iter().map(|(shard, _)| *shard).collect();
            if missing.is_empty() {
                return Ok(());
            }
            for (shard, record) in kept {
                self.recall(&mut recall, shard, record)?;
            }
            std::thread::sleep(PAUSE_MAX);
        }
        Ok(())
    }
}

fn first(directory: Ino) -> ShardKey {
    ShardKey { directory, index: 0 }
}
