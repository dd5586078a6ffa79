//! Stores with a planted bug. What the suite is worth is what it catches.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidefs_model::{ByteSize, ShardKey, StripeKey, StripeSize};
use tidefs_store::conformance::{cases, key_cases};
use tidefs_store::{
    Batch, Check, Cursor, Embedded, Key, KeyPage, Outcome, Overview, Page, Store, StoreError,
    StripeRead, StripeWrite, Update,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    NumbersAreDoubles,
    AddIsReadThenWrite,
    ChecksAreNotAtomicWithUpdates,
    NamesEndAtZero,
    ReadsComeBeforeUpdates,
    TheLastFailingCheckIsNamed,
    ListingStopsAfterOnePage,
    WritesReplaceTheStripe,
    ReadsLeaveTheRestUntouched,
    TrimHidesButKeepsBytes,
    TrimCutsOneByteTooMany,
    DeletedShardsKeepTheirFields,
    KeysOfStripesAreLeftOut,
}

const BUGS: [Bug; 13] = [
    Bug::NumbersAreDoubles,
    Bug::AddIsReadThenWrite,
    Bug::ChecksAreNotAtomicWithUpdates,
    Bug::NamesEndAtZero,
    Bug::ReadsComeBeforeUpdates,
    Bug::TheLastFailingCheckIsNamed,
    Bug::ListingStopsAfterOnePage,
    Bug::WritesReplaceTheStripe,
    Bug::ReadsLeaveTheRestUntouched,
    Bug::TrimHidesButKeepsBytes,
    Bug::TrimCutsOneByteTooMany,
    Bug::DeletedShardsKeepTheirFields,
    Bug::KeysOfStripesAreLeftOut,
];

struct Broken {
    inner: Embedded,
    bug: Option<Bug>,
}

impl Broken {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn number(&self, shard: ShardKey, field: &[u8], at: u32) -> Result<u64, StoreError> {
        let value = self.inner.batch(shard, &Batch::new().read(field))?.take(0);
        let mut bytes: Vec<u8> = value.unwrap_or_default().into_iter().skip(at as usize).collect();
        bytes.resize(8, 0);
        Ok(u64::from_be_bytes(bytes.try_into().unwrap()))
    }

    /// Carries additions out as a sum worked out beforehand.
    fn with_sums(&self, shard: ShardKey, batch: &Batch) -> Result<Batch, StoreError> {
        let mut batch = batch.clone();
        for update in &mut batch.updates {
            if let Update::Add { field, at, delta } = update {
                let number = self.number(shard, field, *at)?;
                let sum = match self.has(Bug::NumbersAreDoubles) {
                    true => (number as f64 + *delta as f64) as u64,
                    false => number.wrapping_add_signed(*delta),
                };
                let bytes = sum.to_be_bytes().to_vec();
                *update = Update::Patch { field: field.clone(), at: *at, bytes };
            }
        }
        Ok(batch)
    }
}

fn cut_names(batch: &Batch) -> Batch {
    let mut batch = batch.clone();
    for update in &mut batch.updates {
        if let Update::Put { field, .. } | Update::Delete { field } = update {
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
            field.truncate(end);
        }
    }
    batch
}

fn only(checks: &[Check], batch: &Batch) -> Batch {
    Batch { checks: checks.to_vec(), ..batch.clone() }
}

impl Store for Broken {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        match self.bug {
            Some(Bug::NumbersAreDoubles | Bug::AddIsReadThenWrite) => {
                self.inner.batch(shard, &self.with_sums(shard, batch)?)
            }
            Some(Bug::ChecksAreNotAtomicWithUpdates) => {
                let checked = Batch { updates: vec![], ..batch.clone() };
                let outcome = self.inner.batch(shard, &checked)?;
                std::thread::yield_now();
                if outcome.applied() {
                    self.inner.batch(shard, &only(&[], batch))
                } else {
                    Ok(outcome)
                }
            }
            Some(Bug::NamesEndAtZero) => self.inner.batch(shard, &cut_names(batch)),
            Some(Bug::ReadsComeBeforeUpdates) => {
                let reads = Batch { reads: batch.reads.clone(), ..Batch::new() };
                let values = self.inner.batch(shard, &reads)?.values;
                Ok(Outcome { values, ..self.inner.batch(shard, batch)? })
            }
            Some(Bug::TheLastFailingCheckIsNamed) => {
                let mut outcome = self.inner.batch(shard, batch)?;
                for (index, check) in batch.checks.iter().enumerate() {
                    let alone = Batch { checks: vec![check.clone()], ..Batch::new() };
                    if !outcome.applied() && !self.inner.batch(shard, &alone)?.applied() {
                        outcome.refused_by = Some(index);
                    }
                }
                Ok(outcome)
            }
            _ => self.inner.batch(shard, batch),
        }
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        batches.iter().map(|(shard, batch)| self.batch(*shard, batch)).collect()
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        let mut pages = self.inner.list(shards)?;
        if self.has(Bug::ListingStopsAfterOnePage) {
            pages.iter_mut().for_each(|page| page.next = None);
        }
        Ok(pages)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        let mut page = self.inner.keys(cursor)?;
        if self.has(Bug::KeysOfStripesAreLeftOut) {
            page.keys.retain(|key| matches!(key, Key::Shard(_)));
        }
        Ok(page)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        if self.has(Bug::DeletedShardsKeepTheirFields) {
            Ok(())
        } else {
            self.inner.delete_shards(shards)
        }
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        for read in reads {
            let mut end = read.buffer.len();
            if self.has(Bug::ReadsLeaveTheRestUntouched) {
                let stored = self.inner.lengths(&[read.key])?[0];
                end = end.min(stored.saturating_sub(read.offset) as usize);
            }
            let buffer = &mut read.buffer[..end];
            self.inner.read(&mut [StripeRead { key: read.key, offset: read.offset, buffer }])?;
        }
        Ok(())
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        for write in writes {
            if self.has(Bug::WritesReplaceTheStripe) && !write.bytes.is_empty() {
                self.inner.trim(&[(write.key, write.offset)])?;
            }
            self.inner.write(&[*write])?;
        }
        Ok(())
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        for &(key, length) in trims {
            match self.bug {
                Some(Bug::TrimHidesButKeepsBytes) if length > 0 => {}
                Some(Bug::TrimCutsOneByteTooMany) => {
                    self.inner.trim(&[(key, length.saturating_sub(1))])?;
                }
                _ => self.inner.trim(&[(key, length)])?,
            }
        }
        Ok(())
    }

    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.inner.lengths(stripes)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.inner.overview()
    }
}

/// The cases that fail on a store with a bug.
fn failures(bug: Option<Bug>) -> Vec<&'static str> {
    cases()
        .into_iter()
        .chain(key_cases())
        .filter(|(_, case)| {
            let inner = Embedded::in_heap(ByteSize::mib(64), StripeSize::DEFAULT);
            let store = Broken { inner, bug };
            catch_unwind(AssertUnwindSafe(|| case(&store))).is_err()
        })
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn a_planted_bug_is_caught_and_a_sound_store_is_not() {
    assert_eq!(failures(None), Vec::<&str>::new());
    for bug in BUGS {
        let caught_by = failures(Some(bug));
        eprintln!("{bug:?}: {caught_by:?}");
        assert!(!caught_by.is_empty(), "no case catches {bug:?}");
    }
}
