//! The data path of one mount: everything that touches the bytes of files.
//!
//! A [`DataPath`] is what all files of a mount share: the store, the threads that move stripes, and
//! the budgets. An [`OpenFile`] is one inode that is open here, shared by all its handles; it has
//! the file's stripes, written and not yet stored, and hides from its callers where a byte is.
//!
//! - A read sees every write that returned before it began, whether the bytes are still in a
//!   buffer, on their way or stored.
//! - Two sends of one stripe never overtake each other: a stripe has one send in flight at most.
//! - The inode's record never counts written bytes before the store has them, where another mount
//!   could read them; see `at_once`, and `behind` for what others append.
//! - A write that failed after it returned is reported once by each handle, at its next write or
//!   flush. Its bytes are gone then: the range reads as the store has it, and the size falls back
//!   to what is stored.
//! - Locks, outermost first: `gate`, `committing`, a reader's run, `appends`, `state`, and the
//!   mount's own (buffers, unsent, queue), which are leaves. `state` is never held across a call
//!   of the store; `gate` and `committing` are where an order among such calls matters.
//!
//! Contract for the rest of the crate: one [`OpenFile`] for an inode at a time; [`OpenFile::flush`]
//! at each close; an [`ErrorCursor`] and a [`ReadAhead`] for each handle; a file that is given up
//! is flushed before its last reference is dropped, and before [`DataPath::close`].

mod ahead;
mod append;
mod arrived;
mod behind;
mod buffers;
mod combined_commit;
mod commit;
mod cut;
mod delete;
mod deletions;
mod errors;
mod file;
mod holes;
mod lingering;
mod open_unlinked;
mod pinned;
mod pool;
mod ranges;
mod read;
mod read_buffers;
mod record;
mod regions;
mod run;
mod seek;
mod send;
mod space;
mod state;
mod stored;
mod striped;
mod truncate;
mod unforgotten;
mod unsent;
mod write;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId, ShardKey, StripeSize, Time};
use tidefs_store::{Store, caller};

pub use append::AppendedAt;
pub(crate) use combined_commit::LITTLE_BYTES_MAX;
pub use errors::ErrorCursor;
pub use file::OpenFile;
pub use run::ReadAhead;
pub(crate) use state::Stored;
pub use state::{OldPages, Outgrown};

use crate::write_back::{Nameless, WriteBack};
use crate::{Config, Error};
use ahead::AheadBudget;
use buffers::{Buffer, Buffers};
use delete::{Removed, delete_files};
use deletions::{Deletions, Next};
use lingering::Lingering;
use pool::{Job, Pool};
use read_buffers::ReadBuffers;
use striped::Striped;
use unsent::Unsent;

/// Buffers that a mount has at least: one that fills while another one is sent.
const BUFFERS_MIN: u64 = 2;
/// After a full store, this many writes wait for the store one by one, so that `ENOSPC` reaches the
/// write that meets it; each that succeeds counts down.
const WRITES_IN_DOUBT: u32 = 64;
/// Buffers whose age is looked at in one go.
const AGED_AT_ONCE: usize = 64;
/// How long a writer waits for a buffer before it sees to it that more of them are sent.
const BUFFER_PATIENCE: Duration = Duration::from_millis(50);

/// Shared by all files of a mount: store, threads and budgets.
pub struct DataPath<S: Store> {
    store: Arc<WriteBack<S>>,
    stripe_size: StripeSize,
    clock: Arc<dyn Clock>,
    dirty_age_max: Duration,
    /// Sends what was written.
    senders: Pool,
    /// Reads ahead and removes: nobody's write waits behind that.
    helpers: Pool,
    buffers: Arc<Buffers>,
    buffer_count: usize,
    unsent: Unsent<Striped<S>>,
    /// Files whose appends the store could not be told of; each once.
    owing: Mutex<Vec<Weak<Striped<S>>>>,
    /// Files of which bytes have arrived that their records do not count; each once.
    uncounted: Mutex<Vec<Weak<Striped<S>>>>,
    read_buffers: ReadBuffers,
    ahead_budget: Arc<AheadBudget>,
    /// Writes that are yet to wait for the store because it was full.
    in_doubt: AtomicU32,
    /// Nobody waits for room any more.
    is_over: AtomicBool,
    deletions: Arc<Deletions>,
    lingering: Lingering,
    /// Removed inodes that this mount's kernel has.
    unforgotten: Lingering,
    kernel_has: OnceLock<Box<dyn Fn(Ino) -> bool + Send + Sync>>,
    /// Mounts that may have removed files open.
    others: Mutex<Vec<MountId>>,
    /// How often others were called to stand still.
    calls: AtomicU64,
    /// How many numbers of inodes had been granted at the last loss; 0: nothing was lost.
    lost_at: AtomicU64,
    /// The kernel writes by itself and meets a full store without us, so room is made before a
    /// removal returns.
    deletes_at_once: bool,
    /// By how much pinned files grew while they were written.
    grown_bytes: AtomicU64,
    growth_watcher: OnceLock<GrowthWatcher>,
}

