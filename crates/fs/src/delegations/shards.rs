//! The shards that this mount looks at while there is company: which of them are read-mostly, and the
//! delegations that it has. Nothing here asks the store.

mod claims;
mod names;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Read};

use super::Listing;
pub(super) use claims::Claiming;
use claims::Writing;
pub(super) use names::Held;
use names::Names;

const STRIPES: usize = 256;
/// With 256 stripes some tens of thousands, each of which takes a hundred bytes, and more with a delegation.
const SHARDS_PER_STRIPE: usize = 256;
/// Delegations of one mount. Each is a field in the store.
pub(super) const DELEGATIONS_MAX: usize = 32_768;
/// Looks without a change from anybody after which a shard counts as read-mostly.
const LOOKS: u32 = 10;
/// The same after somebody wanted to change it.
const LOOKS_AFTER_RECALL: u32 = 100;
/// And for so long, so that whoever waits finds nobody there.
const KEEPS_AWAY: Duration = Duration::from_millis(200);
/// Inodes of which the kernel has attributes, of one delegation. More are looked at without a lifetime.
const TOLD_MAX: usize = 256;
/// When a kernel has none any more of what it was told: the longest lifetime, and as much for it to begin late.
const TOLD_AGE_MAX: Duration = Duration::from_secs(2);
/// Values that are compared from look to look.
const COMPARED: usize = 4;

#[derive(Debug)]
pub(super) struct Shards {
    stripes: Vec<Mutex<Stripe>>,
    /// How many delegations there are.
    held: AtomicUsize,
    /// Numbers delegations that are asked for, from 1 on.
    asked: AtomicU64,
    /// How many were granted.
    granted: AtomicU64,
    /// How many names of which the kernel was told are noted.
    names_told: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Stripe {
    shards: HashMap<ShardKey, Watched>,
    /// Counts what ends delegations in this stripe, or keeps them from being taken.
    changes: u64,
    /// Changes by this mount that have begun and not ended.
    under_way: u32,
}

#[derive(Debug, Default)]
struct Watched {
    looks: u32,
    /// When somebody wanted to change the shard, since its last delegation was taken.
    recalled: Option<Time>,
    /// Of fields that were read, by a part of the hash of its name: hashes of name and value.
    seen: [Option<(NonZeroU32, u32)>; COMPARED],
    /// The record of the holders as it was seen last.
    holders: Bytes,
    delegation: Option<Box<Delegation>>,
    writing: Writing,
    names: Names,
}

#[derive(Debug)]
struct Delegation {
    number: u64,
    /// How many were granted until then, with this one.
    entered: u64,
    /// The same, or when this mount last changed something under it.
    granted: u64,
    /// Inodes whose attributes the kernel was told, and when.
    told: HashMap<Ino, Time>,
    /// All that was listed of the shard, where that is little.
    listed: Option<Listed>,
    /// This mount may answer for changes before the store has them: others have to ask it even to look.
    writes_back: bool,
    /// Of this mount, which went on with them.
    sole_changes: u32,
    /// This mount has been the writer under it.
    was_writer: bool,
}

/// Delegations that have ended: their shards, and the inodes of which the kernel has attributes under them.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub shards: Vec<ShardKey>,
    pub told: Vec<Ino>,
}

/// A listing, and what it found.
type Listed = (Listing, Vec<(Bytes, Bytes)>);

/// How a shard was when its delegation was about to be asked for.
#[derive(Debug)]
pub(super) struct Entering {
    changes: u64,
    /// Of the delegation, if it becomes one.
    pub number: u64,
    pub holders: Bytes,
    /// How often others had asked for the shard.
    pub asked: u64,
}

impl Entering {
    /// The same on condition that nobody keeps the shard.
    pub fn first(self) -> Entering {
        Entering { holders: Bytes::new(), ..self }
    }
}

impl Shards {
    pub fn new() -> Shards {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Shards {
            stripes,
            held: AtomicUsize::new(0),
            asked: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            names_told: Arc::default(),
        }
    }

