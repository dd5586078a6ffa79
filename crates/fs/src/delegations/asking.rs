//! Recalling what other mounts keep, for whoever wants to change it.
//!
//! A holder is told by a recall in the superblock's shard. The lease term of one that does not go soon is revoked there:
//! its next poll finds that, and so nothing that it keeps is valid after [`LAPSE`](super::LAPSE), in any
//! shard. Until then its polls may have told it that it need not go.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tidefs_model::{ShardKey, Time};
use tidefs_store::{Batch, Bytes, Outcome, Store, StoreError};

use super::holders::{self, Entered, Holder};
use super::sending::stands;
use super::{Delegations, LAPSE, LAPSE_MS, Revoked};
use crate::inode::u64_at;
use crate::keys::{self, lease_term};
use crate::write_back::WriteBack;

/// A holder that lives and is served goes within some milliseconds.
const ANSWER_MAX: Duration = Duration::from_millis(ANSWER_MAX_MS);
const ANSWER_MAX_MS: u64 = 250;
/// How long a change waits for a holder that was killed, but for the rounds that it takes.
pub(crate) const KILLED_MS: u64 = ANSWER_MAX_MS + LAPSE_MS;
/// Recalls may be taken for a shard that the holder has entered again since.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long a change waits, by the clock and, where that stands still, by pauses.
const WAIT_MAX: Duration = Duration::from_secs(20);
const TRIES_MAX: u32 = 1_020;
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Who works elsewhere by now lets go sooner. It works there, and so does this mount.
const CONTENDED: Duration = Duration::from_millis(3);
/// A holder that was asked lately polls every millisecond.
const PAUSE_MIN: Duration = Duration::from_micros(500);

/// One change that waits for holders.
#[derive(Debug)]
pub(super) struct Recall {
    begun: Time,
    tries: u32,
    pause_max: Duration,
    /// One of them changes the directory as well.
    of_writer: bool,
    /// When each of them was told first, and last.
    told: HashMap<Entered, (Time, Time)>,
}

/// What somebody wants of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// That its holders go.
    Change,
    /// That its writer is one no longer.
    Look,
}

impl Recall {
    pub fn begun(now: Time) -> Recall {
        Recall::waiting_at_most(now, PAUSE_MAX)
    }

    /// One that looks so often at least.
    pub fn waiting_at_most(now: Time, pause_max: Duration) -> Recall {
        Recall { begun: now, tries: 0, pause_max, of_writer: false, told: HashMap::new() }
    }

    /// The same of somebody who changes the directory as well.
    pub fn of_writer(self, of_writer: bool) -> Recall {
        Recall { of_writer, ..self }
    }

    /// One more try.
    fn count(&mut self, now: Time) -> Result<(), StoreError> {
        self.tries += 1;
        // Shorter pauses make more tries.
        let shorter = PAUSE_MAX.as_millis() / self.pause_max.as_millis().max(1);
        let tries_max = TRIES_MAX.saturating_mul(shorter as u32);
        let is_over = self.tries > tries_max || now - self.begun >= WAIT_MAX;
        let holder = || StoreError::Unavailable { endpoint: "a mount that keeps names".into() };
        if is_over { Err(holder()) } else { Ok(()) }
    }

    /// After the first recall the holder needs a moment.
    fn pause(&self) {
        let pause = PAUSE_MIN * (1 << (self.tries / 4).min(6));
        std::thread::sleep(pause.min(self.pause_max));
    }
}

