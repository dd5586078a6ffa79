//! Leases: what lets a mount with company answer from what it has read, without asking the store.
//!
//! A lease is on one shard. The shard has a record of the mounts that hold one, its *keepers*. A mount
//! enters itself in the very batch that reads, once the shard has been at rest for some looks. A batch
//! that changes what is kept is refused while another mount stands in the record; whoever makes it
//! recalls the lease, by a word in the superblock's shard, and tries again when the keeper has gone.
//!
//! A keeper looks for such words all the time, and what it keeps is valid until [`VALIDITY`] after a
//! look began that told it of all words that were there. So a mount that is stopped, asleep or cut off
//! answers from nothing that others may have changed: they wait for [`LAPSE`]. What has lapsed once
//! stays lapsed: a keeper is a mount and the number of its *tenure*, and one that was struck out begins
//! another.
//!
//! `docs/decisions/leases.md` says why this is right.

mod asking;
mod gone;
mod heeding;
mod keepers;
mod sending;
mod shards;
mod taking;
mod telling;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId, ShardKey, Time};
use tidefs_store::{Cursor, Page};

use crate::config::Config;
use crate::identity::Identity;
use crate::keys;
use crate::known_fields::AGE_MAX;
use crate::membership::Solitude;
pub(crate) use asking::KILLED_MS;
pub(crate) use gone::{forget_gone, superblock, taking_off};
use heeding::Heed;
pub use keepers::Keeper;
pub(crate) use keepers::decode as keepers_of;
use shards::Shards;
use telling::Told;

/// How long after the beginning of a look what is kept is valid.
const VALIDITY: Duration = Duration::from_secs(1);
/// When that of a keeper is over whom the store has struck out, by anybody's clock.
pub(crate) const LAPSE: Duration = Duration::from_millis(LAPSE_MS);
const LAPSE_MS: u64 = 1_500;
/// Tells leases from times of being alone, where either may be meant.
const IS_LEASE: u64 = 1 << 63;
/// Of a shard, which are some tens of names.
const LISTED_BYTES_MAX: usize = 4_096;
/// Tenures of others of which something is known.
const OTHERS_MAX: usize = 4_096;

pub(crate) struct Leases {
    identity: Arc<Identity>,
    clock: Arc<dyn Clock>,
    solitude: Arc<Solitude>,
    /// It keeps itself what it reads, until it ends.
    keeps: AtomicBool,
    shards: Shards,
    /// The end of what the last look has told.
    valid_until: AtomicU64,
    /// The tenure in which this mount takes leases; 0 before the first.
    tenure: AtomicU64,
    /// When something was answered from a lease last.
    used: AtomicU64,
    /// When another mount asked for one last.
    recalled: AtomicU64,
    heed: Mutex<Heed>,
    others: Mutex<HashMap<Keeper, Struck>>,
    /// Shards whose records are full.
    crowded: Mutex<BTreeSet<ShardKey>>,
    /// Where the kernel of this mount may keep attributes.
    told: OnceLock<Told>,
    /// Held while leases end and the kernel forgets what it was told under them.
    ending: Mutex<()>,
}

/// A listing of a shard: under which lease, and when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    lease: u64,
    since: Time,
    /// Of this mount, in the shards among which this one is counted.
    changes: u64,
}

/// What is known of another mount's tenure.
#[derive(Clone, Copy, Debug)]
enum Struck {
    /// It was struck out no later than then.
    At(Time),
    /// It has ended by itself.
    Over,
}

impl Leases {
    pub fn new(
        config: &Config,
        identity: Arc<Identity>,
        clock: Arc<dyn Clock>,
        solitude: Arc<Solitude>,
    ) -> Leases {
        Leases {
            identity,
            clock,
            solitude,
            keeps: AtomicBool::new(config.remembers()),
            shards: Shards::new(),
            valid_until: AtomicU64::new(0),
            tenure: AtomicU64::new(0),
            used: AtomicU64::new(0),
            recalled: AtomicU64::new(0),
            heed: Mutex::default(),
            others: Mutex::default(),
            crowded: Mutex::default(),
            told: OnceLock::new(),
            ending: Mutex::default(),
        }
    }

    /// Of a mount that keeps nothing and asks nobody.
    #[cfg(test)]
    pub fn none() -> Leases {
        let clock = Arc::new(tidefs_model::ManualClock::default());
        let identity = Arc::new(Identity::new(MountId(0)));
        Leases::new(&Config::new(MountId(0)), identity, clock, Arc::default())
    }