    /// How many delegations there are.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// How many delegations were granted until now.
    pub fn granted(&self) -> u64 {
        self.granted.load(Ordering::SeqCst)
    }

    /// Notes that the kernel will have attributes of an inode, under a delegation that was there when so many were
    /// granted. `false`: there is none, or it has no room.
    pub fn tell(
        &self,
        shard: ShardKey,
        ino: Ino,
        granted: u64,
        now: Time,
        is_valid: impl FnOnce() -> bool,
    ) -> bool {
        let mut stripe = self.stripe(shard);
        // What was read while this mount changes something may be from before.
        let is_quiet = stripe.under_way == 0;
        let watched = stripe.shards.get_mut(&shard).filter(|_| is_quiet);
        let delegation = watched.and_then(|watched| watched.delegation.as_mut());
        let Some(delegation) =
            delegation.filter(|delegation| delegation.granted <= granted && is_valid())
        else {
            return false;
        };
        if delegation.told.len() >= TOLD_MAX && !delegation.told.contains_key(&ino) {
            delegation.told.retain(|_, at| now - *at < TOLD_AGE_MAX);
        }
        let has_room = delegation.told.len() < TOLD_MAX || delegation.told.contains_key(&ino);
        if has_room {
            delegation.told.insert(ino, now);
        }
        has_room
    }

    /// The number of a shard's delegation.
    pub fn delegation(&self, shard: ShardKey) -> Option<u64> {
        self.stripe(shard)
            .shards
            .get(&shard)?
            .delegation
            .as_ref()
            .map(|delegation| delegation.number)
    }

    /// Asks for the delegation of a shard that is read-mostly.
    pub fn enter(&self, shard: ShardKey, now: Time) -> Option<Entering> {
        let stripe = self.stripe(shard);
        let watched = stripe.shards.get(&shard)?;
        let is_free = watched.recalled.is_none_or(|at| now - at >= KEEPS_AWAY);
        let needed = if watched.recalled.is_some() { LOOKS_AFTER_RECALL } else { LOOKS };
        let is_at_rest = watched.looks >= needed && is_free;
        let may = watched.delegation.is_none() && is_at_rest && stripe.under_way == 0;
        (may && self.held() < DELEGATIONS_MAX).then(|| Entering {
            changes: stripe.changes,
            number: self.next_number(),
            holders: watched.holders.clone(),
            asked: watched.writing.asked,
        })
    }

