//! Walking the store: every shard with its records, every stripe's key.

use std::collections::{BTreeMap, HashSet};

use tidefs_model::{Ino, ShardKey, StripeKey};
use tidefs_store::{Batch, Bytes, Cursor, Key, Store};

use super::Check;
use crate::error::Error;
use crate::keys;

/// Shards whose records are in memory at the same time.
const SHARDS_AT_A_TIME: usize = 32;

/// The records of a shard by field.
pub type Fields = BTreeMap<Bytes, Bytes>;

/// A shard as it was read.
pub struct Shard {
    pub key: ShardKey,
    pub fields: Fields,
    /// Nothing changed its entries while they were read.
    pub steady: bool,
}

impl<S: Store> Check<'_, S> {
    /// Shows every shard once.
    pub fn each_shard(
        &self,
        mut see: impl FnMut(&Shard) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut seen = HashSet::new();
        self.each_page(|keys| {
            let shards = keys.iter().filter_map(|key| match key {
                Key::Shard(shard) => Some(*shard),
                Key::Stripe(_) => None,
            });
            let new: Vec<_> = shards.filter(|&shard| seen.insert(shard)).collect();
            for some in new.chunks(SHARDS_AT_A_TIME) {
                for shard in self.read_shards(some)? {
                    see(&shard)?;
                }
            }
            Ok(())
        })
    }

    /// Shows every stripe's key at least once, many at a time.
    pub fn each_stripe(
        &self,
        mut see: impl FnMut(Vec<StripeKey>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.each_page(|keys| {
            let stripes = keys.iter().filter_map(|key| match key {
                Key::Stripe(stripe) => Some(*stripe),
                Key::Shard(_) => None,
            });
            see(stripes.collect())
        })
    }

    fn each_page(&self, mut see: impl FnMut(&[Key]) -> Result<(), Error>) -> Result<(), Error> {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let page = self.store.keys(&from)?;
            see(&page.keys)?;
            cursor = page.next;
        }
        Ok(())
    }

    /// Reads shards whole; what several pages say of one is put together.
    fn read_shards(&self, keys: &[ShardKey]) -> Result<Vec<Shard>, Error> {
        let from_start: Vec<_> = keys.iter().map(|key| (*key, Cursor::default())).collect();
        let pages = self.store.list(&from_start)?;
        let mut shards = Vec::with_capacity(keys.len());
        for (&key, page) in keys.iter().zip(pages) {
            shards.push(match page.next {
                None => Shard { key, fields: page.fields.into_iter().collect(), steady: true },
                Some(_) => self.read_by_pages(key)?,
            });
        }
        Ok(shards)
    }

    pub fn read_shard(&self, key: ShardKey) -> Result<Shard, Error> {
        self.read_by_pages(key)
    }

    /// Each change of the entries changes the header.
    fn read_by_pages(&self, key: ShardKey) -> Result<Shard, Error> {
        let before = self.header(key)?;
        let mut fields = Fields::new();
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let page = self.store.list(&[(key, from)])?.pop().unwrap_or_default();
            fields.extend(page.fields);
            cursor = page.next;
        }
        let steady = before == self.header(key)?;
        Ok(Shard { key, fields, steady })
    }

    fn header(&self, shard: ShardKey) -> Result<Option<Bytes>, Error> {
        Ok(self.store.batch(shard, &Batch::new().read(keys::HEADER))?.take(0))
    }
}

/// The inode that a field of a home shard is about.
pub fn ino_of(field: &[u8]) -> Option<Ino> {
    let (kind, number) = field.split_first()?;
    let number = match kind {
        b'i' | b'a' | b'l' | b'o' | b'g' => number.try_into().ok()?,
        b'r' if number.len() == 12 => *number.first_chunk()?,
        _ => return None,
    };
    Some(Ino(u64::from_be_bytes(number)))
}