/// Is told of each pinned file that grew while it was written, and by how much.
pub type GrowthWatcher = Box<dyn Fn(Ino, u64) + Send + Sync>;

impl<S: Store> DataPath<S> {
    pub fn new(
        store: Arc<WriteBack<S>>,
        stripe_size: StripeSize,
        config: &Config,
        clock: Arc<dyn Clock>,
    ) -> Arc<DataPath<S>> {
        let stripe_bytes = u64::from(stripe_size.bytes());
        let buffer_count = (config.dirty_bytes_max.0 / stripe_bytes).max(BUFFERS_MIN) as usize;
        let ahead_stripes = config.read_ahead_bytes_max.0 / stripe_bytes;
        // Whoever takes this mount over goes on with other numbers.
        let first_call = clock.now().0;
        Arc::new(DataPath {
            store,
            stripe_size,
            clock,
            dirty_age_max: config.dirty_age_max,
            senders: Pool::new("send", config.io_threads),
            helpers: Pool::new("help", config.io_threads),
            buffers: Buffers::new(stripe_size.bytes() as usize, buffer_count),
            buffer_count,
            unsent: Unsent::new(),
            owing: Mutex::default(),
            uncounted: Mutex::default(),
            read_buffers: ReadBuffers::new(stripe_size.bytes() as usize, ahead_stripes as usize),
            ahead_budget: AheadBudget::new(ahead_stripes as usize),
            in_doubt: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            deletions: Arc::default(),
            lingering: Lingering::for_at_least(lingering::AGE_MIN),
            unforgotten: Lingering::default(),
            kernel_has: OnceLock::new(),
            others: Mutex::default(),
            calls: AtomicU64::new(first_call),
            lost_at: AtomicU64::new(0),
            deletes_at_once: config.passthrough,
            grown_bytes: AtomicU64::new(0),
            growth_watcher: OnceLock::new(),
        })
    }

    /// A loss is known to this mount: what is cut from now on is cut after it.
    pub fn note_loss(&self, granted: u64) {
        self.lost_at.fetch_max(granted, Ordering::SeqCst);
    }

    /// At which loss that is known to this mount numbers had been granted furthest.
    fn lost_at(&self) -> u64 {
        self.lost_at.load(Ordering::SeqCst)
    }

    /// To be called once.
    pub fn watch_growth(&self, watcher: GrowthWatcher) {
        let _ = self.growth_watcher.set(watcher);
    }

    fn has_grown(&self, ino: Ino, bytes: u64) {
        self.grown_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(watcher) = self.growth_watcher.get().filter(|_| bytes > 0) {
            watcher(ino, bytes);
        }
    }

    /// By how much pinned files grew while they were written: as far as anybody knows what the
    /// kernel wrote to them by itself.
    pub fn grown_bytes(&self) -> u64 {
        self.grown_bytes.load(Ordering::Relaxed)
    }

    /// Removes all stripes of a file that has no name and no handle any more, and its inode: in the
    /// background, many files at a time, except where the kernel writes by itself. The call waits
    /// while the queue is full. What a failure leaves behind is unreachable, and an inode without
    /// links says what it is.
    pub fn delete(&self, home: ShardKey, ino: Ino, size: u64) {
        self.delete_removed(Removed { home, ino, size });
    }

    /// The same after a while, for an inode of any kind that other mounts may just have found.
    pub fn delete_later(&self, home: ShardKey, ino: Ino, size: u64) {
        let removed = Removed { home, ino, size };
        let gone = self.lingering.add(removed, self.clock.steady());
        let gone = if gone.is_empty() { gone } else { self.unused(gone) };
        gone.into_iter().for_each(|removed| self.delete_removed(removed));
    }

