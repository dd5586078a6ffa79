//! The names that the kernel was told of shards of which this mount is the writer, and those that are about to move.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidefs_model::{ShardKey, Time};

use super::{Shards, Watched, lock};
use crate::lifetimes::NAME_LAPSE;

/// Names of a mount of which the kernel may have lifetimes; each takes some hundred bytes. More have none.
const NAMES_MAX: usize = 65_536;
/// How long a name that is about to move is told no more, after its kernel was asked to look at it again.
const LOOKED_AT_AGAIN_MAX: Duration = Duration::from_secs(2);
/// A shard's names are looked through for old ones when there are as many, and then when they are twice those left.
const SWEEP_FROM: usize = 64;

/// Of one shard.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// When each was told last.
    told: HashMap<Box<[u8]>, Time>,
    sweep_at: usize,
    moving: HashMap<Box<[u8]>, Moving>,
    /// Of the mount, among which these count.
    all: Option<Arc<AtomicUsize>>,
}

impl Drop for Names {
    fn drop(&mut self) {
        self.uncount(self.told.len());
    }
}

#[derive(Debug, Default)]
struct Moving {
    /// Renames of it.
    under_way: u32,
    /// One was refused, and comes again until then.
    comes_again: Time,
}

/// How far the kernel has a name that is about to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::delegations) enum Held {
    /// It looks at it again before it answers from it.
    No,
    /// It was told it.
    Told(Time),
    /// It was told it, and has not looked at it again, as it should have.
    StillTold(Time),
}

impl Names {
    fn uncount(&self, names: usize) {
        if let Some(all) = &self.all {
            all.fetch_sub(names, Ordering::Relaxed);
        }
    }

    /// Nothing of it is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.moving.is_empty()
    }

    fn is_moving(&self, name: &[u8], now: Time) -> bool {
        let moving = self.moving.get(name);
        moving.is_some_and(|moving| moving.under_way > 0 || now < moving.comes_again)
    }

    fn keep(&mut self, stays: impl Fn(Time) -> bool) {
        let before = self.told.len();
        self.told.retain(|_, at| stays(*at));
        self.uncount(before - self.told.len());
    }

    /// Gives up what is too old to matter.
    fn sweep(&mut self, now: Time) {
        self.keep(|at| now - at < NAME_LAPSE);
        self.moving.retain(|_, moving| moving.under_way > 0 || now < moving.comes_again);
        self.sweep_at = (2 * self.told.len()).max(SWEEP_FROM);
    }
}

impl Watched {
    /// Nothing is known of the shard.
    fn is_unknown(&self) -> bool {
        let Watched { looks, recalled, holders, names, .. } = self;
        let is_unseen = *looks == 0 && recalled.is_none() && holders.is_empty();
        is_unseen && names.told.is_empty() && self.is_idle()
    }

    fn may_tell_names(&self, granted: u64) -> bool {
        let delegation = self.delegation.as_ref();
        delegation.is_some_and(|it| it.writes_back && it.entered <= granted)
    }
}

impl Shards {
    /// Notes that the kernel will have a name, or that there is none, of a shard of which this mount was the writer when
    /// so many delegations were granted. `false`: it was not, or there is no room.
    pub fn tell_name(
        &self,
        shard: ShardKey,
        name: &[u8],
        now: Time,
        granted: u64,
        is_valid: impl FnOnce() -> bool,
    ) -> bool {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.shards.get_mut(&shard) else { return false };
        if watched.names.is_moving(name, now) {
            // With this answer the kernel has it without a lifetime.
            let was_told = watched.names.told.remove(name).is_some();
            watched.names.uncount(usize::from(was_told));
            return false;
        }
        watched.may_tell_names(granted) && is_valid() && self.note(&mut watched.names, name, now)
    }

    /// `false`: there is no room.
    fn note(&self, names: &mut Names, name: &[u8], at: Time) -> bool {
        if let Some(there) = names.told.get_mut(name) {
            *there = at;
            return true;
        }
        let is_full = || self.names_told.load(Ordering::Relaxed) >= NAMES_MAX;
        if names.told.len() >= names.sweep_at || is_full() {
            names.sweep(at);
        }
        if is_full() {
            return false;
        }
        names.all.get_or_insert_with(|| self.names_told.clone()).fetch_add(1, Ordering::Relaxed);
        names.told.insert(name.into(), at);
        true
    }

