//! Entries and inodes as they lie in the store, remembered by a mount that is alone: it makes every
//! change itself, so what it read or wrote last is what it would read. The same under a delegation, which
//! ends before anybody changes the shard, and then also what was not there.
//!
//! This is a layer between the mount and the store. A batch that only reads remembered fields takes
//! no round. A batch that changes anything in a shard makes its fields forgotten when it begins and
//! again when it ends; what was read meanwhile is not kept. What was learnt in one time of being
//! alone, or under one delegation, is not used in another, nor when this mount cannot know any more whether
//! somebody else has come, nor for longer than [`AGE_MAX`]: nodes may lose what they held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Clock, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Read, StoreError, Update};

use crate::delegations::Delegations;
use crate::keys::{ENTRY_PREFIX, INODE_PREFIX, is_delegated};

const STRIPES: usize = 64;
/// With 64 stripes some tens of thousands of fields, each of which takes some 400 bytes.
const FIELDS_PER_STRIPE: usize = 1_024;
pub(crate) const AGE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct KnownFields {
    stripes: Vec<Mutex<Stripe>>,
    delegations: Arc<Delegations>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Stripe {
    fields: HashMap<(ShardKey, Bytes), Known>,
    /// Counts beginnings and ends of changes.
    changes: u64,
    /// Changes that have begun and not ended.
    under_way: u32,
}

struct Known {
    /// `None`: there is no such field.
    value: Option<Bytes>,
    since: Time,
    era: u64,
}

/// How a stripe was when a batch began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    changes: u64,
    /// What is learnt from it is right as long as this.
    era: Option<u64>,
    since: Time,
}

impl Begun {
    /// A delegation came with the answer, where none was there before.
    pub fn or_in(self, delegation: Option<u64>) -> Begun {
        Begun { era: self.era.or(delegation), ..self }
    }
}

impl KnownFields {
    pub fn new(delegations: Arc<Delegations>, clock: Arc<dyn Clock>) -> KnownFields {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        KnownFields { stripes, delegations, clock }
    }

    /// The answer to a batch, where it is known.
    pub fn answer(&self, shard: ShardKey, batch: &Batch) -> Option<Outcome> {
        if !batch.checks.is_empty() || !batch.updates.is_empty() || batch.reads.is_empty() {
            return None;
        }
        let now = self.clock.steady();
        let era = self.delegations.era(shard, now)?;
        let stripe = self.stripe(shard);
        let known = |field: &[u8]| {
            let known = stripe.fields.get(&(shard, field.to_vec()))?;
            let is_right = known.era == era && now - known.since < AGE_MAX;
            is_right.then_some(known.value.as_ref())
        };
        let values = batch.reads.iter().map(|read| match read {
            Read::Field { field } => Some(known(field)?.cloned()),
            Read::Linked { field, at, length, prefix } => {
                let link = known(field)?.and_then(|value| link(value, *at, *length));
                match link {
                    Some(link) => Some(known(&[prefix, link].concat())?.cloned()),
                    None => Some(None),
                }
            }
        });
        let values = values.collect::<Option<_>>()?;
        if Delegations::is_delegation(era) {
            self.delegations.was_used(now);
        }
        Some(Outcome { refused_by: None, shard_was_empty: false, values })
    }

    /// A field was not there, and nobody has put it there since. `era`: what the shard is known by now.
    pub fn lacks(&self, shard: ShardKey, field: &[u8], era: u64) -> bool {
        let stripe = self.stripe(shard);
        let known = stripe.fields.get(&(shard, field.to_vec()));
        let is_right =
            |known: &&Known| known.era == era && self.clock.steady() - known.since < AGE_MAX;
        stripe.under_way == 0 && known.filter(is_right).is_some_and(|known| known.value.is_none())
    }

    /// A batch is about to be sent.
    pub fn begin(&self, shard: ShardKey, batch: &Batch) -> Begun {
        let since = self.clock.steady();
        let era = self.delegations.era(shard, since);
        let mut stripe = self.stripe(shard);
        if !batch.only_reads() {
            stripe.changes += 1;
            stripe.under_way += 1;
            stripe.forget(shard, batch);
        }
        Begun { changes: stripe.changes, era, since }
    }

