//! The last long listing of this mount, and how far a program has come in it.
//!
//! A directory with more files than the kernel or this mount keeps in mind is mostly gone through
//! after it was listed: each name is looked at, or removed, in the order of the names or of the
//! inodes' numbers. Each of them would be a round to the store. Where one follows the other in either
//! order, the next ones are read in one round.
//!
//! That only reads. What is read is remembered by the layer before the store, by whose rules alone it
//! is used (`known_fields.rs`), so a listing that is out of date costs a look in vain.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Store};

use crate::attr::Kind;
use crate::entry::Reference;
use crate::fs::Fs;
use crate::keys;
use crate::listing::Listing;

/// Shorter ones the kernel keeps in mind.
const ENTRIES_MIN: usize = 1_024;
/// Some hundred MiB.
const ENTRIES_MAX: usize = 1 << 21;
/// Names in a row before the next ones are read.
const ROW_MIN: u32 = 4;
/// Names that may be passed over: somebody knew them.
const GAP_MAX: usize = 8;
/// Names that are read in a round.
const AHEAD: usize = 256;
/// A listing that was not of use for so long is given up.
const AGE_MAX: Duration = Duration::from_secs(60);

type Named = (Vec<u8>, Reference);

#[derive(Debug, Default)]
pub(crate) struct Listed {
    walk: Mutex<Option<Walk>>,
}

#[derive(Debug)]
struct Walk {
    directory: Ino,
    listing: Arc<Listing>,
    /// Places in the listing by the inodes' numbers, and the rank of each place among them; made for
    /// the first name that is looked up.
    by_number: Option<(Vec<u32>, Vec<u32>)>,
    names: Course,
    numbers: Course,
    used: Time,
}

/// How far a program has come in one of the orders.
#[derive(Debug, Default)]
struct Course {
    last: Option<usize>,
    row: u32,
    read_to: usize,
}

impl Course {
    /// A program asks for what is at a place. The answer is where reading on begins, if it should.
    fn step(&mut self, at: usize) -> Option<usize> {
        // What was read is known, and not asked for here.
        let until = self.last.map_or(0, |last| last.max(self.read_to) + GAP_MAX);
        let goes_on = self.last.is_some_and(|last| at > last && at <= until);
        if goes_on {
            self.row += 1;
        } else {
            (self.row, self.read_to) = (0, 0);
        }
        self.last = Some(at);
        if self.row < ROW_MIN || at < self.read_to {
            return None;
        }
        self.read_to = at + AHEAD;
        Some(at)
    }
}

impl Walk {
    fn next(&mut self, name: &[u8]) -> Vec<Named> {
        let listing = &self.listing;
        let Some(at) = listing.find(name) else { return Vec::new() };
        let (by_number, rank) = self.by_number.get_or_insert_with(|| ranks(listing));
        let in_names = self.names.step(at);
        let in_numbers = self.numbers.step(rank[at] as usize);
        match (in_names, in_numbers) {
            (Some(from), _) => {
                let next = listing.from(from).take(AHEAD);
                next.map(|(name, reference)| (name.to_vec(), reference)).collect()
            }
            (None, Some(from)) => {
                let next = by_number[from..].iter().take(AHEAD).map(|&place| place as usize);
                next.map(|at| (listing.name(at).to_vec(), listing.reference(at))).collect()
            }
            (None, None) => Vec::new(),
        }
    }
}

fn ranks(listing: &Listing) -> (Vec<u32>, Vec<u32>) {
    // The numbers lie beside each other while they are sorted, as the entries do not.
    let mut numbered: Vec<(Ino, u32)> =
        (0..).zip(listing.from(0)).map(|(place, (_, to))| (to.ino, place)).collect();
    numbered.sort_unstable();
    let by_number: Vec<u32> = numbered.into_iter().map(|(_, place)| place).collect();
    let mut rank = vec![0; listing.len()];
    for (at, &place) in by_number.iter().enumerate() {
        rank[place as usize] = at as u32;
    }
    (by_number, rank)
}

