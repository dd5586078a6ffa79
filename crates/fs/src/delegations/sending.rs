//! Batches on their way to the store: those that take a delegation, and those that others' delegations refuse.

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError, StripeWrite, Update, caller};

use super::holders::{self, HOLDERS_MAX};
use super::shards::{Claiming, Entering};
use super::{Delegations, IS_DELEGATION};
use crate::keys;
use crate::write_back::WriteBack;

/// What was answered; and the delegation that came with it.
pub(crate) type Sent = (Result<Outcome, StoreError>, Option<u64>);

/// What a batch is to delegations.
enum Role {
    /// Of no concern.
    Other,
    /// It only reads, and the shard is watched.
    Look,
    /// It changes what others may keep.
    Change,
}

/// A change as it goes to the store.
struct Asked {
    batch: Batch,
    /// The delegation of this mount goes on with it.
    is_sole: bool,
    /// This mount goes off the record with it.
    takes_off: bool,
    /// This mount becomes the writer with it.
    claiming: Option<Claiming>,
}

/// Changes of shards under way.
pub(super) struct Changing<'l> {
    delegations: &'l Delegations,
    shards: Vec<ShardKey>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.shards.iter().for_each(|shard| self.delegations.shards.end_change(*shard));
    }
}

impl Delegations {
    fn role(&self, shard: ShardKey, batch: &Batch) -> Role {
        if batch.only_reads() {
            let is_look = batch.checks.is_empty() && self.watches(shard);
            return if is_look { Role::Look } else { Role::Other };
        }
        if is_change(batch) { Role::Change } else { Role::Other }
    }

    /// To be called before the change is sent, with which this mount goes off the record.
    pub(super) fn changing(&self, shards: Vec<ShardKey>) -> Changing<'_> {
        self.begin_change(&shards);
        Changing { delegations: self, shards }
    }

    /// Begins one change. Answers the record in which this mount stands alone, where its delegation goes on: what it
    /// knows of the shard goes on with its own change, and no other mount knows anything. One that takes the
    /// header away leaves nothing to know of.
    fn begin_one(&self, shard: ShardKey, batch: &Batch) -> Option<Bytes> {
        self.turns.changed(shard.directory, self.now());
        let me = self.me();
        let is_sole = |record: &[u8]| !record.is_empty() && holders::others(record, me).is_empty();
        let sole = match clears(batch) {
            true => None,
            false => self.begin_sole_change(shard, is_sole, &changed(shard, batch)),
        };
        if sole.is_none() {
            self.begin_change(&[shard]);
        }
        sole
    }

    /// The same of several; what this answers ends them.
    fn begin_each<'b>(
        &self,
        changes: impl Iterator<Item = (ShardKey, &'b Batch)>,
    ) -> (Changing<'_>, Vec<Option<Bytes>>) {
        let mut changing = Changing { delegations: self, shards: Vec::new() };
        let begin = |(shard, batch)| {
            let sole = self.begin_one(shard, batch);
            changing.shards.push(shard);
            sole
        };
        let soles = changes.map(begin).collect();
        (changing, soles)
    }

    /// The batch of a look that enters this mount, if the shard is read-mostly.
    fn entering(&self, shard: ShardKey, batch: &Batch) -> Option<(Batch, Entering)> {
        let entering = self.shards.enter(shard, self.clock.steady())?;
        if holders::decode(&entering.holders).len() >= HOLDERS_MAX {
            self.crowds(shard);
            self.shards.note_contended(shard);
            return None;
        }
        // Read after the shard was: a lease term that ends or begins from here on keeps it from being entered.
        let myself = self.myself();
        if !self.is_valid(self.clock.steady()) {
            return None;
        }
        let batch = batch.clone().absent(keys::CLOSED).absent(keys::WRITER);
        let batch = stands(batch, &entering.holders);
        let after = holders::with(&entering.holders, myself, entering.number);
        Some((batch.put(keys::HOLDERS, after).read(keys::HOLDERS), entering))
    }

    /// What became of it: the number of the delegation. A look has its answer in any case.
    fn entered(&self, shard: ShardKey, entering: &Entering, outcome: &mut Outcome) -> Option<u64> {
        let record = outcome.values.pop().flatten().unwrap_or_default();
        match outcome.refused_by.take() {
            None => {
                self.was_used(self.clock.steady());
                self.shards.entered(shard, entering, record).map(|number| number | IS_DELEGATION)
            }
            // Closed.
            Some(0) => {
                self.shards.note_contended(shard);
                None
            }
            Some(_) => {
                self.shards.saw_holders(shard, &record);
                None
            }
        }
    }

    /// The batch of a change that was begun, which is refused where another mount has come since.
    fn asked(&self, shard: ShardKey, batch: &Batch, sole: Option<Bytes>) -> Asked {
        let Some(record) = sole else {
            return self.change(shard, batch, &self.shards.holders(shard));
        };
        self.was_used(self.clock.steady());
        let claiming = self.claiming(shard);
        let batch = batch.clone().equals(keys::HOLDERS, record);
        let batch = match &claiming {
            Some(claiming) => batch.put(keys::WRITER, claiming.claim.clone()),
            None => batch,
        };
        Asked { batch: batch.read(keys::HOLDERS), is_sole: true, takes_off: false, claiming }
    }

    /// The batch of a change, which is refused while another mount keeps the shard, and takes this one
    /// off the record as it was seen last; but not a writer, who goes when the store has all that it answered for.
    fn change(&self, shard: ShardKey, batch: &Batch, record: &[u8]) -> Asked {
        let is_mine = !record.is_empty() && holders::others(record, self.me()).is_empty();
        let stays = self.shards.claim(shard).is_some() && !clears(batch);
        let takes_off = is_mine && !stays;
        let batch = batch.clone();
        let batch = match is_mine {
            true => batch.equals(keys::HOLDERS, record),
            false => batch.absent(keys::HOLDERS),
        };
        let batch = match takes_off {
            true => batch.delete(keys::HOLDERS).delete(keys::WRITER),
            false => batch,
        };
        Asked { batch: batch.read(keys::HOLDERS), is_sole: false, takes_off, claiming: None }
    }

    /// The record that stood in the way of a change, if one did.
    fn refused(&self, shard: ShardKey, asked: Asked, outcome: &mut Outcome) -> Option<Bytes> {
        let record = outcome.values.pop().flatten().unwrap_or_default();
        let is_refused = outcome.refused_by == Some(asked.batch.checks.len() - 1);
        self.shards.saw_holders(shard, &record);
        // Beside the record there may have been nothing.
        outcome.shard_was_empty |= asked.takes_off && outcome.applied();
        if let Some(claiming) = asked.claiming.filter(|_| outcome.applied()) {
            self.shards.claimed(shard, claiming);
        }
        if is_refused && asked.is_sole {
            self.end_sole(shard);
        }
        is_refused.then_some(record)
    }
}

