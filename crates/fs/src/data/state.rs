//! What is known here of an open file and not by the store: written bytes, size and times.
//!
//! A stripe has at most two buffers. `sending` does not change any more and is on its way; `dirty`
//! takes new writes and lies over it. Bytes leave this state only when the store has them, or when
//! the store refused them and the failure is on record.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidefs_model::{Piece, StripeSize, Time};

use super::ahead::Ahead;
use super::arrived::Arrived;
use super::buffers::Buffer;
use super::errors::ErrorLog;
use super::ranges::Ranges;
use super::unsent::Unsent;
use crate::Error;
use crate::inode::{CutAt, Inode};
use crate::terms::EXPELLED;

mod cuts;
mod pages;
mod places;

pub(super) use cuts::{Left, Placed};
pub use pages::OldPages;

/// Ranges that one buffer holds at most. Scattered writes beyond that are sent, which keeps the
/// cost of finding a place among them small.
const RANGES_MAX: usize = 64;

/// Bytes written to one stripe.
#[derive(Debug)]
pub(super) struct Written {
    buffer: Buffer,
    pub ranges: Ranges,
    pub birth: u64,
    /// In which term.
    pub term: u64,
    /// When the first of them was written.
    pub since: Time,
    /// A sender takes it as soon as nothing else of the stripe is in flight.
    pub due: bool,
}

#[derive(Debug, Default)]
pub(super) struct Stripe {
    pub dirty: Option<Written>,
    pub sending: Option<Arc<Written>>,
}

/// What the store's inode said when this mount last read or changed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(super) size: u64,
    pub(super) version: u64,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) sparse: bool,
    pub(super) cut: Option<CutAt>,
}

impl Stored {
    pub(super) fn of(inode: &Inode) -> Stored {
        let Inode { size, version, mtime, ctime, sparse, cut, .. } = *inode;
        Stored { size, version, mtime, ctime, sparse, cut }
    }

    /// Lays it over a record that was read before.
    pub(crate) fn overlay(&self, inode: &mut Inode) {
        if self.version > inode.version {
            (inode.size, inode.version, inode.mtime) = (self.size, self.version, self.mtime);
            (inode.sparse, inode.cut) = (self.sparse, self.cut);
            inode.ctime = inode.ctime.max(self.ctime);
        }
    }
}

/// A file ended at `from` when the kernel may have read pages of it, and is longer now. Such a page has
/// zeros behind that end: they are to be dropped before the kernel is told how long the file is, or it
/// hands them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgrown {
    pub from: u64,
    /// Where it ended when that was asked.
    pub end: u64,
    growth: u64,
}

pub(super) struct State {
    stripe_size: StripeSize,
    /// The term in which everything here was written and read.
    pub term: u64,
    pub stored: Stored,
    pub stripes: BTreeMap<u32, Stripe>,
    /// What reached the store since the last commit began.
    pub arrived: Arrived,
    /// When the first of that was written, or a commit was asked for because of that.
    pub arrived_since: Option<Time>,
    /// The mount looks after that now and then.
    pub is_listed: bool,
    /// What the commit that is under way says, or one that failed would have said.
    committing: Arrived,
    /// One beyond the last byte that a failed send may have left in the store; else 0.
    pub residue_end: u64,
    /// When the file was last written, as far as the inode does not say so yet.
    pub changed: Option<Time>,
    pub errors: ErrorLog,
    pages: pages::Ages,
    cuts: cuts::Cuts,
    /// The store gives nobody else a place before this, as far as this mount asked for that.
    reserved: u64,
    /// Other mounts were given places before this, and may not have counted all of their bytes.
    awaited: u64,
    /// Others make the file longer while this mount appends.
    pub is_shared: bool,
    /// Handles that only read.
    pub readers: u32,
    outgrown: Option<Outgrown>,
    /// How often the file outgrew what readers may know of it.
    growths: u64,
    /// The time of being alone in which the record was read last; `None` with company.
    pub as_of: Option<u64>,
    /// Stripes read ahead. None of them is also in `stripes`: a write forgets what was read.
    pub ahead: HashMap<u32, Weak<Ahead>>,
}

impl State {
    pub fn new(stripe_size: StripeSize, inode: &Inode, term: u64) -> State {
        State {
            stripe_size,
            term,
            stored: Stored::of(inode),
            stripes: BTreeMap::new(),
            arrived: Arrived::default(),
            arrived_since: None,
            is_listed: false,
            committing: Arrived::default(),
            residue_end: 0,
            changed: None,
            errors: ErrorLog::default(),
            pages: pages::Ages::default(),
            cuts: cuts::Cuts::default(),
            reserved: 0,
            awaited: 0,
            is_shared: false,
            readers: 0,
            outgrown: None,
            growths: 0,
            as_of: None,
            ahead: HashMap::new(),
        }
    }

