//! The holder's side: polling for recalls by those who want to change something, and letting go.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Batch, Bytes, Store, StoreError};

use super::asking::replace;
use super::gone::{forget, superblock};
use super::holders;
use super::sending::stands;
use super::{Delegations, VALIDITY};
use crate::error::Error;
use crate::inode::u64_at;
use crate::keys::{self, lease_term};
use crate::superblock::LOSSES;
use crate::write_back::WriteBack;

/// Delegations from which nothing was answered for so long are given up.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// After a recall others come soon, where directories go from one mount to the other.
const RECALLED_LATELY: Duration = Duration::from_millis(500);
/// A mount that has no delegation need not hear of others more often; it may still stand in a record.
const POLL_OF_NOTHING: Duration = Duration::from_millis(10);
/// Nor one in whose turn others are known to wait for its end.
const POLL_IN_TURN: Duration = Duration::from_millis(5);
/// The same in polls, a millisecond apart at least, where the clock stands still.
const SKIPPED_MAX: u32 = 9;
/// Shards that are let go in one round.
const SHARDS_PER_ROUND: usize = 256;
/// How long a mount that ends takes to leave what it keeps.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// How often others may come into a shard's record while this mount leaves it.
const TRIES: usize = 8;

/// What the polls before have told.
#[derive(Debug, Default)]
pub(super) struct RecallPoll {
    recalls: u64,
    losses: Option<Bytes>,
    /// The last lease term that was begun, whatever became of that.
    tried: u64,
    /// When the last one began that has told all.
    begun: Option<Time>,
    /// Of those after it, the ones for which the store was not asked.
    skipped: u32,
    /// Directories that others wait for, in which it is this mount's turn.
    awaited: BTreeSet<Ino>,
}

impl<S: Store> WriteBack<S> {
    /// Polls whether others want to change what this mount keeps, and lets go of that. To be called
    /// every few milliseconds while it keeps anything (`true`), and every tenth of a second otherwise, by
    /// a thread that no request waits for; without it this mount keeps nothing.
    ///
    /// # Errors
    /// When the store does not answer; what is kept ends soon then.
    pub(crate) fn answer_recalls(&self) -> Result<bool, Error> {
        let delegations = &self.delegations;
        let begun = delegations.clock.steady();
        if !delegations.keeps() || delegations.solitude.time_alone(begun).is_some() {
            // The poll after that finds that time has passed.
            self.let_go_of_all();
            return Ok(false);
        }
        if !self.is_poll_due(begun) {
            return Ok(delegations.shards.held() > 0);
        }
        let mut recalled = Vec::new();
        let looked = self.poll_recalls(begun, &mut recalled);
        self.let_go(recalled);
        delegations.turns.ended_all(delegations.now());
        if let Err(error) = looked {
            // Others may not be able to ask, either, and must not wait for what is over.
            if !delegations.is_valid(delegations.clock.steady()) {
                self.let_go_of_all();
            }
            return Err(error);
        }
        let used = Time(delegations.used.load(Ordering::Relaxed));
        if begun - used >= IDLE_MAX {
            self.let_go_of_all();
        }
        if let Err(error) = self.make_room() {
            tracing::debug!(%error, "dead mounts stay in a record of holders");
        }
        Ok(delegations.shards.held() > 0)
    }

    /// Whether the store is to be asked. What this mount knows does for a moment where others can want nothing of it, or
    /// wait for the end of its turn already.
    fn is_poll_due(&self, now: Time) -> bool {
        let delegations = &self.delegations;
        let mut polled = delegations.polled.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = polled.begun.filter(|_| delegations.is_valid(now));
        let may_wait = match delegations.shards.held() {
            0 => POLL_OF_NOTHING,
            _ if polled.awaited.is_empty() => Duration::ZERO,
            _ => POLL_IN_TURN,
        };
        let ends = |directory: &Ino| !delegations.turns.keeps(*directory, now);
        // Else polls are rare as it is.
        let is_due = !self.was_recalled_lately()
            || begun.is_none_or(|begun| now - begun >= may_wait)
            || polled.skipped >= SKIPPED_MAX
            || polled.awaited.iter().any(ends);
        polled.skipped = if is_due { 0 } else { polled.skipped + 1 };
        is_due
    }

    /// Another mount asked for something a moment ago.
    pub(crate) fn was_recalled_lately(&self) -> bool {
        let recalled = Time(self.delegations.recalled.load(Ordering::Relaxed));
        recalled != Time(0) && self.delegations.clock.steady() - recalled < RECALLED_LATELY
    }

    /// Keeps nothing any more, for good, and tells the store so.
    pub(crate) fn end_delegations(&self) {
        self.delegations.keeps.store(false, Ordering::SeqCst);
        self.delegations.turns.forget();
        self.close_writing(self.delegations.shards.all_claimed().into_iter(), None);
        // No poll is under way from here on.
        let polled = self.delegations.polled.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.delegations.clock.steady();
        let hears =
            self.delegations.is_valid(now) || self.delegations.solitude.time_alone(now).is_some();
        self.delegations.valid_until.store(0, Ordering::SeqCst);
        let kept = self.delegations.end_all();
        if polled.tried == 0 || !hears {
            drop(polled);
            self.let_go(kept);
            return;
        }
        let fields = superblock(&*self.store);
        let ended = fields.and_then(|fields| forget(&*self.store, self.delegations.me(), &fields));
        if let Err(error) = ended {
            tracing::debug!(%error, "others will find out that this mount keeps nothing any more");
        }
        drop(polled);
        self.let_go(kept);
    }

