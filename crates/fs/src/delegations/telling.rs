//! What the kernel of this mount was told to keep under delegations, and making it forget.
//!
//! Whoever ends a delegation has the kernel forget before others may change what was under it. An inode that
//! the kernel does not have is either gone, and then this mount hears so, or in an answer that the kernel
//! has not looked at yet; so it is told again until one of both is true.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::Bytes;

use super::shards::{Ended, Shards};
use super::{Delegations, LAPSE_MS};
use crate::lifetimes::{KernelCache, NAME_LAPSE, SETTLE};

/// Between two tries, and so many that no lifetime is left after them.
const PAUSE: Duration = Duration::from_millis(1);
const TRIES: u64 = LAPSE_MS;

/// The kernel, and whether this mount believes that it has an inode.
pub(super) struct Told {
    cache: Arc<dyn KernelCache>,
    knows: Box<dyn Fn(Ino) -> bool + Send + Sync>,
    late: LateThreads,
}

/// Threads that were told a name without holding its directory's lock, and when they were last.
#[derive(Debug, Default)]
struct LateThreads {
    threads: Mutex<HashMap<u32, Time>>,
}

/// Threads of which it is noted; those who were told long ago are forgotten when there are more.
const LATE_MAX: usize = 1_024;

impl LateThreads {
    fn note(&self, thread: u32, now: Time) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= LATE_MAX {
            threads.retain(|_, at| now - *at < SETTLE);
        }
        // All of them are then waited for, for as long as any may take.
        let thread = if threads.len() < LATE_MAX { thread } else { 0 };
        threads.insert(thread, now);
    }

    /// Those who may have to take it in still, and for how long at most.
    fn all(&self, now: Time) -> (Vec<u32>, Duration) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let late = || threads.iter().filter(|(_, at)| now - **at < SETTLE);
        let last = late().map(|(_, at)| *at).max().unwrap_or(now);
        (late().map(|(thread, _)| *thread).collect(), SETTLE.saturating_sub(now - last))
    }
}

impl Delegations {
    pub(crate) fn set_kernel_cache(
        &self,
        cache: Arc<dyn KernelCache>,
        knows: Box<dyn Fn(Ino) -> bool + Send + Sync>,
    ) {
        // A mount has one kernel.
        let _ = self.told.set(Told { cache, knows, late: LateThreads::default() });
    }

    /// How many delegations were granted until now.
    pub(crate) fn granted(&self) -> u64 {
        self.shards.granted()
    }

    /// Whether there is a kernel to tell, and anything to tell it.
    pub(crate) fn may_tell(&self) -> bool {
        self.told.get().is_some() && self.shards.held() > 0
    }

    /// For how long all delegations are valid without another look; `None`: they are not.
    pub(crate) fn validity_left(&self) -> Option<Duration> {
        let until = self.valid_until.load(Ordering::SeqCst);
        until.checked_sub(self.clock.steady().0).filter(|left| *left > 0).map(Duration::from_nanos)
    }

    /// The kernel is about to be told attributes that came from this shard since so many delegations were granted.
    /// `false`: the delegation is not that old, or there is no room to note what the kernel has.
    pub(crate) fn tell(&self, shard: ShardKey, ino: Ino, granted: u64) -> bool {
        let now = self.clock.steady();
        self.shards.tell(shard, ino, granted, now, || self.is_valid(self.clock.steady()))
    }

    /// Whether the kernel may be told names beside other mounts.
    pub(crate) fn may_tell_names(&self) -> bool {
        self.may_tell() && self.kernel_expires_names()
    }

    pub(super) fn kernel_expires_names(&self) -> bool {
        self.told.get().is_some_and(|told| told.cache.expires_names())
    }

    /// The kernel is about to be told a name, or that there is none, that came from this shard since so many delegations
    /// were granted and so many renames had ended. `late`: a thread that may take it in without the directory's lock.
    /// `false`: this mount is not the writer of the shard, a name was moved meanwhile, or there is no room to note
    /// what the kernel has.
    pub(crate) fn tell_name(
        &self,
        shard: ShardKey,
        name: &[u8],
        late: Option<u32>,
        (granted, moves): (u64, u64),
    ) -> bool {
        let now = self.clock.steady();
        let is_valid = || self.is_valid(self.clock.steady()) && self.moves() == moves;
        let is_told = !self.is_disputed(shard.directory)
            && self.shards.tell_name(shard, name, now, granted, is_valid);
        if is_told {
            self.note_late(late, now);
        } else if self.shards.is_moving(shard, name, now) {
            self.told_alone.forget_name(shard.directory, name, now);
        }
        is_told
    }

    /// The same while this mount is alone. `false`: a name was moved meanwhile.
    pub(crate) fn tell_name_alone(
        &self,
        shard: ShardKey,
        name: &[u8],
        late: Option<u32>,
        moves: u64,
    ) -> bool {
        if !self.kernel_expires_names() {
            return true;
        }
        let now = self.clock.steady();
        self.told_alone.name(shard.directory, name, now);
        self.note_late(late, now);
        // A rename that begins from here on finds it told.
        !self.shards.is_moving(shard, name, now) && self.moves() == moves
    }

