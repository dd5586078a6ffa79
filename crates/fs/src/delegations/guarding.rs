//! Batches and listings of shards that may have another mount as their writer, which has answered for changes that the
//! store does not have yet. Each of them, also one that only reads, finds the writer's claim in the shard if there is
//! one; then it has concluded nothing, and is sent again when the writer has let go.

use std::collections::BTreeSet;

use tidefs_model::ShardKey;
use tidefs_store::{Batch, Bytes, Cursor, Outcome, Page, Store, StoreError, StripeWrite};

use super::asking::{Recall, Wish};
use super::sending::{self, Sent};
use super::{Delegations, holders};
use crate::keys;
use crate::write_back::WriteBack;

/// Why something must be sent again.
pub(super) enum Hindrance {
    /// Another mount is the writer.
    Writer { shard: ShardKey, claim: Bytes, wish: Wish },
    /// The claim of this mount is another one than it thought, or is gone.
    Mistaken { shard: ShardKey, claim: Option<Bytes> },
}

/// Batches with their numbers among those that were asked for, and whether they are guarded.
type Numbered = (usize, bool, (ShardKey, Batch));

impl Delegations {
    /// The batch that also reads who the writer is; `None`: no other mount can be.
    fn guarded(&self, shard: ShardKey, batch: &Batch) -> Option<Batch> {
        if !keys::has_names(shard) {
            return None;
        }
        let only_reads = batch.only_reads();
        if only_reads && self.is_unhindered(shard) {
            return None;
        }
        let batch = batch.clone();
        // Changes of what delegations cover are refused by the record of the holders.
        let batch = match (only_reads || sending::is_change(&batch), self.shards.claim(shard)) {
            (true, _) => batch,
            (false, Some(claim)) => batch.equals(keys::WRITER, claim),
            (false, None) => batch.absent(keys::WRITER),
        };
        Some(batch.read(keys::WRITER))
    }

    /// No other mount can be the writer.
    fn is_unhindered(&self, shard: ShardKey) -> bool {
        let now = self.clock.steady();
        let is_writer =
            self.shards.held() > 0 && self.is_valid(now) && self.shards.is_writer(shard);
        is_writer || self.solitude.time_alone(now).is_some()
    }

    /// Takes off an outcome what [`Delegations::guarded`] has asked for, and says what hindered the batch.
    fn hindrance(
        &self,
        shard: ShardKey,
        batch: &Batch,
        outcome: &mut Outcome,
    ) -> Option<Hindrance> {
        let claim = outcome.values.pop().flatten();
        let only_reads = batch.only_reads();
        if !only_reads && outcome.applied() {
            return None;
        }
        let wish = if only_reads { Wish::Look } else { Wish::Change };
        if let Some(claim) = claim.clone().filter(|claim| self.is_of_another(claim)) {
            return Some(Hindrance::Writer { shard, claim, wish });
        }
        let own_check = Some(batch.checks.len());
        let is_guarded = !only_reads && !sending::is_change(batch);
        let is_mistaken = is_guarded && outcome.refused_by == own_check;
        is_mistaken.then_some(Hindrance::Mistaken { shard, claim })
    }

    fn is_of_another(&self, claim: &[u8]) -> bool {
        !holders::others(claim, self.me()).is_empty()
    }

    /// The claim of another mount in a page, where it begins a listing of a shard.
    fn hindrance_in(&self, shard: ShardKey, page: &Page) -> Option<Hindrance> {
        let claim = page.fields.iter().find(|(field, _)| field == keys::WRITER);
        let claim =
            claim.map(|(_, claim)| claim.clone()).filter(|claim| self.is_of_another(claim))?;
        Some(Hindrance::Writer { shard, claim, wish: Wish::Look })
    }
}

impl<S: Store> WriteBack<S> {
    /// Sends a batch. A change waits until no other mount keeps what it changes; all wait until no other mount has
    /// answered for more than the store has.
    pub(crate) fn send(&self, shard: ShardKey, batch: &Batch) -> Sent {
        let mut recall = None;
        loop {
            let Some(guarded) = self.delegations.guarded(shard, batch) else {
                return self.send_unguarded(shard, batch);
            };
            let (mut outcome, delegation) = self.send_unguarded(shard, &guarded);
            let hindrance = match &mut outcome {
                Ok(outcome) => self.delegations.hindrance(shard, batch, outcome),
                Err(_) => None,
            };
            let Some(hindrance) = hindrance else { return (outcome, delegation) };
            if let Err(error) = self.clear_away(&mut recall, &[hindrance]) {
                return (Err(error), None);
            }
        }
    }

    /// The same for a batch that goes with stripes that are written at the same time.
    pub(crate) fn send_with(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        let Some(guarded) = self.delegations.guarded(shard, batch) else {
            return self.send_unguarded_with(writes, shard, batch);
        };
        let (written, mut outcome) = self.send_unguarded_with(writes, shard, &guarded);
        let hindrance = match &mut outcome {
            Ok(outcome) => self.delegations.hindrance(shard, batch, outcome),
            Err(_) => None,
        };
        let Some(hindrance) = hindrance else { return (written, outcome) };
        let cleared = self.clear_away(&mut None, &[hindrance]);
        (written, cleared.and_then(|()| self.send(shard, batch).0))
    }