    /// Keeps something again after [`end_delegations`](Self::end_delegations), where this mount does.
    pub(crate) fn resume_delegations(&self, keeps: bool) {
        self.delegations.keeps.store(keeps, Ordering::SeqCst);
    }

    /// Adds the shards that others want to change, of which this mount keeps nothing from here on, also
    /// where it fails.
    fn poll_recalls(&self, begun: Time, recalled: &mut Vec<ShardKey>) -> Result<(), Error> {
        let delegations = &self.delegations;
        let mut polled = delegations.polled.lock().unwrap_or_else(PoisonError::into_inner);
        if !delegations.keeps() {
            return Ok(());
        }
        let field = keys::lease_term(delegations.me());
        let look = Batch::new().read(field).read(LOSSES);
        let mut outcome = self.store.batch(keys::SUPERBLOCK, &look)?;
        let found = outcome.take(0);
        let record = found.clone().filter(|record| record.len() >= 16);
        let losses = outcome.take(1);
        let number = delegations.lease_term.load(Ordering::SeqCst);
        let mine = record.filter(|record| u64_at(record, lease_term::NUMBER) == number);
        // Revoked out; or what this mount kept ended before somebody could tell it that it need not have.
        let goes_on = mine.is_some() && delegations.is_valid(begun);
        if !goes_on || polled.losses != losses {
            recalled.extend(delegations.end_all());
        }
        let recalls = match &mine {
            Some(record) => u64_at(record, lease_term::RECALLS),
            None => {
                self.begin_lease_term(&mut polled.tried, begun, found, recalled)?;
                // Recalls of the one before are still there.
                polled.recalls = u64::MAX;
                0
            }
        };
        polled.losses = losses;
        // Those of directories in which it is this mount's turn wait for a later poll.
        if polled.recalls != recalls {
            polled.awaited = self.take_recalls(recalled)?;
            if polled.awaited.is_empty() {
                polled.recalls = recalls;
            }
        }
        polled.begun = Some(begun);
        delegations.valid_until.store((begun + VALIDITY).0, Ordering::SeqCst);
        Ok(())
    }

    /// Those who see the new lease term take the one before for over, so its delegations end first. Nobody enters
    /// with the new one before the store has it: others would take it for revoked. `ended`: the shards of
    /// those delegations.
    /// `found`: what the store said of a lease term. One whose beginning is lost and comes late begins nothing.
    fn begin_lease_term(
        &self,
        tried: &mut u64,
        now: Time,
        found: Option<Bytes>,
        ended: &mut Vec<ShardKey>,
    ) -> Result<(), Error> {
        let delegations = &self.delegations;
        delegations.valid_until.store(0, Ordering::SeqCst);
        ended.extend(delegations.end_all());
        let there = found.as_ref().filter(|found| found.len() >= 8);
        let there = there.map_or(0, |found| u64_at(found, lease_term::NUMBER));
        let before = delegations.lease_term.load(Ordering::SeqCst).max(there).max(*tried);
        let number = now.0.max(before + 1);
        *tried = number;
        let record = [number.to_be_bytes(), [0; 8]].concat();
        let field = keys::lease_term(delegations.me());
        let batch = match found {
            Some(found) => Batch::new().equals(field.clone(), found),
            None => Batch::new().absent(field.clone()),
        };
        let batch = batch.put(field, record).reclaims();
        if !self.store.batch(keys::SUPERBLOCK, &batch)?.applied() {
            return Err(Error::Contended);
        }
        delegations.lease_term.store(number, Ordering::SeqCst);
        delegations.was_used(now);
        // Whoever was about to enter with the one before is too late.
        ended.extend(delegations.end_all());
        Ok(())
    }

