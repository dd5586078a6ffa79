//! What other mounts would read as zeros: bytes that were written and have not arrived, where the file is
//! about to reach beyond them.
//!
//! An append that was given a place behind those of other mounts writes nothing there before the record
//! counts theirs. So no mount has bytes behind places that are not filled, and none counts such places.
//! Who finds that others append as well sends and counts each of its own appends before that is answered:
//! the others wait no longer than for that.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::Time;
use tidefs_store::{Store, caller};

use super::send::interrupted;
use super::striped::Striped;
use crate::Error;
use crate::sync::{RwLockWriteGuard, pause};

/// The record is looked at again after the first of these, then after twice that, up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
/// Who waits longer waits where it holds nobody up.
const WAITS_HERE: Duration = Duration::from_millis(20);
/// So many times as long as bytes may wait to be sent is waited for those of others. What is not counted
/// by then belongs to a mount that died or failed, and reads as zeros.
const AGES_MAX: u32 = 3;
/// So often what other threads wrote meanwhile is sent as well before the file is made longer.
const SENDS_MAX: usize = 8;

impl<S: Store> Striped<S> {
    /// Waits until all that other mounts were given before this mount's places has arrived.
    pub fn wait_for_earlier(self: &Arc<Self>, waited: &mut Duration) -> Result<(), Error> {
        if !self.state().is_behind_others() {
            return Ok(());
        }
        // They may wait for what lies before theirs.
        self.send_shared()?;
        let most = self.path.dirty_age_max * AGES_MAX;
        let mut moment = PAUSES.0;
        while self.look_at_record() {
            if *waited >= most {
                tracing::debug!(ino = %self.ino(), "what others were to append has not arrived");
                self.state().awaits_others_before(0);
                return Ok(());
            }
            if *waited >= WAITS_HERE && caller::has_gone() {
                // A program that ends leaves its record rather than a hole.
                return if caller::begins_again() { Err(interrupted().into()) } else { Ok(()) };
            }
            pause(moment);
            *waited += moment;
            moment = (moment * 2).min(PAUSES.1);
        }
        Ok(())
    }

    /// Whether there is something to wait for yet.
    fn look_at_record(&self) -> bool {
        let looked = self.record.look();
        let mut state = self.state();
        match looked {
            Ok((stored, promised)) => {
                self.learn(&mut state, stored);
                state.awaits_others_before(promised);
            }
            // Whoever writes learns the reason.
            Err(_) => state.awaits_others_before(0),
        }
        state.is_behind_others()
    }

    /// Sends and counts what was appended, if others append as well. What fails is told to whoever
    /// writes next or closes.
    pub fn send_shared(self: &Arc<Self>) -> Result<(), Error> {
        if !self.state().is_shared {
            return Ok(());
        }
        match self.settle() {
            Err(error) if error.is_interruption() && caller::begins_again() => Err(error),
            Err(error) => {
                tracing::debug!(%error, ino = %self.ino(), "an append is not counted yet");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Another mount comes: begins to send what it would read as zeros, or wait for.
    pub fn send_for_others(self: &Arc<Self>, has_appended: bool) {
        let unsent: Vec<_> = {
            let mut state = self.state();
            let end = if has_appended { u64::MAX } else { state.stored.size };
            if state.missing_from(0) >= end {
                return;
            }
            // It is counted as soon as it has arrived.
            state.arrived_since = Some(Time(0));
            state.stripes.keys().copied().collect()
        };
        self.hand_over(unsent);
    }

    /// Has all that was written arrive and counted, and does something before more is written or read.
    ///
    /// # Errors
    /// [`Error::NotStill`] where programs go on writing; nothing is done then.
    pub fn stand_still(self: &Arc<Self>, meanwhile: impl FnOnce()) -> Result<(), Error> {
        for _ in 0..SENDS_MAX {
            // Who waits for room does not have the file alone.
            self.settle()?;
            let _alone = self.alone();
            if self.state().missing_from(0) < u64::MAX {
                continue;
            }
            // All has arrived: it is only counted.
            caller::without_waiting(|| self.settle())?;
            meanwhile();
            return Ok(());
        }
        Err(Error::NotStill)
    }

    /// Has the file alone, to make it reach to `size`. With company, what was written up to there has
    /// arrived then.
    pub fn alone_to_reach(self: &Arc<Self>, size: u64) -> Result<RwLockWriteGuard<'_, ()>, Error> {
        for _ in 0..SENDS_MAX {
            let alone = self.alone();
            let unsent = {
                let state = self.state();
                state.missing_from(state.stored.size)
            };
            if unsent >= size || !self.path.has_company() {
                return Ok(alone);
            }
            // Who waits for room does not have the file alone.
            drop(alone);
            self.settle()?;
        }
        Ok(self.alone())
    }
}
