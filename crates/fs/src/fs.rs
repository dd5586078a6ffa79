//! The file system as one mount sees it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidefs_model::{Clock, Granted, Ino, MountId, Partition, ShardKey, Time};
use tidefs_sealed::{Circumstances, Sealed};
use tidefs_store::{Overview, Store, StoreError, caller};

use crate::attr::StatFs;
use crate::census::Census;
use crate::census::standstill::{Called, Taken};
use crate::closing::CLOSED_AGE_MAX;
use crate::config::{Config, Format};
use crate::counters::Counters;
use crate::data::{DataPath, GrowthWatcher};
use crate::delegations::{self, Delegations};
use crate::eager_flush::ClosePredictor;
use crate::error::Error;
use crate::handles::Handles;
use crate::hints::Hints;
use crate::keys;
use crate::known_fields::KnownFields;
use crate::known_names::Budget;
use crate::lifetimes::KernelCache;
use crate::listed::Listed;
use crate::locks::Locks;
use crate::membership::{Admission, Membership, Solitude};
use crate::openers::OpenFiles;
use crate::ops::Doubts;
use crate::superblock::{self, NumberSource};
use crate::table::Table;
use crate::terms::LastOpened;
use crate::unfinished::Unfinished;
use crate::write_back::WriteBack;

/// One mount of a file system. Every method may be called from many threads, and ends in a time
/// that the store bounds.
pub struct Fs<S: Store> {
    pub(crate) store: Arc<WriteBack<S>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) format: Format,
    pub(crate) data: Arc<DataPath<S>>,
    pub(crate) table: Arc<Table<S>>,
    pub(crate) handles: Handles<S>,
    pub(crate) hints: Hints,
    pub(crate) listed: Listed,
    pub(crate) membership: Membership,
    /// Where the owner of the file system may expel this mount.
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) stale_pages: Mutex<BTreeSet<Ino>>,
    pub(crate) last_opened: LastOpened,
    pub(crate) locks: Locks,
    pub(crate) opened: OpenFiles,
    pub(crate) counters: Counters,
    pub(crate) close_predictor: ClosePredictor,
    pub(crate) names_budget: Budget,
    /// Counts what this mount changes in records of inodes; see [`crate::known_records`].
    pub(crate) record_changes: AtomicU64,
    pub(crate) inos: NumberSource,
    /// Of local files.
    pub(crate) serials: NumberSource,
    /// Counts local files that this mount set out to make.
    pub(crate) local_files: AtomicU64,
    pub(crate) transactions: AtomicU64,
    /// Directories removed by this mount whose shards are still closed, oldest first.
    pub(crate) closed: Mutex<VecDeque<(Time, Ino)>>,
    pub(crate) unfinished: Unfinished,
    pub(crate) census: Census,
    pub(crate) called: Arc<Called>,
    pub(crate) taken: Taken,
    /// Where the kernel of this mount can be told what to forget.
    pub(crate) kernel_cache: OnceLock<Arc<dyn KernelCache>>,
    pub(crate) prunings: AtomicUsize,
    pub(crate) doubts: Doubts,
}

/// Odd, so that multiples of it walk through all 64-bit numbers.
const TRANSACTION_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Transactions that a mount makes at most, in a century of a hundred thousand a second.
const TRANSACTIONS_MAX: u64 = 1 << 48;

/// Whether a transaction's number is one that the mount makes; of another mount's it is by a chance
/// of 2^-16.
pub(crate) fn is_transaction_of(mount: MountId, transaction: u64) -> bool {
    // Each step of Newton's method doubles the bits of the inverse that are right, from 3 on.
    let refine = |inverse: u64, _| {
        inverse.wrapping_mul(2_u64.wrapping_sub(TRANSACTION_STEP.wrapping_mul(inverse)))
    };
    let inverse = (0..5).fold(TRANSACTION_STEP, refine);
    transaction.wrapping_sub(mount.0).wrapping_mul(inverse) < TRANSACTIONS_MAX
}

/// The store, with its stripes sealed where the format says so.
pub(crate) fn sealed<S: Store>(
    store: Arc<S>,
    config: &Config,
    format: &Format,
    solitude: Arc<Solitude>,
    clock: Arc<dyn Clock>,
) -> Sealed<S> {
    let Some(cipher) = format.cipher else { return Sealed::plain(store) };
    let circumstances = Circumstances {
        time_alone: Box::new(move || solitude.time_alone(clock.steady())),
        losses: (keys::SUPERBLOCK, superblock::LOST_BELOW.to_vec()),
    };
    Sealed::new(store, cipher, config.sealing, format.stripe_size, circumstances)
}

