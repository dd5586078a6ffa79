//! What the kernel was told with a lifetime while this mount was alone, so that another mount that joins need not wait
//! until all of it has lapsed.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_model::{Ino, Time};

use crate::lifetimes::NAME_LAPSE;

const STRIPES: usize = 64;
/// Names, and inodes, of one stripe and one period. What is told beyond has to lapse.
const PERIOD_MAX: usize = 512;

/// Names in listings of one period.
const LISTED_MAX: usize = STRIPES * PERIOD_MAX;

/// A name in its directory.
type Name = (Ino, Box<[u8]>);

#[derive(Debug)]
pub(super) struct ToldAlone {
    stripes: Vec<Mutex<Stripe>>,
    listings: Mutex<Listings>,
    hashing: RandomState,
    /// When something was told last that is not noted, and 1 nanosecond; 0: never.
    unnoted: AtomicU64,
}

/// Two periods, of which the first may lapse no sooner than what it has.
#[derive(Debug, Default)]
struct Stripe {
    begun: Time,
    now: Period,
    before: Period,
}

#[derive(Debug, Default)]
struct Period {
    names: HashMap<Name, Time>,
    inos: HashMap<Ino, Time>,
}

/// Directories, and their names with what they lead to, as they were listed.
#[derive(Debug, Default)]
struct Listings {
    begun: Time,
    now: Vec<Listing>,
    before: Vec<Listing>,
    /// Names of this period.
    names: usize,
}

#[derive(Debug)]
struct Listing {
    directory: Ino,
    names: Vec<(Ino, Vec<u8>)>,
    at: Time,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Everything {
    pub names: Vec<(Ino, Box<[u8]>, Time)>,
    pub inos: Vec<Ino>,
    /// How long until what is not noted has lapsed.
    pub unnoted: Duration,
}

impl ToldAlone {
    pub fn new() -> ToldAlone {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        ToldAlone {
            stripes,
            listings: Mutex::default(),
            hashing: RandomState::new(),
            unnoted: AtomicU64::new(0),
        }
    }

    pub fn name(&self, parent: Ino, name: &[u8], at: Time) {
        let mut stripe = self.stripe(&(parent, name), at);
        let names = &mut stripe.now.names;
        if names.len() < PERIOD_MAX {
            names.insert((parent, name.into()), at);
        } else {
            self.unnoted(at);
        }
    }

    pub fn inode(&self, ino: Ino, now: Time) {
        let mut stripe = self.stripe(&ino, now);
        let inos = &mut stripe.now.inos;
        if inos.len() < PERIOD_MAX {
            inos.insert(ino, now);
        } else {
            self.unnoted(now);
        }
    }

    /// Names of a directory that were listed, which whoever lists takes in under the directory's lock.
    pub fn listing(&self, directory: Ino, names: Vec<(Ino, Vec<u8>)>, now: Time) {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        if now - listings.begun >= NAME_LAPSE {
            listings.before = std::mem::take(&mut listings.now);
            (listings.begun, listings.names) = (now, 0);
        }
        if listings.names + names.len() <= LISTED_MAX {
            listings.names += names.len();
            listings.now.push(Listing { directory, names, at: now });
        } else {
            self.unnoted(now);
        }
    }

    fn all_listed(&self, now: Time, everything: &mut Everything) {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let all = listings.before.iter().chain(&listings.now);
        for Listing { directory, names, at } in all.filter(|it| now - it.at < NAME_LAPSE) {
            for (ino, name) in names {
                everything.inos.push(*ino);
                everything.names.push((*directory, name.as_slice().into(), *at));
            }
        }
    }

    /// The lifetimes have ended of all that was told until then.
    pub fn ended(&self, until: Time) {
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let Stripe { now, before, .. } = &mut *stripe;
            for Period { names, inos } in [before, now] {
                names.retain(|_, at| *at > until);
                inos.retain(|_, at| *at > until);
            }
        }
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.before.clear();
        listings.now.retain(|listing| listing.at > until);
        listings.names = listings.now.iter().map(|listing| listing.names.len()).sum();
    }

    /// The kernel has a name without a lifetime.
    pub fn forget_name(&self, parent: Ino, name: &[u8], now: Time) {
        let mut stripe = self.stripe(&(parent, name), now);
        let name = (parent, Box::from(name));
        stripe.now.names.remove(&name);
        stripe.before.names.remove(&name);
    }

    /// Something was told that is not noted.
    fn unnoted(&self, now: Time) {
        self.unnoted.fetch_max(now.0 + 1, Ordering::SeqCst);
    }

