//! Where seals lie.
//!
//! An inode's seals are fields of shards of its own number, which no directory has: indices from
//! [`FIRST_SHARD`] on, one for each thousand of its stripes.

use std::collections::BTreeMap;

use tidefs_model::{ShardKey, StripeKey};
use tidefs_store::Bytes;

use crate::record::Record;

/// Above the indices of all shards of directories.
pub const FIRST_SHARD: u16 = 1 << 15;
const STRIPES_PER_SHARD: u32 = 1_024;
const FIELD: u8 = b's';

/// The seals of a stripe as they were read, or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub record: Record,
    /// The store has no record of the stripe.
    pub is_absent: bool,
}

impl Default for Held {
    fn default() -> Held {
        Held { record: Record::default(), is_absent: true }
    }
}

impl Held {
    pub fn of(record: Record) -> Held {
        Held { is_absent: record.is_empty(), record }
    }
}

pub fn shard_of(key: StripeKey) -> ShardKey {
    let region = (key.index / STRIPES_PER_SHARD) as u16 % FIRST_SHARD;
    ShardKey { directory: key.ino, index: FIRST_SHARD + region }
}

pub fn field_of(key: StripeKey) -> Bytes {
    let mut field = vec![FIELD];
    field.extend(key.index.to_be_bytes());
    field
}

/// The stripe that a field of a shard of seals is about.
pub fn stripe_of(shard: ShardKey, field: &[u8]) -> Option<StripeKey> {
    let (kind, index) = field.split_first()?;
    let index = u32::from_be_bytes(index.try_into().ok()?);
    (*kind == FIELD).then_some(StripeKey { ino: shard.directory, index })
}

pub fn is_of_seals(shard: ShardKey) -> bool {
    shard.index >= FIRST_SHARD
}

/// Puts what belongs to one shard together.
pub fn by_shard<T>(
    items: impl IntoIterator<Item = (StripeKey, T)>,
) -> BTreeMap<ShardKey, Vec<(StripeKey, T)>> {
    let mut shards: BTreeMap<ShardKey, Vec<(StripeKey, T)>> = BTreeMap::new();
    for (key, item) in items {
        shards.entry(shard_of(key)).or_default().push((key, item));
    }
    shards
}