    /// How many renames of this mount have ended.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    fn note_late(&self, thread: Option<u32>, now: Time) {
        if let (Some(thread), Some(kernel)) = (thread, self.told.get()) {
            kernel.late.note(thread, now);
        }
    }

    /// The same of attributes.
    pub(crate) fn tell_inode_alone(&self, ino: Ino) {
        if self.kernel_expires_names() {
            self.told_alone.inode(ino, self.clock.steady());
        }
    }

    /// The same of names that are listed, with the attributes of what they lead to.
    pub(crate) fn tell_listing(&self, directory: Ino, names: Vec<(Ino, Vec<u8>)>) {
        if self.kernel_expires_names() {
            self.told_alone.listing(directory, names, self.clock.steady());
        }
    }

    /// Ends the lifetimes of what the kernel was told while this mount was alone, as far as that can be done. No answer
    /// gives any meanwhile. Answers how long until the others have lapsed.
    pub(crate) fn end_told_alone(&self) -> Duration {
        let Some(kernel) = self.told.get().filter(|_| self.kernel_expires_names()) else {
            return NAME_LAPSE;
        };
        kernel.cache.wait_for_answers();
        let now = self.clock.steady();
        let told = self.told_alone.all(now);
        if told.unnoted.is_zero() {
            if !told.names.is_empty() {
                kernel.expire_names(told.names, now);
            }
            kernel.forget(told.inos);
            self.told_alone.ended(now);
        }
        told.unnoted
    }

    /// Has the kernel look again at the names of shards that it was told, of which this mount is the writer no longer.
    /// Returns then, or when no lifetime is left that it was told.
    pub(super) fn expire_names(&self, shards: impl Iterator<Item = ShardKey> + Clone) {
        let Some(kernel) = self.told.get() else { return };
        let now = self.clock.steady();
        let in_shard = |shard: ShardKey| {
            let names = self.shards.names(shard, now);
            names.into_iter().map(move |(name, at)| (shard.directory, name, at))
        };
        let names: Vec<_> = shards.clone().flat_map(in_shard).collect();
        if !names.is_empty() {
            kernel.expire_names(names, now);
            // Until now they have counted as told: one that is moved meanwhile takes its lifetime along.
            shards.for_each(|shard| self.shards.names_expired(shard, now));
        }
    }

    /// This mount is about to change shards: their delegations end, and none is taken until that is done.
    pub(super) fn begin_change(&self, shards: &[ShardKey]) {
        self.end(|all| {
            let told = shards.iter().flat_map(|shard| all.begin_change(*shard));
            ((), told.collect())
        });
    }

    /// This mount is about to change inodes in a shard of which it is the only holder, if it is: the record.
    pub(super) fn begin_sole_change(
        &self,
        shard: ShardKey,
        is_sole: impl FnOnce(&[u8]) -> bool,
        changed: &[Ino],
    ) -> Option<Bytes> {
        self.end(|all| match all.begin_sole_change(shard, is_sole, changed) {
            Some((record, told)) => (Some(record), told),
            None => (None, Vec::new()),
        })
    }

    /// The delegation of a shard was to go on with a change of this mount, which was refused.
    pub(crate) fn end_sole(&self, shard: ShardKey) {
        self.end(|all| ((), all.end_sole(shard)));
    }

    /// Other mounts want to change shards.
    pub(super) fn recalled(&self, shards: &BTreeSet<ShardKey>, now: Time) {
        self.end(|all| {
            let told = shards.iter().flat_map(|shard| all.recalled(*shard, now));
            ((), told.collect())
        });
    }

    /// Ends all delegations; the shards that they were of.
    pub(super) fn end_all(&self) -> Vec<ShardKey> {
        self.end(|all| {
            let Ended { shards, told } = all.end_all();
            (shards, told)
        })
    }

    /// Ends delegations, and has the kernel forget the inodes that it was told of under them. Whoever finds a delegation
    /// ended by somebody else goes off the record as well, so it waits for this.
    fn end<T>(&self, end: impl FnOnce(&Shards) -> (T, Vec<Ino>)) -> T {
        let _alone = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, told) = end(&self.shards);
        if let Some(kernel) = self.told.get().filter(|_| !told.is_empty()) {
            kernel.forget(told);
        }
        ended
    }
}

impl Told {
    fn expire_names(&self, names: Vec<(Ino, Box<[u8]>, Time)>, now: Time) {
        self.cache.wait_for_answers();
        self.wait_for_late(now);
        let last = names.iter().map(|(_, _, at)| *at).max().unwrap_or(now);
        let left = NAME_LAPSE.saturating_sub(now - last);
        let names = names.into_iter().map(|(parent, name, _)| (parent, name)).collect();
        if !self.cache.expire_names(names, left) {
            tracing::debug!("names of the kernel have lapsed, since somebody is at work there");
        }
    }

    /// Returns when all have taken in what they were told without a directory's lock.
    pub(super) fn wait_for_late(&self, now: Time) {
        let (threads, at_most) = self.late.all(now);
        if !threads.is_empty() {
            self.cache.wait_until_taken_in(&threads, at_most);
        }
    }

    /// Returns when the kernel has forgotten, or when no lifetime is left that it was told.
    fn forget(&self, mut inos: Vec<Ino>) {
        self.cache.wait_for_answers();
        // A directory is told under the delegations of all its shards.
        inos.sort_unstable();
        inos.dedup();
        for _ in 0..TRIES {
            inos.retain(|ino| !self.cache.forget(*ino) && (self.knows)(*ino));
            if inos.is_empty() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
