//! The keeper's side: looking for words of those who want to change something, and letting go.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Bytes, Store, StoreError};

use super::asking::replace;
use super::gone::{forget, superblock};
use super::keepers;
use super::sending::stands;
use super::{Leases, VALIDITY};
use crate::deferring::Deferring;
use crate::error::Error;
use crate::inode::u64_at;
use crate::keys::{self, tenure};
use crate::superblock::LOSSES;

/// Leases from which nothing was answered for so long are given up.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// After a recall others come soon, where directories go from one mount to the other.
const RECALLED_LATELY: Duration = Duration::from_millis(500);
/// Shards that are let go in one round.
const SHARDS_PER_ROUND: usize = 256;
/// How long a mount that ends takes to leave what it keeps.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// How often others may come into a shard's record while this mount leaves it.
const TRIES: usize = 8;

/// What the looks before have told.
#[derive(Debug, Default)]
pub(super) struct Heed {
    words: u64,
    losses: Option<Bytes>,
    /// The last tenure that was begun, whatever became of that.
    tried: u64,
}

impl<S: Store> Deferring<S> {
    /// Looks whether others want to change what this mount keeps, and lets go of that. To be called
    /// every few milliseconds while it keeps anything (`true`), and every tenth of a second otherwise, by
    /// a thread that no request waits for; without it this mount keeps nothing.
    ///
    /// # Errors
    /// When the store does not answer; what is kept ends soon then.
    pub(crate) fn heed(&self) -> Result<bool, Error> {
        let leases = &self.leases;
        let begun = leases.clock.steady();
        if !leases.keeps() || leases.solitude.time_alone(begun).is_some() {
            // The look after that finds that time has passed.
            self.let_go_of_all();
            return Ok(false);
        }
        let mut recalled = Vec::new();
        let looked = self.look_for_words(begun, &mut recalled);
        self.let_go(recalled);
        if let Err(error) = looked {
            // Others may not be able to ask, either, and must not wait for what is over.
            if !leases.is_valid(leases.clock.steady()) {
                self.let_go_of_all();
            }
            return Err(error);
        }
        let used = Time(leases.used.load(Ordering::Relaxed));
        if begun - used >= IDLE_MAX {
            self.let_go_of_all();
        }
        if let Err(error) = self.make_room() {
            tracing::debug!(%error, "dead mounts stay in a record of keepers");
        }
        Ok(leases.shards.held() > 0)
    }

    /// Another mount asked for something a moment ago.
    pub(crate) fn was_recalled_lately(&self) -> bool {
        let recalled = Time(self.leases.recalled.load(Ordering::Relaxed));
        recalled != Time(0) && self.leases.clock.steady() - recalled < RECALLED_LATELY
    }

    /// Keeps nothing any more, for good, and tells the store so.
    pub(crate) fn end_leases(&self) {
        self.leases.keeps.store(false, Ordering::SeqCst);
        // No look is under way from here on.
        let heed = self.leases.heed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.leases.clock.steady();
        let hears = self.leases.is_valid(now) || self.leases.solitude.time_alone(now).is_some();
        self.leases.valid_until.store(0, Ordering::SeqCst);
        let kept = self.leases.end_all();
        if heed.tried == 0 || !hears {
            drop(heed);
            self.let_go(kept);
            return;
        }
        let fields = superblock(&*self.store);
        let ended = fields.and_then(|fields| forget(&*self.store, self.leases.me(), &fields));
        if let Err(error) = ended {
            tracing::debug!(%error, "others will find out that this mount keeps nothing any more");
        }
        drop(heed);
        self.let_go(kept);
    }

    /// Adds the shards that others want to change, of which this mount keeps nothing from here on, also
    /// where it fails.
    fn look_for_words(&self, begun: Time, recalled: &mut Vec<ShardKey>) -> Result<(), Error> {
        let leases = &self.leases;
        let mut heed = leases.heed.lock().unwrap_or_else(PoisonError::into_inner);
        if !leases.keeps() {
            return Ok(());
        }
        let field = keys::tenure(leases.me());
        let look = Batch::new().read(field).read(LOSSES);
        let mut outcome = self.store.batch(keys::SUPERBLOCK, &look)?;
        let found = outcome.take(0);
        let record = found.clone().filter(|record| record.len() >= 16);
        let losses = outcome.take(1);
        let number = leases.tenure.load(Ordering::SeqCst);
        let mine = record.filter(|record| u64_at(record, tenure::NUMBER) == number);
        // Struck out; or what this mount kept ended before somebody could tell it that it need not have.
        let goes_on = mine.is_some() && leases.is_valid(begun);
        if !goes_on || heed.losses != losses {
            recalled.extend(leases.end_all());
        }
        let words = match &mine {
            Some(record) => u64_at(record, tenure::WORDS),
            None => {
                self.begin_tenure(&mut heed.tried, begun, found, recalled)?;
                // Words for the one before are still there.
                heed.words = u64::MAX;
                0
            }
        };
        heed.losses = losses;
        if heed.words != words {
            self.words(recalled)?;
            heed.words = words;
        }
        leases.valid_until.store((begun + VALIDITY).0, Ordering::SeqCst);
        Ok(())
    }