impl<S: Store> Fs<S> {
    /// Makes an empty file system in a store that has none; leaves one that is there as it is.
    pub fn format(store: &S, format: Format, clock: &dyn Clock) -> Result<(), Error> {
        superblock::format(store, format, clock)
    }

    /// Where lies what all mounts look at.
    pub fn superblock_partition() -> Partition {
        superblock::partition()
    }

    /// Makes anew what no file system can do without and was lost with a node that died.
    pub fn recreate(store: &S, format: Format, granted: Granted, now: Time) -> Result<(), Error> {
        superblock::recreate(store, format, granted, now)
    }

    /// Joins the file system in the store as one more mount. It may serve once it is
    /// [admitted](Fs::is_admitted).
    pub fn mount(store: Arc<S>, config: Config, clock: Arc<dyn Clock>) -> Result<Fs<S>, Error> {
        Fs::mount_let_in(store, config, clock, None)
    }

    /// The same for one whom the owner of the file system has let in, and may expel.
    pub fn mount_let_in(
        store: Arc<S>,
        config: Config,
        clock: Arc<dyn Clock>,
        admission: Option<Arc<dyn Admission>>,
    ) -> Result<Fs<S>, Error> {
        Fs::mount_by(store, config, clock, admission, Membership::join)
    }

    /// `enter`: how it becomes one of the mounts.
    pub(crate) fn mount_by(
        store: Arc<S>,
        config: Config,
        clock: Arc<dyn Clock>,
        admission: Option<Arc<dyn Admission>>,
        enter: impl FnOnce(&Arc<S>, MountId, Time) -> Result<Membership, Error>,
    ) -> Result<Fs<S>, Error> {
        let format = superblock::read(&store)?;
        if format.cipher.is_some() && config.sealing.is_none() {
            return Err(Error::NoKey);
        }
        let membership = enter(&store, config.mount, clock.steady())?;
        let membership = if admission.is_some() { membership.owned() } else { membership };
        if let Err(error) = delegations::forget_gone(&store) {
            tracing::debug!(%error, "what mounts left that are gone stays in the store");
        }
        Ok(Fs::with(store, config, clock, format, membership, admission))
    }

    /// Hands that work on a file system without being a mount of it.
    pub(crate) fn outside(
        store: Arc<S>,
        config: Config,
        clock: Arc<dyn Clock>,
        format: Format,
    ) -> Fs<S> {
        Fs::with(store, config, clock, format, Membership::outside(config.mount), None)
    }

    fn with(
        store: Arc<S>,
        config: Config,
        clock: Arc<dyn Clock>,
        format: Format,
        membership: Membership,
        admission: Option<Arc<dyn Admission>>,
    ) -> Fs<S> {
        let (identity, solitude) = (membership.identity(), membership.solitude());
        let delegations =
            Delegations::new(&config, identity.clone(), clock.clone(), solitude, format.shards);
        let delegations = Arc::new(delegations);
        let known =
            config.remembers().then(|| KnownFields::new(delegations.clone(), clock.clone()));
        let last_opened = LastOpened::from(identity.term());
        let store = sealed(store, &config, &format, membership.solitude(), clock.clone());
        let store = WriteBack::over(Arc::new(store), known, delegations);
        let data = DataPath::new(store.clone(), format.stripe_size, &config, clock.clone());
        Fs {
            store,
            clock,
            config,
            format,
            data,
            table: Arc::new(Table::new()),
            handles: Handles::new(),
            hints: Hints::new(),
            listed: Listed::default(),
            membership,
            admission,
            stale_pages: Mutex::default(),
            last_opened,
            locks: Locks::new(identity),
            opened: OpenFiles::default(),
            counters: Counters::default(),
            close_predictor: ClosePredictor::default(),
            names_budget: Budget::default(),
            record_changes: AtomicU64::new(0),
            inos: NumberSource::inos(),
            serials: NumberSource::serials(),
            local_files: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            closed: Mutex::default(),
            unfinished: Unfinished::default(),
            census: Census::default(),
            called: Arc::default(),
            taken: Taken::default(),
            kernel_cache: OnceLock::new(),
            prunings: AtomicUsize::new(0),
            doubts: Doubts::default(),
        }
    }

    /// Every other mount knows of this one. To be asked again, up to every 50 ms, until it is so;
    /// a mount that died without a word delays it by 12 s.
    pub fn is_admitted(&self) -> Result<bool, Error> {
        self.membership.is_acknowledged(&self.store, self.steady())
    }

