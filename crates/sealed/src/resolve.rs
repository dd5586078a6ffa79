//! Announcements that somebody left behind, and those of others who are at work.
//!
//! Whoever wants to change a stripe needs a record without announcements. Its own are what an
//! earlier call left when it failed, and so are all while nobody else is there: the bytes say which
//! of both seals holds. Those of others are waited for, but not for ever: a client that is at work
//! has long given up by then.
//!
//! What was not there may still come: a server may carry out a request that nobody waits for any more.
//! So a seal that lost is remembered until its block is changed again; until then either opens.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::StripeKey;
use tidefs_store::{Store, StoreError, StripeRead};

use crate::change::Change;
use crate::keyring::Place;
use crate::layout::Held;
use crate::plan::{forged, open_any};
use crate::sealed::{Sealed, Seals};

const PAUSE: Duration = Duration::from_millis(5);
/// So often an announcement of others is seen unchanged before it counts as left behind: 20 s, twice
/// as long as a call of the store may wait for an answer.
const PAUSES_MAX: u32 = 4_000;
/// Stripes that failed calls left and that are tidied up; those beyond are waited for by others.
const LEFT_MAX: usize = 4_096;
/// Others keep announcing; somebody else's turn comes first every time.
const ROUNDS_MAX: u32 = 3 * PAUSES_MAX;

impl<S: Store> Sealed<S> {
    /// The seals of stripes that may be changed now. The caller has locked them.
    pub(crate) fn claim(
        &self,
        seals: &Seals,
        keys: &[StripeKey],
    ) -> Result<Vec<Arc<Held>>, StoreError> {
        let mut held = self.seals_of(seals, keys)?;
        let mut unchanged = 0;
        for _ in 0..ROUNDS_MAX {
            let announced = |held: &&Arc<Held>| !held.record.announced.is_empty();
            if !held.iter().any(|held| announced(&held)) {
                return Ok(held);
            }
            let is_over = unchanged >= PAUSES_MAX;
            let mut waits = true;
            for (key, held) in keys.iter().zip(&held).filter(|(_, held)| announced(held)) {
                if is_over || seals.may_resolve(held) {
                    self.resolve(seals, *key, held)?;
                    waits = false;
                }
            }
            if waits {
                std::thread::sleep(PAUSE);
            }
            let now = self.fetch(seals, keys, keys.len())?;
            unchanged = if now == held { unchanged + 1 } else { 0 };
            held = now;
        }
        Err(StoreError::Unavailable { endpoint: "a stripe that others keep changing".into() })
    }

    /// Finds out which of the bytes in doubt are there, and makes the record say so; unless
    /// somebody else has changed it.
    pub(crate) fn resolve(
        &self,
        seals: &Seals,
        key: StripeKey,
        held: &Arc<Held>,
    ) -> Result<(), StoreError> {
        let keyring = seals.keyring()?;
        let mut record = held.record.clone();
        let blocks = record.in_doubt();
        let mut bytes: Vec<_> =
            blocks.iter().map(|block| vec![0; record.sealed(*block) as usize]).collect();
        let places = blocks.iter().map(|block| seals.geometry.start_of(*block));
        let mut reads: Vec<_> = places
            .zip(&mut bytes)
            .map(|(offset, buffer)| StripeRead { key, offset, buffer })
            .collect();
        let there = self.read_those_there(&mut reads)?;
        for ((&block, mut bytes), is_there) in blocks.iter().zip(bytes).zip(there) {
            // Lost, or behind what was lost: what was announced has not come, and what was held is out of reach.
            if !is_there {
                continue;
            }
            let candidates: Vec<_> = record.candidates(block).copied().collect();
            let place = Place { stripe: key, block };
            match open_any(keyring, place, &candidates, &mut bytes) {
                Some(seal) => record.found(block, seal),
                // It never arrived, and there was nothing before it.
                None if record.block(block).is_none() => {}
                None => return Err(forged(key)),
            }
        }
        record.announced.clear();
        if record != held.record {
            self.change(seals, &[Change::new(key, held, record)], true)?;
        }
        Ok(())
    }

    /// Reads blocks, and says of which nothing was lost.
    fn read_those_there(&self, reads: &mut [StripeRead<'_>]) -> Result<Vec<bool>, StoreError> {
        match self.inner.read(reads) {
            Err(StoreError::Lost { .. }) => {
                let one = |read| match self.inner.read(std::slice::from_mut(read)) {
                    Err(StoreError::Lost { .. }) => Ok(false),
                    read => read.map(|()| true),
                };
                reads.iter_mut().map(one).collect()
            }
            read => read.map(|()| vec![true; reads.len()]),
        }
    }

    /// A call failed after it had announced: makes the records say what is there, so that others
    /// need not wait. Where a node does not answer that is left for [`Sealed::tidy`].
    pub(crate) fn withdraw(&self, seals: &Seals, announced: &[Change], error: &StoreError) {
        let mut answers = !matches!(error, StoreError::Unavailable { .. });
        for Change { key, after, .. } in announced {
            answers = answers && self.resolve(seals, *key, after).is_ok();
            if !answers {
                seals.leave_behind(*key);
            }
        }
    }

    /// To be called now and then: withdraws what failed calls have left announced, for whose sake
    /// others may be waiting.
    pub fn tidy(&self) {
        let Some(seals) = &self.seals else { return };
        while let Some(key) = seals.next_left() {
            let _lock = seals.locks.lock([key]);
            if let Err(error) = self.tidy_one(seals, key) {
                // One that was forged cannot be withdrawn by anybody.
                if !matches!(error, StoreError::Forged { .. }) {
                    seals.leave_behind(key);
                }
                return;
            }
        }
    }

    fn tidy_one(&self, seals: &Seals, key: StripeKey) -> Result<(), StoreError> {
        let own = seals.keyring()?.salt();
        for held in self.fetch(seals, &[key], 1)? {
            if held.record.announcer() == Some(own) {
                self.resolve(seals, key, &held)?;
            }
        }
        Ok(())
    }
}

impl Seals {
    fn leave_behind(&self, key: StripeKey) {
        let mut left = self.left();
        if left.len() < LEFT_MAX {
            left.insert(key);
        }
    }

    /// The list is free again when this returns, since whoever works on a stripe may need it.
    fn next_left(&self) -> Option<StripeKey> {
        self.left().pop_first()
    }

    fn left(&self) -> MutexGuard<'_, BTreeSet<StripeKey>> {
        self.left_behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_resolve(&self, held: &Held) -> bool {
        let own = self.keyring.as_ref().map(|keyring| keyring.salt());
        held.record.announcer() == own || self.time_alone().is_some()
    }
}
