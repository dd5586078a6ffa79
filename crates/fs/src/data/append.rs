//! Writing at the end of the file.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidefs_store::{Store, caller};

use super::errors::ErrorCursor;
use super::state::Placed;
use super::striped::Striped;
use crate::names::ATTEMPTS;
use crate::sync::{Mutex, MutexGuard};
use crate::{Error, FILE_BYTES_MAX};

/// Where one append goes. It is found once: an append that is begun again from the start goes to where
/// it went before, and nobody else goes there meanwhile. Where this mount cuts the file in between,
/// another place is found: the end is where it was cut. Of a record of which a cut left a part, the rest is cut off.
#[derive(Debug, Default)]
pub struct AppendedAt(Mutex<Option<Place>>);

impl AppendedAt {
    /// Where it went, once that was found.
    pub fn offset(&self) -> Option<u64> {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().map(|place| place.placed.offset)
    }
}

#[derive(Debug)]
struct Place {
    placed: Placed,
    /// Until the bytes are where everybody looks for the end.
    promise: Option<Promise>,
    /// The store was asked for it.
    is_asked: bool,
    /// For how long this append has waited for those of others before it.
    waited: Duration,
}

/// The appends of this mount that have not ended. Held for moments only, and never across a call of the
/// store.
#[derive(Debug, Default)]
pub struct Appends {
    /// One beyond the last byte that was promised without asking the store since the file was cut last; 0
    /// where nothing is.
    end: u64,
    promises: usize,
    /// The store is being asked for places.
    asking: usize,
    /// Counts the promises ever made, and those of them that the store knows: it would let another mount
    /// append where the others are.
    made: u64,
    told: u64,
    /// The record lies where nothing answers: it is told as soon as something does.
    owed: bool,
}

impl Appends {
    /// The file was cut: those who were promised a place before look for another one.
    pub fn forget_promises(&mut self) {
        self.end = 0;
    }

    /// One beyond the last byte that was promised to appends that have not ended.
    fn promised_end(&self) -> u64 {
        if self.promises > 0 { self.end } else { 0 }
    }
}

/// A range that nobody else of this mount appends to.
#[derive(Debug)]
struct Promise(Arc<Mutex<Appends>>);

impl Drop for Promise {
    fn drop(&mut self) {
        let mut appends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        appends.promises -= 1;
        if appends.promises == 0 {
            appends.end = 0;
        }
    }
}

/// Places are asked of the store meanwhile.
struct Asking<'a>(&'a Mutex<Appends>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asking -= 1;
    }
}

impl<S: Store> Striped<S> {
    /// Answers where the bytes are that were taken: all, unless whoever writes has gone meanwhile.
    pub fn append(
        self: &Arc<Self>,
        errors: &ErrorCursor,
        bytes: &[u8],
        at: &AppendedAt,
    ) -> Result<Range<u64>, Error> {
        self.state().errors.report(errors)?;
        if bytes.is_empty() {
            let end = self.state().size();
            return Ok(end..end);
        }
        let mut place = at.0.lock().unwrap_or_else(PoisonError::into_inner);
        let appended = self.append_at(&mut place, errors, bytes);
        if let Some(place) = place.as_mut().filter(|_| !caller::begins_again()) {
            // Before anybody is answered: what comes after this one does not go behind its place, but to
            // where the file ends then.
            place.promise = None;
        }
        appended
    }

    fn append_at(
        self: &Arc<Self>,
        place: &mut Option<Place>,
        errors: &ErrorCursor,
        bytes: &[u8],
    ) -> Result<Range<u64>, Error> {
        // Each time a place is found, and then taken.
        for _ in 0..2 * ATTEMPTS {
            let Some(Place { placed, is_asked, waited, .. }) = place else {
                *place = Some(self.ask_for_place(bytes.len() as u64)?);
                continue;
            };
            if *is_asked {
                self.wait_for_earlier(waited)?;
            }
            let offset = placed.offset;
            if offset + bytes.len() as u64 > FILE_BYTES_MAX {
                return Err(Error::FileTooLarge);
            }
            match self.write_unless_cut(errors, offset, bytes, Some(placed))? {
                Some(taken) => {
                    if *is_asked {
                        self.send_shared()?;
                    }
                    return Ok(offset..offset + taken as u64);
                }
                None => *place = None,
            }
        }
        Err(Error::Contended)
    }

