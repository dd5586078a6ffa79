//! How many bytes of a file lie in each partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::{Ino, Partition, ShardKey, StripeKey};
use tidefs_store::Store;

use super::DataPath;
use super::file::OpenFile;
use super::record::Record;
use super::regions::{keys_of, stripe_count};
use super::seek::with_buffered;
use crate::Error;

/// Stripes that one call of the store is asked about.
const STRIPES_PER_CALL: usize = 1024;
/// Stripes that are asked about; those behind them count as whole where their region has any.
const STRIPES_MAX: usize = 16 * STRIPES_PER_CALL;

impl<S: Store> DataPath<S> {
    /// Of a file of this size. What this mount has still to send, it counts where it will lie.
    pub fn by_partition(
        &self,
        (home, ino): (ShardKey, Ino),
        size: u64,
        open: Option<&OpenFile<S>>,
    ) -> Result<BTreeMap<Partition, u64>, Error> {
        let record = Record::new(Arc::clone(&self.store), home, ino);
        let buffered = open.map(OpenFile::unsent_ends).unwrap_or_default();
        let stripe_bytes = u64::from(self.stripe_size.bytes());
        let stripes = 0..stripe_count(self.stripe_size, size);
        let parts = with_buffered(record.parts(stripes.clone())?, stripes, &buffered);
        let (mut found, mut left) = (BTreeMap::new(), STRIPES_MAX);
        for part in &parts {
            let keys: Vec<StripeKey> = keys_of(ino, part).collect();
            for keys in keys.chunks(STRIPES_PER_CALL) {
                let lengths = match left.checked_sub(keys.len()) {
                    Some(rest) => {
                        left = rest;
                        self.store.lengths(keys)?
                    }
                    None => vec![self.stripe_size.bytes(); keys.len()],
                };
                for (key, length) in keys.iter().zip(lengths) {
                    let index = u64::from(key.index);
                    let end = length.max(buffered.get(&index).copied().unwrap_or(0));
                    // More may be there than the size covers.
                    let bytes = u64::from(end).min(size.saturating_sub(index * stripe_bytes));
                    if bytes > 0 {
                        *found.entry(key.partition()).or_default() += bytes;
                    }
                }
            }
        }
        Ok(found)
    }
}
