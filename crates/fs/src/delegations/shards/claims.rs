//! The shards of which this mount is the *writer*: it may answer for changes there before the store has them,
//! since everybody else, also who only looks, has to ask it first. Nothing here asks the store.

use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::Bytes;

use super::{Shards, Watched};
use crate::delegations::holders::{self, Holder};

/// How long a mount is no writer after somebody wanted to look, at least and at most.
const LOOKED_AT_MIN: Duration = Duration::from_millis(100);
const LOOKED_AT_MAX: Duration = Duration::from_secs(10);
/// Changes of a shard that nobody else concerns himself with, after which a mount becomes its writer.
const SOLE_CHANGES: u32 = 8;

/// How a mount stands as a writer of a shard.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// What this mount has put into the shard as its writer and not taken away since: it may be there.
    claim: Option<Bytes>,
    /// Work under way that relies on it that nobody looks.
    relying: u32,
    /// Counts those who wanted to look or change something.
    pub asked: u64,
    /// When somebody wanted to look last, and for how long nobody else should have to ask.
    looked_at: Option<(Time, Duration)>,
}

impl Writing {
    /// The shard may be forgotten.
    pub fn is_idle(&self) -> bool {
        self.claim.is_none() && self.relying == 0
    }
}

/// A claim on its way to the store.
#[derive(Debug)]
pub(in crate::delegations) struct Claiming {
    pub claim: Bytes,
    /// How often others had asked before.
    pub asked: u64,
}

impl Watched {
    fn is_writer(&self) -> bool {
        self.delegation.as_ref().is_some_and(|delegation| delegation.writes_back)
    }
}

impl Shards {
    /// Nobody looks from now on until [`Shards::rely_no_more`]: the number of the delegation. `None`: somebody may.
    pub fn rely(&self, shard: ShardKey) -> Option<u64> {
        let mut stripe = self.stripe(shard);
        let watched = stripe.shards.get_mut(&shard).filter(|watched| watched.is_writer())?;
        watched.writing.relying += 1;
        watched.delegation.as_ref().map(|delegation| delegation.number)
    }

    pub fn rely_no_more(&self, shard: ShardKey) {
        if let Some(watched) = self.stripe(shard).shards.get_mut(&shard) {
            watched.writing.relying -= 1;
        }
    }

    pub fn is_relied_on(&self, shard: ShardKey) -> bool {
        let stripe = self.stripe(shard);
        stripe.shards.get(&shard).is_some_and(|watched| watched.writing.relying > 0)
    }

    /// This mount answers for changes of the shard that others need not ask it about.
    pub fn is_writer(&self, shard: ShardKey) -> bool {
        self.stripe(shard).shards.get(&shard).is_some_and(Watched::is_writer)
    }

    /// What the store may have of this mount as the writer of a shard.
    pub fn claim(&self, shard: ShardKey) -> Option<Bytes> {
        self.stripe(shard).shards.get(&shard)?.writing.claim.clone()
    }

    /// A claim is to be put into a shard of which this mount has the delegation.
    pub fn claiming_at_once(&self, shard: ShardKey, myself: Holder) -> Option<Claiming> {
        let stripe = self.stripe(shard);
        let watched = stripe.shards.get(&shard)?;
        let may = watched.delegation.is_some() && watched.writing.claim.is_none();
        let claim = || holders::with(&[], myself, self.next_number());
        may.then(|| Claiming { claim: claim(), asked: watched.writing.asked })
    }

    /// The same with the next change, where nobody has looked for a while.
    pub fn claiming(&self, shard: ShardKey, now: Time, myself: Holder) -> Option<Claiming> {
        let stripe = self.stripe(shard);
        let watched = stripe.shards.get(&shard)?;
        let writing = &watched.writing;
        let is_free = writing.looked_at.is_none_or(|(at, pause)| now - at >= pause);
        let changes = watched.delegation.as_ref().map_or(0, |delegation| delegation.sole_changes);
        let may = changes >= SOLE_CHANGES && writing.claim.is_none() && is_free;
        drop(stripe);
        if may { self.claiming_at_once(shard, myself) } else { None }
    }

    /// The store has a claim of this mount, which is the writer unless somebody has asked for the shard meanwhile.
    pub fn claimed(&self, shard: ShardKey, claiming: Claiming) {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.watch(shard) else { return };
        watched.writing.claim = Some(claiming.claim);
        if let Some(delegation) = &mut watched.delegation {
            delegation.writes_back = watched.writing.asked == claiming.asked;
            delegation.was_writer = true;
        }
    }

    /// The store has this of this mount as the writer of a shard, or nothing.
    pub fn believe(&self, shard: ShardKey, claim: Option<Bytes>) {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.watch(shard) else { return };
        if claim.is_none()
            && let Some(delegation) = &mut watched.delegation
        {
            delegation.writes_back = false;
        }
        watched.writing.claim = claim;
    }

    /// The store has a claim no more.
    pub fn unclaimed(&self, shard: ShardKey, claim: &[u8]) {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.shards.get_mut(&shard) else { return };
        let is_taken = watched.writing.claim.take_if(|there| *there == claim).is_some();
        if let Some(delegation) = watched.delegation.as_mut().filter(|_| is_taken) {
            delegation.writes_back = false;
        }
    }

    /// Others ask for a shard: this mount is the writer no longer, and nobody begins to rely on that. `looks`: they
    /// want to look at it, now.
    pub fn stop_writing_back(&self, shard: ShardKey, looks: Option<Time>) {
        let mut stripe = self.stripe(shard);
        let Some(watched) = stripe.shards.get_mut(&shard) else { return };
        watched.writing.asked += 1;
        if let Some(delegation) = &mut watched.delegation {
            delegation.writes_back = false;
        }
        if let Some(now) = looks {
            let before = watched.writing.looked_at;
            // Who comes again and again is asked for less and less often.
            let pause = before.filter(|(at, _)| now - *at < LOOKED_AT_MAX);
            let pause = pause.map_or(LOOKED_AT_MIN, |(_, pause)| (pause * 2).min(LOOKED_AT_MAX));
            watched.writing.looked_at = Some((now, pause));
        }
    }

    /// All shards that the store may have a claim of this mount in.
    pub fn all_claimed(&self) -> Vec<ShardKey> {
        let claimed = |stripe: &std::sync::Mutex<super::Stripe>| {
            let stripe = super::lock(stripe);
            let claimed = stripe.shards.iter().filter(|(_, it)| it.writing.claim.is_some());
            claimed.map(|(shard, _)| *shard).collect::<Vec<_>>()
        };
        self.stripes.iter().flat_map(claimed).collect()
    }

    /// Of a directory's shards, those in which this mount is the writer, or was under the delegation that it has.
    pub fn worked_in(&self, directory: Ino, shards: u16) -> Vec<ShardKey> {
        let all = (0..shards).map(|index| ShardKey { directory, index });
        all.filter(|shard| self.is_worked_in(*shard)).collect()
    }

    fn is_worked_in(&self, shard: ShardKey) -> bool {
        let stripe = self.stripe(shard);
        let worked_in = |watched: &Watched| {
            let was_writer = watched.delegation.as_ref().is_some_and(|it| it.was_writer);
            was_writer || watched.writing.claim.is_some()
        };
        stripe.shards.get(&shard).is_some_and(worked_in)
    }
}
