//! What mounts that are gone have left for delegations: themselves in the records of shards, and in the
//! superblock's shard lease terms, and recalls for them.

use std::collections::{BTreeMap, BTreeSet};

use tidefs_model::{MountId, ShardKey};
use tidefs_store::{Batch, Store};

use super::finding::Finding;
use super::walk::Shard;
use super::{Check, Look};
use crate::delegations::{self, Holder, holders_of};
use crate::error::Error;
use crate::inode::u64_at;
use crate::keys;
use crate::membership::members;

/// The lease terms that go on, by mount, and the mounts that are registered.
#[derive(Debug, Default)]
pub struct LeaseTerms {
    begun: BTreeMap<MountId, u64>,
    there: BTreeSet<MountId>,
}

impl LeaseTerms {
    pub fn has(&self, holder: Holder) -> bool {
        self.begun.get(&holder.mount) == Some(&holder.lease_term)
    }
}

impl<S: Store> Check<'_, S> {
    /// Reads the lease terms; what there is for mounts that are not registered is suspect.
    pub fn lease_terms(&self, look: &mut Look) -> Result<LeaseTerms, Error> {
        // Whoever has a lease term had registered before.
        let fields = delegations::superblock(self.store)?;
        let there: BTreeSet<_> = members(self.store)?.iter().map(|member| member.mount).collect();
        let mounts = fields.iter().filter_map(|(field, _)| keys::mount_of_delegation(field));
        for mount in mounts.filter(|mount| !there.contains(mount)) {
            look.suspect(Finding::LeaseTerm { mount });
        }
        let lease_terms = fields.iter().filter_map(|(field, record)| {
            let mount = keys::mount_of_delegation(field)?;
            let is_lease_term = *field == keys::lease_term(mount) && record.len() >= 8;
            is_lease_term.then(|| (mount, u64_at(record, keys::lease_term::NUMBER)))
        });
        Ok(LeaseTerms { begun: lease_terms.collect(), there })
    }

    /// Takes a holder off a record whose lease term was over before the second look.
    pub fn take_off(&self, shard: ShardKey, holder: Holder) -> Result<bool, Error> {
        let read = Batch::new().read(keys::HOLDERS);
        let record = self.store.batch(shard, &read)?.take(0).unwrap_or_default();
        Ok(self.store.batch(shard, &delegations::taking_off(&record, holder))?.applied())
    }
}

/// Whoever stands in a record with a lease term that is over. A mount that goes on may: one that entered while
/// something came between keeps nothing, begins another lease term when it is handed over, and goes off the record when
/// somebody changes something there.
pub fn count_holders(shard: &Shard, lease_terms: &LeaseTerms, look: &mut Look) {
    let record = shard.fields.get(keys::HOLDERS).map(|record| &record[..]).unwrap_or_default();
    for holder in holders_of(record) {
        if !(lease_terms.has(holder) || lease_terms.there.contains(&holder.mount)) {
            look.suspect(Finding::Holder { shard: shard.key, holder });
        }
    }
}

/// A lease term may have begun since the look did, and its mount have entered a record.
pub fn retain_ended(look: &mut Look, lease_terms: &LeaseTerms) {
    look.suspects.retain(|suspect| match suspect {
        Finding::Holder { holder, .. } => !lease_terms.has(*holder),
        _ => true,
    });
}
