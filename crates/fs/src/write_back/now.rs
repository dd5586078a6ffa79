//! Batches that go to the store at once, and what is remembered of them.

use tidefs_model::ShardKey;
use tidefs_store::{Batch, Cursor, Outcome, Page, Store, StoreError, StripeWrite};

use super::WriteBack;

impl<S: Store> WriteBack<S> {
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
        let (outcome, delegation) = self.send(shard, batch);
        if let Some((known, begun)) = begun {
            known.end(shard, batch, begun.or_in(delegation), outcome.as_ref());
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
        let sent = self.send_all(batches);
        if let Some((known, begun)) = begun {
            for (number, ((shard, batch), begun)) in each().zip(begun).enumerate() {
                let sent = sent.as_ref().map(|sent| &sent[number]);
                let delegation = sent.ok().and_then(|(_, delegation)| *delegation);
                known.end(shard, batch, begun.or_in(delegation), sent.map(|(outcome, _)| outcome));
            }
        }
        Ok(sent?.into_iter().map(|(outcome, _)| outcome).collect())
    }

    /// Batches of which the answers to some may be known. Those that only read are all asked where what is
    /// known ends meanwhile: answers that are older than others may make up what never was.
    pub(super) fn batches_unknown(
        &self,
        batches: &[(ShardKey, Batch)],
    ) -> Result<Vec<Outcome>, StoreError> {
        let eras = self.eras(batches.iter().map(|(shard, _)| *shard));
        let known: Vec<_> =
            batches.iter().map(|(shard, batch)| self.answer(*shard, batch)).collect();
        let unknown = batches.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(batch, _)| batch.clone()).collect();
        if unknown.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let settle = || self.settle(unknown.iter().map(|(shard, _)| *shard));
        let settle_all = || self.settle(batches.iter().map(|(shard, _)| *shard));
        let only_reads = unknown.iter().all(|(_, batch)| batch.only_reads());
        let asked = self.batches_after(&unknown, settle)?;
        if only_reads && unknown.len() < batches.len() && !self.are_now(&known, &eras) {
            return self.batches_after(batches, settle_all);
        }
        let mut asked = asked.into_iter();
        Ok(known.into_iter().filter_map(|known| known.or_else(|| asked.next())).collect())
    }

    /// Lists shards; what was listed under a delegation is not listed again, unless it ends meanwhile.
    pub(super) fn list_unknown(
        &self,
        shards: &[(ShardKey, Cursor)],
    ) -> Result<Vec<Page>, StoreError> {
        let eras = self.eras(shards.iter().map(|(shard, _)| *shard));
        let known: Vec<_> =
            shards.iter().map(|(shard, from)| self.delegations.listed(*shard, from)).collect();
        let unknown = shards.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(from, _)| from.clone()).collect();
        if unknown.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let delegations: Vec<_> =
            unknown.iter().map(|(shard, from)| self.delegations.listing(*shard, from)).collect();
        let pages = self.list_guarded(&unknown)?;
        for (((shard, _), delegation), page) in unknown.iter().zip(delegations).zip(&pages) {
            self.delegations.keep_listed(*shard, delegation, page);
        }
        if unknown.len() < shards.len() && !self.are_now(&known, &eras) {
            return self.list_guarded(shards);
        }
        let mut pages = pages.into_iter();
        Ok(known.into_iter().filter_map(|known| known.or_else(|| pages.next())).collect())
    }

    /// What each of the shards is known by at this moment.
    fn eras(&self, shards: impl Iterator<Item = ShardKey>) -> Vec<(ShardKey, Option<u64>)> {
        let now = self.delegations.now();
        shards.map(|shard| (shard, self.delegations.era(shard, now))).collect()
    }

    /// What was known then is still right.
    fn are_now<T>(&self, known: &[Option<T>], eras: &[(ShardKey, Option<u64>)]) -> bool {
        let now = self.delegations.now();
        let mut used = known.iter().zip(eras).filter(|(known, _)| known.is_some());
        used.all(|(_, (shard, era))| era.is_some() && self.delegations.era(*shard, now) == *era)
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
        let (written, outcome) = self.send_with(writes, shard, batch);
        self.given_up.note(&written, writes.iter().map(|write| write.key));
        if let Some((known, begun)) = begun {
            known.end(shard, batch, begun, outcome.as_ref());
        }
        (written, outcome)
    }
}
