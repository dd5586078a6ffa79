//! What names stood for when this mount last saw them: guesses that save a read.
//!
//! A hint is used as the expectation of a batch that the store checks, so a wrong one costs a
//! refusal and nothing else; but one that was noted in this time of being alone, or under this delegation, is right, since
//! whatever this mount does to a name drops its hint, also one that is about to be noted. There is
//! room for a bounded number; a full stripe starts afresh.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::entry::{Place, Reference};

const STRIPES: usize = 64;
/// With 64 stripes some tens of thousands of names, each of which takes some 200 bytes.
const NAMES_PER_STRIPE: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Hints {
    stripes: Vec<Mutex<Names>>,
}

#[derive(Debug, Default)]
struct Names {
    names: HashMap<Place, Hint>,
    /// Counts what this mount does to any of these names.
    changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub reference: Reference,
    /// The time of being alone, or the delegation, in which it was noted, and is right.
    pub era: Option<u64>,
}

/// How things stood before a name was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    changes: u64,
    era: Option<u64>,
}

impl Hints {
    pub fn new() -> Hints {
        Hints { stripes: (0..STRIPES).map(|_| Mutex::default()).collect() }
    }

    /// To be asked before a name is read whose hint is to be noted.
    pub fn before(&self, place: &Place, era: Option<u64>) -> Before {
        Before { changes: self.stripe(place).changes, era }
    }

    /// The name was read. `settled`: no rename is moving it.
    pub fn saw(&self, place: &Place, reference: Reference, settled: bool, before: Before) {
        let mut names = self.stripe(place);
        let unchanged = settled && names.changes == before.changes;
        names.note(place, Hint { reference, era: before.era.filter(|_| unchanged) });
    }

    /// This mount made the name.
    pub fn made(&self, place: &Place, reference: Reference, era: Option<u64>) {
        let mut names = self.stripe(place);
        names.changes += 1;
        names.note(place, Hint { reference, era });
    }

    pub fn get(&self, place: &Place) -> Option<Reference> {
        self.stripe(place).names.get(place).map(|hint| hint.reference)
    }

    /// The hint for a name, which is given up: a name is removed once.
    pub fn take(&self, place: &Place) -> Option<Hint> {
        let mut names = self.stripe(place);
        names.changes += 1;
        names.names.remove(place)
    }

    /// There is no such name any more.
    pub fn is_gone(&self, place: &Place) {
        self.stripe(place).names.remove(place);
    }

    /// This mount changed what these names stand for.
    pub fn drop_of(&self, places: &[&Place]) {
        for place in places {
            self.take(place);
        }
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        let lock =
            |names: &Mutex<Names>| names.lock().unwrap_or_else(PoisonError::into_inner).names.len();
        self.stripes.iter().map(lock).sum()
    }

    fn stripe(&self, place: &Place) -> MutexGuard<'_, Names> {
        let number = place.name.iter().fold(usize::from(place.shard.index), |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        self.stripes[number % STRIPES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn note(&mut self, place: &Place, hint: Hint) {
        if self.names.len() >= NAMES_PER_STRIPE {
            self.names.clear();
        }
        self.names.insert(place.clone(), hint);
    }
}
