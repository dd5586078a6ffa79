//! Which of a file's pages the kernel may go on to keep.

use std::num::NonZeroU64;

use super::{Outgrown, State};

/// Pages of a file that others have changed since the kernel read them, up to a certain change. They count as
/// dropped when the kernel has dropped them, and not when it is asked to: whoever comes meanwhile would take an
/// old page for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldPages(NonZeroU64);

/// Counts the changes of a file by others, and those up to which the kernel has dropped its pages.
#[derive(Default)]
pub(super) struct Ages {
    now: u64,
    dropped: u64,
}

impl OldPages {
    /// Of a file of which nothing was counted.
    pub const FIRST: OldPages = OldPages(NonZeroU64::MIN);

    pub fn to_number(this: Option<OldPages>) -> u64 {
        this.map_or(0, |old| old.0.get())
    }

    pub fn from_number(number: u64) -> Option<OldPages> {
        NonZeroU64::new(number).map(OldPages)
    }
}

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

    /// Others changed the file, or its bytes are as they were before they did.
    pub(super) fn ages(&mut self) {
        self.pages.now += 1;
    }

    /// It is not known that the kernel has no older pages.
    pub fn doubt_pages(&mut self) {
        self.pages.now = self.pages.now.max(self.pages.dropped + 1);
    }

    pub fn version_kept(&self) -> Option<u64> {
        (self.pages.now == self.pages.dropped).then_some(self.stored.version)
    }

    /// What counts as dropped when the kernel has done so that is asked for it from here on.
    pub fn old_pages(&self) -> Option<OldPages> {
        let Ages { now, dropped } = self.pages;
        NonZeroU64::new(now).filter(|now| now.get() != dropped).map(OldPages)
    }

    /// The kernel has dropped them.
    pub fn pages_dropped(&mut self, old: OldPages) {
        self.pages.dropped = self.pages.dropped.max(old.0.get());
    }
}
