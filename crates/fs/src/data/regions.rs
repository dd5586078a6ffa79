//! Which parts of a file may have stripes at all, so that a sparse file is removed in time that
//! follows what was written and not its size.
//!
//! A region is a run of stripes. The first one is always looked at; any other has a mark in the
//! inode's home shard, made before its first stripe is written. A mark without stripes costs a
//! look; a stripe without a mark would be lost memory.

use std::ops::Range;

use tidefs_model::{Ino, StripeKey, StripeSize};
use tidefs_store::{Batch, Store};

use super::record::Record;
use crate::inode::VERSION;
use crate::{Error, keys};

/// Stripes of one region: 1 GiB at the default stripe size.
pub(super) const REGION_STRIPES: u32 = 1024;
/// Marks asked for, or removed, in one batch.
pub(super) const MARKS_PER_BATCH: usize = 1000;

/// Stripes of one region that may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub region: u32,
    pub stripes: Range<u64>,
}

pub(super) fn region_of(index: u32) -> u32 {
    index / REGION_STRIPES
}

/// How many stripes a file of `size` bytes spans; as many as 2^32.
pub(super) fn stripe_count(stripe_size: StripeSize, size: u64) -> u64 {
    size.div_ceil(u64::from(stripe_size.bytes()))
}

impl<S: Store> Record<S> {
    /// Marks regions, if the inode is still there.
    pub fn mark(&self, regions: &[u32]) -> Result<(), Error> {
        for regions in regions.chunks(MARKS_PER_BATCH) {
            let batch = Batch::new().present(keys::inode(self.ino));
            let batch = marking(batch, self.ino, regions);
            if !self.store.batch(self.home, &batch)?.applied() {
                return Err(Error::Stale);
            }
        }
        Ok(())
    }

    /// Removes marks, unless the file was written since it had a version: a mark too many costs a
    /// look.
    pub fn unmark(&self, regions: &[u32], version: u64) -> Result<(), Error> {
        for regions in regions.chunks(MARKS_PER_BATCH) {
            let batch = Batch::new().reclaims();
            let batch = batch.at_most(keys::inode(self.ino), VERSION, version);
            let batch = regions
                .iter()
                .fold(batch, |batch, &region| batch.delete(keys::region(self.ino, region)));
            self.store.batch(self.home, &batch)?;
        }
        Ok(())
    }

    /// The parts of a range of stripes that may be there, in order.
    pub fn parts(&self, stripes: Range<u64>) -> Result<Vec<Part>, Error> {
        let mut found = Vec::new();
        let mut candidates = Vec::new();
        for part in cut(stripes) {
            match part.region {
                0 => found.push(part),
                _ => candidates.push(part),
            }
            if candidates.len() == MARKS_PER_BATCH {
                self.keep_marked(&mut candidates, &mut found)?;
            }
        }
        self.keep_marked(&mut candidates, &mut found)?;
        Ok(found)
    }

    fn keep_marked(&self, candidates: &mut Vec<Part>, found: &mut Vec<Part>) -> Result<(), Error> {
        if candidates.is_empty() {
            return Ok(());
        }
        let batch = candidates
            .iter()
            .fold(Batch::new(), |batch, part| batch.read(keys::region(self.ino, part.region)));
        let outcome = self.store.batch(self.home, &batch)?;
        let marked = candidates.drain(..).zip(outcome.values);
        found.extend(marked.filter(|(_, mark)| mark.is_some()).map(|(part, _)| part));
        Ok(())
    }

    /// Removes whole stripes, as far as they are there. The answer names the regions looked at.
    pub fn remove_stripes(&self, stripes: Range<u64>) -> Result<Vec<Part>, Error> {
        self.remove_stripes_while(stripes, || Ok(()))
    }

    /// The same, where each removal may no longer be right: then nothing more is removed.
    pub fn remove_stripes_while(
        &self,
        stripes: Range<u64>,
        may_go_on: impl Fn() -> Result<(), Error>,
    ) -> Result<Vec<Part>, Error> {
        let parts = self.parts(stripes)?;
        for part in &parts {
            may_go_on()?;
            let trims: Vec<_> = keys_of(self.ino, part).map(|key| (key, 0)).collect();
            self.store.trim(&trims)?;
        }
        Ok(parts)
    }
}

pub(super) fn marking(batch: Batch, ino: Ino, regions: &[u32]) -> Batch {
    regions.iter().fold(batch, |batch, &region| batch.put(keys::region(ino, region), []))
}

/// The keys of a part's stripes.
pub(super) fn keys_of(ino: Ino, part: &Part) -> impl Iterator<Item = StripeKey> + use<> {
    part.stripes.clone().map(move |index| StripeKey { ino, index: index as u32 })
}

/// Cuts a range of stripes at the regions' borders.
fn cut(stripes: Range<u64>) -> impl Iterator<Item = Part> {
    let region_stripes = u64::from(REGION_STRIPES);
    let mut start = stripes.start;
    std::iter::from_fn(move || {
        let region = start / region_stripes;
        let end = stripes.end.min((region + 1) * region_stripes);
        let part = (start < end).then_some(Part { region: region as u32, stripes: start..end });
        start = end.max(start);
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_region_borders() {
        let cut: Vec<_> = cut(1000..2049).collect();
        assert_eq!(
            cut,
            [
                Part { region: 0, stripes: 1000..1024 },
                Part { region: 1, stripes: 1024..2048 },
                Part { region: 2, stripes: 2048..2049 },
            ]
        );
        assert_eq!(super::cut(5..5).count(), 0);
    }

    #[test]
    fn the_largest_file_of_the_smallest_stripes_has_two_to_the_32() {
        let smallest = StripeSize::new(4096).unwrap();
        assert_eq!(stripe_count(smallest, crate::FILE_BYTES_MAX), 1 << 32);
        let last = cut((1 << 32) - 1..1 << 32).last().unwrap();
        assert_eq!(keys_of(Ino(1), &last).last().unwrap().index, u32::MAX);
    }
}