    /// The same for several.
    pub(crate) fn send_all(
        &self,
        batches: &[(ShardKey, Batch)],
    ) -> Result<Vec<(Outcome, Option<u64>)>, StoreError> {
        let mut asked = self.number(batches, |_| true);
        if asked.iter().all(|(_, guarded, _)| !guarded) {
            return self.send_all_unguarded(batches);
        }
        let only_reads = batches.iter().all(|(_, batch)| batch.only_reads());
        let mut answers: Vec<_> = batches.iter().map(|_| None).collect();
        let mut recall = None;
        loop {
            let sent: Vec<_> = asked.iter().map(|(_, _, batch)| batch.clone()).collect();
            let mut hindrances = Vec::new();
            let mut hindered = BTreeSet::new();
            for ((number, guarded, _), mut answer) in
                asked.iter().zip(self.send_all_unguarded(&sent)?)
            {
                let (shard, batch) = &batches[*number];
                let hindrance =
                    guarded.then(|| self.delegations.hindrance(*shard, batch, &mut answer.0));
                if let Some(hindrance) = hindrance.flatten() {
                    hindrances.push(hindrance);
                    hindered.insert(*number);
                }
                answers[*number] = Some(answer);
            }
            if hindrances.is_empty() {
                return Ok(answers.into_iter().flatten().collect());
            }
            self.clear_away(&mut recall, &hindrances)?;
            // Answers that are older than others may make up what never was.
            asked = self.number(batches, |number| only_reads || hindered.contains(&number));
        }
    }

    fn number(
        &self,
        batches: &[(ShardKey, Batch)],
        is_asked: impl Fn(usize) -> bool,
    ) -> Vec<Numbered> {
        let some = batches.iter().enumerate().filter(|(number, _)| is_asked(*number));
        some.map(|(number, (shard, batch))| match self.delegations.guarded(*shard, batch) {
            Some(guarded) => (number, true, (*shard, guarded)),
            None => (number, false, (*shard, batch.clone())),
        })
        .collect()
    }

    /// Pages of shards. Those that begin a listing have all that other mounts have answered for until then.
    pub(crate) fn list_guarded(
        &self,
        shards: &[(ShardKey, Cursor)],
    ) -> Result<Vec<Page>, StoreError> {
        let mut recall = None;
        loop {
            let mut pages = self.store.list(shards)?;
            let begins = |(number, (shard, from)): (usize, &(ShardKey, Cursor))| {
                let is_open = *from == Cursor::default() && keys::has_names(*shard);
                (is_open && !self.delegations.is_unhindered(*shard)).then_some((number, *shard))
            };
            let begun: Vec<_> = shards.iter().enumerate().filter_map(begins).collect();
            let (cut, whole): (Vec<_>, Vec<_>) =
                begun.into_iter().partition(|(number, _)| pages[*number].next.is_some());
            let found = |(number, shard): &(usize, ShardKey)| {
                self.delegations.hindrance_in(*shard, &pages[*number])
            };
            let mut hindrances: Vec<_> = whole.iter().filter_map(found).collect();
            hindrances.extend(self.writers_of(cut.iter().map(|(_, shard)| *shard))?);
            if hindrances.is_empty() {
                // A claim may have gone since its page was read, and what waited have come.
                let again: Vec<_> = cut.iter().map(|(number, _)| shards[*number].clone()).collect();
                let again = if again.is_empty() { Vec::new() } else { self.store.list(&again)? };
                for ((number, _), page) in cut.into_iter().zip(again) {
                    pages[number] = page;
                }
                return Ok(pages);
            }
            self.clear_away(&mut recall, &hindrances)?;
        }
    }

    /// Other mounts that are writers of shards.
    fn writers_of(
        &self,
        shards: impl Iterator<Item = ShardKey>,
    ) -> Result<Vec<Hindrance>, StoreError> {
        let read = Batch::new().read(keys::WRITER);
        let batches: Vec<_> = shards.map(|shard| (shard, read.clone())).collect();
        if batches.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = self.store.batches(&batches)?;
        let claims = batches.iter().zip(outcomes).filter_map(|((shard, _), mut outcome)| {
            let claim = outcome.take(0).filter(|claim| self.delegations.is_of_another(claim))?;
            Some(Hindrance::Writer { shard: *shard, claim, wish: Wish::Look })
        });
        Ok(claims.collect())
    }

    /// Does something about what hindered, and waits a little where that takes time.
    fn clear_away(
        &self,
        recall: &mut Option<Recall>,
        hindrances: &[Hindrance],
    ) -> Result<(), StoreError> {
        let mut writers = Vec::new();
        for hindrance in hindrances {
            match hindrance {
                Hindrance::Writer { shard, claim, wish } => {
                    self.delegations.turns.is_changed(shard.directory, self.delegations.now());
                    writers.push((*shard, claim, *wish));
                }
                Hindrance::Mistaken { shard, claim } => {
                    self.delegations.shards.believe(*shard, claim.clone());
                }
            }
        }
        if writers.is_empty() {
            return Ok(());
        }
        let directory = writers[0].0.directory;
        let recall = recall.get_or_insert_with(|| self.delegations.recall_in(directory));
        self.ask_writers(recall, &writers)
    }
}
