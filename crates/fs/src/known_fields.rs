//! Entries and inodes as they lie in the store, remembered by a mount that is alone: it makes every
//! change itself, so what it read or wrote last is what it would read.
//!
//! This is a layer between the mount and the store. A batch that only reads remembered fields takes
//! no round. A batch that changes anything in a shard makes its fields forgotten when it begins and
//! again when it ends; what was read meanwhile is not kept. What was learnt in one time of being
//! alone is not used in another, nor when this mount cannot know any more whether somebody else has
//! come, nor for longer than [`AGE_MAX`]: nodes may lose what they held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Clock, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Read, StoreError, Update};

use crate::keys::{ENTRY_PREFIX, INODE_PREFIX};
use crate::membership::Solitude;

const STRIPES: usize = 64;
/// With 64 stripes this is a quarter of a million fields, some tens of MiB.
const FIELDS_PER_STRIPE: usize = 4_096;
const AGE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct KnownFields {
    stripes: Vec<Mutex<Stripe>>,
    solitude: Arc<Solitude>,
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
    value: Bytes,
    since: Time,
    alone: u64,
}

/// How a stripe was when a batch began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    changes: u64,
    alone: Option<u64>,
    since: Time,
}

impl KnownFields {
    pub fn new(solitude: Arc<Solitude>, clock: Arc<dyn Clock>) -> KnownFields {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        KnownFields { stripes, solitude, clock }
    }

    /// The answer to a batch, where it is known.
    pub fn answer(&self, shard: ShardKey, batch: &Batch) -> Option<Outcome> {
        if !batch.checks.is_empty() || !batch.updates.is_empty() || batch.reads.is_empty() {
            return None;
        }
        let now = self.clock.steady();
        let alone = self.solitude.time_alone(now)?;
        let stripe = self.stripe(shard);
        let known = |field: &[u8]| {
            let known = stripe.fields.get(&(shard, field.to_vec()))?;
            let is_right = known.alone == alone && now - known.since < AGE_MAX;
            is_right.then_some(&known.value)
        };
        let values = batch.reads.iter().map(|read| match read {
            Read::Field { field } => known(field).cloned(),
            Read::Linked { field, at, length, prefix } => {
                let (at, length) = (*at as usize, *length as usize);
                let link = known(field)?.get(at..at + length)?;
                known(&[prefix, link].concat()).cloned()
            }
        });
        let values = values.map(|value| value.map(Some)).collect::<Option<_>>()?;
        Some(Outcome { refused_by: None, shard_was_empty: false, values })
    }

    /// A batch is about to be sent.
    pub fn begin(&self, shard: ShardKey, batch: &Batch) -> Begun {
        let since = self.clock.steady();
        let alone = self.solitude.time_alone(since);
        let mut stripe = self.stripe(shard);
        if !batch.only_reads() {
            stripe.changes += 1;
            stripe.under_way += 1;
            stripe.forget(shard, batch);
        }
        Begun { changes: stripe.changes, alone, since }
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
        let alone = begun.alone.filter(|_| unchanged && stripe.under_way == 0);
        let (Ok(outcome), Some(alone)) = (outcome, alone) else { return };
        let mut learn = |field: &[u8], value: &[u8]| {
            let known = Known { value: value.to_vec(), since: begun.since, alone };
            stripe.learn((shard, field.to_vec()), known);
        };
        if outcome.applied() {
            for (field, value) in puts(batch) {
                learn(field, value);
            }
        }
        for (read, value) in batch.reads.iter().zip(&outcome.values) {
            if let (Read::Field { field }, Some(value)) = (read, value)
                && is_kept(field)
            {
                learn(field, value);
            }
        }
        if let [Read::Field { field: entry }, Read::Linked { field, at, length, prefix }] =
            &batch.reads[..]
            && let [Some(entry_value), Some(value)] = &outcome.values[..]
            && entry == field
            && let Some(link) = entry_value.get(*at as usize..(*at + *length) as usize)
        {
            learn(&[prefix, link].concat(), value);
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
