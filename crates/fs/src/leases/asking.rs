//! Recalling what other mounts keep, for whoever wants to change it.
//!
//! A keeper is told by a word in the superblock's shard. One that does not go soon is struck out there:
//! its next look finds that, and so nothing that it keeps is valid after [`LAPSE`](super::LAPSE), in any
//! shard. Until then its looks may have told it that it need not go.

use std::collections::HashMap;
use std::time::Duration;

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError};

use super::keepers::{self, Keeper};
use super::sending::stands;
use super::{LAPSE, LAPSE_MS, Leases, Struck};
use crate::deferring::Deferring;
use crate::inode::u64_at;
use crate::keys::{self, tenure};

/// A keeper that lives and is served goes within some milliseconds.
const ANSWER_MAX: Duration = Duration::from_millis(ANSWER_MAX_MS);
const ANSWER_MAX_MS: u64 = 250;
/// How long a change waits for a keeper that was killed, but for the rounds that it takes.
pub(crate) const KILLED_MS: u64 = ANSWER_MAX_MS + LAPSE_MS;
/// Words may be taken for a shard that the keeper has entered again since.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long a change waits, by the clock and, where that stands still, by pauses.
const WAIT_MAX: Duration = Duration::from_secs(20);
const TRIES_MAX: u32 = 1_020;
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// A keeper that was asked lately looks every millisecond.
const PAUSE_MIN: Duration = Duration::from_micros(500);

/// One change that waits for keepers.
#[derive(Debug)]
pub(super) struct Recall {
    begun: Time,
    tries: u32,
    /// When each of them was told first, and last.
    told: HashMap<Keeper, (Time, Time)>,
}

impl Recall {
    pub fn begun(now: Time) -> Recall {
        Recall { begun: now, tries: 0, told: HashMap::new() }
    }

    /// After the first word the keeper needs a moment.
    fn pause(&self) {
        let pause = PAUSE_MIN * (1 << (self.tries / 4).min(6));
        std::thread::sleep(pause.min(PAUSE_MAX));
    }
}

impl<S: Store> Deferring<S> {
    /// Asks the keepers of a record to go, strikes out those that do not, and takes those off whose
    /// tenure is over; then waits a little. Answers the record as it may be now.
    ///
    /// # Errors
    /// When they are not gone after [`WAIT_MAX`]: where the superblock's node does not answer, nobody can
    /// tell a keeper that is dead from one that lives.
    pub(super) fn recall(
        &self,
        recall: &mut Recall,
        shard: ShardKey,
        record: Bytes,
    ) -> Result<Bytes, StoreError> {
        recall.tries += 1;
        let waited = self.leases.clock.steady() - recall.begun;
        if recall.tries > TRIES_MAX || waited >= WAIT_MAX {
            return Err(StoreError::Unavailable { endpoint: "a mount that keeps names".into() });
        }
        let mut answers = true;
        let others = keepers::others(&record, self.leases.me());
        // Who has gone and comes back is told again.
        recall.told.retain(|keeper, _| others.contains(keeper));
        let (over, stay): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|keeper| self.is_over(recall, shard, *keeper, &mut answers));
        if !stay.is_empty() {
            recall.pause();
        }
        if over.is_empty() {
            return Ok(record);
        }
        let rest = keepers::without(&record, |keeper| over.contains(keeper));
        let batch = replace(stands(Batch::new(), &record), rest.clone());
        self.store.batch(shard, &batch)?;
        Ok(rest)
    }

    /// Whether nothing that a keeper has is valid any more. One that may live is told, or struck out, as
    /// long as the superblock's node answers: each call that it does not may take long.
    fn is_over(
        &self,
        recall: &mut Recall,
        shard: ShardKey,
        keeper: Keeper,
        answers: &mut bool,
    ) -> bool {
        if let Some(is_over) = self.leases.struck(keeper) {
            return is_over;
        }
        let now = self.leases.clock.steady();
        let told = recall.told.get(&keeper).copied();
        let is_late = told.is_some_and(|(first, _)| now - first >= ANSWER_MAX);
        let is_due = is_late || told.is_none_or(|(_, last)| now - last >= TELL_EVERY);
        if !is_due || !*answers {
            return false;
        }
        let done = if is_late { self.strike_out(keeper) } else { self.tell(shard, keeper) };
        if let Err(error) = done {
            tracing::debug!(%error, mount = ?keeper.mount, "a mount is not told to let go");
            *answers = false;
            return false;
        }
        let now = self.leases.clock.steady();
        recall.told.insert(keeper, (told.map_or(now, |(first, _)| first), now));
        self.leases.struck(keeper).unwrap_or(false)
    }

    fn tell(&self, shard: ShardKey, keeper: Keeper) -> Result<(), StoreError> {
        let field = keys::tenure(keeper.mount);
        let batch = in_tenure(keeper)
            .add(field, tenure::WORDS, 1)
            .put(keys::word(keeper.mount, shard), b"");
        self.ask_of(keeper, batch)
    }

    fn strike_out(&self, keeper: Keeper) -> Result<(), StoreError> {
        let batch = in_tenure(keeper).delete(keys::tenure(keeper.mount));
        let done = self.ask_of(keeper, batch);
        if done.is_ok() {
            self.leases.note_struck(keeper, Some(self.leases.clock.steady()));
        }
        done
    }

    /// Changes what the superblock's shard says of a keeper; takes note where its tenure is another, or
    /// somebody else has struck it out.
    fn ask_of(&self, keeper: Keeper, batch: Batch) -> Result<(), StoreError> {
        let batch = batch.read(keys::tenure(keeper.mount)).reclaims();
        let mut outcome: Outcome = self.store.batch(keys::SUPERBLOCK, &batch)?;
        if !outcome.applied() {
            self.leases.note_tenure(keeper, outcome.take(0).as_deref());
        }
        Ok(())
    }
}

impl Leases {
    /// What the superblock's shard said just now of a keeper's mount.
    pub(super) fn note_tenure(&self, keeper: Keeper, found: Option<&[u8]>) {
        let found = found.filter(|record| record.len() >= 8);
        let begun = found.map(|record| u64_at(record, tenure::NUMBER));
        // Who has begun a later one has ended this one before. Otherwise it was struck out or lost with
        // a node just now, or a beginning arrived late.
        let has_ended = begun.is_some_and(|begun| begun > keeper.tenure);
        if begun != Some(keeper.tenure) {
            self.note_struck(keeper, (!has_ended).then(|| self.clock.steady()));
        }
    }

    /// Whether a tenure that was struck out is over; `None`: it was not.
    pub(super) fn struck(&self, keeper: Keeper) -> Option<bool> {
        let struck = *self.others().get(&keeper)?;
        Some(match struck {
            Struck::At(at) => self.clock.steady() - at >= LAPSE,
            Struck::Over => true,
        })
    }
}

/// It is still this tenure.
fn in_tenure(keeper: Keeper) -> Batch {
    let field = keys::tenure(keeper.mount);
    Batch::new().at_least(field.clone(), tenure::NUMBER, keeper.tenure).at_most(
        field,
        tenure::NUMBER,
        keeper.tenure,
    )
}

/// Puts another record of keepers.
pub(super) fn replace(batch: Batch, record: Vec<u8>) -> Batch {
    let batch = batch.reclaims();
    match record.is_empty() {
        true => batch.delete(keys::KEEPERS),
        false => batch.put(keys::KEEPERS, record),
    }
}