    /// The size that a reader in this mount sees.
    pub fn size(&self) -> u64 {
        self.stored.size.max(self.pending_end())
    }

    /// One beyond the last byte written and not yet part of the inode's size, or less than that.
    pub fn pending_end(&self) -> u64 {
        let last = self.stripes.last_key_value();
        let buffered = last.map_or(0, |(&index, stripe)| {
            self.stripe_size.start_of(index) + u64::from(stripe.end())
        });
        buffered.max(self.arrived.end).max(self.committing.end)
    }

    /// What an earlier term had not stored is lost: others may have written there since.
    pub fn begin_term<F>(&mut self, term: u64, unsent: &Unsent<F>) {
        self.term = term;
        self.ahead.clear();
        self.ages();
        self.as_of = None;
        if self.is_dirty() {
            let end = self.pending_end();
            self.cut_stripes(0..=u32::MAX, unsent);
            (self.arrived, self.committing) = Default::default();
            (self.changed, self.arrived_since) = (None, None);
            self.failed(end, EXPELLED);
        }
    }

    pub fn is_dirty(&self) -> bool {
        !self.stripes.is_empty() || self.has_uncommitted()
    }

    /// No other mount appends before this, unless it cuts the file first.
    pub fn reserved_end(&self) -> u64 {
        self.stored.size.max(self.reserved)
    }

    pub fn reserved(&mut self, end: u64) {
        self.reserved = self.reserved.max(end);
    }

    pub fn has_uncommitted(&self) -> bool {
        self.changed.is_some() || !self.arrived.is_empty() || !self.committing.is_empty()
    }

    /// Something was written where regions have marks, and the record does not say so yet.
    pub fn has_uncommitted_regions(&self) -> bool {
        !self.arrived.regions.is_empty() || !self.committing.regions.is_empty()
    }

    /// What the record is to say now. What arrives from here on is for the next commit: another
    /// mount may cut the file between the two. So is what arrived behind bytes that have not, which others
    /// would read as zeros, unless it lies before `owed`: that much was written when whoever commits began.
    pub fn begin_commit(&mut self, owed: u64) -> Arrived {
        let end = self.arrived.end.min(self.missing_from(owed.max(self.stored.size)));
        self.committing.join(match end < self.arrived.end {
            true => Arrived { end, ..self.arrived.clone() },
            false => {
                self.arrived_since = None;
                std::mem::take(&mut self.arrived)
            }
        });
        self.committing.clone()
    }

    /// Where the first byte lies, from `from` on, that was written and has not arrived.
    pub fn missing_from(&self, from: u64) -> u64 {
        let Ok(first) = u32::try_from(from / u64::from(self.stripe_size.bytes())) else {
            return u64::MAX;
        };
        let starts = self.stripes.range(first..).filter_map(|(&index, stripe)| {
            let start = self.stripe_size.start_of(index);
            let within = if index == first { self.stripe_size.within(from) } else { 0 };
            let rest = within..self.stripe_size.bytes();
            let layers = stripe.layers();
            let missing =
                layers.filter_map(|it| it.ranges.within(rest.clone()).map(|it| it.start).min());
            missing.min().map(|at| start + u64::from(at))
        });
        starts.min().unwrap_or(u64::MAX)
    }

    /// What arrived waits for a commit since some bytes were written that are older than `age`.
    pub fn has_aged(&self, now: Time, age: Duration) -> bool {
        self.arrived_since.is_some_and(|since| now - since >= age) && !self.arrived.is_empty()
    }

    /// The commit that is under way counts up to `end`.
    pub fn commits_up_to(&mut self, end: u64) {
        self.committing.reaches(end);
    }

    /// The inode is known as of a later version. `by_others`: not only by this file's own changes.
    pub fn adopt(&mut self, stored: Stored, by_others: bool) {
        let before = self.size();
        self.stored = stored;
        if by_others {
            self.ahead.clear();
            self.ages();
            self.is_shared |= self.reserved > 0 && stored.size > before;
            if stored.size != before {
                // What lies beyond the end may be theirs by now.
                self.residue_end = 0;
            }
            self.outgrows(before);
        }
    }

    pub fn ahead_of(&self, index: u32) -> Option<Arc<Ahead>> {
        self.ahead.get(&index)?.upgrade().filter(|ahead| ahead.is_promising())
    }

