//! Batches that go to the store at once, and what is remembered of them.

use tidefs_model::ShardKey;
use tidefs_store::{Batch, Outcome, Store, StoreError, StripeWrite};

use super::Deferring;

impl<S: Store> Deferring<S> {
    /// The answer to a batch that asks for what is known.
    pub(super) fn answer(&self, shard: ShardKey, batch: &Batch) -> Option<Outcome> {
        self.known.as_ref()?.answer(shard, batch)
    }

    pub(super) fn batch_now(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.batch_after(shard, batch, || ())
    }

    /// The batch is sent after `first`. It begins before that: what comes to wait after `first` keeps
    /// it from being learnt from.
    pub(super) fn batch_after(
        &self,
        shard: ShardKey,
        batch: &Batch,
        first: impl FnOnce(),
    ) -> Result<Outcome, StoreError> {
        let begun = self.known.as_ref().map(|known| (known, known.begin(shard, batch)));
        first();
        let outcome = self.store.batch(shard, batch);
        if let Some((known, begun)) = begun {
            known.end(shard, batch, begun, outcome.as_ref());
        }
        outcome
    }

    pub(super) fn batches_now(
        &self,
        batches: &[(ShardKey, Batch)],
    ) -> Result<Vec<Outcome>, StoreError> {
        self.batches_after(batches, || ())
    }

    pub(super) fn batches_after(
        &self,
        batches: &[(ShardKey, Batch)],
        first: impl FnOnce(),
    ) -> Result<Vec<Outcome>, StoreError> {
        let each = || batches.iter().map(|(shard, batch)| (*shard, batch));
        let begun = self.known.as_ref().map(|known| {
            (known, each().map(|(shard, batch)| known.begin(shard, batch)).collect::<Vec<_>>())
        });
        first();
        let outcomes = self.store.batches(batches);
        if let Some((known, begun)) = begun {
            for (number, ((shard, batch), begun)) in each().zip(begun).enumerate() {
                let outcome = outcomes.as_ref().map(|outcomes| &outcomes[number]);
                known.end(shard, batch, begun, outcome);
            }
        }
        outcomes
    }

    pub(super) fn write_and_batch_now(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        self.write_and_batch_after(writes, shard, batch, || ())
    }

    pub(super) fn write_and_batch_after(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
        first: impl FnOnce(),
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        let begun = self.known.as_ref().map(|known| (known, known.begin(shard, batch)));
        first();
        let (written, outcome) = self.store.write_and_batch(writes, shard, batch);
        if let Some((known, begun)) = begun {
            known.end(shard, batch, begun, outcome.as_ref());
        }
        (written, outcome)
    }
}
