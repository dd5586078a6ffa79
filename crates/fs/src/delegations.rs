//! Delegations: what lets a mount with company answer from what it has read, without asking the store.
//!
//! A delegation is on one shard. The shard has a record of the mounts that hold one, its *holders*. A mount
//! enters itself in the very batch that reads, once the shard has been read-mostly for some polls. A batch
//! that changes what is kept is refused while another mount stands in the record; whoever makes it recalls
//! the delegation, by a field in the superblock's shard, and tries again when the holder has gone.
//!
//! A holder polls for recalls, and what it keeps is valid until [`VALIDITY`] after the beginning of a poll that
//! told it of all recalls that were there. So a mount that is stopped, asleep or cut off answers from nothing
//! that others may have changed: they wait for [`LAPSE`]. Expired delegations are never revived: a holder is
//! a mount and the number of its *lease term*, and one whose term was revoked begins another.
//!
//! `docs/decisions/shared-delegations.md` says why this is right.

mod asking;
mod gone;
mod guarding;
mod holders;
mod moving;
mod recalls;
mod sending;
mod shards;
mod taking;
mod telling;
mod told_alone;
mod turns;
mod waiting;
mod writing;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidefs_model::{Clock, MountId, ShardKey, Time};
use tidefs_store::{Cursor, Page};

use crate::config::Config;
use crate::identity::Identity;
use crate::keys;
use crate::known_fields::AGE_MAX;
use crate::membership::Solitude;
pub(crate) use asking::KILLED_MS;
pub(crate) use gone::{forget_gone, superblock, taking_off};
pub use holders::Holder;
pub(crate) use holders::decode as holders_of;
use recalls::RecallPoll;
pub(crate) use sending::is_change;
use shards::Shards;
pub(crate) use taking::Taken;
use telling::Told;
use told_alone::ToldAlone;
use turns::Turns;

/// How long after the beginning of a poll what is kept is valid.
const VALIDITY: Duration = Duration::from_secs(1);
/// When that of a holder is over whose lease term the store has revoked, by anybody's clock.
pub(crate) const LAPSE: Duration = Duration::from_millis(LAPSE_MS);
const LAPSE_MS: u64 = 1_500;
/// Tells delegations from times of being alone, where either may be meant.
const IS_DELEGATION: u64 = 1 << 63;
/// Odd, so that what it mixes stays apart.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
/// Of a shard, which are some tens of names.
const LISTED_BYTES_MAX: usize = 4_096;
/// Lease terms of others of which something is known.
const OTHERS_MAX: usize = 4_096;

pub(crate) struct Delegations {
    identity: Arc<Identity>,
    clock: Arc<dyn Clock>,
    solitude: Arc<Solitude>,
    /// It keeps itself what it reads, until it ends.
    keeps: AtomicBool,
    shards: Shards,
    /// Shards of a directory.
    per_directory: u16,
    /// The end of what the last poll has granted.
    valid_until: AtomicU64,
    /// The lease term in which this mount takes delegations; 0 before the first.
    lease_term: AtomicU64,
    /// When something was answered from a delegation last.
    used: AtomicU64,
    /// When another mount asked for one last.
    recalled: AtomicU64,
    polled: Mutex<RecallPoll>,
    others: Mutex<HashMap<Holder, Revoked>>,
    /// Shards whose records are full.
    crowded: Mutex<BTreeSet<ShardKey>>,
    /// Where the kernel of this mount may keep attributes.
    told: OnceLock<Told>,
    /// What it was told while this mount was alone.
    told_alone: ToldAlone,
    /// Renames that have ended.
    moves: AtomicU64,
    turns: Turns,
    /// Held while delegations end and the kernel forgets what it was told under them.
    ending: Mutex<()>,
}

/// A listing of a shard: under which delegation, and when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    delegation: u64,
    since: Time,
    /// Of this mount, in the shards among which this one is counted.
    changes: u64,
}

/// What is known of another mount's lease term.
#[derive(Clone, Copy, Debug)]
enum Revoked {
    /// It was revoked no later than then.
    At(Time),
    /// It has ended by itself.
    Over,
}

impl Delegations {
    pub fn new(
        config: &Config,
        identity: Arc<Identity>,
        clock: Arc<dyn Clock>,
        solitude: Arc<Solitude>,
        per_directory: u16,
    ) -> Delegations {
        Delegations {
            identity,
            clock,
            solitude,
            keeps: AtomicBool::new(config.remembers()),
            shards: Shards::new(),
            per_directory,
            valid_until: AtomicU64::new(0),
            lease_term: AtomicU64::new(0),
            used: AtomicU64::new(0),
            recalled: AtomicU64::new(0),
            polled: Mutex::default(),
            others: Mutex::default(),
            crowded: Mutex::default(),
            told: OnceLock::new(),
            told_alone: ToldAlone::new(),
            moves: AtomicU64::new(0),
            turns: Turns::default(),
            ending: Mutex::default(),
        }
    }

    /// Of a mount that keeps nothing and asks nobody.
    #[cfg(test)]
    pub fn none() -> Delegations {
        let clock = Arc::new(tidefs_model::ManualClock::default());
        let identity = Arc::new(Identity::new(MountId(0)));
        Delegations::new(&Config::new(MountId(0)), identity, clock, Arc::default(), 16)
    }