    /// When a name was told last, if it may have a lifetime still; in a listing, if there was one.
    pub fn told(&self, parent: Ino, name: &[u8], now: Time) -> Option<Time> {
        let stripe = self.stripe(&(parent, name), now);
        let name = (parent, Box::from(name));
        let told = [&stripe.now, &stripe.before].into_iter().find_map(|it| it.names.get(&name));
        let told = told.copied().or_else(|| self.listed(parent));
        told.filter(|at| now - *at < NAME_LAPSE)
    }

    fn listed(&self, directory: Ino) -> Option<Time> {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = listings.now.iter().rev().chain(listings.before.iter().rev());
        all.find(|listing| listing.directory == directory).map(|listing| listing.at)
    }

    /// All that may have a lifetime still.
    pub fn all(&self, now: Time) -> Everything {
        let mut everything = Everything::default();
        let is_fresh = |at: &Time| now - *at < NAME_LAPSE;
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            for Period { names, inos } in [&stripe.before, &stripe.now] {
                let fresh = names.iter().filter(|(_, at)| is_fresh(at));
                let fresh = fresh.map(|((parent, name), at)| (*parent, name.clone(), *at));
                everything.names.extend(fresh);
                everything
                    .inos
                    .extend(inos.iter().filter(|(_, at)| is_fresh(at)).map(|(ino, _)| *ino));
            }
        }
        self.all_listed(now, &mut everything);
        let unnoted = self.unnoted.load(Ordering::SeqCst);
        if unnoted > 0 {
            everything.unnoted = NAME_LAPSE.saturating_sub(now - Time(unnoted - 1));
        }
        everything
    }

    fn stripe(&self, key: &impl std::hash::Hash, now: Time) -> MutexGuard<'_, Stripe> {
        let number = self.hashing.hash_one(key) as usize % STRIPES;
        let mut stripe = lock(&self.stripes[number]);
        if now - stripe.begun >= NAME_LAPSE {
            stripe.before = std::mem::take(&mut stripe.now);
            stripe.begun = now;
        }
        stripe
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(0) + Duration::from_millis(100_000 + millis)
    }

    #[test]
    fn what_was_told_is_there_until_it_has_lapsed() {
        let all = ToldAlone::new();
        for (millis, name) in [(0, b"a"), (1_400, b"b"), (1_600, b"c"), (2_900, b"d")] {
            all.name(Ino(1), name, at(millis));
            all.inode(Ino(millis), at(millis));
        }
        assert_eq!(all.told(Ino(1), b"b", at(2_800)), Some(at(1_400)));
        assert_eq!(all.told(Ino(1), b"b", at(2_900)), None);
        assert_eq!(all.told(Ino(2), b"c", at(2_000)), None);
        let mut taken = all.all(at(3_000));
        taken.names.sort_by(|a, b| a.1.cmp(&b.1));
        taken.inos.sort_unstable();
        let names: Vec<_> = taken.names.iter().map(|(_, name, _)| &**name).collect();
        assert_eq!(names, [b"c", b"d"]);
        assert_eq!(taken.inos, [Ino(1_600), Ino(2_900)]);
        assert_eq!(taken.unnoted, Duration::ZERO);
        all.ended(at(2_000));
        assert_eq!(all.all(at(3_000)).inos, [Ino(2_900)]);
    }

    #[test]
    fn what_was_listed_is_there_until_it_has_lapsed() {
        let all = ToldAlone::new();
        for millis in [0, 1_400, 1_600] {
            all.listing(Ino(1), vec![(Ino(millis), millis.to_be_bytes().to_vec())], at(millis));
        }
        let taken = all.all(at(2_000));
        assert_eq!(taken.inos, [Ino(1_400), Ino(1_600)]);
        assert_eq!(taken.names.len(), 2);
        all.ended(at(2_000));
        let names = vec![(Ino(1), b"f".to_vec()); LISTED_MAX];
        (0..2).for_each(|_| all.listing(Ino(1), names.clone(), at(5_000)));
        let taken = all.all(at(5_500));
        assert_eq!((taken.names.len(), taken.unnoted), (LISTED_MAX, Duration::from_secs(1)));
    }

    #[test]
    fn what_finds_no_room_has_to_lapse() {
        let all = ToldAlone::new();
        for number in 0..1_000_000_u64 {
            all.name(Ino(1), &number.to_be_bytes(), at(0));
            all.inode(Ino(number), at(0));
        }
        let taken = all.all(at(500));
        assert_eq!(taken.names.len(), STRIPES * PERIOD_MAX);
        assert_eq!(taken.inos.len(), STRIPES * PERIOD_MAX);
        assert_eq!(taken.unnoted, Duration::from_secs(1));
        assert_eq!(all.all(at(1_500)).unnoted, Duration::ZERO);
    }
}
