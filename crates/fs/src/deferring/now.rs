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
        let Some(known) = &self.known else { return self.store.batch(shard, batch) };
        let begun = known.begin(shard, batch);
        let outcome = self.store.batch(shard, batch);
        known.end(shard, batch, begun, outcome.as_ref());
        outcome
    }

    pub(super) fn batches_now(
        &self,
        batches: &[(ShardKey, Batch)],
    ) -> Result<Vec<Outcome>, StoreError> {
        let Some(known) = &self.known else { return self.store.batches(batches) };
        let begun: Vec<_> =
            batches.iter().map(|(shard, batch)| known.begin(*shard, batch)).collect();
        let outcomes = self.store.batches(batches);
        for (number, ((shard, batch), begun)) in batches.iter().zip(begun).enumerate() {
            let outcome = outcomes.as_ref().map(|outcomes| &outcomes[number]);
            known.end(*shard, batch, begun, outcome);
        }
        outcomes
    }

    pub(super) fn write_and_batch_now(
        &self,
        writes: &[StripeWrite<'_>],
        shard: ShardKey,
        batch: &Batch,
    ) -> (Result<(), StoreError>, Result<Outcome, StoreError>) {
        let Some(known) = &self.known else {
            return self.store.write_and_batch(writes, shard, batch);
        };
        let begun = known.begin(shard, batch);
        let (written, outcome) = self.store.write_and_batch(writes, shard, batch);
        known.end(shard, batch, begun, outcome.as_ref());
        (written, outcome)
    }
}
