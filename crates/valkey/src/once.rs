//! Things that are told once, although they are met again and again.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// More are not told at all: whoever can make up one can make up any number.
const TOLD_MOST: usize = 32;
/// So much of a thing says what it is; behind it may be times that change.
const TOLD_BY_BYTES: usize = 48;

static TOLD: Mutex<BTreeSet<Box<[u8]>>> = Mutex::new(BTreeSet::new());

/// Tells of a thing that has not been told of in the life of this process.
pub fn tell(what: &str, tell: impl FnOnce()) {
    let begin = &what.as_bytes()[..what.len().min(TOLD_BY_BYTES)];
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() < TOLD_MOST && told.insert(begin.into()) {
        drop(told);
        tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_told_once_and_of_any_number_only_some() {
        let count = std::cell::Cell::new(0);
        let count_one = || count.set(count.get() + 1);
        tell("a line, at 7", count_one);
        tell("a line, at 7", count_one);
        assert_eq!(count.get(), 1);
        (0..1_000).for_each(|number| tell(&format!("made up {number}"), count_one));
        assert!(count.get() <= TOLD_MOST);
    }
}
