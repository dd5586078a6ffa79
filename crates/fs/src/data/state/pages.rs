//! Which of a file's pages the kernel may go on to keep.

use super::{Outgrown, State};

impl State {
    /// Takes note that the file is longer than `before`, if it is.
    pub(super) fn outgrows(&mut self, before: u64) {
        if self.size() > before {
            self.growths += 1;
            let from = self.outgrown.map_or(before, |outgrown| outgrown.from.min(before));
            self.outgrown = Some(Outgrown { from, end: self.size(), growth: self.growths });
        }
    }

    pub fn outgrown(&self) -> Option<Outgrown> {
        Some(Outgrown { end: self.size(), ..self.outgrown? })
    }

    /// The kernel has dropped what it had read then.
    pub fn dropped(&mut self, outgrown: Outgrown) {
        if self.outgrown.is_some_and(|now| now.growth == outgrown.growth) {
            self.outgrown = None;
        }
    }

    pub fn version_kept(&self) -> Option<u64> {
        (!self.foreign).then_some(self.stored.version)
    }

    pub fn drop_pages(&mut self) -> u64 {
        self.foreign = false;
        self.stored.version
    }
}