    /// Those who see the new tenure take the one before for over, so its leases end first. Nobody enters
    /// with the new one before the store has it: others would take it for struck out. `ended`: the shards of
    /// those leases.
    /// `found`: what the store said of a tenure. One whose beginning is lost and comes late begins nothing.
    fn begin_tenure(
        &self,
        tried: &mut u64,
        now: Time,
        found: Option<Bytes>,
        ended: &mut Vec<ShardKey>,
    ) -> Result<(), Error> {
        let leases = &self.leases;
        leases.valid_until.store(0, Ordering::SeqCst);
        ended.extend(leases.end_all());
        let there = found.as_ref().filter(|found| found.len() >= 8);
        let there = there.map_or(0, |found| u64_at(found, tenure::NUMBER));
        let before = leases.tenure.load(Ordering::SeqCst).max(there).max(*tried);
        let number = now.0.max(before + 1);
        *tried = number;
        let record = [number.to_be_bytes(), [0; 8]].concat();
        let field = keys::tenure(leases.me());
        let batch = match found {
            Some(found) => Batch::new().equals(field.clone(), found),
            None => Batch::new().absent(field.clone()),
        };
        let batch = batch.put(field, record).reclaims();
        if !self.store.batch(keys::SUPERBLOCK, &batch)?.applied() {
            return Err(Error::Contended);
        }
        leases.tenure.store(number, Ordering::SeqCst);
        leases.was_used(now);
        // Whoever was about to enter with the one before is too late.
        ended.extend(leases.end_all());
        Ok(())
    }

    /// Takes the words for this mount: what they are about is kept no more.
    fn words(&self, recalled: &mut Vec<ShardKey>) -> Result<(), Error> {
        let fields = superblock(&*self.store)?;
        let wanted = |(field, _): &(Bytes, Bytes)| keys::shard_of_word(self.leases.me(), field);
        let shards: BTreeSet<_> = fields.iter().filter_map(wanted).collect();
        let now = self.leases.clock.steady();
        self.leases.recalled(&shards, now);
        if !shards.is_empty() {
            self.leases.recalled.store(now.0, Ordering::Relaxed);
        }
        recalled.extend(&shards);
        let taken = shards.iter().fold(Batch::new().reclaims(), |batch, shard| {
            batch.delete(keys::word(self.leases.me(), *shard))
        });
        if !shards.is_empty() {
            self.store.batch(keys::SUPERBLOCK, &taken)?;
        }
        Ok(())
    }

    /// Lets go where a look hangs for so long that nothing is valid any more: others cannot ask, either.
    /// To be called every tenth of a second.
    pub(crate) fn let_go_of_lapsed(&self) {
        let leases = &self.leases;
        let now = leases.clock.steady();
        if leases.solitude.time_alone(now).is_none() && !leases.is_valid(now) {
            self.let_go_of_all();
        }
    }

    fn let_go_of_all(&self) {
        if self.leases.shards.held() > 0 {
            self.let_go(self.leases.end_all());
        }
    }

    /// Takes this mount off the records of shards. What cannot be reached soon is left to those who want
    /// to change it: they find that this mount does not answer for it, and strike it out.
    fn let_go(&self, shards: Vec<ShardKey>) {
        let begun = self.leases.clock.steady();
        for some in shards.chunks(SHARDS_PER_ROUND) {
            if self.leases.clock.steady() - begun >= LEAVE_MAX {
                return;
            }
            if let Err(error) = self.leave(some) {
                tracing::debug!(%error, "what this mount kept is left to others");
                return;
            }
        }
    }

    fn leave(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        let leases = &self.leases;
        // Nobody enters meanwhile.
        let _changing = leases.changing(shards.to_vec());
        let known = shards.iter().map(|shard| (*shard, leases.shards.keepers(*shard)));
        let mut left: Vec<_> = known.collect();
        for _ in 0..TRIES {
            if left.is_empty() {
                break;
            }
            let batches: Vec<_> =
                left.iter().map(|(shard, record)| (*shard, leases.leaving(record))).collect();
            let outcomes = self.store.batches(&batches)?;
            let each = left.iter().zip(outcomes).map(|((shard, _), mut outcome)| {
                let record = outcome.take(0).unwrap_or_default();
                leases.shards.saw_keepers(*shard, &record);
                (*shard, record)
            });
            let stands_there = |record: &[u8]| {
                keepers::decode(record).iter().any(|keeper| keeper.mount == leases.me())
            };
            left = each.filter(|(_, record)| stands_there(record)).collect();
        }
        Ok(())
    }
}

impl Leases {
    /// Takes this mount off a record, if it is still that.
    fn leaving(&self, record: &[u8]) -> Batch {
        let rest = keepers::without(record, |keeper| keeper.mount == self.me());
        replace(stands(Batch::new(), record), rest).read(keys::KEEPERS)
    }
}