    /// Of delegations that are asked for, and of claims.
    fn next_number(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The same of a shard of a new directory, where nobody can have been at work yet.
    pub fn enter_new(&self, shard: ShardKey) -> Option<Entering> {
        self.enter_if(shard, |watched| watched.recalled.is_none())
    }

    /// The same of a shard in which this mount is at work.
    pub fn enter_at_work(&self, shard: ShardKey) -> Option<Entering> {
        self.enter_if(shard, |_| true)
    }

    fn enter_if(&self, shard: ShardKey, may: impl FnOnce(&Watched) -> bool) -> Option<Entering> {
        let mut stripe = self.stripe(shard);
        let (changes, is_quiet) = (stripe.changes, stripe.under_way == 0);
        let watched = stripe.watch(shard)?;
        let may = watched.delegation.is_none() && may(watched) && is_quiet;
        (may && self.held() < DELEGATIONS_MAX).then(|| Entering {
            changes,
            number: self.next_number(),
            holders: watched.holders.clone(),
            asked: watched.writing.asked,
        })
    }

    /// The store has entered this mount: the number of the delegation, unless something came between.
    pub fn entered(&self, shard: ShardKey, entering: &Entering, holders: Bytes) -> Option<u64> {
        let mut stripe = self.stripe(shard);
        let unchanged = stripe.changes == entering.changes && stripe.under_way == 0;
        let watched = stripe.shards.get_mut(&shard)?;
        watched.holders = holders;
        if !unchanged || watched.delegation.is_some() {
            return None;
        }
        let granted = self.granted.fetch_add(1, Ordering::SeqCst) + 1;
        let delegation = Delegation {
            number: entering.number,
            entered: granted,
            granted,
            told: HashMap::new(),
            listed: None,
            writes_back: false,
            sole_changes: 0,
            was_writer: false,
        };
        watched.delegation = Some(Box::new(delegation));
        watched.recalled = None;
        self.held.fetch_add(1, Ordering::SeqCst);
        Some(entering.number)
    }

    /// What a look at a shard saw: one more, or the first again where something is not what it was.
    pub fn looked(&self, shard: ShardKey, batch: &Batch, outcome: &Outcome) {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.watch(shard) else { return };
        let mut same = true;
        for (read, value) in batch.reads.iter().zip(&outcome.values) {
            let Read::Field { field } = read else { continue };
            let (name, value) = (hash(field), hash(value) as u32);
            let seen = &mut watched.seen[name as usize % COMPARED];
            let name = NonZeroU32::new((name >> 32) as u32).unwrap_or(NonZeroU32::MIN);
            same &= seen.is_none_or(|seen| seen.0 != name || seen.1 == value);
            *seen = Some((name, value));
        }
        watched.looks = if same { watched.looks.saturating_add(1) } else { 0 };
    }

    /// It will not be looked at any more.
    pub fn watch_no_more(&self, shard: ShardKey) {
        let mut stripe = self.stripe(shard);
        if stripe.shards.get(&shard).is_some_and(Watched::is_idle) {
            stripe.shards.remove(&shard);
        }
    }

    /// It was changed a moment ago.
    pub fn note_contended(&self, shard: ShardKey) {
        if let Some(watched) = self.stripe(shard).shards.get_mut(&shard) {
            watched.looks = 0;
        }
    }

    /// The record of the holders, as it was seen last; empty where none were.
    pub fn holders(&self, shard: ShardKey) -> Bytes {
        let stripe = self.stripe(shard);
        stripe.shards.get(&shard).map(|watched| watched.holders.clone()).unwrap_or_default()
    }

    pub fn saw_holders(&self, shard: ShardKey, holders: &[u8]) {
        if let Some(watched) = self.stripe(shard).shards.get_mut(&shard) {
            watched.holders = holders.to_vec();
        }
    }

    /// This mount is about to change a shard: its delegation ends, and none is taken until that is done. Answers
    /// the inodes that the kernel was told of under it.
    pub fn begin_change(&self, shard: ShardKey) -> Vec<Ino> {
        let mut stripe = self.stripe(shard);
        stripe.under_way += 1;
        self.end_delegation(&mut stripe, shard)
    }

    /// The same where the delegation goes on, since no other mount stood in the record when that was seen last; the
    /// store checks it. Answers the record, and those of the inodes that change of which the kernel was told;
    /// `None`: there is no such delegation, and nothing has begun.
    pub fn begin_sole_change(
        &self,
        shard: ShardKey,
        is_sole: impl FnOnce(&[u8]) -> bool,
        changed: &[Ino],
    ) -> Option<(Bytes, Vec<Ino>)> {
        let mut stripe = self.stripe(shard);
        let watched = stripe.shards.get_mut(&shard)?;
        let record = watched.holders.clone();
        let delegation = watched.delegation.as_mut().filter(|_| is_sole(&record))?;
        delegation.listed = None;
        delegation.sole_changes = delegation.sole_changes.saturating_add(1);
        let told =
            changed.iter().filter(|ino| delegation.told.remove(ino).is_some()).copied().collect();
        stripe.under_way += 1;
        stripe.changes += 1;
        Some((record, told))
    }

    /// A change with which a delegation was to go on was refused.
    pub fn end_sole(&self, shard: ShardKey) -> Vec<Ino> {
        self.end_delegation(&mut self.stripe(shard), shard)
    }

    pub fn end_change(&self, shard: ShardKey) {
        let mut stripe = self.stripe(shard);
        stripe.under_way -= 1;
        stripe.changes += 1;
        let watched = stripe.shards.get_mut(&shard);
        if let Some(delegation) = watched.and_then(|watched| watched.delegation.as_mut()) {
            // To the kernel it is a new one: it is not told what was read before.
            delegation.granted = self.granted.fetch_add(1, Ordering::SeqCst) + 1;
        }
    }

    /// Another mount wants to change a shard. Answers the inodes that the kernel was told of.
    pub fn recalled(&self, shard: ShardKey, now: Time) -> Vec<Ino> {
        let mut stripe = self.stripe(shard);
        let told = self.end_delegation(&mut stripe, shard);
        if let Some(watched) = stripe.shards.get_mut(&shard) {
            watched.recalled = Some(now);
        }
        told
    }

    /// Ends all delegations.
    pub fn end_all(&self) -> Ended {
        let mut ended = Ended::default();
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            stripe.changes += 1;
            for (shard, watched) in &mut stripe.shards {
                watched.looks = 0;
                if let Some(delegation) = watched.delegation.take() {
                    ended.shards.push(*shard);
                    ended.told.extend(delegation.told.into_keys());
                }
            }
        }
        self.held.fetch_sub(ended.shards.len(), Ordering::SeqCst);
        ended
    }

