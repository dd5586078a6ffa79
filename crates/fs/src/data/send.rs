//! Getting written stripes to the store.
//!
//! A buffer is first due, then sending, then gone. Whoever makes a stripe's buffer due while
//! nothing of the stripe is in flight sees to a sender; otherwise the sender at work finds it when
//! it is done. So a stripe has one sender at a time, and its sends keep their order.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::Time;
use tidefs_store::{Store, StoreError, StripeWrite, caller};

use super::pool::Job;
use super::regions::region_of;
use super::state::{State, Written};
use super::striped::Striped;
use crate::Error;

/// Those who wait for the store look this often whether they are still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Stripes with little in them that go to the store in one call.
const GROUP_STRIPES: usize = 32;

/// A stripe's buffer on its way.
pub(super) type Sending = (u32, Arc<Written>);

impl<S: Store> Striped<S> {
    /// Has the buffers of stripes sent by the pool; waits while the queue is full.
    pub fn hand_over(self: &Arc<Self>, indices: impl IntoIterator<Item = u32>) {
        let groups = self.call_due(&mut self.state(), indices);
        for group in groups {
            self.path.senders.push(self.sender(group));
        }
    }

    /// Sends all that is written now and waits until it has arrived or failed. Answers where the file
    /// ended when it began.
    ///
    /// # Errors
    /// When whoever asked does not want to wait any longer; what was written is sent all the same.
    pub fn drain(self: &Arc<Self>) -> Result<u64, Error> {
        let (end, youngest, mut groups) = {
            let mut state = self.state();
            let end = state.size();
            let Some(youngest) = state.youngest() else { return Ok(end) };
            let indices: Vec<_> = state.stripes.keys().copied().collect();
            (end, youngest, self.call_due(&mut state, indices))
        };
        // The last group is sent from here: for a small file that saves waking another thread.
        let last = groups.pop();
        for group in groups {
            if let Err(job) = self.path.senders.try_push(self.sender(group)) {
                job();
            }
        }
        self.send(last.unwrap_or_default());
        self.wait_for(youngest)?;
        Ok(end)
    }

    /// Waits until the buffers that are as old as `birth` have arrived or failed.
    fn wait_for(self: &Arc<Self>, birth: u64) -> Result<(), Error> {
        let mut state = self.state();
        while state.awaits(birth) {
            let waits = |state: &mut State| state.awaits(birth);
            let woken = self.settled.wait_timeout_while(state, LOOK_EVERY, waits);
            let (again, waited) = woken.expect("no panic in a file's state");
            state = again;
            if waited.timed_out() {
                drop(state);
                if caller::has_gone() {
                    return Err(interrupted().into());
                }
                self.send_again(birth);
                state = self.state();
            }
        }
        Ok(())
    }

    /// Sends what is as old as `birth` and was called off.
    fn send_again(self: &Arc<Self>, birth: u64) {
        let groups = {
            let mut state = self.state();
            let indices = state.idle_since(birth);
            self.call_due(&mut state, indices)
        };
        groups.into_iter().for_each(|group| self.send(group));
    }

    /// Starts to send what a stripe has that has waited for longer than the mount lets it. Does not wait.
    /// `false`: it has not waited for so long, or nobody can send it now, and so it is with what came later.
    pub fn flush_aged(self: &Arc<Self>, index: u32, now: Time) -> bool {
        let mut state = self.state();
        let Some(stripe) = state.stripes.get_mut(&index) else { return true };
        let Some(dirty) = &mut stripe.dirty else { return true };
        if dirty.due {
            return true;
        }
        if now - dirty.since < self.path.dirty_age_max {
            return false;
        }
        // A job that is queued here cannot begin before the lock is released.
        dirty.due = stripe.sending.is_some()
            || self.path.senders.try_push(self.sender(vec![index])).is_ok();
        dirty.due
    }

    /// Has what arrived long ago counted. `false`: all is counted.
    pub fn count_aged(self: &Arc<Self>, now: Time) -> bool {
        let mut state = self.state();
        if state.arrived_since.is_none() {
            state.is_listed = false;
            return false;
        }
        if state.has_aged(now, self.path.dirty_age_max) && self.try_commit_aged() {
            state.arrived_since = Some(now);
        }
        true
    }

