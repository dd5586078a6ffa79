//! Taking the delegations of a directory that was made here, before anybody else has been in it, or in which this
//! mount works: from then on it makes all of its names.

use tidefs_model::ShardKey;
use tidefs_store::{Batch, Bytes, Store, StoreError, caller};

use super::holders::{self, Holder};
use super::sending::stands;
use super::shards::{Claiming, Entering};
use super::{Delegations, IS_DELEGATION};
use crate::keys::{self, header};
use crate::write_back::WriteBack;

/// Which shards are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Those without a name.
    New,
    /// All that no other mount keeps.
    WorkedIn,
    /// The same, where others change the directory as well: they are asked only where this mount knows of somebody.
    Disputed,
}

/// How a shard comes to be this mount's.
enum Taking {
    /// It has its delegation, which came with looks; and becomes the writer where it is the only holder.
    Has(u64, Option<(Bytes, Claiming)>),
    Enters(Entering),
}

impl<S: Store> WriteBack<S> {
    /// Takes the delegations of shards, in one round. What each of them is known by from
    /// then on, in their order; `None`: it cannot be had, or another mount keeps it or removes the directory.
    pub(crate) fn take(
        &self,
        shards: &[ShardKey],
        which: Taken,
    ) -> Result<Vec<Option<u64>>, StoreError> {
        let delegations = &self.delegations;
        if which != Taken::New {
            self.see_holders(shards, which)?;
        }
        let each = shards.iter().map(|shard| (*shard, delegations.taking(*shard, which)));
        let wanted: Vec<_> = each.collect();
        // As every look that enters: a lease term that ends from here on keeps it from being entered.
        let myself = delegations.myself();
        if !delegations.is_valid(delegations.now()) {
            return Ok(Vec::new());
        }
        let batches: Vec<_> = wanted
            .iter()
            .filter_map(|(shard, taking)| Some((*shard, ask(taking.as_ref()?, myself, which))))
            .collect();
        if batches.is_empty() {
            return Ok(vec![None; wanted.len()]);
        }
        let mut outcomes = caller::without_waiting(|| self.store.batches(&batches))?.into_iter();
        delegations.was_used(delegations.now());
        let taken = wanted.into_iter().map(|(shard, taking)| {
            let (taking, mut outcome) =
                taking.and_then(|taking| Some((taking, outcomes.next()?)))?;
            let record = outcome.take(0).unwrap_or_default();
            delegations.taken(shard, taking, outcome.applied(), record)
        });
        Ok(taken.collect())
    }

    /// Reads who keeps shards of which nothing is known, or something that may be old.
    fn see_holders(&self, shards: &[ShardKey], which: Taken) -> Result<(), StoreError> {
        let delegations = &self.delegations;
        let read = Batch::new().read(keys::HOLDERS);
        // Others that stood beside this mount may have gone.
        let is_open = |shard: &&ShardKey| {
            let record = delegations.shards.holders(**shard);
            let is_sole = holders::others(&record, delegations.me()).is_empty();
            match (which, delegations.shards.delegation(**shard)) {
                (_, Some(_)) => !is_sole,
                // It is tried whether they have.
                (Taken::Disputed, None) => false,
                (Taken::New | Taken::WorkedIn, None) => true,
            }
        };
        let open = shards.iter().filter(is_open);
        let batches: Vec<_> = open.map(|shard| (*shard, read.clone())).collect();
        if batches.is_empty() {
            return Ok(());
        }
        for ((shard, _), mut outcome) in batches.iter().zip(self.store.batches(&batches)?) {
            delegations.shards.saw_holders(*shard, &outcome.take(0).unwrap_or_default());
        }
        Ok(())
    }
}

/// Nobody removes the directory, and from now on nobody enters or looks but this mount.
fn ask(taking: &Taking, myself: Holder, which: Taken) -> Batch {
    let batch = Batch::new().absent(keys::CLOSED);
    let batch = match which {
        Taken::New => batch.at_most(keys::HEADER, header::ENTRIES, 0),
        Taken::WorkedIn | Taken::Disputed => batch,
    };
    let batch = match taking {
        Taking::Enters(entering) => {
            let record = holders::with(&entering.holders, myself, entering.number);
            let batch = stands(batch, &entering.holders).put(keys::HOLDERS, record.clone());
            match holders::others(&record, myself.mount).is_empty() {
                true => batch.put(keys::WRITER, record),
                false => batch,
            }
        }
        Taking::Has(_, Some((record, claiming))) => {
            stands(batch, record).put(keys::WRITER, claiming.claim.clone())
        }
        Taking::Has(_, None) => batch,
    };
    batch.read(keys::HOLDERS)
}

impl Delegations {
    fn taking(&self, shard: ShardKey, which: Taken) -> Option<Taking> {
        if !self.watches(shard) {
            return None;
        }
        match self.shards.delegation(shard) {
            Some(number) => {
                let record = self.shards.holders(shard);
                // With the next change it would have to ask the others to go, and its own delegation would end.
                if !holders::others(&record, self.me()).is_empty() {
                    return None;
                }
                let claiming = self.shards.claiming_at_once(shard, self.myself());
                Some(Taking::Has(number, claiming.map(|claiming| (record, claiming))))
            }
            None => {
                let entering = match which {
                    Taken::New => self.shards.enter_new(shard),
                    Taken::WorkedIn | Taken::Disputed => self.shards.enter_at_work(shard),
                };
                let entering = entering?;
                let is_free = holders::others(&entering.holders, self.me()).is_empty();
                match which {
                    // They may have gone; if not, the answer says who is there.
                    Taken::Disputed if !is_free => Some(Taking::Enters(entering.first())),
                    Taken::WorkedIn if !is_free => None,
                    _ => Some(Taking::Enters(entering)),
                }
            }
        }
    }

    /// What became of it.
    fn taken(&self, shard: ShardKey, taking: Taking, is_empty: bool, record: Bytes) -> Option<u64> {
        let delegation = match taking {
            // Where it has ended meanwhile nobody is known by it any more.
            Taking::Has(number, claiming) => {
                if let Some((_, claiming)) = claiming.filter(|_| is_empty) {
                    self.shards.claimed(shard, claiming);
                }
                Some(number).filter(|_| is_empty)
            }
            Taking::Enters(entering) if is_empty => {
                let delegation = self.shards.entered(shard, &entering, record.clone());
                if holders::others(&record, self.me()).is_empty() {
                    self.shards.claimed(shard, Claiming { claim: record, asked: entering.asked });
                }
                delegation
            }
            Taking::Enters(_) => {
                self.shards.saw_holders(shard, &record);
                None
            }
        };
        delegation.map(|number| number | IS_DELEGATION)
    }
}
