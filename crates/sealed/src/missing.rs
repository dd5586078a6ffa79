//! Whether seals of a stripe were lost, for those who look for losses. This needs no key, and opens nothing.

use tidefs_model::{Partition, StripeKey};
use tidefs_store::{Batch, Store, StoreError};

use crate::layout::{field_of, shard_of};
use crate::record::says_of_losses;

/// Where the seals of a stripe lie.
pub fn partition_of_seals(key: StripeKey) -> Partition {
    shard_of(key).partition()
}

/// Of a stripe of an inode that may have lost seals: there are none, or they are said not to be all. It may have been cut
/// or punched since; who reads it knows.
pub fn may_lack_seals(store: &impl Store, key: StripeKey) -> Result<bool, StoreError> {
    let read = Batch::new().read(field_of(key));
    let record = store.batch(shard_of(key), &read)?.take(0);
    Ok(record.is_none_or(|record| says_of_losses(&record)))
}