impl<S: Store> WriteBack<S> {
    /// Asks the holders of a record to go, revokes the terms of those that do not, and takes those off whose
    /// lease term is over; then waits a little. Answers the record as it may be now.
    ///
    /// # Errors
    /// When they are not gone after [`WAIT_MAX`]: where the superblock's node does not answer, nobody can
    /// tell a holder that is dead from one that lives.
    pub(super) fn recall(
        &self,
        recall: &mut Recall,
        shard: ShardKey,
        record: Bytes,
    ) -> Result<Bytes, StoreError> {
        recall.count(self.delegations.now())?;
        let mut answers = true;
        let others = holders::others_entered(&record, self.delegations.me());
        // Who has gone and comes back is told again.
        recall.told.retain(|entered, _| others.contains(entered));
        let (over, stay): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|it| self.is_over(recall, (shard, Wish::Change), *it, &mut answers));
        if !stay.is_empty() {
            recall.pause();
            let now = self.delegations.now();
            if recall.of_writer && now - recall.begun >= CONTENDED {
                self.delegations.turns.dispute(shard.directory, now);
            }
        }
        if over.is_empty() {
            return Ok(record);
        }
        let rest = holders::without(&record, |it| over.iter().any(|(holder, _)| holder == it));
        let batch = replace(stands(Batch::new(), &record), rest.clone());
        self.store.batch(shard, &batch)?;
        Ok(rest)
    }

    /// Asks the writers of shards to be that no longer, takes the claims away of those whose lease term is over, and
    /// waits a little. One that wants to look asks once for all shards of a directory.
    ///
    /// # Errors
    /// As [`WriteBack::recall`].
    pub(super) fn ask_writers(
        &self,
        recall: &mut Recall,
        writers: &[(ShardKey, &Bytes, Wish)],
    ) -> Result<(), StoreError> {
        recall.count(self.delegations.now())?;
        let (mut answers, mut stays) = (true, false);
        let mut over = Vec::new();
        let mut looked_at = BTreeSet::new();
        for (shard, claim, wish) in writers {
            let entered = holders::others_entered(claim, self.delegations.me()).pop();
            let Some((holder, number)) = entered else { continue };
            let is_asked = *wish == Wish::Look && !looked_at.insert((shard.directory, holder));
            let is_over = match is_asked {
                true => self.delegations.revoked(holder).unwrap_or(false),
                false => self.is_over(recall, (*shard, *wish), (holder, number), &mut answers),
            };
            stays |= !is_over;
            if is_over {
                let batch = Batch::new().equals(keys::WRITER, (*claim).clone());
                over.push((*shard, batch.delete(keys::WRITER).reclaims()));
            }
        }
        if stays {
            recall.pause();
        }
        if !over.is_empty() {
            self.store.batches(&over)?;
        }
        Ok(())
    }

    /// Whether nothing that a holder has is valid any more. One that may live is told, or revoked, as
    /// long as the superblock's node answers: each call that it does not may take long.
    fn is_over(
        &self,
        recall: &mut Recall,
        (shard, wish): (ShardKey, Wish),
        (holder, number): Entered,
        answers: &mut bool,
    ) -> bool {
        if let Some(is_over) = self.delegations.revoked(holder) {
            return is_over;
        }
        let now = self.delegations.clock.steady();
        let told = recall.told.get(&(holder, number)).copied();
        let is_late = told.is_some_and(|(first, _)| now - first >= ANSWER_MAX);
        let is_due = is_late || told.is_none_or(|(_, last)| now - last >= TELL_EVERY);
        if !is_due || !*answers {
            return false;
        }
        let done = if is_late { self.revoke(holder) } else { self.tell(shard, wish, holder) };
        if let Err(error) = done {
            tracing::debug!(%error, mount = ?holder.mount, "a mount is not told to let go");
            *answers = false;
            return false;
        }
        let now = self.delegations.clock.steady();
        recall.told.insert((holder, number), (told.map_or(now, |(first, _)| first), now));
        self.delegations.revoked(holder).unwrap_or(false)
    }

    fn tell(&self, shard: ShardKey, wish: Wish, holder: Holder) -> Result<(), StoreError> {
        let field = keys::lease_term(holder.mount);
        let wanted = match wish {
            Wish::Change => keys::recall(holder.mount, shard),
            Wish::Look => keys::look(holder.mount, shard),
        };
        let batch = in_lease_term(holder).add(field, lease_term::RECALLS, 1).put(wanted, b"");
        self.ask_of(holder, batch)
    }

    fn revoke(&self, holder: Holder) -> Result<(), StoreError> {
        let batch = in_lease_term(holder).delete(keys::lease_term(holder.mount));
        let done = self.ask_of(holder, batch);
        if done.is_ok() {
            self.delegations.note_revoked(holder, Some(self.delegations.clock.steady()));
        }
        done
    }

    /// Changes what the superblock's shard says of a holder; takes note where its lease term is another, or
    /// somebody else has revoked its delegations.
    fn ask_of(&self, holder: Holder, batch: Batch) -> Result<(), StoreError> {
        let batch = batch.read(keys::lease_term(holder.mount)).reclaims();
        let mut outcome: Outcome = self.store.batch(keys::SUPERBLOCK, &batch)?;
        if !outcome.applied() {
            self.delegations.note_lease_term(holder, outcome.take(0).as_deref());
        }
        Ok(())
    }
}

impl Delegations {
    /// What the superblock's shard said just now of a holder's mount.
    pub(super) fn note_lease_term(&self, holder: Holder, found: Option<&[u8]>) {
        let found = found.filter(|record| record.len() >= 8);
        let begun = found.map(|record| u64_at(record, lease_term::NUMBER));
        // Who has begun a later one has ended this one before. Otherwise it was revoked or lost with
        // a node just now, or a beginning arrived late.
        let has_ended = begun.is_some_and(|begun| begun > holder.lease_term);
        if begun != Some(holder.lease_term) {
            self.note_revoked(holder, (!has_ended).then(|| self.clock.steady()));
        }
    }

    /// Whether a lease term that was revoked is over; `None`: it was not.
    pub(super) fn revoked(&self, holder: Holder) -> Option<bool> {
        let revoked = *self.others().get(&holder)?;
        Some(match revoked {
            Revoked::At(at) => self.clock.steady() - at >= LAPSE,
            Revoked::Over => true,
        })
    }
}

/// It is still this lease term.
fn in_lease_term(holder: Holder) -> Batch {
    let field = keys::lease_term(holder.mount);
    Batch::new().at_least(field.clone(), lease_term::NUMBER, holder.lease_term).at_most(
        field,
        lease_term::NUMBER,
        holder.lease_term,
    )
}

/// Puts another record of holders. Whoever was the writer is that no longer.
pub(super) fn replace(batch: Batch, record: Vec<u8>) -> Batch {
    let batch = batch.reclaims().delete(keys::WRITER);
    match record.is_empty() {
        true => batch.delete(keys::HOLDERS),
        false => batch.put(keys::HOLDERS, record),
    }
}
