//! Taking a directory: the delegations of its shards, and with them the knowledge of all its names. A mount takes what
//! it made with company before the first name is asked for, and what it changes again and again without
//! others, whoever made it.

use std::time::Duration;

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Store};

use super::{Eras, KnownNames};
use crate::delegations::Taken;
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::inode::u64_at;
use crate::keys::{self, header};
use crate::table::Node;

/// Changes of this mount after which it takes a directory.
const CHANGES_MIN: u32 = 8;
/// Names that are listed for each change that there was: what the listing costs is less than what it spares.
const NAMES_PER_CHANGE: u64 = 128;
/// Between two tries of a directory that others take back, at least and at most.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How a mount works in a directory.
#[derive(Debug, Default)]
pub(crate) struct Worked {
    changes: u32,
    /// When it was taken last, and for how long it is not taken again.
    taken: Option<(Time, Duration)>,
}

impl Worked {
    /// This mount changes a name.
    pub fn count(&mut self) {
        self.changes = self.changes.saturating_add(1);
    }

    /// The directory is to be taken now: how many names are worth it.
    fn takes(&mut self, now: Time) -> Option<u64> {
        let is_due = self.taken.is_none_or(|(at, pause)| now - at >= pause);
        if self.changes < CHANGES_MIN || !is_due {
            return None;
        }
        let lately = self.taken.filter(|(at, pause)| now - *at < *pause * 10);
        let pause = lately.map_or(PAUSE_MIN, |(_, pause)| (pause * 2).min(PAUSE_MAX));
        self.taken = Some((now, pause));
        Some(u64::from(self.changes) * NAMES_PER_CHANGE)
    }
}

impl<S: Store> Fs<S> {
    /// Takes the delegations of a directory that this mount made with company, once, before its first name is asked
    /// for. What cannot be had is asked of the store name by name.
    pub(super) fn take_if_new(&self, node: &Node<S>) {
        let (is_alone, failures) = (self.is_alone(), self.store.failures());
        {
            let mut memory = node.memory();
            if !memory.is_new || memory.entering > 0 {
                return;
            }
            memory.is_new = false;
            if is_alone {
                return;
            }
            // From here on names are noted, also those that enter before the delegations are there.
            memory.names = Some(KnownNames::of_new(failures, &self.names_budget));
        }
        let shards: Vec<_> = self.shards_of(node.ino).collect();
        let taken = self.store.take(&shards, Taken::New).unwrap_or_default();
        self.know_taken(node, taken);
    }

    /// The same for a directory in which this mount has made many changes.
    pub(super) fn take_if_worked_in(&self, node: &Node<S>) {
        if self.is_alone() || !self.config.remembers() {
            return;
        }
        let (now, failures) = (self.steady(), self.store.failures());
        if !self.store.delegations.is_valid(now) {
            return;
        }
        let worth = {
            let mut memory = node.memory();
            if memory.names.is_some() || memory.is_new || memory.entering > 0 {
                return;
            }
            let Some(worth) = memory.worked.takes(now) else { return };
            memory.names = Some(KnownNames::of_new(failures, &self.names_budget));
            worth
        };
        let taken = self.take_all(node, worth).unwrap_or_else(|error| {
            tracing::debug!(%error, directory = %node.ino, "a directory is worked in without being taken");
            Vec::new()
        });
        self.know_taken(node, taken);
    }

    /// Takes a directory of so many names at most, and notes them.
    fn take_all(&self, node: &Node<S>, worth: u64) -> Result<Vec<Option<u64>>, Error> {
        let shards: Vec<_> = self.shards_of(node.ino).collect();
        if self.count_entries(&shards)? > worth {
            return Ok(Vec::new());
        }
        let mut taken = self.store.take(&shards, Taken::WorkedIn)?;
        if !taken.iter().any(Option::is_some) {
            return Ok(taken);
        }
        // Afterwards: nobody else makes a name from here on.
        let found = self.find_entries(node.ino)?;
        let mut memory = node.memory();
        let Some(names) = &mut memory.names else { return Ok(Vec::new()) };
        if !found.names().all(|name| names.add(name)) {
            taken.clear();
        }
        Ok(taken)
    }

    fn count_entries(&self, shards: &[ShardKey]) -> Result<u64, Error> {
        let read = Batch::new().read(keys::HEADER);
        let batches: Vec<_> = shards.iter().map(|shard| (*shard, read.clone())).collect();
        let headers = self.store.batches(&batches)?.into_iter().filter_map(|mut it| it.take(0));
        Ok(headers.filter(|header| header.len() >= 8).map(|it| u64_at(&it, header::ENTRIES)).sum())
    }

    /// `taken`: of each shard the delegation under which all its names are known.
    fn know_taken(&self, node: &Node<S>, taken: Vec<Option<u64>>) {
        let has_any = taken.iter().any(Option::is_some);
        // Asked afterwards: another mount may have removed the directory, shards and all, before they were taken.
        let is_there = has_any && self.has_record(node).unwrap_or(false);
        let mut memory = node.memory();
        match &mut memory.names {
            Some(names) if is_there => names.eras = Eras::Delegations(taken),
            _ => memory.names = None,
        }
    }

    /// A directory is there, asked once for each delegation of its first shard: as long as that lasts, nobody removes it.
    pub(crate) fn stays_there(&self, node: &Node<S>) -> bool {
        let first = ShardKey { directory: node.ino, index: 0 };
        let Some(era) = self.store.delegations.era(first, self.steady()) else { return false };
        if node.memory().there == Some(era) {
            return true;
        }
        // What is known of its record under the delegations of all its shards has been read since.
        let is_there = self.knows_record(node) || self.has_record(node).unwrap_or(false);
        if is_there {
            node.memory().there = Some(era);
        }
        is_there
    }

    /// A directory was made. Where all of that was while this mount was alone, and nobody has found it
    /// meanwhile, nobody has made anything in it; with company its delegations tell.
    pub(crate) fn know_empty(&self, directory: Reference, alone: Option<u64>) {
        let Some(node) = self.table.find(directory.ino) else { return };
        let Some(alone) = alone else {
            node.memory().is_new = true;
            return;
        };
        if self.time_alone() == Some(alone) && node.was_just_found() {
            let failures = self.store.failures();
            node.memory().names = Some(KnownNames::of_empty(alone, failures, &self.names_budget));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_take_back_is_taken_less_and_less_often() {
        let mut worked = Worked::default();
        let start = Time(1 << 40);
        assert_eq!(worked.takes(start), None, "nothing was changed");
        (0..CHANGES_MIN).for_each(|_| worked.count());
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let taken: Vec<_> = (0..30_000).filter(|it| worked.takes(at(*it)).is_some()).collect();
        assert_eq!(taken, [0, 200, 600, 1_400, 3_000, 6_200, 12_600, 22_600]);
        assert!(worked.takes(at(200_000)).is_some());
        assert!(worked.takes(at(200_200)).is_some(), "after a long time it begins anew");
    }
}