    fn end_delegation(&self, stripe: &mut Stripe, shard: ShardKey) -> Vec<Ino> {
        stripe.changes += 1;
        let Some(watched) = stripe.shards.get_mut(&shard) else { return Vec::new() };
        watched.looks = 0;
        let Some(delegation) = watched.delegation.take() else { return Vec::new() };
        self.held.fetch_sub(1, Ordering::SeqCst);
        delegation.told.into_keys().collect()
    }

    /// What [`Shards::keep_listed`] asks for; `None` while this mount changes something.
    pub fn changes(&self, shard: ShardKey) -> Option<u64> {
        let stripe = self.stripe(shard);
        (stripe.under_way == 0).then_some(stripe.changes)
    }

    /// What was listed of a shard under a delegation.
    pub fn listed(&self, shard: ShardKey) -> Option<Listed> {
        let stripe = self.stripe(shard);
        stripe.shards.get(&shard)?.delegation.as_ref()?.listed.clone()
    }

    /// All of a shard was listed since this delegation was there, and this mount changed nothing meanwhile.
    pub fn keep_listed(&self, shard: ShardKey, listing: Listing, fields: Vec<(Bytes, Bytes)>) {
        let mut stripe = self.stripe(shard);
        if stripe.changes != listing.changes {
            return;
        }
        let watched = stripe.shards.get_mut(&shard);
        let delegation = watched.and_then(|watched| watched.delegation.as_mut());
        if let Some(delegation) =
            delegation.filter(|delegation| delegation.number == listing.delegation)
        {
            delegation.listed = Some((listing, fields));
        }
    }

    fn stripe(&self, shard: ShardKey) -> MutexGuard<'_, Stripe> {
        let number = (shard.directory.0 as usize).wrapping_mul(16) + usize::from(shard.index);
        lock(&self.stripes[number % STRIPES])
    }
}

impl Watched {
    fn is_idle(&self) -> bool {
        self.delegation.is_none() && self.writing.is_idle() && self.names.is_idle()
    }
}

impl Stripe {
    /// A shard that is to be watched. Where there are too many, those without delegations are given up.
    fn watch(&mut self, shard: ShardKey) -> Option<&mut Watched> {
        if self.shards.len() >= SHARDS_PER_STRIPE && !self.shards.contains_key(&shard) {
            self.shards.retain(|_, watched| !watched.is_idle());
            if self.shards.len() >= SHARDS_PER_STRIPE {
                return None;
            }
        }
        Some(self.shards.entry(shard).or_default())
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
