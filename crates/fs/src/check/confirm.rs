//! What of the suspects is a finding: nothing that a living mount may be about to put right, or has
//! in use.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use super::living::Living;
use super::{Check, Finding};
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage};
use crate::error::Error;
use crate::keys;

/// Longer than a rename or a removal is waited for by whoever meets it.
const GAP: Duration = Duration::from_secs(5);
/// An inode that changed more recently may be in the middle of an operation; and until then a closed
/// shard keeps names from being made that nobody would find.
const INODE_AGE_MIN: Duration = Duration::from_secs(10);
/// A count of links that is corrected while a name is on its way would be too low in the end. No
/// operation takes nearly as long.
pub const LINKS_AGE_MIN: Duration = Duration::from_secs(60);
/// Inodes that mounts are asked for at a time.
pub const INODES_ASKED: usize = 1_000;

impl<S: Store> Check<'_, S> {
    pub fn confirm(
        &self,
        suspects: HashSet<Finding>,
        living: &Living,
    ) -> Result<Vec<Finding>, Error> {
        let missing = suspects.iter().filter_map(|suspect| match suspect {
            Finding::NoInode { ino } => Some(*ino),
            _ => None,
        });
        let missing = self.surely_missing(missing.collect())?;
        let mut findings = Vec::new();
        for suspect in suspects {
            if self.is_abandoned(&suspect, living, &missing)? {
                findings.push(suspect);
            }
        }
        self.not_in_use(findings, living)
    }

    fn is_abandoned(
        &self,
        suspect: &Finding,
        living: &Living,
        missing: &HashSet<Ino>,
    ) -> Result<bool, Error> {
        Ok(match suspect {
            Finding::Rename { place, entry } => {
                let entry = EntryRecord::decode(place.shard.directory, entry)?;
                let (Some(Passage::Leaving { transaction, .. })
                | Some(Passage::Arrived { transaction, .. })) = entry.passage
                else {
                    return Ok(false);
                };
                !living.may_carry_out(transaction)
            }
            Finding::Removal { directory, closing } => {
                let Ok(closing) = Closing::decode(*directory, closing) else { return Ok(false) };
                !living.may_carry_out(closing.transaction)
                    && self.hands.is_entered(&closing.parent, *directory)?
            }
            Finding::Fence { transaction, .. } => !living.may_carry_out(*transaction),
            Finding::Husk { shard, closing } => Closing::decode(shard.directory, closing)
                .map_or(true, |closing| !living.may_carry_out(closing.transaction)),
            Finding::NoInode { ino } => missing.contains(ino),
            _ => true,
        })
    }

    /// Of inodes whose records were not seen, those that are not there: names lead to their homes.
    fn surely_missing(&self, inos: HashSet<Ino>) -> Result<HashSet<Ino>, Error> {
        if inos.is_empty() {
            return Ok(inos);
        }
        let mut missing = HashSet::new();
        for (ino, names) in self.names_of(&inos)? {
            let gone = names.iter().try_fold(true, |gone, named| {
                let read = Batch::new().read(keys::inode(ino));
                let record = self.store.batch(named.home, &read)?.take(0);
                Ok::<_, Error>(gone && record.is_none())
            })?;
            if gone && !names.is_empty() {
                missing.insert(ino);
            }
        }
        Ok(missing)
    }

    fn not_in_use(&self, findings: Vec<Finding>, living: &Living) -> Result<Vec<Finding>, Error> {
        let inos: Vec<_> = findings.iter().filter_map(used_inode).collect();
        let mut used = HashSet::new();
        for some in inos.chunks(INODES_ASKED) {
            used.extend(self.in_use(some, living)?);
        }
        if !inos.is_empty() {
            self.withdraw()?;
        }
        let is_free = |finding: &Finding| {
            used_inode(finding).is_none_or(|ino| !used.contains(&ino) && !self.is_pinned(ino))
        };
        let mut free: Vec<_> = findings.into_iter().filter(is_free).collect();
        // A mount that has just freed an inode does not have it in use any more.
        let mut failed = Ok(());
        free.retain(|finding| match finding {
            Finding::Unreachable(record) | Finding::BeyondEnd { record, .. } => {
                let same = self.unchanged(record).map(|record| record.is_some());
                same.unwrap_or_else(|error| {
                    failed = Err(error);
                    false
                })
            }
            _ => true,
        });
        failed.map(|()| free)
    }
}

/// The inode of a finding that is none while somebody has the inode in use.
pub fn used_inode(finding: &Finding) -> Option<Ino> {
    match finding {
        Finding::Unreachable(record) | Finding::BeyondEnd { record, .. } => Some(record.ino),
        Finding::Ownerless { ino, .. } => Some(*ino),
        _ => None,
    }
}

/// How long a suspect has to be seen unchanged in any case. When its inode changed last says nothing:
/// that is by the clock of another host.
pub fn seen_for(finding: &Finding) -> Duration {
    match finding {
        Finding::Unreachable(_)
        | Finding::BeyondEnd { .. }
        | Finding::Unconnected { .. }
        | Finding::Husk { .. } => INODE_AGE_MIN,
        _ => GAP,
    }
}

/// The names of inodes.
pub type Names = HashMap<Ino, Vec<super::paths::Named>>;
