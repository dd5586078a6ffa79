//! Cutting stripes: the seals go first, so that what is cut off reads as zeros from then on; a block
//! that is cut in its middle keeps its bytes, and less of them is seen.

use std::collections::BTreeMap;

use tidefs_model::StripeKey;
use tidefs_store::{Batch, Store, StoreError};

use crate::change::Change;
use crate::record::{Geometry, Record, Seal};
use crate::sealed::{Sealed, Seals};
use crate::table::{by_shard, field_of};

const ATTEMPTS: u32 = 1_000;

impl<S: Store> Sealed<S> {
    pub(crate) fn trim_sealed(
        &self,
        seals: &Seals,
        trims: &[(StripeKey, u32)],
    ) -> Result<(), StoreError> {
        let mut least: BTreeMap<StripeKey, u32> = BTreeMap::new();
        for &(key, length) in trims {
            let known = least.entry(key).or_insert(length);
            *known = length.min(*known);
        }
        let (whole, parts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            least.into_iter().partition(|(_, length)| *length == 0);
        let _locks = seals.locks.lock(whole.keys().chain(parts.keys()).copied());
        self.remove_seals(seals, whole.keys().copied())?;
        let mut cuts = self.cut_seals(seals, &parts)?;
        cuts.extend(whole);
        self.inner.trim(&cuts)
    }

    /// Whatever the seals are, also where somebody has announced others.
    fn remove_seals(
        &self,
        seals: &Seals,
        keys: impl Iterator<Item = StripeKey> + Clone,
    ) -> Result<(), StoreError> {
        let remove = |(shard, stripes): (_, Vec<(StripeKey, ())>)| {
            let batch = Batch::new().reclaims();
            let fields = stripes.into_iter().map(|(key, ())| field_of(key));
            (shard, fields.fold(batch, Batch::delete))
        };
        let batches: Vec<_> =
            by_shard(keys.clone().map(|key| (key, ()))).into_iter().map(remove).collect();
        let removed = match &batches[..] {
            [] => Ok(()),
            [(shard, batch)] => self.inner.batch(*shard, batch).map(drop),
            batches => self.inner.batches(batches).map(drop),
        };
        for key in keys {
            if removed.is_ok() { seals.cache.remove(key) } else { seals.cache.forget(key) }
        }
        removed
    }

    /// What is left to be cut of the bytes.
    fn cut_seals(
        &self,
        seals: &Seals,
        trims: &BTreeMap<StripeKey, u32>,
    ) -> Result<Vec<(StripeKey, u32)>, StoreError> {
        let keys: Vec<_> = trims.keys().copied().collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        for _ in 0..ATTEMPTS {
            let held = self.claim(seals, &keys)?;
            let mut cuts = Vec::with_capacity(keys.len());
            let mut changes = Vec::new();
            for ((&key, &length), held) in trims.iter().zip(&held) {
                let record = cut(&held.record, length, seals.geometry);
                cuts.push((key, end_of(&record, length, seals.geometry)));
                if record != held.record {
                    changes.push(Change::new(key, held, record));
                }
            }
            if self.change(seals, &changes, true)? {
                return Ok(cuts);
            }
        }
        Err(StoreError::Unavailable { endpoint: "a stripe that others keep changing".into() })
    }
}

fn cut(record: &Record, length: u32, geometry: Geometry) -> Record {
    let mut cut = record.clone();
    for block in 0..record.count() {
        let left = length.saturating_sub(geometry.start_of(block));
        let seal = record.block(block).filter(|_| left > 0);
        cut.set(block, seal.map(|seal| Seal { visible: seal.visible.min(left), ..*seal }));
    }
    cut
}

/// Where the bytes end that the last block needs to open.
fn end_of(record: &Record, length: u32, geometry: Geometry) -> u32 {
    let last = record.last().and_then(|(last, _)| Some((last, record.block(last)?)));
    last.map_or(length, |(last, seal)| geometry.start_of(last) + seal.sealed)
}
