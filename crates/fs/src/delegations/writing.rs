//! The writer of a shard: when this mount is one, what it relies on then, and how it stops.

use std::collections::BTreeSet;
use std::time::Duration;

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Bytes, Store, StoreError};

use super::shards::Claiming;
use super::waiting::without_waiting_for_turns;
use super::{Delegations, IS_DELEGATION, holders};
use crate::keys;
use crate::membership::Membership;
use crate::write_back::WriteBack;

/// How long what relies on it that nobody looks may take before others have to wait for this mount's lease term.
const RELY_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether it has ended.
const PAUSE: Duration = Duration::from_micros(100);

/// Nobody looks at a shard until this is dropped.
struct Unseen<'d> {
    delegations: &'d Delegations,
    shard: ShardKey,
    era: u64,
    /// It is this mount's turn in the directory.
    in_turn: bool,
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if self.in_turn {
            self.delegations.turns.ended(&[self.shard.directory], self.delegations.now());
        }
        self.delegations.shards.rely_no_more(self.shard);
    }
}

impl Delegations {
    fn unseen(&self, shard: ShardKey, now: Time) -> Option<Unseen<'_>> {
        if self.shards.held() == 0 || !self.keeps() || !self.is_valid(now) {
            return None;
        }
        let number = self.shards.rely(shard)?;
        self.turns.changed(shard.directory, now);
        let in_turn = self.turns.works(shard.directory, now);
        Some(Unseen { delegations: self, shard, era: number | IS_DELEGATION, in_turn })
    }

    /// The claim with which this mount becomes the writer of a shard that it is about to change as its only holder.
    pub(super) fn claiming(&self, shard: ShardKey) -> Option<Claiming> {
        let now = self.clock.steady();
        if !self.keeps() || !self.is_valid(now) {
            return None;
        }
        self.shards.claiming(shard, now, self.myself())
    }
}

impl<S: Store> WriteBack<S> {
    /// Does something while no other mount can look at a shard: this one is its writer, or alone. It is given what
    /// all that is known of the shard then is right in. `None`: others may look, and nothing was done.
    pub(crate) fn while_unseen<T>(
        &self,
        shard: ShardKey,
        membership: &Membership,
        work: impl FnOnce(u64) -> T,
    ) -> Option<T> {
        let now = self.delegations.now();
        if let Some(unseen) = self.delegations.unseen(shard, now) {
            self.delegations.was_used(now);
            return Some(without_waiting_for_turns(|| work(unseen.era)));
        }
        membership.while_alone(now, |_| membership.time_alone(now).map(work))
    }

    /// This mount is the writer of these shards no longer: the store has all that it answered for there. `false`: it
    /// does not, and others have to wait until this mount's lease term is over.
    pub(super) fn close_writing(
        &self,
        shards: impl Iterator<Item = ShardKey> + Clone,
        looks: Option<Time>,
    ) -> bool {
        let delegations = &self.delegations;
        shards.clone().for_each(|shard| delegations.shards.stop_writing_back(shard, looks));
        delegations.expire_names(shards.clone());
        let begun = delegations.now();
        for shard in shards.clone() {
            while delegations.shards.is_relied_on(shard) {
                if delegations.now() - begun >= RELY_MAX {
                    return false;
                }
                std::thread::sleep(PAUSE);
            }
        }
        self.settle(shards);
        true
    }

    /// Others want to look at shards: this mount is the writer no longer of any shard of their directories, and
    /// goes on as the holder that it is.
    pub(super) fn let_look(&self, asked: &BTreeSet<ShardKey>, now: Time) -> Result<(), StoreError> {
        let delegations = &self.delegations;
        let has_claim = |shard: &ShardKey| delegations.shards.claim(*shard).is_some();
        let all = self.with_worked_in(asked);
        let all: BTreeSet<_> =
            all.into_iter().filter(|shard| asked.contains(shard) || has_claim(shard)).collect();
        // A claim that is put from here on is that of a writer no longer: it counts those who have asked.
        let claims = self.claims_in(&all)?;
        if !self.close_writing(all.iter().copied(), Some(now)) {
            return Ok(());
        }
        let drop_claim = |(shard, claim): &(ShardKey, Bytes)| {
            let is_mine = Batch::new().equals(keys::WRITER, claim.clone());
            (*shard, is_mine.delete(keys::WRITER).reclaims())
        };
        let batches: Vec<_> = claims.iter().map(drop_claim).collect();
        if !batches.is_empty() {
            self.store.batches(&batches)?;
        }
        claims.iter().for_each(|(shard, claim)| delegations.shards.unclaimed(*shard, claim));
        Ok(())
    }

    /// The claims of this mount in shards: as it knows them, else as the store has them.
    fn claims_in(&self, shards: &BTreeSet<ShardKey>) -> Result<Vec<(ShardKey, Bytes)>, StoreError> {
        let delegations = &self.delegations;
        let known = shards.iter().map(|shard| (*shard, delegations.shards.claim(*shard)));
        let (known, unknown): (Vec<_>, Vec<_>) = known.partition(|(_, claim)| claim.is_some());
        let mut claims: Vec<_> =
            known.into_iter().filter_map(|(shard, claim)| Some((shard, claim?))).collect();
        let read = Batch::new().read(keys::WRITER);
        let asked: Vec<_> = unknown.iter().map(|(shard, _)| (*shard, read.clone())).collect();
        if !asked.is_empty() {
            let outcomes = self.store.batches(&asked)?;
            let found = asked
                .iter()
                .zip(outcomes)
                .filter_map(|((shard, _), mut outcome)| Some((*shard, outcome.take(0)?)));
            let is_mine = |claim: &[u8]| holders::others(claim, delegations.me()).is_empty();
            claims.extend(found.filter(|(_, claim)| is_mine(claim)));
        }
        Ok(claims)
    }
}
