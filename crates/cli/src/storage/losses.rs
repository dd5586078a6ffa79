//! What a store has lost with nodes that died.

use std::collections::BTreeMap;

use tidefs_model::{Granted, StripeKey};
use tidefs_store::{Store, StoreError, StripeRead};

use super::AnyStore;

impl AnyStore {
    /// Partitions that were lost with a node once, and are held by others now: what they held of
    /// inodes that had been granted is gone.
    pub fn losses(&self) -> BTreeMap<u16, Granted> {
        match self {
            AnyStore::Embedded(_) => BTreeMap::new(),
            AnyStore::Valkey(store) => store.inner().losses(),
        }
    }

    /// A byte of a stripe was lost with a node.
    pub fn has_lost(&self, key: StripeKey, offset: u32) -> bool {
        let mut byte = [0];
        let mut read = [StripeRead { key, offset, buffer: &mut byte }];
        let done = match self {
            AnyStore::Embedded(store) => store.read(&mut read),
            AnyStore::Valkey(store) => store.read(&mut read),
        };
        matches!(done, Err(StoreError::Lost { .. }))
    }

    /// Of a sealed stripe of an inode that may have lost seals: some are not there.
    pub fn may_lack_seals(&self, key: StripeKey) -> bool {
        let lacks = match self {
            AnyStore::Embedded(store) => tidefs_fs::may_lack_seals(store, key),
            AnyStore::Valkey(store) => tidefs_fs::may_lack_seals(store, key),
        };
        lacks.unwrap_or(false)
    }
}