    /// An inode that was to be deleted later is in use here, and is to be deleted anew after that.
    /// `false`: it was not.
    pub fn keep(&self, ino: Ino) -> bool {
        self.lingering.claim(ino) | self.unforgotten.claim(ino)
    }

    /// An inode without a name is to be freed from here, or being freed.
    pub fn is_freeing(&self, ino: Ino) -> bool {
        // In the order in which it goes through them.
        self.store.is_nameless(ino)
            || self.unforgotten.has(ino)
            || self.lingering.has(ino)
            || self.deletions.has(ino)
    }

    fn delete_removed(&self, removed: Removed) {
        match self.deletions.add(removed, self.is_in_doubt()) {
            _ if self.deletes_at_once => self.free_removed(),
            Next::Wait => {}
            Next::Call => self.helpers.push(self.freeing()),
            Next::Free => self.free_removed(),
        }
    }

    /// Removes the inodes that lost their last name with a deferred removal.
    /// `later`: other mounts may just have found them.
    pub fn free_nameless(&self, later: bool) {
        self.store.free_nameless(|Nameless { home, ino, size }| {
            if self.keep_for_kernel(home, ino, size, later) {
                return;
            }
            match later {
                true => self.delete_later(home, ino, size),
                false => self.delete(home, ino, size),
            }
        });
    }

    /// Has something done in the background. `false`: everybody is busy.
    pub fn try_help(&self, work: impl FnOnce() + Send + 'static) -> bool {
        self.helpers.try_push(Box::new(work)).is_ok()
    }

    /// Has removed files freed whose time has come.
    pub fn free_due(&self) {
        let due = self.unused(self.lingering.due(self.clock.steady()));
        due.into_iter().for_each(|removed| self.delete_removed(removed));
        self.free_uncalled();
    }

    /// To be called now and then: has removed files freed that wait for others to come.
    pub fn free_waiting(&self) {
        self.free_uncalled();
    }

    fn free_uncalled(&self) {
        if self.deletions.is_uncalled() {
            // Where there is no room in the queue they wait for the next time.
            drop(self.helpers.try_push(self.freeing()));
        }
    }

    fn freeing(&self) -> Job {
        let (store, stripe_size) = (Arc::clone(&self.store), self.stripe_size);
        let deletions = Arc::clone(&self.deletions);
        Box::new(move || delete_files(&store, stripe_size, &deletions.take().files))
    }

    fn free_removed(&self) {
        delete_files(&self.store, self.stripe_size, &self.deletions.take().files);
    }

    /// Grows whenever removed files have been freed; see [`wait_for_room`](Self::wait_for_room).
    pub fn freed(&self) -> u64 {
        self.deletions.freed()
    }

    /// After the store was full: frees what waits for that, and waits for removals that are under
    /// way, for a bounded time. `false`: there were none since `before`, which is to be taken before the
    /// store is tried, so trying again is in vain. `wanted_by`: the file whose bytes need it.
    pub fn wait_for_room(&self, before: u64, wanted_by: Option<Ino>) -> bool {
        // Nobody can read them any more, and others wait for its end.
        if wanted_by.is_some_and(|ino| self.deletions.expects(ino)) {
            return false;
        }
        self.free_all_removed();
        if self.deletions.wait_for_expected() {
            self.free_all_removed();
        }
        self.deletions.wait(before)
    }

    /// A file that this mount removed is on its way to be freed: whoever used it last is closing it.
    pub fn expect_removed(&self, ino: Ino) {
        self.deletions.expect(ino);
    }

    /// That has come to its end, one way or the other.
    pub fn expect_removed_no_longer(&self, ino: Ino) {
        self.deletions.expect_no_longer(ino);
    }

    fn free_all_removed(&self) {
        self.store.settle_all();
        self.free_nameless(self.has_company());
        let mut removed = self.lingering.all();
        removed.extend(self.unforgotten.all());
        for removed in self.unused(removed) {
            // Whatever it answers, all are freed here.
            self.deletions.add(removed, true);
        }
        let group = self.deletions.take();
        delete_files(&self.store, self.stripe_size, &group.files);
        drop(group);
    }