    /// `false`: everybody is busy.
    fn try_commit_aged(self: &Arc<Self>) -> bool {
        let file = Arc::clone(self);
        let commit = move || {
            let commit = || file.in_a_term(|| file.commit_aged());
            if let Err(error) = caller::without_waiting(commit) {
                tracing::debug!(%error, ino = %file.ino(), "what arrived is not counted yet");
            }
        };
        self.path.senders.try_push(Box::new(commit)).is_ok()
    }

    /// Makes buffers due; those that need a sender, in groups for one call each.
    fn call_due(&self, state: &mut State, indices: impl IntoIterator<Item = u32>) -> Vec<Vec<u32>> {
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut bytes_left = 0;
        for index in indices {
            if !state.call_due(index) {
                continue;
            }
            let dirty = state.stripes[&index].dirty.as_ref();
            let bytes = dirty.map_or(0, |dirty| dirty.ranges.bytes());
            match groups.last_mut() {
                Some(group) if bytes <= bytes_left && group.len() < GROUP_STRIPES => {
                    bytes_left -= bytes;
                    group.push(index);
                }
                _ => {
                    bytes_left = self.path.stripe_size.bytes() - bytes;
                    groups.push(vec![index]);
                }
            }
        }
        groups
    }

    fn sender(self: &Arc<Self>, indices: Vec<u32>) -> Job {
        let file = Arc::clone(self);
        Box::new(move || file.send(indices))
    }

    /// Sends the due buffers of stripes that nobody else is sending.
    fn send(self: &Arc<Self>, indices: Vec<u32>) {
        if !indices.is_empty() {
            let sending = self.begin(&mut self.state(), &indices);
            self.send_begun(sending);
        }
    }

    /// Sends what nobody else is sending.
    pub fn send_begun(self: &Arc<Self>, sending: Vec<Sending>) {
        let Some((_, first)) = sending.first() else { return };
        let work = || caller::in_term(first.term, || self.store(&sending));
        let results = caller::work_at(Arc::clone(self) as _, work);
        self.end_sends(sending, results);
    }

    /// Takes note of what became of sends, and lets go of them.
    pub fn end_sends(self: &Arc<Self>, sending: Vec<Sending>, results: Vec<Result<(), Error>>) {
        let (sending, results) = match results.iter().any(is_left) && !self.path.is_over() {
            true => self.put_left_back(sending, results),
            false => (sending, results),
        };
        self.note_sends(&sending, results);
        self.let_go(sending);
    }

    /// Those that are left to be sent lie among what was written again; the others come back.
    fn put_left_back(
        self: &Arc<Self>,
        sending: Vec<Sending>,
        results: Vec<Result<(), Error>>,
    ) -> (Vec<Sending>, Vec<Result<(), Error>>) {
        let all = sending.into_iter().zip(results);
        let (left, ended): (Vec<_>, Vec<_>) = all.partition(|(_, result)| is_left(result));
        self.put_back(left.into_iter().map(|(one, _)| one));
        ended.into_iter().unzip()
    }

    /// Nothing of these is on its way any more; sees to what was written again meanwhile.
    pub fn let_go(self: &Arc<Self>, sending: Vec<Sending>) {
        let again = self.finish(&sending);
        drop(sending);
        if again.is_empty() {
            return;
        }
        // A flush that sends must not do so for as long as others write.
        if let Err(job) = self.path.senders.try_push(self.sender(again)) {
            job();
        }
    }

    /// Takes the due buffers of stripes that nobody else is sending: they do not change any more.
    pub fn begin(&self, state: &mut State, indices: &[u32]) -> Vec<Sending> {
        let mut group = Vec::with_capacity(indices.len());
        for &index in indices {
            let Some(stripe) = state.stripes.get_mut(&index) else { continue };
            let free = stripe.sending.is_none();
            let Some(written) = stripe.dirty.take_if(|dirty| dirty.due && free) else { continue };
            self.path.unsent.remove(written.birth);
            let written = Arc::new(written);
            stripe.sending = Some(Arc::clone(&written));
            group.push((index, written));
        }
        group
    }

    /// One result for each stripe. A call that failed for several is repeated one by one, so that
    /// only those are given up which the store does not take; a repeated write changes nothing.
    pub fn store(&self, group: &[Sending]) -> Vec<Result<(), Error>> {
        let marked: Vec<_> = group.iter().map(|(index, _)| self.mark_region_of(*index)).collect();
        if group.len() > 1 && marked.iter().all(Result::is_ok) && self.write_out(group).is_ok() {
            return marked;
        }
        let each = group.iter().zip(marked);
        each.map(|(one, marked)| marked.and_then(|()| self.write_out(std::slice::from_ref(one))))
            .collect()
    }

