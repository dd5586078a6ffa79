//! Batches on their way to the store: those that take a delegation, and those that others' delegations refuse.

use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Bytes, Check, Outcome, Store, StoreError, StripeWrite, Update, caller};

use super::asking::Recall;
use super::holders::{self, HOLDERS_MAX};
use super::shards::Entering;
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
        let mut fields = batch.updates.iter().map(Update::field);
        let concerns = fields.any(|field| keys::is_delegated(field));
        if concerns { Role::Change } else { Role::Other }
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
        let ends =
            |update: &Update| matches!(update, Update::Delete { field } if field == keys::HEADER);
        let me = self.me();
        let is_sole = |record: &[u8]| !record.is_empty() && holders::others(record, me).is_empty();
        let sole = match batch.updates.iter().any(ends) {
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
        let batch = batch.clone().absent(keys::CLOSED);
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
            let batch = self.change(batch, &self.shards.holders(shard));
            return Asked { batch, is_sole: false };
        };
        self.was_used(self.clock.steady());
        let batch = batch.clone().equals(keys::HOLDERS, record).read(keys::HOLDERS);
        Asked { batch, is_sole: true }
    }

    /// The batch of a change, which is refused while another mount keeps the shard, and takes this one
    /// off the record as it was seen last.
    fn change(&self, batch: &Batch, record: &[u8]) -> Batch {
        let is_mine = !record.is_empty() && holders::others(record, self.me()).is_empty();
        let batch = batch.clone();
        let batch = match is_mine {
            true => batch.equals(keys::HOLDERS, record).delete(keys::HOLDERS),
            false => batch.absent(keys::HOLDERS),
        };
        batch.read(keys::HOLDERS)
    }

    /// The record that stood in the way of a change, if one did.
    fn refused(&self, shard: ShardKey, asked: &Asked, outcome: &mut Outcome) -> Option<Bytes> {
        let record = outcome.values.pop().flatten().unwrap_or_default();
        let Asked { batch: asked, is_sole } = asked;
        let last = asked.checks.len() - 1;
        let is_refused = outcome.refused_by == Some(last);
        self.shards.saw_holders(shard, &record);
        // Beside the record there may have been nothing.
        let took_off = matches!(asked.checks[last], Check::Equals { .. }) && !is_sole;
        outcome.shard_was_empty |= took_off && outcome.applied();
        if is_refused && *is_sole {
            self.end_sole(shard);
        }
        is_refused.then_some(record)
    }
}

impl<S: Store> WriteBack<S> {
    /// Sends a batch. A change waits until no other mount keeps what it changes.
    pub(crate) fn send(&self, shard: ShardKey, batch: &Batch) -> Sent {
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
    pub(crate) fn send_with(
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
    pub(crate) fn send_all(
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
        let (mut soles, mut are_sole) = (soles.into_iter(), Vec::new());
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
                        let Asked { batch, is_sole } = self.delegations.asked(*shard, batch, sole);
                        are_sole.push(is_sole);
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
        let mut are_sole = are_sole.into_iter();
        let answered = outcomes.into_iter().zip(asked).zip(each()).zip(entering);
        answered
            .map(|(((mut outcome, (shard, asked)), ((_, batch), role)), entering)| match role {
                Role::Other => Ok((outcome, None)),
                Role::Change => {
                    let is_sole = are_sole.next().unwrap_or(false);
                    let asked = Asked { batch: asked, is_sole };
                    Ok((self.insist(shard, batch, asked, Ok(outcome))?, None))
                }
                Role::Look => {
                    let delegation =
                        entering.and_then(|it| self.delegations.entered(shard, &it, &mut outcome));
                    self.delegations.shards.looked(shard, batch, &outcome);
                    Ok((outcome, delegation))
                }
            })
            .collect()
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
        let mut recall = Recall::begun(self.delegations.clock.steady());
        loop {
            let mut answered = outcome?;
            let Some(record) = self.delegations.refused(shard, &asked, &mut answered) else {
                return Ok(answered);
            };
            let left = self.recall(&mut recall, shard, record)?;
            asked = Asked { batch: self.delegations.change(batch, &left), is_sole: false };
            outcome = self.store.batch(shard, &asked.batch);
        }
    }
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
            Delegations::new(&Config::new(MountId(1)), identity, clock, Arc::default());
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
