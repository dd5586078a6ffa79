//! What the store has of a file and the inode's record does not say yet.

use std::collections::BTreeSet;

use super::regions::region_of;

/// Bytes that reached the store. Where they lie below the size that this mount knows of, they count
/// all the same: another mount may have cut the file since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// One beyond the last of them; else 0.
    pub end: u64,
    /// Where they lie, but for the first region, which has no mark.
    pub regions: BTreeSet<u32>,
}

impl Arrived {
    pub fn is_empty(&self) -> bool {
        *self == Arrived::default()
    }

    pub fn reaches(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    pub fn stripe(&mut self, index: u32, end: u64) {
        self.reaches(end);
        if region_of(index) > 0 {
            self.regions.insert(region_of(index));
        }
    }

    pub fn join(&mut self, mut later: Arrived) {
        self.reaches(later.end);
        self.regions.append(&mut later.regions);
    }
}