impl Listed {
    /// A directory was listed. The listing before it is given up, unless this one is short.
    pub fn saw(&self, directory: Ino, listing: &Arc<Listing>, now: Time) {
        if !(ENTRIES_MIN..=ENTRIES_MAX).contains(&listing.len()) {
            return;
        }
        *self.walk() = Some(Walk {
            directory,
            listing: Arc::clone(listing),
            by_number: None,
            names: Course::default(),
            numbers: Course::default(),
            used: now,
        });
    }

    pub fn is_of(&self, directory: Ino) -> bool {
        self.walk().as_ref().is_some_and(|walk| walk.directory == directory)
    }

    /// A name of a directory is looked up that is not known. The answer is what should be read now, that name first:
    /// most often nothing.
    fn next(&self, directory: Ino, name: &[u8], now: Time) -> Vec<Named> {
        let mut walk = self.walk();
        let Some(walk) = walk.as_mut().filter(|walk| walk.directory == directory) else {
            return Vec::new();
        };
        walk.used = now;
        walk.next(name)
    }

    /// To be called now and then.
    pub fn give_up(&self, now: Time) {
        self.walk().take_if(|walk| now - walk.used >= AGE_MAX);
    }

    fn walk(&self) -> MutexGuard<'_, Option<Walk>> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Fs<S> {
    /// A name is about to be looked up: reads it and those that follow, where a program goes through
    /// the directory.
    pub(crate) fn read_names_ahead(&self, directory: Ino, name: &[u8]) {
        if !self.listed.is_of(directory) || !self.is_alone() {
            return;
        }
        let entry = Batch::new().read(keys::entry(name));
        if self.store.knows(self.shard_of(directory, name), &entry) {
            return;
        }
        let next = self.listed.next(directory, name, self.steady());
        if !next.is_empty() {
            self.read_names(directory, &next);
        }
    }

    fn read_names(&self, directory: Ino, names: &[Named]) {
        let mut batches = BTreeMap::<ShardKey, Batch>::new();
        for (name, reference) in names {
            let shard = self.shard_of(directory, name);
            // Others' records lie elsewhere.
            if reference.kind != Kind::Directory && reference.home == shard {
                let batch = batches.entry(shard).or_default();
                *batch =
                    std::mem::take(batch).read(keys::entry(name)).read(keys::inode(reference.ino));
            }
        }
        let batches: Vec<_> = batches.into_iter().collect();
        // What is changed while it is read would not be learnt.
        self.store.settle_all();
        if let Err(error) = self.store.batches(&batches) {
            tracing::debug!(%error, "names could not be read ahead");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_once_and_a_gap_does_not_end_it() {
        let mut course = Course::default();
        let begun: Vec<_> = (0..600).filter_map(|at| course.step(at)).collect();
        assert_eq!(begun, [4, 4 + AHEAD, 4 + 2 * AHEAD]);
        assert_eq!(course.step(600 + GAP_MAX - 1), None);
        assert_eq!(course.step(10_000), None, "a jump");
        assert_eq!((10_001..).find_map(|at| course.step(at)), Some(10_000 + ROW_MIN as usize));
    }

    #[test]
    fn names_that_were_read_need_not_be_asked_for() {
        let mut course = Course::default();
        assert_eq!((0..).find_map(|at| course.step(at)), Some(4));
        assert_eq!(course.step(4 + AHEAD), Some(4 + AHEAD));
        assert_eq!(course.step(4 + 2 * AHEAD + GAP_MAX), Some(4 + 2 * AHEAD + GAP_MAX));
        assert_eq!(course.step(4 + 4 * AHEAD), None);
    }

    #[test]
    fn names_at_random_lead_to_nothing() {
        let mut course = Course::default();
        assert!((0..1000).all(|step| course.step(step * 7919 % 10_007).is_none()));
    }
}