    fn write_out(&self, group: &[Sending]) -> Result<(), Error> {
        let writes = self.writes_of(group);
        let before = self.path.freed();
        let write = || match self.write_stripes(&writes) {
            Err(StoreError::Full { .. }) if self.path.wait_for_room(before, Some(self.ino())) => {
                self.write_stripes(&writes)
            }
            written => written,
        };
        // Whoever waits for this stripe would wait for ever if a panic passed through here.
        Ok(catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| Err(panicked()))?)
    }

    pub fn writes_of<'g>(&self, group: &'g [Sending]) -> Vec<StripeWrite<'g>> {
        let parts = group.iter().flat_map(|(index, written)| {
            let key = self.key(*index);
            written.parts().map(move |(offset, bytes)| StripeWrite { key, offset, bytes })
        });
        parts.collect()
    }

    fn mark_region_of(&self, index: u32) -> Result<(), Error> {
        let region = region_of(index);
        if region == 0 || self.marked().contains(&region) {
            return Ok(());
        }
        let marked = catch_unwind(AssertUnwindSafe(|| self.record.mark(&[region])));
        marked.unwrap_or_else(|_| Err(panicked().into()))?;
        self.marked().insert(region);
        Ok(())
    }

    /// Every program that wrote gets an error number. The log has the reason; a store that is full
    /// says so many times a second, which is told once.
    fn tell(&self, error: &Error, index: u32) {
        let is_full = matches!(error, Error::Store(StoreError::Full { .. }));
        let ino = self.ino();
        if is_full && !self.path.store_was_full() {
            tracing::debug!(%error, %ino, index, "a stripe was not stored");
        } else {
            tracing::warn!(%error, %ino, index, "a stripe was not stored");
        }
    }

    /// Takes note of what arrived and what did not.
    fn note_sends(self: &Arc<Self>, group: &[Sending], results: Vec<Result<(), Error>>) {
        let mut state = self.state();
        for ((index, written), result) in group.iter().zip(results) {
            let end = self.path.stripe_size.start_of(*index) + u64::from(written.ranges.end());
            match result {
                Ok(()) => {
                    state.arrived.stripe(*index, end);
                    state.arrived_since.get_or_insert(written.since);
                    if !std::mem::replace(&mut state.is_listed, true) {
                        self.path.counts_later(self);
                    }
                }
                // That was told when the term began.
                Err(Error::Store(StoreError::Expelled)) if written.term != state.term => {
                    state.residue_end = state.residue_end.max(end);
                }
                Err(error) => {
                    self.tell(&error, *index);
                    state.failed(end, error);
                }
            }
        }
    }

    /// The answer names stripes that are due again.
    fn finish(&self, group: &[Sending]) -> Vec<u32> {
        let mut state = self.state();
        group.iter().for_each(|(index, _)| state.sent(*index));
        self.settled.notify_all();
        let again = |(index, _): &Sending| state.is_due(*index).then_some(*index);
        group.iter().filter_map(again).collect()
    }

    /// Sends that were called off, or whose writer has gone: what was written is not given up with its
    /// writer. The bytes are to be cut, or wait until somebody flushes or they are sent for their age.
    fn put_back(self: &Arc<Self>, sends: impl Iterator<Item = Sending>) {
        let mut state = self.state();
        for (index, written) in sends {
            if let Some(stripe) = state.stripes.get_mut(&index) {
                stripe.sending = None;
            }
            let written = Arc::into_inner(written).expect("its sender has the last of them");
            let birth = written.birth;
            if written.term != state.term {
                state.sent(index);
                continue;
            }
            if let Some(replaced) = state.put_back(index, written) {
                self.path.unsent.remove(replaced);
            }
            self.path.unsent.put_back(birth, &Arc::downgrade(self), index);
        }
    }
}

impl<S: Store> caller::Work for Striped<S> {
    fn is_called_off(&self) -> bool {
        self.calls_off.load(Ordering::Acquire) > 0
    }
}

/// It did not come to an end, because nobody wanted to wait for it.
fn is_left(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::Store(StoreError::Interrupted { .. })))
}

/// Whoever waited for the store has gone.
pub(super) fn interrupted() -> StoreError {
    StoreError::Interrupted { endpoint: "the store".into() }
}

pub(super) fn panicked() -> StoreError {
    StoreError::Indeterminate { endpoint: "a store call that panicked".into() }
}