    /// What everything that was read of a shard since it began is still right in: a time of being alone,
    /// or a delegation.
    pub fn era(&self, shard: ShardKey, now: Time) -> Option<u64> {
        if let Some(alone) = self.solitude.time_alone(now) {
            return Some(alone);
        }
        // Most shards of a mount with company have none.
        if self.shards.held() == 0 || !self.is_valid(now) {
            return None;
        }
        self.shards.delegation(shard).map(|number| number | IS_DELEGATION)
    }

    /// The same of several shards.
    pub fn era_of_all(&self, shards: impl Iterator<Item = ShardKey>, now: Time) -> Option<u64> {
        if let Some(alone) = self.solitude.time_alone(now) {
            return Some(alone);
        }
        if self.shards.held() == 0 || !self.is_valid(now) {
            return None;
        }
        // No two delegations have a number in common.
        let with = |all: u64, number: u64| (all.rotate_left(7) ^ number).wrapping_mul(MIX);
        let mut numbers = shards.map(|shard| self.shards.delegation(shard));
        let all = numbers.try_fold(0, |all, number| Some(with(all, number?)));
        all.map(|all| all | IS_DELEGATION)
    }

    /// Nobody looks at these shards any more: their directory was removed.
    pub fn watch_no_more(&self, shards: impl Iterator<Item = ShardKey>) {
        shards.for_each(|shard| self.shards.watch_no_more(shard));
    }

    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Begins a term of the mount, which has no delegation in it, under another name.
    pub fn begin_term(&self, mount: MountId, term: u64) {
        // No poll is under way meanwhile.
        let _polled = self.polled.lock().unwrap_or_else(PoisonError::into_inner);
        self.valid_until.store(0, Ordering::SeqCst);
        self.turns.forget();
        self.end_all();
        self.identity.begin(mount, term);
        // Whoever was about to enter under the name of before is too late.
        self.end_all();
        // What is left in the store is not this mount's any more.
        self.shards.all_claimed().iter().for_each(|shard| self.shards.believe(*shard, None));
    }

    fn me(&self) -> MountId {
        self.identity.mount()
    }

    pub fn now(&self) -> Time {
        self.clock.steady()
    }

    pub fn is_delegation(era: u64) -> bool {
        era & IS_DELEGATION != 0
    }

    /// Something is answered from a delegation.
    pub fn was_used(&self, now: Time) {
        self.used.store(now.0, Ordering::Relaxed);
    }

    /// The page of a listing of which everything is known.
    pub fn listed(&self, shard: ShardKey, from: &Cursor) -> Option<Page> {
        let Listing { delegation, since: now, .. } = self.listing(shard, from)?;
        let (listing, fields) = self.shards.listed(shard)?;
        if listing.delegation != delegation || now - listing.since >= AGE_MAX {
            return None;
        }
        self.was_used(now);
        Some(Page { fields, next: None })
    }

    /// A shard is about to be listed under a delegation, if it is.
    pub fn listing(&self, shard: ShardKey, from: &Cursor) -> Option<Listing> {
        let since = self.clock.steady();
        let era = self.era(shard, since).filter(|era| Delegations::is_delegation(*era))?;
        let changes = self.shards.changes(shard).filter(|_| *from == Cursor::default())?;
        Some(Listing { delegation: era & !IS_DELEGATION, since, changes })
    }

    /// What delegations cover of a page that was listed under a delegation, where that is all and little.
    pub fn keep_listed(&self, shard: ShardKey, listing: Option<Listing>, page: &Page) {
        let Some(listing) = listing.filter(|_| page.next.is_none()) else { return };
        let covered = page.fields.iter().filter(|(field, _)| keys::is_delegated(field));
        let fields: Vec<_> = covered.cloned().collect();
        let bytes: usize = fields.iter().map(|(field, value)| field.len() + value.len()).sum();
        if bytes <= LISTED_BYTES_MAX {
            self.shards.keep_listed(shard, listing, fields);
        }
    }

    /// Whether delegations may be taken and relied on.
    pub fn is_valid(&self, now: Time) -> bool {
        now < Time(self.valid_until.load(Ordering::SeqCst))
    }

    /// Whether this mount may take the shard's delegation, were it read-mostly.
    fn watches(&self, shard: ShardKey) -> bool {
        let now = self.clock.steady();
        self.keeps()
            && keys::has_names(shard)
            && self.is_valid(now)
            && self.solitude.time_alone(now).is_none()
    }

    fn keeps(&self) -> bool {
        self.keeps.load(Ordering::SeqCst)
    }

    fn myself(&self) -> Holder {
        Holder { mount: self.me(), lease_term: self.lease_term.load(Ordering::SeqCst) }
    }

    /// A lease term was revoked at a time, or has ended where none is given.
    fn note_revoked(&self, holder: Holder, at: Option<Time>) {
        let mut others = self.others();
        if others.len() >= OTHERS_MAX {
            others.clear();
        }
        match at {
            Some(at) => {
                others.entry(holder).or_insert(Revoked::At(at));
            }
            None => {
                others.insert(holder, Revoked::Over);
            }
        }
    }

    fn others(&self) -> MutexGuard<'_, HashMap<Holder, Revoked>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