    /// `false` when this mount was stopped for so long that others may have taken it for dead; to be
    /// asked again until it is `true`, while [`Fs::beat`] goes on. It takes no lock until then.
    pub fn is_known_to_others(&self) -> bool {
        self.membership.is_known_to_others(self.steady())
    }

    pub fn format_of(&self) -> &Format {
        &self.format
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The least that the kernel has written to pinned files by itself: by how much they grew, as
    /// far as their programs have closed them.
    pub fn grown_bytes(&self) -> u64 {
        self.data.grown_bytes()
    }

    /// Has somebody told of each file that grew by what the kernel wrote to it by itself; to be called once.
    pub fn watch_growth(&self, watcher: GrowthWatcher) {
        self.data.watch_growth(watcher);
    }

    pub fn overview(&self) -> Result<Overview, Error> {
        Ok(self.store.overview()?)
    }

    /// Totals over the nodes that answer.
    pub fn statfs(&self) -> Result<StatFs, Error> {
        /// An inode costs about this much memory, so this bounds how many more fit.
        const BYTES_PER_INODE: u64 = 512;
        let overview = self.overview()?;
        let capacity_bytes = overview.memory_capacity_bytes();
        let used_bytes = overview.memory_used_bytes().min(capacity_bytes);
        let inodes_free = (capacity_bytes - used_bytes) / BYTES_PER_INODE;
        let keys: u64 = overview.nodes.iter().map(|node| node.keys).sum();
        Ok(StatFs {
            capacity_bytes,
            used_bytes,
            block_bytes: 4096,
            inodes: inodes_free.saturating_add(keys),
            inodes_free,
        })
    }

    /// All housekeeping, for a caller with one thread: [`Fs::beat`] and [`Fs::keep_up`].
    pub fn tick(&self) -> Result<bool, Error> {
        let news = self.beat();
        self.keep_up();
        news
    }

    /// Housekeeping that others wait for, to be called every 100 ms or so: sends bytes that have
    /// waited long, and keeps this mount's registration alive. `true`: another mount is about to
    /// start, and before the next call the kernel must have dropped every name and attribute that it
    /// keeps.
    pub fn beat(&self) -> Result<bool, Error> {
        match self.in_this_term(|| self.beat_on()) {
            Err(Error::Store(StoreError::Expelled)) => self.begin_term(),
            news => {
                self.open_term();
                news
            }
        }
    }

    fn beat_on(&self) -> Result<bool, Error> {
        self.data.flush_aged(self.steady());
        self.data.free_waiting();
        if self.membership.is_about_to_share() && !self.is_settled() {
            self.membership.set_unready();
        }
        let news = self.membership.tick(&self.store, self.steady());
        // A newcomer may open files as soon as this mount has acknowledged it.
        self.data.set_others(self.membership.others(self.steady()));
        if self.membership.is_back() {
            // Others may have freed what was open here.
            self.opened.forget_all();
        }
        self.note_told_loss();
        if news.is_err() {
            // Without the register nobody knows who else is there.
            self.membership.could_not_ask(self.steady());
        }
        news
    }

    /// Another mount waits for this one to say that it shares: [`Fs::beat`] and [`Fs::keep_up`] are to be called soon.
    pub fn is_about_to_share(&self) -> bool {
        self.membership.is_about_to_share()
    }

    /// The rest of the housekeeping, to be called as often; without it no other mount can start. A node
    /// that does not answer may hold it up, so the registration must not wait for it.
    pub fn keep_up(&self) {
        self.in_this_term(|| self.keep_up_with_all());
    }

    fn keep_up_with_all(&self) {
        self.store.let_go_of_lapsed();
        self.store.flush_changes();
        self.tell_appends();
        self.store.tidy();
        self.store.fence_given_up();
        if let Err(error) = self.get_ready() {
            tracing::debug!(%error, "another mount waits for locks that are held here");
        }
        self.free_nameless();
        if self.membership.has_expelled()
            && let Err(error) = delegations::forget_gone(&self.store)
        {
            tracing::debug!(%error, "what mounts left that are gone stays in the store");
        }
        if let Err(error) = self.answer_census() {
            tracing::debug!(%error, "a check asks what is in use and cannot be answered");
        }
        self.answer_call();
        let steady = self.steady();
        self.check_locks(steady);
        self.data.set_others(self.membership.others(steady));
        // First: others wait two seconds for that, and freeing may wait for them.
        self.note_open_files(steady);
        self.data.free_due();
        self.listed.give_up(steady);
        self.prune_inodes();
        if let Err(error) = self.clear_closed(CLOSED_AGE_MAX) {
            tracing::debug!(%error, "what removed directories left could not be cleared");
        }
    }

    /// Lets go of what other mounts want to change. To be called every few milliseconds while
    /// it answers `true`, and as often as [`Fs::beat`] otherwise, by a thread that nothing else holds up;
    /// without it this mount asks the store for everything while there is company.
    pub fn answer_recalls(&self) -> Result<bool, Error> {
        self.in_this_term(|| self.store.answer_recalls())
    }

    /// Another mount asked a moment ago for what this one kept: [`Fs::answer_recalls`] is to be called every millisecond.
    pub fn was_recalled_lately(&self) -> bool {
        self.store.was_recalled_lately()
    }

    /// The store has all that others must find there, but for locks.
    fn is_settled(&self) -> bool {
        let have_told = || self.handles.all_files().iter().all(|it| it.file.has_told_appends());
        self.store.is_settled() && have_told()
    }

    /// Has another mount that is about to start find in the store what only this one knew.
    fn get_ready(&self) -> Result<(), Error> {
        if !self.membership.is_about_to_share() {
            return Ok(());
        }
        let time = self.membership.times_alone();
        if self.is_settled() && self.publish_locks()? {
            self.membership.set_ready(time);
        }
        Ok(())
    }

    /// Another mount that is about to start appends behind what this one appended.
    fn tell_appends(&self) {
        // It is tried again soon; what else there is to keep up does not wait for room.
        if !self.membership.is_about_to_share() {
            return caller::without_waiting(|| self.data.tell_owed());
        }
        for handle in self.handles.all_files() {
            if let Err(error) = caller::without_waiting(|| handle.file.tell_appends()) {
                tracing::debug!(%error, "what was appended is not in the store yet");
            }
        }
    }

    /// The inodes that the kernel knows.
    pub fn known_inodes(&self) -> Vec<Ino> {
        self.table.inos()
    }

    /// What waits for room on a full store waits no longer, and nothing does from now on: the mount has
    /// been taken away from those who write.
    pub fn stop_waiting(&self) {
        self.data.stop_waiting();
    }

    /// Writes everything back and leaves; to be called when the kernel has let go of the mount.
    ///
    /// # Errors
    /// When bytes did not reach the store. What could only not be tidied up is said in the log:
    /// others find out by themselves that this mount is gone, and empty shards do no harm.
    pub fn unmount(&self) -> Result<(), Error> {
        let mut first_error = Ok(());
        // Nobody waits for this mount from here on.
        self.store.end_delegations();
        for handle in self.handles.all_files() {
            first_error = first_error.and(handle.file.flush(&handle.errors));
        }
        self.flush_changes();
        self.end_all_locks();
        self.leave_open_files();
        self.data.close();
        while !self.closed().is_empty() {
            if let Err(error) = self.clear_closed(Duration::ZERO) {
                tracing::info!(%error, "what removed directories left could not be cleared");
            }
        }
        if let Err(error) = self.membership.leave(&self.store) {
            tracing::info!(%error, "the mount is still on the list of mounts");
        }
        first_error
    }

    pub(crate) fn closed(&self) -> MutexGuard<'_, VecDeque<(Time, Ino)>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No other mount is there, and none takes this one for dead.
    pub(crate) fn is_alone(&self) -> bool {
        self.time_alone().is_some()
    }

    /// Which time of being alone this is.
    pub(crate) fn time_alone(&self) -> Option<u64> {
        self.membership.time_alone(self.steady())
    }

    /// What all that was read of a shard since it began is still right in: a time of being alone, or a delegation.
    pub(crate) fn era(&self, shard: ShardKey) -> Option<u64> {
        self.store.delegations.era(shard, self.steady())
    }

    /// What this mount calls itself.
    pub(crate) fn me(&self) -> MountId {
        self.store.delegations.identity().mount()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// For how long something takes: nobody sets it.
    pub(crate) fn steady(&self) -> Time {
        self.clock.steady()
    }

    /// A number that no other two-shard operation has: mounts draw their ids at random, and the
    /// odd factor walks through all 64-bit numbers before it repeats one.
    pub(crate) fn new_transaction(&self) -> u64 {
        let count = self.transactions.fetch_add(1, Ordering::Relaxed);
        self.me().0.wrapping_add(count.wrapping_mul(TRANSACTION_STEP))
    }

    /// The shard that holds a name of a directory.
    pub(crate) fn shard_of(&self, directory: Ino, name: &[u8]) -> ShardKey {
        ShardKey::of_name(directory, name, self.format.shards)
    }

    /// All shards of a directory.
    pub(crate) fn shards_of(&self, directory: Ino) -> impl Iterator<Item = ShardKey> {
        (0..self.format.shards).map(move |index| ShardKey { directory, index })
    }
}
