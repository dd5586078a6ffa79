//! What the kernel of this mount was told to keep under delegations, and making it forget.
//!
//! Whoever ends a delegation has the kernel forget before others may change what was under it. An inode that
//! the kernel does not have is either gone, and then this mount hears so, or in an answer that the kernel
//! has not looked at yet; so it is told again until one of both is true.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::Bytes;

use super::shards::{Ended, Shards};
use super::{Delegations, LAPSE_MS};
use crate::lifetimes::KernelCache;

/// Between two tries, and so many that no lifetime is left after them.
const PAUSE: Duration = Duration::from_millis(1);
const TRIES: u64 = LAPSE_MS;

/// The kernel, and whether this mount believes that it has an inode.
pub(super) struct Told {
    cache: Arc<dyn KernelCache>,
    knows: Box<dyn Fn(Ino) -> bool + Send + Sync>,
}

impl Delegations {
    pub(crate) fn set_kernel_cache(
        &self,
        cache: Arc<dyn KernelCache>,
        knows: Box<dyn Fn(Ino) -> bool + Send + Sync>,
    ) {
        // A mount has one kernel.
        let _ = self.told.set(Told { cache, knows });
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
    pub(super) fn end_sole(&self, shard: ShardKey) {
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
