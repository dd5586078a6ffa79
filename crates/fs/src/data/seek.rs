//! Where a file has data and where it has holes, stripe by stripe: a stripe's bytes up to its
//! stored or buffered length are data.

use std::collections::BTreeMap;
use std::ops::Range;

use tidefs_model::StripeKey;
use tidefs_store::Store;

use super::regions::{Part, keys_of, stripe_count};
use super::striped::Striped;
use crate::{Error, Seek};

/// Stripes that one call of the store is asked about.
const STRIPES_PER_CALL: usize = 256;

impl<S: Store> Striped<S> {
    pub fn seek(&self, offset: u64, seek: Seek) -> Result<u64, Error> {
        let _shared = self.with_others();
        let (size, buffered) = self.ends();
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        let first = u64::from(self.path.stripe_size.index_of(offset));
        let stripes = first..stripe_count(self.path.stripe_size, size);
        let mut scan = Scan { at: offset, seek, size, stripe_bytes: self.path.stripe_size.bytes() };
        // A hole is usually near: the file's end at the latest. Only data may be far away.
        let near = stripes.start..stripes.end.min(first + STRIPES_PER_CALL as u64);
        for range in [near.clone(), near.end..stripes.end] {
            if let Some(found) = self.scan(&mut scan, range, &buffered)? {
                return Ok(found);
            }
        }
        scan.end()
    }

    /// Of the file, and of each stripe that is still to be sent.
    pub fn ends(&self) -> (u64, BTreeMap<u64, u32>) {
        let state = self.state();
        let ends = state.stripes.iter().map(|(&index, stripe)| (u64::from(index), stripe.end()));
        (state.size(), ends.collect())
    }

    fn scan(
        &self,
        scan: &mut Scan,
        stripes: Range<u64>,
        buffered: &BTreeMap<u64, u32>,
    ) -> Result<Option<u64>, Error> {
        if stripes.is_empty() {
            return Ok(None);
        }
        let parts = with_buffered(self.record.parts(stripes.clone())?, stripes, buffered);
        for part in &parts {
            let keys: Vec<StripeKey> = keys_of(self.ino(), part).collect();
            for keys in keys.chunks(STRIPES_PER_CALL) {
                let lengths = self.path.store.lengths(keys)?;
                for (key, length) in keys.iter().zip(lengths) {
                    let index = u64::from(key.index);
                    let end = length.max(buffered.get(&index).copied().unwrap_or(0));
                    if let Some(found) = scan.stripe(index, end) {
                        return Ok(Some(found));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Adds the buffered stripes that lie in none of the parts.
pub(super) fn with_buffered(
    mut parts: Vec<Part>,
    stripes: Range<u64>,
    buffered: &BTreeMap<u64, u32>,
) -> Vec<Part> {
    for (&index, _) in buffered.range(stripes) {
        if !parts.iter().any(|part| part.stripes.contains(&index)) {
            let region = super::regions::region_of(index as u32);
            parts.push(Part { region, stripes: index..index + 1 });
        }
    }
    parts.sort_by_key(|part| part.stripes.start);
    parts
}

/// A search on its way through the stripes in order; those that it is not told of are holes.
struct Scan {
    /// Everything from the first offset up to here is not what is looked for.
    at: u64,
    seek: Seek,
    size: u64,
    stripe_bytes: u32,
}

impl Scan {
    /// The next stripe has data in its first `length` bytes.
    fn stripe(&mut self, index: u64, length: u32) -> Option<u64> {
        let start = index * u64::from(self.stripe_bytes);
        let data_end = start + u64::from(length.min(self.stripe_bytes));
        match self.seek {
            Seek::Data => {
                let data = self.at.max(start);
                (data < data_end.min(self.size)).then_some(data)
            }
            // What was passed over before this stripe, or is left of it, is a hole.
            Seek::Hole if self.at < start || self.at >= data_end => Some(self.at),
            Seek::Hole => {
                self.at = data_end;
                (length < self.stripe_bytes).then_some(data_end.min(self.size))
            }
        }
    }

    /// There are no more stripes.
    fn end(self) -> Result<u64, Error> {
        match self.seek {
            Seek::Data => Err(Error::NoSuchOffset),
            Seek::Hole => Ok(self.at.min(self.size)),
        }
    }
}
