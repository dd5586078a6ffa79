//! How much of a file the store has, for files of which that is less than the size says.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidefs_model::{Ino, ShardKey, StripeKey};
use tidefs_store::Store;

use super::DataPath;
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
        self.count_stored(&record, size, &BTreeMap::new())
    }

    /// `buffered`: up to where stripes are that are still to be sent.
    fn count_stored(
        &self,
        record: &Record<S>,
        size: u64,
        buffered: &BTreeMap<u64, u32>,
    ) -> Result<u64, Error> {
        let stripes = 0..stripe_count(self.stripe_size, size);
        let parts = with_buffered(record.parts(stripes.clone())?, stripes, buffered);
        let (mut bytes, mut left) = (0, STRIPES_MAX);
        for part in &parts {
            let keys: Vec<StripeKey> = keys_of(record.ino, part).collect();
            for keys in keys.chunks(STRIPES_PER_CALL) {
                if left < keys.len() {
                    bytes += keys.len() as u64 * u64::from(self.stripe_size.bytes());
                    continue;
                }
                left -= keys.len();
                let ends = keys.iter().zip(self.store.lengths(keys)?).map(|(key, length)| {
                    length.max(buffered.get(&u64::from(key.index)).copied().unwrap_or(0))
                });
                bytes += ends.map(u64::from).sum::<u64>();
            }
        }
        // Of the last stripe more may be there than the size covers.
        Ok(bytes.min(size))
    }
}

impl<S: Store> Striped<S> {
    pub fn stored_bytes(&self) -> Result<u64, Error> {
        let (size, buffered) = self.ends();
        self.path.count_stored(&self.record, size, &buffered)
    }
}
