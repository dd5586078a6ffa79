//! Which mounts live, and what they say that they have in use.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tidefs_model::{Ino, MountId, Time};
use tidefs_store::{Batch, Store};

use super::{Check, Finding};
use crate::census::{self, ASKED};
use crate::error::Error;
use crate::fs::is_transaction_of;
use crate::keys;
use crate::membership::{self, QUESTION, SILENCE_MAX, Watch};

pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The mounts that are registered.
#[derive(Debug)]
pub struct Living {
    since: Time,
    watch: Watch,
    members: BTreeMap<MountId, Member>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    beats: u64,
    /// Its heart was seen to beat, or it came meanwhile.
    lives: bool,
}

impl Living {
    pub fn is_empty(&self) -> bool {
        self.members.values().all(|member| !member.lives)
    }

    /// A two-shard operation may still be carried out by its mount.
    pub fn may_carry_out(&self, transaction: u64) -> bool {
        let mut living = self.members.iter().filter(|(_, member)| member.lives);
        living.any(|(mount, _)| is_transaction_of(*mount, transaction))
    }

    pub fn has(&self, mount: MountId) -> bool {
        self.members.get(&mount).is_some_and(|member| member.lives)
    }

    fn look(&mut self, now: &[membership::Member]) {
        self.members.retain(|mount, _| now.iter().any(|member| member.mount == *mount));
        for member in now {
            let known = self.members.entry(member.mount);
            let known = known.or_insert(Member { beats: member.beats, lives: true });
            known.lives |= known.beats != member.beats;
            known.beats = member.beats;
        }
    }
}

impl<S: Store> Check<'_, S> {
    /// All that are registered, but for this check itself.
    fn members(&self) -> Result<Vec<membership::Member>, Error> {
        let mut members = membership::members(self.store)?;
        members.retain(|member| member.mount != self.name);
        Ok(members)
    }

    /// Begins to watch the mounts.
    pub fn living(&self) -> Result<Living, Error> {
        let since = self.clock.steady();
        let mut living = Living { since, watch: Watch::begun(since), members: BTreeMap::new() };
        living.look(&self.members()?);
        living.members.values_mut().for_each(|member| member.lives = false);
        Ok(living)
    }

    /// Watches until each mount was seen to live, or has been silent for so long that it is dead.
    pub fn dead_members(&self, living: &mut Living) -> Result<Vec<Finding>, Error> {
        // Of those that the owner of the file system lets in, it alone says when they are dead.
        for mount in membership::admitted(self.store)? {
            if let Some(member) = living.members.get_mut(&mount) {
                member.lives |= !self.surroundings.is_dead(mount);
            }
        }
        loop {
            living.look(&self.members()?);
            let watched = living.watch.look(self.clock.steady());
            let is_clear = |(&mount, member): (&MountId, &Member)| {
                member.lives || self.surroundings.is_dead(mount)
            };
            if living.members.iter().all(is_clear) || watched - living.since > SILENCE_MAX {
                break;
            }
            self.surroundings.pause(LOOK_EVERY);
        }
        let dead = living.members.iter().filter(|(_, member)| !member.lives);
        let finding =
            |(&mount, member): (_, &Member)| Finding::Mount { mount, beats: member.beats };
        Ok(dead.map(finding).collect())
    }

    /// Asks all living mounts which of the inodes they have in use. They keep the others from being
    /// used until [`Check::withdraw`]. Of a mount that does not answer all are.
    pub fn in_use(&self, inos: &[Ino], living: &Living) -> Result<HashSet<Ino>, Error> {
        let mut waiting: HashSet<MountId> = self
            .members()?
            .iter()
            .map(|member| member.mount)
            .filter(|mount| living.members.get(mount).is_none_or(|member| member.lives))
            .collect();
        if waiting.is_empty() || inos.is_empty() {
            return Ok(HashSet::new());
        }
        let began = self.clock.steady();
        let number = self.name.0 ^ began.0 | 1;
        let ask = Batch::new().put(ASKED, census::encode(number, inos.iter().copied())).reclaims();
        self.store.batch(keys::CENSUS, &ask)?;
        let call = Batch::new().put(QUESTION, number.to_be_bytes()).reclaims();
        self.store.batch(keys::MOUNTS, &call)?;
        let mut used = HashSet::new();
        while !waiting.is_empty() {
            if self.clock.steady() - began > SILENCE_MAX {
                used.extend(inos);
                break;
            }
            self.surroundings.pause(LOOK_EVERY);
            self.hear(number, &mut waiting, &mut used)?;
        }
        Ok(used)
    }

    fn hear(
        &self,
        number: u64,
        waiting: &mut HashSet<MountId>,
        used: &mut HashSet<Ino>,
    ) -> Result<(), Error> {
        let mounts: Vec<_> = waiting.iter().copied().collect();
        let read =
            mounts.iter().fold(Batch::new(), |batch, mount| batch.read(keys::answer(*mount)));
        let answers = self.store.batch(keys::CENSUS, &read)?.values;
        for (mount, answer) in mounts.into_iter().zip(answers) {
            let answer = answer.as_deref().and_then(census::decode);
            if let Some((_, inos)) = answer.filter(|(answered, _)| *answered == number) {
                used.extend(inos);
                waiting.remove(&mount);
            }
        }
        // Who left meanwhile has nothing in use.
        let there = self.members()?;
        waiting.retain(|mount| there.iter().any(|member| member.mount == *mount));
        Ok(())
    }

    /// Nobody needs to hold back any more.
    pub fn withdraw(&self) -> Result<(), Error> {
        let withdraw = Batch::new().delete(QUESTION).reclaims();
        self.store.batch(keys::MOUNTS, &withdraw)?;
        self.store.delete_shards(&[keys::CENSUS])?;
        Ok(())
    }
}