    pub fn wants_buffer(&self, index: u32) -> bool {
        self.stripes.get(&index).is_none_or(|stripe| stripe.dirty.is_none())
    }

    /// Opens a buffer for new writes to a stripe that has none.
    pub fn open_buffer(&mut self, index: u32, buffer: Buffer, birth: u64, since: Time) {
        let ranges = Ranges::default();
        let written = Written { buffer, ranges, birth, term: self.term, since, due: false };
        self.stripes.entry(index).or_default().dirty = Some(written);
    }

    /// Copies bytes into the open buffer of their stripe. `true`: it should be sent now, because
    /// the stream has reached the stripe's end or the buffer is too scattered.
    pub fn put(&mut self, piece: &Piece, bytes: &[u8], now: Time) -> bool {
        let before = (self.readers > 0).then(|| self.size());
        let due = self.put_in(piece, bytes, now);
        before.into_iter().for_each(|before| self.outgrows(before));
        due
    }

    fn put_in(&mut self, piece: &Piece, bytes: &[u8], now: Time) -> bool {
        self.ahead.remove(&piece.index);
        self.changed = Some(now);
        let stripe = self.stripes.get_mut(&piece.index);
        let dirty = stripe.and_then(|stripe| stripe.dirty.as_mut()).expect("an open buffer");
        dirty.buffer[as_usize(&piece.within)].copy_from_slice(bytes);
        dirty.ranges.insert(piece.within.clone());
        let ends = piece.within.end == self.stripe_size.bytes();
        !dirty.due && (ends || dirty.ranges.count() > RANGES_MAX)
    }

