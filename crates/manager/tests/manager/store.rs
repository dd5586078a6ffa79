//! A store that a dead manager cannot reach, and whose journal lies on a node that may end.

use std::sync::Arc;

use tidefs_model::{ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Embedded, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead,
    StripeWrite,
};

use crate::world::{Life, Shared, lock};

/// Changes count as effects of the manager's life.
pub struct Mortal {
    pub inner: Arc<Embedded>,
    pub life: Arc<Life>,
    pub world: Shared,
}

impl Mortal {
    fn reach(&self, only_reads: bool) -> Result<&Embedded, StoreError> {
        let alive = if only_reads { self.life.look() } else { self.life.act() };
        alive.map_err(|_| StoreError::Unavailable { endpoint: "killed".into() })?;
        Ok(&self.inner)
    }
}

impl Store for Mortal {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        let inner = self.reach(batch.only_reads())?;
        let lost = lock(&self.world).use_journal();
        if lost.has_ended {
            inner.delete_shards(&[shard])?;
        }
        if lost.is_out_of_reach {
            return Err(StoreError::Unavailable { endpoint: "the journal's node".into() });
        }
        inner.batch(shard, batch)
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.reach(false)?.batches(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.reach(true)?.list(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.reach(true)?.keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.reach(false)?.delete_shards(shards)
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.reach(true)?.read(reads)
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        self.reach(false)?.write(writes)
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.reach(false)?.trim(trims)
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.reach(true)?.lengths(stripes)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.reach(true)?.overview()
    }
}
