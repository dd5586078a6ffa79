//! What names stood for when this mount last saw them: guesses that save a read.
//!
//! A hint is only ever used as the expectation of a batch that the store checks, so a wrong one
//! costs a refusal and nothing else. There is room for a bounded number; a full stripe starts
//! afresh.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::entry::{Place, Reference};

const STRIPES: usize = 64;
/// With 64 stripes this is a quarter of a million names, some tens of MiB.
const NAMES_PER_STRIPE: usize = 4_096;

type Names = HashMap<Place, Reference>;

#[derive(Debug)]
pub(crate) struct Hints {
    stripes: Vec<Mutex<Names>>,
}

impl Hints {
    pub fn new() -> Hints {
        Hints { stripes: (0..STRIPES).map(|_| Mutex::default()).collect() }
    }

    pub fn note(&self, place: &Place, reference: Reference) {
        let mut names = self.stripe(place);
        if names.len() >= NAMES_PER_STRIPE {
            names.clear();
        }
        names.insert(place.clone(), reference);
    }

    pub fn get(&self, place: &Place) -> Option<Reference> {
        self.stripe(place).get(place).copied()
    }

    /// The hint for a name, which is given up: a name is removed once.
    pub fn take(&self, place: &Place) -> Option<Reference> {
        self.stripe(place).remove(place)
    }

    fn stripe(&self, place: &Place) -> MutexGuard<'_, Names> {
        let number = place.name.iter().fold(usize::from(place.shard.index), |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        self.stripes[number % STRIPES].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