    /// Copies what is here of a piece over `out`, which stands for the piece.
    pub fn lay_over(&self, piece: &Piece, out: &mut [u8]) {
        let Some(stripe) = self.stripes.get(&piece.index) else { return };
        for written in stripe.layers() {
            for part in written.ranges.within(piece.within.clone()) {
                let at = (part.start - piece.within.start) as usize;
                let bytes = &written.buffer[as_usize(&part)];
                out[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// The parts of a piece that are here, as ranges inside the piece.
    pub fn parts(&self, piece: &Piece) -> Ranges {
        let mut parts = Ranges::default();
        for written in self.stripes.get(&piece.index).into_iter().flat_map(Stripe::layers) {
            for part in written.ranges.within(piece.within.clone()) {
                parts.insert(part.start - piece.within.start..part.end - piece.within.start);
            }
        }
        parts
    }

    /// Makes a stripe's buffer due. `true`: it has to be given a sender.
    pub fn call_due(&mut self, index: u32) -> bool {
        let Some(stripe) = self.stripes.get_mut(&index) else { return false };
        let Some(dirty) = stripe.dirty.as_mut().filter(|dirty| !dirty.due) else { return false };
        dirty.due = true;
        stripe.sending.is_none()
    }

    /// The stripes that were written, if they are few with few bytes and nothing of them is due or
    /// on its way.
    pub fn little_unsent(&self, stripes_max: usize, bytes_max: u32) -> Option<Vec<u32>> {
        if self.stripes.is_empty() || self.stripes.len() > stripes_max {
            return None;
        }
        let mut bytes = 0;
        for stripe in self.stripes.values() {
            let dirty = stripe.dirty.as_ref().filter(|dirty| !dirty.due)?;
            bytes += dirty.ranges.bytes();
            if stripe.sending.is_some() || bytes > bytes_max {
                return None;
            }
        }
        Some(self.stripes.keys().copied().collect())
    }

    pub fn is_due(&self, index: u32) -> bool {
        let dirty = self.stripes.get(&index).and_then(|stripe| stripe.dirty.as_ref());
        dirty.is_some_and(|dirty| dirty.due)
    }

    /// The store does not have all bytes up to `end`, but perhaps some.
    pub fn failed(&mut self, end: u64, error: Error) {
        self.errors.record(error);
        self.residue_end = self.residue_end.max(end);
    }

    /// What was on its way, and is not any more, lies under what was written since, and is as old as
    /// ever. Returns the birth that is not among those unsent any more.
    pub fn put_back(&mut self, index: u32, older: Written) -> Option<u64> {
        let stripe = self.stripes.entry(index).or_default();
        let Some(newer) = &mut stripe.dirty else {
            stripe.dirty = Some(Written { due: false, ..older });
            return None;
        };
        for range in older.ranges.iter() {
            let mut bare = Ranges::default();
            bare.insert(range.clone());
            newer.ranges.within(range).for_each(|held| bare.remove(held));
            for part in bare.iter() {
                newer.buffer[as_usize(&part)].copy_from_slice(&older.buffer[as_usize(&part)]);
                newer.ranges.insert(part);
            }
        }
        newer.since = newer.since.min(older.since);
        newer.due = false;
        Some(std::mem::replace(&mut newer.birth, older.birth))
    }

    /// Nothing of a stripe is on its way any more.
    pub fn sent(&mut self, index: u32) {
        let Some(stripe) = self.stripes.get_mut(&index) else { return };
        stripe.sending = None;
        if stripe.dirty.is_none() {
            self.stripes.remove(&index);
        }
    }

    /// The record says what the commit began with, and `changed` at least.
    pub fn committed(&mut self, changed: Option<Time>) {
        self.committing = Arrived::default();
        self.settle_time(changed);
    }

    /// The record has the size that everything was cut to, and this time. What is left to arrive
    /// was written before it.
    pub fn truncated(&mut self, now: Time) {
        self.arrived = Arrived::default();
        self.committing = Arrived::default();
        self.residue_end = 0;
        self.cuts.cut(self.stored.size);
        (self.reserved, self.awaited) = (0, 0);
        self.changed = self.changed.map(|_| now);
        self.settle_time(self.changed);
    }

    /// The times were set by hand, in the record that the file will be made with.
    pub fn times_set(&mut self, mtime: Option<Time>, ctime: Time) {
        self.stored.ctime = self.stored.ctime.max(ctime);
        if let Some(mtime) = mtime {
            self.stored.mtime = mtime;
            self.changed = None;
        }
    }

    /// Bytes that are yet to arrive want another commit, so that other mounts see them: the time
    /// stays pending for their sake.
    fn settle_time(&mut self, committed: Option<Time>) {
        if self.changed == committed && self.stripes.is_empty() {
            self.changed = None;
        }
    }

    pub fn has_residue_before(&self, offset: u64) -> bool {
        let size = self.size();
        size < offset && size < self.residue_end
    }

    /// Forgets the bytes of a range of a stripe that nobody has begun to send.
    pub fn cut<F>(&mut self, index: u32, range: Range<u32>, unsent: &Unsent<F>) {
        let Some(stripe) = self.stripes.get_mut(&index) else { return };
        let Some(dirty) = &mut stripe.dirty else { return };
        dirty.ranges.remove(range);
        if dirty.ranges.is_empty() {
            unsent.remove(dirty.birth);
            stripe.dirty = None;
        }
        if stripe.dirty.is_none() && stripe.sending.is_none() {
            self.stripes.remove(&index);
        }
    }

    /// The same for whole stripes.
    pub fn cut_stripes<F>(&mut self, stripes: RangeInclusive<u32>, unsent: &Unsent<F>) {
        let indices: Vec<_> = self.stripes.range(stripes).map(|(&index, _)| index).collect();
        for index in indices {
            self.cut(index, 0..self.stripe_size.bytes(), unsent);
        }
    }

    /// A buffer of these stripes that is as old as `birth` is on its way.
    pub fn is_sending(&self, stripes: RangeInclusive<u32>, birth: u64) -> bool {
        let sending = self.stripes.range(stripes).filter_map(|(_, stripe)| stripe.sending.as_ref());
        sending.into_iter().any(|written| written.birth <= birth)
    }

    /// A buffer as old as `birth` has not reached the store.
    pub fn awaits(&self, birth: u64) -> bool {
        self.stripes.values().flat_map(Stripe::layers).any(|written| written.birth <= birth)
    }

    /// Stripes with a buffer as old as `birth` that nobody is about to send.
    pub fn idle_since(&self, birth: u64) -> Vec<u32> {
        let is_idle = |dirty: &Written| dirty.birth <= birth && !dirty.due;
        let idle = self.stripes.iter().filter(|(_, it)| it.dirty.as_ref().is_some_and(is_idle));
        idle.map(|(&index, _)| index).collect()
    }

    /// The birth of the youngest buffer.
    pub fn youngest(&self) -> Option<u64> {
        self.stripes.values().flat_map(Stripe::layers).map(|written| written.birth).max()
    }
}

impl Stripe {
    /// What lies over the store's bytes, lowest first.
    fn layers(&self) -> impl Iterator<Item = &Written> {
        self.sending.as_deref().into_iter().chain(&self.dirty)
    }

    /// One beyond the last byte of the stripe that is here.
    pub fn end(&self) -> u32 {
        self.layers().map(|written| written.ranges.end()).max().unwrap_or(0)
    }
}

impl Written {
    /// Each range with its bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.ranges.iter().map(|range| (range.start, &self.buffer[as_usize(&range)]))
    }
}

fn as_usize(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