    /// The names of a shard that the kernel may still answer from; nobody tells it more meanwhile.
    pub fn names(&self, shard: ShardKey, now: Time) -> Vec<(Box<[u8]>, Time)> {
        let stripe = self.stripe(shard);
        let told = stripe.shards.get(&shard).map(|watched| &watched.names.told);
        let fresh = told.into_iter().flatten().filter(|(_, at)| now - **at < NAME_LAPSE);
        fresh.map(|(name, at)| (name.clone(), *at)).collect()
    }

    /// The kernel looks again at the names of a shard that it was told until then.
    pub fn names_expired(&self, shard: ShardKey, until: Time) {
        let mut stripe = self.stripe(shard);
        if let Some(watched) = stripe.shards.get_mut(&shard) {
            watched.names.keep(|at| at > until);
        }
    }

    /// Gives up names that were told long ago, where there are many.
    pub fn sweep_names(&self, now: Time) {
        if self.names_told.load(Ordering::Relaxed) < NAMES_MAX / 2 {
            return;
        }
        for stripe in &self.stripes {
            lock(stripe).shards.values_mut().for_each(|watched| watched.names.sweep(now));
        }
    }

    /// A name is about to move, or is to be looked at again before it does.
    pub fn is_moving(&self, shard: ShardKey, name: &[u8], now: Time) -> bool {
        let stripe = self.stripe(shard);
        stripe.shards.get(&shard).is_some_and(|watched| watched.names.is_moving(name, now))
    }

    /// A name is about to move: it is told no more until [`Shards::end_move`].
    /// `alone`: when it was told while this mount was alone, as it is no more.
    pub fn begin_move(&self, shard: ShardKey, name: &[u8], alone: Option<Time>, now: Time) -> Held {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.watch(shard) else { return Held::No };
        let moving = watched.names.moving.entry(name.into()).or_default();
        moving.under_way += 1;
        let was_refused = now < moving.comes_again;
        let told = watched.names.told.get(name).copied().max(alone);
        match told.filter(|at| now - *at < NAME_LAPSE) {
            Some(at) if was_refused => Held::StillTold(at),
            Some(at) => Held::Told(at),
            None => Held::No,
        }
    }

    /// What the kernel was told of a name goes with it to a new one. `false`: this mount is not the writer there.
    pub fn name_moves(&self, shard: ShardKey, name: &[u8], at: Time) -> bool {
        let mut stripe = self.stripe(shard);
        let watched = stripe.shards.get_mut(&shard);
        let watched = watched.filter(|watched| watched.may_tell_names(u64::MAX));
        watched.is_some_and(|watched| self.note(&mut watched.names, name, at))
    }

    /// `again`: it was refused then, and comes again when the kernel has looked at the name.
    pub fn end_move(&self, shard: ShardKey, name: &[u8], again: Option<Time>) {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.shards.get_mut(&shard) else { return };
        let Entry::Occupied(mut moving) = watched.names.moving.entry(name.into()) else { return };
        moving.get_mut().under_way -= 1;
        match again {
            Some(now) => moving.get_mut().comes_again = now + LOOKED_AT_AGAIN_MAX,
            None if moving.get().under_way == 0 => drop(moving.remove()),
            None => {}
        }
        if watched.is_unknown() {
            stripe.shards.remove(&shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::Ino;

    use super::super::Claiming;
    use super::*;

    #[test]
    fn names_of_shards_that_are_watched_no_more_take_no_room() {
        let shards = Shards::new();
        let now = Time(0) + Duration::from_secs(100);
        for directory in 0..10 {
            let shard = ShardKey { directory: Ino(100 + directory), index: 0 };
            let entering = shards.enter_new(shard).expect("nobody is there");
            shards.entered(shard, &entering, vec![1]).expect("entered");
            let claiming = Claiming { claim: vec![1], asked: entering.asked };
            shards.claimed(shard, claiming);
            for name in [b"f", b"g"] {
                assert!(shards.tell_name(shard, name, now, u64::MAX, || true));
            }
            shards.end_sole(shard);
            shards.believe(shard, None);
            shards.watch_no_more(shard);
        }
        assert_eq!(shards.names_told.load(Ordering::Relaxed), 0);
    }
}