    /// Waits until everything handed over is done and stops the threads. What is handed over later
    /// is done by the caller.
    pub fn close(&self) {
        self.deletions.close();
        let mut left = self.unforgotten.all();
        left.extend(self.lingering.all());
        let (unused, _left_to_others) = self.parted(left);
        unused.into_iter().for_each(|removed| self.delete_removed(removed));
        self.free_removed();
        self.end_threads();
    }

    /// Stops the threads, which have nothing left to do.
    pub fn end_threads(&self) {
        self.senders.close();
        self.helpers.close();
    }

    /// A buffer to write into, if one is free.
    fn buffer_at_once(&self) -> Option<Buffer> {
        self.buffers.take_within(Duration::ZERO)
    }

    /// A buffer to write into. Where all are in use, at least half of them are on their way to the
    /// store, so one comes back when a call of the store ends.
    ///
    /// # Errors
    /// When whoever asked does not want to wait any longer.
    fn buffer(&self) -> Result<Buffer, Error> {
        loop {
            if let Some(buffer) = self.buffers.take_within(BUFFER_PATIENCE) {
                return Ok(buffer);
            }
            if caller::has_gone() {
                return Err(send::interrupted().into());
            }
            self.send_oldest();
        }
    }

    /// Nobody waits for room any more.
    pub fn stop_waiting(&self) {
        self.is_over.store(true, Ordering::Release);
        self.store.stop_waiting();
    }

    /// What finds no room now is given up.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Half of the buffers may wait for more bytes; beyond that the oldest are sent early, so that
    /// scattered writes do not come to a halt at the end of the budget.
    fn relieve(&self) {
        if self.unsent.count() > self.buffer_count / 2 {
            self.send_oldest();
        }
    }

    /// Starts to send what has waited for longer than the mount lets it, of all files, and to count what
    /// arrived; looks at nothing else. Does not wait.
    pub fn flush_aged(&self, now: Time) {
        let mut uncounted = std::mem::take(&mut *self.uncounted());
        uncounted.retain(|file| file.upgrade().is_some_and(|file| file.count_aged(now)));
        self.uncounted().append(&mut uncounted);
        let mut last = 0;
        loop {
            let oldest = self.unsent.oldest(last, AGED_AT_ONCE);
            for (birth, file, index) in &oldest {
                last = *birth;
                if !file.flush_aged(*index, now) {
                    return;
                }
            }
            if oldest.len() < AGED_AT_ONCE {
                return;
            }
        }
    }

    /// Bytes of a file arrived and are not counted yet.
    fn counts_later(&self, file: &Arc<Striped<S>>) {
        self.uncounted().push(Arc::downgrade(file));
    }

    fn uncounted(&self) -> MutexGuard<'_, Vec<Weak<Striped<S>>>> {
        self.uncounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file owes the store to tell how far it was appended to.
    fn owes(&self, file: &Arc<Striped<S>>) {
        self.owing().push(Arc::downgrade(file));
    }

    /// Tries again to tell what files owe, and looks at no others.
    pub fn tell_owed(&self) {
        let owing = std::mem::take(&mut *self.owing());
        for file in owing.iter().filter_map(Weak::upgrade) {
            file.send_for_others(true);
            if let Err(error) = file.tell_appends() {
                tracing::debug!(%error, "what was appended is not in the store yet");
            }
            if file.owes_appends() {
                self.owes(&file);
            }
        }
    }

    fn owing(&self) -> MutexGuard<'_, Vec<Weak<Striped<S>>>> {
        self.owing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Several at once: small pieces of one file go to the store in one call.
    fn send_oldest(&self) {
        let mut oldest = self.unsent.take_oldest((self.buffer_count / 8).max(1));
        while let Some((file, _)) = oldest.first() {
            let file = Arc::clone(file);
            let (same, others): (Vec<_>, Vec<_>) =
                oldest.into_iter().partition(|(other, _)| Arc::ptr_eq(other, &file));
            file.hand_over(same.into_iter().map(|(_, index)| index));
            oldest = others;
        }
    }

    /// `true`: it had room the last time.
    fn store_was_full(&self) -> bool {
        self.in_doubt.swap(WRITES_IN_DOUBT, Ordering::Relaxed) == 0
    }

    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed) > 0
    }

    fn store_had_room(&self) {
        let less = |writes: u32| writes.checked_sub(1);
        // Zero already: somebody else saw enough writes succeed.
        let _ = self.in_doubt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