    /// Takes the recalls of this mount: what they are about is kept no more. Answers the directories that others have to
    /// wait for.
    fn take_recalls(&self, recalled: &mut Vec<ShardKey>) -> Result<BTreeSet<Ino>, Error> {
        let fields = superblock(&*self.store)?;
        let me = self.delegations.me();
        let now = self.delegations.clock.steady();
        let fields = || fields.iter().map(|(field, _)| field);
        let recalls: BTreeSet<_> =
            fields().filter_map(|field| keys::shard_of_recall(me, field)).collect();
        let looks: BTreeSet<_> =
            fields().filter_map(|field| keys::shard_of_look(me, field)).collect();
        let directories: BTreeSet<_> =
            recalls.iter().chain(&looks).map(|shard| shard.directory).collect();
        let kept = directories.into_iter().filter(|it| self.delegations.turns.keeps(*it, now));
        let kept: BTreeSet<_> = kept.collect();
        let waits = |shard: &ShardKey| kept.contains(&shard.directory);
        let shards: BTreeSet<_> = recalls.into_iter().filter(|shard| !waits(shard)).collect();
        let looks: BTreeSet<_> = looks.into_iter().filter(|shard| !waits(shard)).collect();
        if !(kept.is_empty() && shards.is_empty() && looks.is_empty()) {
            self.delegations.recalled.store(now.0, Ordering::Relaxed);
        }
        if shards.is_empty() && looks.is_empty() {
            return Ok(kept);
        }
        let looked = self.let_look(&looks, now);
        if !shards.is_empty() {
            let asked = shards.iter().map(|shard| shard.directory);
            let shards = self.with_worked_in(&shards);
            for directory in asked.collect::<BTreeSet<_>>() {
                self.delegations.is_wanted(directory, now);
            }
            // Until the store has all that waits, the delegations go on.
            if !self.close_writing(shards.iter().copied(), None) {
                return Ok(kept);
            }
            self.delegations.recalled(&shards, now);
            recalled.extend(&shards);
        }
        let taken = shards.iter().map(|shard| keys::recall(me, *shard));
        let taken = taken.chain(looks.iter().map(|shard| keys::look(me, *shard)));
        let taken = taken.fold(Batch::new().reclaims(), Batch::delete);
        self.store.batch(keys::SUPERBLOCK, &taken)?;
        looked?;
        Ok(kept)
    }

    /// Who changes something in a directory of which this mount was the writer works there, and gets all of it, also
    /// after a look, which ends the claims alone.
    pub(super) fn with_worked_in(&self, shards: &BTreeSet<ShardKey>) -> BTreeSet<ShardKey> {
        let Delegations { shards: all, per_directory, .. } = &*self.delegations;
        let directories: BTreeSet<_> = shards.iter().map(|shard| shard.directory).collect();
        let worked_in =
            directories.into_iter().flat_map(|directory| all.worked_in(directory, *per_directory));
        worked_in.chain(shards.iter().copied()).collect()
    }

    /// Lets go where a poll hangs for so long that nothing is valid any more: others cannot ask, either.
    /// To be called every tenth of a second.
    pub(crate) fn let_go_of_lapsed(&self) {
        let delegations = &self.delegations;
        let now = delegations.clock.steady();
        delegations.shards.sweep_names(now);
        delegations.turns.sweep(now);
        if delegations.solitude.time_alone(now).is_none() && !delegations.is_valid(now) {
            self.let_go_of_all();
        }
    }

    fn let_go_of_all(&self) {
        if self.delegations.shards.held() > 0 {
            self.let_go(self.delegations.end_all());
        }
    }

    /// Takes this mount off the records of shards. What cannot be reached soon is left to those who want
    /// to change it: they find that this mount does not answer for it, and revoke its delegations.
    fn let_go(&self, shards: Vec<ShardKey>) {
        let begun = self.delegations.clock.steady();
        for some in shards.chunks(SHARDS_PER_ROUND) {
            let is_late = self.delegations.clock.steady() - begun >= LEAVE_MAX;
            if is_late || !self.close_writing(some.iter().copied(), None) {
                return;
            }
            if let Err(error) = self.leave(some) {
                tracing::debug!(%error, "what this mount kept is left to others");
                return;
            }
        }
    }

    fn leave(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        let delegations = &self.delegations;
        // Nobody enters meanwhile.
        let _changing = delegations.changing(shards.to_vec());
        let known = shards.iter().map(|shard| (*shard, delegations.shards.holders(*shard)));
        let mut left: Vec<_> = known.collect();
        for _ in 0..TRIES {
            if left.is_empty() {
                break;
            }
            let batches: Vec<_> = left
                .iter()
                .map(|(shard, record)| (*shard, delegations.leaving(*shard, record)))
                .collect();
            let outcomes = self.store.batches(&batches)?;
            let each = left.iter().zip(outcomes).map(|((shard, _), mut outcome)| {
                let record = outcome.take(0).unwrap_or_default();
                delegations.shards.saw_holders(*shard, &record);
                (*shard, record)
            });
            let stands_there = |record: &[u8]| {
                holders::decode(record).iter().any(|holder| holder.mount == delegations.me())
            };
            let (stays, gone): (Vec<_>, Vec<_>) =
                each.partition(|(_, record)| stands_there(record));
            gone.iter().for_each(|(shard, _)| delegations.shards.believe(*shard, None));
            left = stays;
        }
        Ok(())
    }
}

impl Delegations {
    /// Takes this mount off a record, if it is still that, and its claim with it; else its claim alone.
    fn leaving(&self, shard: ShardKey, record: &[u8]) -> Batch {
        let rest = holders::without(record, |holder| holder.mount == self.me());
        let batch = match (rest.len() < record.len(), self.shards.claim(shard)) {
            (true, _) => replace(stands(Batch::new(), record), rest),
            (false, Some(claim)) => {
                Batch::new().equals(keys::WRITER, claim).delete(keys::WRITER).reclaims()
            }
            (false, None) => Batch::new(),
        };
        batch.read(keys::HOLDERS)
    }
}
