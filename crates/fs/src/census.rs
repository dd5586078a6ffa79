//! Telling a check of the file system which inodes this mount has in use.
//!
//! A check cannot see from the store that a file without a name is still open, or that stripes
//! beyond a file's end are bytes whose size is yet to come. So it asks: it lists inodes in a record
//! under a number, and puts the number where every mount looks ten times a second. Each mount
//! answers with those that it has open or is about to free. From then on, until the question is
//! withdrawn, it lets nobody begin to work on the others: what the check removes there must not be
//! what somebody is just writing. That ends after [`HELD_MAX`] in any case, for checks die, too.

pub(crate) mod standstill;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, Time};
use tidefs_store::{Batch, Bytes, Store};

use crate::error::Error;
use crate::fs::Fs;
use crate::inode::u64_at;
use crate::keys;

/// What is asked.
pub(crate) const ASKED: &[u8] = b"q";
/// How long a mount keeps inodes from being used for a check that does not come back. A check
/// stops its work long before: see [`HELD_MIN`].
pub(crate) const HELD_MAX: Duration = Duration::from_secs(25);
/// How long after it began to ask a check may begin a call of the store that removes something;
/// each takes ten seconds at most.
pub(crate) const HELD_MIN: Duration = Duration::from_secs(8);

/// A mount's side.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// The last question that was answered.
    answered: AtomicU64,
    held: Mutex<Held>,
    /// Whether there are any: asked on the way of every open.
    holds: AtomicU64,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    inos: HashSet<Ino>,
    since: Time,
}

/// A number and inodes: of a question, or of an answer.
pub(crate) fn encode(number: u64, inos: impl IntoIterator<Item = Ino>) -> Bytes {
    let mut record = number.to_be_bytes().to_vec();
    inos.into_iter().for_each(|ino| record.extend(ino.0.to_be_bytes()));
    record
}

/// `None` where the record is no question or answer.
pub(crate) fn decode(record: &[u8]) -> Option<(u64, Vec<Ino>)> {
    if record.len() < 8 || !record.len().is_multiple_of(8) {
        return None;
    }
    let mut numbers = record.chunks_exact(8).map(|number| u64_at(number, 0));
    let number = numbers.next()?;
    Some((number, numbers.map(Ino).collect()))
}

impl<S: Store> Fs<S> {
    /// To be called after each look at the register of mounts.
    pub(crate) fn answer_census(&self) -> Result<(), Error> {
        let question = self.membership.heard.question();
        if question == self.census.answered.load(Ordering::SeqCst) {
            self.census.release_if(|held| self.steady() - held.since > HELD_MAX);
            return Ok(());
        }
        self.census.release_if(|_| true);
        if question != 0 {
            let record = self.store.batch(keys::CENSUS, &Batch::new().read(ASKED))?.take(0);
            let Some((number, inos)) = record.as_deref().and_then(decode) else { return Ok(()) };
            if number != question {
                return Ok(());
            }
            // Who comes from here on waits; who came before is seen below.
            self.census.hold(&inos, self.steady());
            let used: Vec<_> = inos.into_iter().filter(|&ino| self.is_in_use(ino)).collect();
            self.census.let_go(&used);
            let answer = encode(number, used);
            let batch = Batch::new().put(keys::answer(self.me()), answer).reclaims();
            self.store.batch(keys::CENSUS, &batch)?;
        }
        self.census.answered.store(question, Ordering::SeqCst);
        Ok(())
    }

    fn is_in_use(&self, ino: Ino) -> bool {
        let is_open = self.table.find(ino).is_some_and(|node| {
            // With the slot, so that nobody is half-way through opening or giving it up.
            let slot = node.slot();
            node.is_open() || slot.unlinked
        });
        is_open || self.data.is_freeing(ino)
    }

    /// Waits while a check, or another mount, removes what lies beyond the end of a file that was just opened.
    pub(crate) fn wait_for_repair(&self, ino: Ino) {
        self.called.wait_at(ino);
        if self.census.holds.load(Ordering::SeqCst) > 0 {
            self.census.wait(ino);
        }
    }
}

impl Census {
    fn hold(&self, inos: &[Ino], now: Time) {
        let mut held = self.held();
        *held = Held { inos: inos.iter().copied().collect(), since: now };
        self.holds.store(held.inos.len() as u64, Ordering::SeqCst);
    }

    fn let_go(&self, inos: &[Ino]) {
        let mut held = self.held();
        inos.iter().for_each(|ino| {
            held.inos.remove(ino);
        });
        self.holds.store(held.inos.len() as u64, Ordering::SeqCst);
        self.released.notify_all();
    }

    fn release_if(&self, is_over: impl Fn(&Held) -> bool) {
        if self.holds.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut held = self.held();
        if is_over(&held) {
            held.inos.clear();
            self.holds.store(0, Ordering::SeqCst);
            self.released.notify_all();
        }
    }

    fn wait(&self, ino: Ino) {
        let waits = |held: &mut Held| held.inos.contains(&ino);
        drop(self.released.wait_timeout_while(self.held(), HELD_MAX, waits));
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_decodes_to_what_was_asked_and_nothing_else_does() {
        let inos = [Ino(3), Ino(u64::MAX)];
        assert_eq!(decode(&encode(7, inos)), Some((7, inos.to_vec())));
        assert_eq!(decode(&encode(7, [])), Some((7, vec![])));
        for length in [0, 1, 7, 9, 15] {
            assert_eq!(decode(&vec![1; length]), None, "{length} bytes");
        }
    }
}