    /// It was answered.
    pub fn end(
        &self,
        shard: ShardKey,
        batch: &Batch,
        begun: Begun,
        outcome: Result<&Outcome, &StoreError>,
    ) {
        let mut stripe = self.stripe(shard);
        let unchanged = stripe.changes == begun.changes;
        if !batch.only_reads() {
            stripe.changes += 1;
            stripe.under_way -= 1;
            stripe.forget(shard, batch);
        }
        let era = begun.era.filter(|_| unchanged && stripe.under_way == 0);
        let (Ok(outcome), Some(era)) = (outcome, era) else { return };
        let delegated = Delegations::is_delegation(era);
        let mut learn = |field: &[u8], value: Option<&Bytes>| {
            let known = Known { value: value.cloned(), since: begun.since, era };
            stripe.learn((shard, field.to_vec()), known);
        };
        if outcome.applied() {
            for (field, value) in puts(batch) {
                learn(field, Some(value));
            }
        }
        for (read, value) in batch.reads.iter().zip(&outcome.values) {
            let Read::Field { field } = read else { continue };
            if is_kept(field) && value.is_some() || delegated && is_delegated(field) {
                learn(field, value.as_ref());
            }
        }
        if let [Read::Field { field: entry }, Read::Linked { field, at, length, prefix }] =
            &batch.reads[..]
            && let [Some(entry_value), value] = &outcome.values[..]
            && entry == field
            && let Some(link) = link(entry_value, *at, *length)
            && (value.is_some() || delegated)
        {
            learn(&[prefix, link].concat(), value.as_ref());
        }
    }

    /// What a batch that waits, and that nobody else knows of in this era, is going to put is known from now on.
    pub fn assume(&self, shard: ShardKey, batch: &Batch, era: u64) {
        let since = self.clock.steady();
        let mut stripe = self.stripe(shard);
        stripe.changes += 1;
        stripe.forget(shard, batch);
        // Else another change may be about the same.
        if stripe.under_way == 0 {
            for (field, value) in puts(batch) {
                let known = Known { value: Some(value.clone()), since, era };
                stripe.learn((shard, field.clone()), known);
            }
        }
    }

    /// What a batch that will be sent is going to change.
    pub fn forget(&self, shard: ShardKey, batch: &Batch) {
        let mut stripe = self.stripe(shard);
        stripe.changes += 1;
        stripe.forget(shard, batch);
    }

    /// Shards are about to go, or went.
    pub fn forget_shards(&self, shards: &[ShardKey]) {
        for shard in shards {
            let mut stripe = self.stripe(*shard);
            stripe.changes += 1;
            stripe.fields.retain(|(of, _), _| of != shard);
        }
    }

    fn stripe(&self, shard: ShardKey) -> MutexGuard<'_, Stripe> {
        let number = (shard.directory.0 as usize).wrapping_mul(16) + usize::from(shard.index);
        self.stripes[number % STRIPES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stripe {
    fn learn(&mut self, field: (ShardKey, Bytes), known: Known) {
        if self.fields.len() >= FIELDS_PER_STRIPE {
            self.fields.clear();
        }
        self.fields.insert(field, known);
    }

    fn forget(&mut self, shard: ShardKey, batch: &Batch) {
        for field in batch.updates.iter().map(Update::field) {
            self.fields.remove(&(shard, field.clone()));
        }
    }
}

/// The bytes of a value that refer to another field; `None` where it ends before them.
fn link(value: &[u8], at: u32, length: u32) -> Option<&[u8]> {
    value.get(at as usize..(at + length) as usize)
}

fn is_kept(field: &[u8]) -> bool {
    matches!(field.first(), Some(&(ENTRY_PREFIX | INODE_PREFIX)))
}

/// The values that a batch sets and does nothing else to.
fn puts(batch: &Batch) -> impl Iterator<Item = (&Bytes, &Bytes)> {
    let changes = |field| batch.updates.iter().filter(|update| update.field() == field).count();
    batch.updates.iter().filter_map(move |update| match update {
        Update::Put { field, value } => {
            (is_kept(field) && changes(field) == 1).then_some((field, value))
        }
        _ => None,
    })
}
