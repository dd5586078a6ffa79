//! Where an embedded store keeps its stripes: on the heap, or in a tmpfs that only it can see.

use tidefs_model::{Ino, StripeKey, StripeSize};

use crate::{Pin, StoreError, StripeRead, StripeWrite};

/// Ranges have been checked against the stripe size by the caller.
pub trait Home: Send + Sync {
    fn read(&self, read: &mut StripeRead<'_>) -> Result<(), StoreError>;

    fn write(&self, write: &StripeWrite<'_>) -> Result<(), StoreError>;

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError>;

    fn length(&self, key: StripeKey) -> Result<u32, StoreError>;

    /// The stripes of one of [`LANES`](super::lanes::LANES) parts.
    fn keys(&self, lane: u16) -> Result<Vec<StripeKey>, StoreError>;

    /// Memory in use by stripes and shards together.
    fn used_bytes(&self) -> Result<u64, StoreError>;

    /// How many stripes there are, about.
    fn stripes(&self) -> u64;

    /// Gives `bytes` more of the capacity to the shards; `false` when there are none to give.
    fn cede(&self, bytes: u64) -> bool;

    /// Takes back what the shards have left over.
    fn settle(&self);

    /// Removes all stripes of an inode, where they are kept together.
    fn remove(&self, _ino: Ino) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn pin(&self, _ino: Ino) -> Option<Pin> {
        None
    }

    fn unpin(&self, _ino: Ino) {}
}

/// The error of a store without room.
pub fn full() -> StoreError {
    StoreError::Full { endpoint: ENDPOINT.into() }
}

/// What people read where a node's address would stand.
pub const ENDPOINT: &str = "this machine's memory";

/// Refuses a range that reaches beyond a stripe.
pub fn check_range(size: StripeSize, offset: u32, length: usize) -> Result<(), StoreError> {
    let bytes = u64::from(offset) + length as u64;
    if bytes > u64::from(size.bytes()) { Err(StoreError::TooLarge { bytes }) } else { Ok(()) }
}