impl<S: Store> WriteBack<S> {
    /// Sends a batch. A change waits until no other mount keeps what it changes.
    pub(super) fn send_unguarded(&self, shard: ShardKey, batch: &Batch) -> Sent {
        match self.delegations.role(shard, batch) {
            Role::Other => (self.store.batch(shard, batch), None),
            Role::Look => self.look(shard, batch),
            Role::Change => {
                let (_changing, mut sole) =
                    self.delegations.begin_each([(shard, batch)].into_iter());
                let asked = self.delegations.asked(shard, batch, sole.pop().flatten());
                let outcome = self.store.batch(shard, &asked.batch);
                (self.insist(shard, batch, asked, outcome), None)
            }
        }
    }

    /// The same for a batch that goes with stripes that are written at the same time.
    pub(super) fn send_unguarded_with(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        if !matches!(self.delegations.role(shard, batch), Role::Change) {
            return self.store.write_and_batch(writes, shard, batch);
        }
        let (_changing, mut sole) = self.delegations.begin_each([(shard, batch)].into_iter());
        let asked = self.delegations.asked(shard, batch, sole.pop().flatten());
        let (written, outcome) = self.store.write_and_batch(writes, shard, &asked.batch);
        (written, self.insist(shard, batch, asked, outcome))
    }

    /// The same for several.
    pub(super) fn send_all_unguarded(
        &self,
        batches: &[(ShardKey, Batch)],
    ) -> Result<Vec<(Outcome, Option<u64>)>, StoreError> {
        let roles: Vec<_> =
            batches.iter().map(|(shard, batch)| self.delegations.role(*shard, batch)).collect();
        if roles.iter().all(|role| matches!(role, Role::Other)) {
            let outcomes = self.store.batches(batches)?;
            return Ok(outcomes.into_iter().map(|outcome| (outcome, None)).collect());
        }
        let each = || batches.iter().zip(&roles);
        let changed = each().filter(|(_, role)| matches!(role, Role::Change));
        let changed = changed.map(|((shard, batch), _)| (*shard, batch));
        let (_changing, soles) = self.delegations.begin_each(changed);
        let (mut soles, mut changes) = (soles.into_iter(), Vec::new());
        let mut entering = Vec::new();
        let asked: Vec<_> = each()
            .map(|((shard, batch), role)| {
                let look = match role {
                    Role::Look => self.delegations.entering(*shard, batch),
                    _ => None,
                };
                let (asked, how) = match (role, look) {
                    (Role::Change, _) => {
                        let sole = soles.next().flatten();
                        let asked = self.delegations.asked(*shard, batch, sole);
                        let batch = asked.batch.clone();
                        changes.push(asked);
                        (batch, None)
                    }
                    (_, Some((asked, how))) => (asked, Some(how)),
                    (_, None) => (batch.clone(), None),
                };
                entering.push(how);
                (*shard, asked)
            })
            .collect();
        let enters = entering.iter().any(Option::is_some);
        let only_reads = batches.iter().all(|(_, batch)| batch.only_reads());
        let sent = match only_reads {
            true => caller::without_waiting(|| self.store.batches(&asked)),
            false => self.store.batches(&asked),
        };
        let outcomes = match sent {
            // It may be asked again.
            Err(_) if enters && only_reads => {
                batches
                    .iter()
                    .for_each(|(shard, _)| self.delegations.shards.note_contended(*shard));
                let outcomes = self.store.batches(batches)?;
                return Ok(outcomes.into_iter().map(|outcome| (outcome, None)).collect());
            }
            other => other?,
        };
        let mut changes = changes.into_iter();
        let answered = outcomes.into_iter().zip(each()).zip(entering);
        let answers = answered.map(|((mut outcome, ((shard, batch), role)), entering)| {
            let change = matches!(role, Role::Change).then(|| changes.next()).flatten();
            if let Some(asked) = change {
                return Ok((self.insist(*shard, batch, asked, Ok(outcome))?, None));
            }
            let mut delegation = None;
            if let Role::Look = role {
                delegation =
                    entering.and_then(|it| self.delegations.entered(*shard, &it, &mut outcome));
                self.delegations.shards.looked(*shard, batch, &outcome);
            }
            Ok((outcome, delegation))
        });
        answers.collect()
    }

