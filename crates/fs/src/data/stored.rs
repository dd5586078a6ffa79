//! How many bytes of a file the store has, by stripe: their sum, for files of which that is less than the
//! size says, and what lies in each partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::{Ino, Partition, ShardKey, StripeKey};
use tidefs_store::Store;

use super::DataPath;
use super::file::OpenFile;
use super::record::Record;
use super::regions::{keys_of, stripe_count};
use super::seek::with_buffered;
use super::striped::Striped;
use crate::Error;

/// Stripes that one call of the store is asked about.
const STRIPES_PER_CALL: usize = 1024;
/// Stripes that are asked about; those behind them count as stored where their region has any.
const STRIPES_MAX: usize = 16 * STRIPES_PER_CALL;

impl<S: Store> DataPath<S> {
    /// Of a file that is not open here.
    pub fn stored_bytes(&self, home: ShardKey, ino: Ino, size: u64) -> Result<u64, Error> {
        let record = Record::new(Arc::clone(&self.store), home, ino);
        self.sum(&record, size, &BTreeMap::new())
    }

    /// What lies in each partition of a file of this size. What this mount has still to send, it counts
    /// where it will lie.
    pub fn by_partition(
        &self,
        (home, ino): (ShardKey, Ino),
        size: u64,
        open: Option<&OpenFile<S>>,
    ) -> Result<BTreeMap<Partition, u64>, Error> {
        let record = Record::new(Arc::clone(&self.store), home, ino);
        let buffered = open.map(OpenFile::unsent_ends).unwrap_or_default();
        let mut found = BTreeMap::new();
        self.each_stripe(&record, size, &buffered, |key, bytes| {
            *found.entry(key.partition()).or_default() += bytes;
        })?;
        Ok(found)
    }

    fn sum(
        &self,
        record: &Record<S>,
        size: u64,
        buffered: &BTreeMap<u64, u32>,
    ) -> Result<u64, Error> {
        let mut sum = 0;
        self.each_stripe(record, size, buffered, |_, bytes| sum += bytes)?;
        Ok(sum)
    }

    /// Tells of each stripe that has bytes below the size how many.
    /// `buffered`: up to where stripes are that are still to be sent.
    fn each_stripe(
        &self,
        record: &Record<S>,
        size: u64,
        buffered: &BTreeMap<u64, u32>,
        mut tell: impl FnMut(&StripeKey, u64),
    ) -> Result<(), Error> {
        let whole = self.stripe_size.bytes();
        let stripes = 0..stripe_count(self.stripe_size, size);
        let parts = with_buffered(record.parts(stripes.clone())?, stripes, buffered);
        let mut left = STRIPES_MAX;
        for part in &parts {
            let keys: Vec<StripeKey> = keys_of(record.ino, part).collect();
            for keys in keys.chunks(STRIPES_PER_CALL) {
                let lengths = match left.checked_sub(keys.len()) {
                    Some(rest) => {
                        left = rest;
                        self.store.lengths(keys)?
                    }
                    None => vec![whole; keys.len()],
                };
                for (key, length) in keys.iter().zip(lengths) {
                    let index = u64::from(key.index);
                    let end = length.max(buffered.get(&index).copied().unwrap_or(0));
                    // Of the last stripe more may be there than the size covers.
                    let bytes = u64::from(end).min(size.saturating_sub(index * u64::from(whole)));
                    if bytes > 0 {
                        tell(key, bytes);
                    }
                }
            }
        }
        Ok(())
    }
}

impl<S: Store> Striped<S> {
    pub fn stored_bytes(&self) -> Result<u64, Error> {
        let (size, buffered) = self.ends();
        self.path.sum(&self.record, size, &buffered)
    }
}
