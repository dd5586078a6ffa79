//! What mounts that are gone have left for leases: themselves in the records of shards, and in the
//! superblock's shard tenures, and words for them.

use std::collections::{BTreeMap, BTreeSet};

use tidefs_model::{MountId, ShardKey};
use tidefs_store::{Batch, Store};

use super::finding::Finding;
use super::walk::Shard;
use super::{Check, Look};
use crate::error::Error;
use crate::inode::u64_at;
use crate::keys;
use crate::leases::{self, Keeper, keepers_of};
use crate::membership::members;

/// The tenures that go on, by mount.
#[derive(Debug, Default)]
pub struct Tenures(BTreeMap<MountId, u64>);

impl Tenures {
    pub fn has(&self, keeper: Keeper) -> bool {
        self.0.get(&keeper.mount) == Some(&keeper.tenure)
    }
}

impl<S: Store> Check<'_, S> {
    /// Reads the tenures; what there is for mounts that are not registered is suspect.
    pub fn tenures(&self, look: &mut Look) -> Result<Tenures, Error> {
        // Whoever has a tenure had registered before.
        let fields = leases::superblock(self.store)?;
        let there: BTreeSet<_> = members(self.store)?.iter().map(|member| member.mount).collect();
        let mounts = fields.iter().filter_map(|(field, _)| keys::mount_of_lease(field));
        for mount in mounts.filter(|mount| !there.contains(mount)) {
            look.suspect(Finding::Tenure { mount });
        }
        let tenures = fields.iter().filter_map(|(field, record)| {
            let mount = keys::mount_of_lease(field)?;
            let is_tenure = *field == keys::tenure(mount) && record.len() >= 8;
            is_tenure.then(|| (mount, u64_at(record, keys::tenure::NUMBER)))
        });
        Ok(Tenures(tenures.collect()))
    }

    /// Takes a keeper off a record whose tenure was over before the second look.
    pub fn take_off(&self, shard: ShardKey, keeper: Keeper) -> Result<bool, Error> {
        let read = Batch::new().read(keys::KEEPERS);
        let record = self.store.batch(shard, &read)?.take(0).unwrap_or_default();
        Ok(self.store.batch(shard, &leases::taking_off(&record, keeper))?.applied())
    }
}

/// Whoever stands in a record with a tenure that is over.
pub fn count_keepers(shard: &Shard, tenures: &Tenures, look: &mut Look) {
    let record = shard.fields.get(keys::KEEPERS).map(|record| &record[..]).unwrap_or_default();
    for keeper in keepers_of(record) {
        if !tenures.has(keeper) {
            look.suspect(Finding::Keeper { shard: shard.key, keeper });
        }
    }
}

/// A tenure may have begun since the look did, and its mount have entered a record.
pub fn retain_ended(look: &mut Look, tenures: &Tenures) {
    look.suspects.retain(|suspect| match suspect {
        Finding::Keeper { keeper, .. } => !tenures.has(*keeper),
        _ => true,
    });
}