    /// Finds an append's place without asking the store, behind all that was written and promised; to
    /// be called while no other mount is there or comes. Nothing happens where it has one, or where
    /// the store is being asked for another's.
    pub fn place_alone(&self, bytes: usize, at: &AppendedAt) {
        let mut place = at.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut appends = self.appends();
        if place.is_some() || bytes == 0 || appends.asking > 0 {
            return;
        }
        let state = self.state();
        let (offset, cuts) = (state.size().max(appends.end), state.cuts());
        drop(state);
        appends.end = offset.saturating_add(bytes as u64);
        appends.promises += 1;
        appends.made += 1;
        let promise = Some(Promise(Arc::clone(&self.appends)));
        let placed = Placed { offset, cuts, is_begun: false };
        *place = Some(Place { placed, promise, is_asked: false, waited: Duration::ZERO });
    }

    /// The store hands out a place behind all that any mount has written or promised.
    fn ask_for_place(self: &Arc<Self>, bytes: u64) -> Result<Place, Error> {
        self.appends().asking += 1;
        let _asking = Asking(&self.appends);
        self.tell_appends()?;
        let (offset, cuts) = self.reserve(bytes)?;
        let placed = Placed { offset, cuts, is_begun: false };
        Ok(Place { placed, promise: None, is_asked: true, waited: Duration::ZERO })
    }

    /// The store knows how far the file is promised, or cannot be told.
    pub fn has_told_appends(&self) -> bool {
        let appends = self.appends();
        appends.told == appends.made
    }

    /// The store is to be told as soon as it answers.
    pub fn owes_appends(&self) -> bool {
        self.appends().owed
    }

    /// Has the store know how far the file is written and promised, so that nobody else appends there.
    ///
    /// # Errors
    /// Where the record's node does not answer, others need not wait for that any more.
    pub fn tell_appends(self: &Arc<Self>) -> Result<(), Error> {
        let made = {
            let appends = self.appends();
            if appends.told == appends.made && !appends.owed {
                return Ok(());
            }
            appends.made
        };
        let told = match self.make_sure().and_then(|()| self.tell_size()) {
            // It has been removed, and nobody opens it any more.
            Err(Error::Stale) => Ok(made),
            told => told,
        };
        let mut appends = self.appends();
        let is_silent = told.as_ref().is_err_and(Error::is_of_silence);
        if told.is_ok() || is_silent {
            appends.told = appends.told.max(*told.as_ref().unwrap_or(&made));
            if is_silent && !appends.owed {
                self.path.owes(self);
            }
            appends.owed = is_silent;
        }
        told.map(drop)
    }

    /// Answers how many promises the store knows now. Held up by a cut, so that it does not bring back
    /// the size of before.
    fn tell_size(&self) -> Result<u64, Error> {
        let order = self.committing();
        let (end, made) = {
            let appends = self.appends();
            (appends.promised_end().max(self.state().size()), appends.made)
        };
        if self.state().reserved_end() < end {
            self.promise(&order, end)?;
        }
        Ok(made)
    }

    /// Held up by a cut, as the places that the store hands out.
    fn promise(&self, _order: &MutexGuard<'_, ()>, end: u64) -> Result<(), Error> {
        let stored = self.record.promise(end)?;
        let mut state = self.state();
        self.learn(&mut state, stored);
        state.reserved(end);
        Ok(())
    }

    /// Locked before the state.
    pub fn appends(&self) -> MutexGuard<'_, Appends> {
        self.appends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the store hand out a place. Bytes that this mount wrote beyond all that the store knows of
    /// come first: it would hand out their range.
    fn reserve(self: &Arc<Self>, bytes: u64) -> Result<(u64, u64), Error> {
        let ahead_of_record = {
            let state = self.state();
            state.pending_end() > state.reserved_end()
        };
        if ahead_of_record {
            self.settle()?;
        }
        for _ in 0..ATTEMPTS {
            let order = self.committing();
            let promised = self.appends().promised_end();
            let least = self.state().pending_end().max(promised);
            if let Some((stored, place)) = self.record.reserve(bytes, least)? {
                let mut state = self.state();
                self.learn(&mut state, stored);
                state.placed(place, place + bytes);
                // Whoever cuts the file waits for this: the place is one of after the last cut.
                return Ok((place, state.cuts()));
            }
            // Another mount cut the file below what this one wrote or promised.
            self.promise(&order, promised)?;
            drop(order);
            self.settle()?;
        }
        Err(Error::Contended)
    }
}
