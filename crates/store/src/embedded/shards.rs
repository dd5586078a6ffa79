//! All shards of an embedded store, and the budget they live within.

use std::collections::HashMap;
use std::sync::Arc;

use tidefs_model::ShardKey;

use super::budget::Budget;
use super::lanes::Lanes;
use super::shard::{Shard, unchanged};
use crate::{Batch, Cursor, Outcome, Page};

/// The budget is this many bytes short of what a batch needs, or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub bytes: u64,
}

#[derive(Debug)]
pub struct Shards {
    /// A shard without fields is not kept.
    lanes: Lanes<HashMap<ShardKey, Shard>>,
    budget: Arc<Budget>,
}

impl Shards {
    pub fn new(budget: Arc<Budget>) -> Shards {
        Shards { lanes: Lanes::new(), budget }
    }

    /// Applies a batch while its lane is locked; nothing has changed when the budget falls short.
    pub fn batch(&self, key: ShardKey, batch: &Batch) -> Result<Outcome, Shortfall> {
        if batch.only_reads() {
            let lane = self.lanes.read(lane_of(key));
            return Ok(match lane.get(&key) {
                Some(shard) => unchanged(shard, batch),
                None => unchanged(&Shard::default(), batch),
            });
        }
        let mut lane = self.lanes.write(lane_of(key));
        let shard = lane.entry(key).or_default();
        let outcome = self.apply(shard, batch);
        if shard.is_empty() {
            lane.remove(&key);
        }
        outcome
    }

    fn apply(&self, shard: &mut Shard, batch: &Batch) -> Result<Outcome, Shortfall> {
        let shard_was_empty = shard.is_empty();
        let refused_by = shard.refuse(&batch.checks);
        if refused_by.is_none() {
            let reserved = self.reserve(shard, batch)?;
            let before = shard.bytes();
            shard.update(&batch.updates);
            self.budget.release(before + reserved - shard.bytes());
        }
        Ok(Outcome { refused_by, shard_was_empty, values: shard.answer(&batch.reads) })
    }

    /// Takes what the batch may need from the budget and answers how much that was.
    fn reserve(&self, shard: &Shard, batch: &Batch) -> Result<u64, Shortfall> {
        let bound = shard.growth_bound(&batch.updates);
        if batch.reclaims {
            self.budget.force(bound);
            return Ok(bound);
        }
        if self.budget.reserve(bound) {
            return Ok(bound);
        }
        let bytes = shard.growth(&batch.updates);
        if self.budget.reserve(bytes) { Ok(bytes) } else { Err(Shortfall { bytes }) }
    }

    pub fn page(&self, key: ShardKey, cursor: &Cursor) -> Page {
        let lane = self.lanes.read(lane_of(key));
        lane.get(&key).map(|shard| shard.page(cursor)).unwrap_or_default()
    }

    pub fn delete(&self, key: ShardKey) {
        let removed = self.lanes.write(lane_of(key)).remove(&key);
        if let Some(shard) = removed {
            self.budget.release(shard.bytes());
        }
    }

    /// The shards of one lane.
    pub fn keys(&self, lane: u16) -> Vec<ShardKey> {
        self.lanes.read(lane).keys().copied().collect()
    }

    pub fn count(&self) -> u64 {
        self.lanes.sum(HashMap::len)
    }
}

fn lane_of(key: ShardKey) -> u16 {
    key.partition().number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_model::Ino;

    const KEY: ShardKey = ShardKey { directory: Ino(7), index: 3 };

    #[test]
    fn the_budget_follows_every_change_and_returns_to_nothing() {
        let budget = Arc::new(Budget::new(1 << 20));
        let shards = Shards::new(Arc::clone(&budget));
        shards.batch(KEY, &Batch::new().put("a", [1; 100]).add("n", 0, 5)).unwrap();
        assert_eq!(shards.count(), 1);
        let full = budget.used_bytes();
        assert!(full > 100);
        shards.batch(KEY, &Batch::new().put("a", [1; 10])).unwrap();
        assert_eq!(budget.used_bytes(), full - 90);
        shards.batch(KEY, &Batch::new().absent("a").put("b", [1; 10])).unwrap();
        assert_eq!(budget.used_bytes(), full - 90, "a refused batch takes nothing");
        shards.batch(KEY, &Batch::new().delete("a").delete("n")).unwrap();
        assert_eq!((budget.used_bytes(), shards.count()), (0, 0));
        shards.batch(KEY, &Batch::new().put("a", "")).unwrap();
        shards.delete(KEY);
        assert_eq!((budget.used_bytes(), shards.count()), (0, 0));
    }

    #[test]
    fn a_batch_that_does_not_fit_changes_nothing_and_leaves_no_shard() {
        let budget = Arc::new(Budget::new(1_000));
        let shards = Shards::new(Arc::clone(&budget));
        let refused = shards.batch(KEY, &Batch::new().put("a", [1; 2_000]));
        assert!(matches!(refused, Err(Shortfall { bytes: 2_001.. })), "{refused:?}");
        assert_eq!((budget.used_bytes(), shards.count()), (0, 0));
        shards.batch(KEY, &Batch::new().put("a", [1; 2_000]).reclaims()).unwrap();
        assert!(budget.used_bytes() > 2_000);
        shards.batch(KEY, &Batch::new().patch("a", 1_990, [2; 10])).unwrap();
        shards.batch(KEY, &Batch::new().patch("a", 1_991, [2; 10])).unwrap_err();
    }
}