    fn look(&self, shard: ShardKey, batch: &Batch) -> Sent {
        let mut delegation = None;
        let entering = self.delegations.entering(shard, batch);
        let entered = entering.and_then(|(asked, entering)| {
            let Ok(mut outcome) = caller::without_waiting(|| self.store.batch(shard, &asked))
            else {
                // It may have been carried out, or there is no room: it is asked without a delegation.
                self.delegations.shards.note_contended(shard);
                return None;
            };
            delegation = self.delegations.entered(shard, &entering, &mut outcome);
            Some(outcome)
        });
        let outcome = entered.map_or_else(|| self.store.batch(shard, batch), Ok);
        if let Ok(outcome) = &outcome {
            self.delegations.shards.looked(shard, batch, outcome);
        }
        (outcome, delegation)
    }

    /// Makes a change again, which others' delegations have refused, until they do not.
    fn insist(
        &self,
        shard: ShardKey,
        batch: &Batch,
        mut asked: Asked,
        mut outcome: Result<Outcome, StoreError>,
    ) -> Result<Outcome, StoreError> {
        let mut recall = None;
        loop {
            let mut answered = outcome?;
            let Some(record) = self.delegations.refused(shard, asked, &mut answered) else {
                return Ok(answered);
            };
            let recall = recall.get_or_insert_with(|| {
                self.delegations.recall_of(shard, batch, answered.values.last())
            });
            let left = self.recall(recall, shard, record)?;
            asked = self.delegations.change(shard, batch, &left);
            outcome = self.store.batch(shard, &asked.batch);
        }
    }
}

/// It changes what delegations cover.
pub(crate) fn is_change(batch: &Batch) -> bool {
    batch.updates.iter().any(|update| keys::is_delegated(update.field()))
}

/// It leaves nothing in the shard of a directory that is gone.
fn clears(batch: &Batch) -> bool {
    let ends =
        |update: &Update| matches!(update, Update::Delete { field } if field == keys::HEADER);
    batch.updates.iter().any(ends)
}

/// The inodes whose attributes a batch changes.
fn changed(shard: ShardKey, batch: &Batch) -> Vec<Ino> {
    let fields = batch.updates.iter().map(Update::field);
    let inos = fields.filter_map(|field| match field == keys::HEADER {
        true => Some(shard.directory),
        false => keys::ino_of(field),
    });
    inos.collect()
}

/// The record of the holders is as it was seen last.
pub(super) fn stands(batch: Batch, record: &[u8]) -> Batch {
    match record.is_empty() {
        true => batch.absent(keys::HOLDERS),
        false => batch.equals(keys::HOLDERS, record),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use tidefs_model::{ManualClock, MountId};

    use super::*;
    use crate::Config;
    use crate::identity::Identity;

    #[test]
    fn nobody_enters_while_a_lease_term_begins() {
        let clock = Arc::new(ManualClock::default());
        let identity = Arc::new(Identity::new(MountId(1)));
        let delegations =
            Delegations::new(&Config::new(MountId(1)), identity, clock, Arc::default(), 16);
        let batch = Batch::new().read(keys::HEADER);
        let outcome = Outcome { refused_by: None, shard_was_empty: false, values: vec![None] };
        let look = || delegations.shards.looked(keys::ROOT_HOME, &batch, &outcome);
        (0..20).for_each(|_| look());
        delegations.lease_term.store(5, Ordering::SeqCst);
        delegations.valid_until.store(1, Ordering::SeqCst);
        let (_, entering) =
            delegations.entering(keys::ROOT_HOME, &batch).expect("it is read-mostly");
        assert!(delegations.shards.entered(keys::ROOT_HOME, &entering, Bytes::new()).is_some());
        delegations.end_all();
        (0..20).for_each(|_| look());
        delegations.valid_until.store(0, Ordering::SeqCst);
        assert!(delegations.entering(keys::ROOT_HOME, &batch).is_none());
    }
}