    /// What everything that was read of a shard since it began is still right in: a time of being alone,
    /// or a lease.
    pub fn era(&self, shard: ShardKey, now: Time) -> Option<u64> {
        if let Some(alone) = self.solitude.time_alone(now) {
            return Some(alone);
        }
        // Most shards of a mount with company have none.
        if self.shards.held() == 0 || !self.is_valid(now) {
            return None;
        }
        self.shards.lease(shard).map(|number| number | IS_LEASE)
    }

    /// Nobody looks at these shards any more: their directory was removed.
    pub fn watch_no_more(&self, shards: impl Iterator<Item = ShardKey>) {
        shards.for_each(|shard| self.shards.watch_no_more(shard));
    }

    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Begins a term of the mount, which has no lease in it, under another name.
    pub fn begin_term(&self, mount: MountId, term: u64) {
        // No look is under way meanwhile.
        let _heed = self.heed.lock().unwrap_or_else(PoisonError::into_inner);
        self.valid_until.store(0, Ordering::SeqCst);
        self.end_all();
        self.identity.begin(mount, term);
        // Whoever was about to enter under the name of before is too late.
        self.end_all();
    }

    fn me(&self) -> MountId {
        self.identity.mount()
    }

    pub fn now(&self) -> Time {
        self.clock.steady()
    }

    pub fn is_lease(era: u64) -> bool {
        era & IS_LEASE != 0
    }

    /// Something is answered from a lease.
    pub fn was_used(&self, now: Time) {
        self.used.store(now.0, Ordering::Relaxed);
    }

    /// The page of a listing of which everything is known.
    pub fn listed(&self, shard: ShardKey, from: &Cursor) -> Option<Page> {
        let Listing { lease, since: now, .. } = self.listing(shard, from)?;
        let (listing, fields) = self.shards.listed(shard)?;
        if listing.lease != lease || now - listing.since >= AGE_MAX {
            return None;
        }
        self.was_used(now);
        Some(Page { fields, next: None })
    }

    /// A shard is about to be listed under a lease, if it is.
    pub fn listing(&self, shard: ShardKey, from: &Cursor) -> Option<Listing> {
        let since = self.clock.steady();
        let era = self.era(shard, since).filter(|era| Leases::is_lease(*era))?;
        let changes = self.shards.changes(shard).filter(|_| *from == Cursor::default())?;
        Some(Listing { lease: era & !IS_LEASE, since, changes })
    }

    /// What leases cover of a page that was listed under a lease, where that is all and little.
    pub fn keep_listed(&self, shard: ShardKey, listing: Option<Listing>, page: &Page) {
        let Some(listing) = listing.filter(|_| page.next.is_none()) else { return };
        let covered = page.fields.iter().filter(|(field, _)| keys::is_leased(field));
        let fields: Vec<_> = covered.cloned().collect();
        let bytes: usize = fields.iter().map(|(field, value)| field.len() + value.len()).sum();
        if bytes <= LISTED_BYTES_MAX {
            self.shards.keep_listed(shard, listing, fields);
        }
    }

    /// Whether leases may be taken and relied on.
    fn is_valid(&self, now: Time) -> bool {
        now < Time(self.valid_until.load(Ordering::SeqCst))
    }

    /// Whether this mount may take the shard's lease, were it at rest.
    fn watches(&self, shard: ShardKey) -> bool {
        let now = self.clock.steady();
        let has_names = shard.directory != Ino::NONE || shard == keys::ROOT_HOME;
        self.keeps() && has_names && self.is_valid(now) && self.solitude.time_alone(now).is_none()
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Ordering::SeqCst)
    }

    fn myself(&self) -> Keeper {
        Keeper { mount: self.me(), tenure: self.tenure.load(Ordering::SeqCst) }
    }

    /// A tenure was struck out at a time, or has ended where none is given.
    fn note_struck(&self, keeper: Keeper, at: Option<Time>) {
        let mut others = self.others();
        if others.len() >= OTHERS_MAX {
            others.clear();
        }
        match at {
            Some(at) => {
                others.entry(keeper).or_insert(Struck::At(at));
            }
            None => {
                others.insert(keeper, Struck::Over);
            }
        }
    }

    fn others(&self) -> MutexGuard<'_, HashMap<Keeper, Struck>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
