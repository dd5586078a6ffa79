//! What mounts leave that are gone: a tenure and words for it in the superblock's shard, and themselves
//! in the records of shards.
//!
//! Taking a tenure away strikes its mount out, so it is never wrong to do so. A keeper whose tenure is
//! over goes when somebody changes what it kept; or, from a record that is full, when others want to
//! enter, which the thread that heeds words sees to.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use tidefs_model::{MountId, ShardKey};
use tidefs_store::{Batch, Bytes, Cursor, Store, StoreError};

use super::Leases;
use super::asking::replace;
use super::keepers::{self, Keeper};
use super::sending::stands;
use crate::deferring::Deferring;
use crate::error::Error;
use crate::keys;
use crate::membership::members;

/// Full records that are remembered until they have been looked through.
const CROWDED_MAX: usize = 64;
/// Words that are removed in one batch.
const WORDS_PER_BATCH: usize = 256;

/// The fields of the superblock's shard, with their values.
pub(crate) fn superblock(store: &impl Store) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    let mut fields = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let page = store.list(&[(keys::SUPERBLOCK, from)])?.pop().unwrap_or_default();
        fields.extend(page.fields);
        cursor = page.next;
    }
    Ok(fields)
}

/// Removes the tenures of mounts that are not registered, and words for them.
pub(crate) fn forget_gone(store: &impl Store) -> Result<(), Error> {
    // Whoever is found there had registered before.
    let fields = superblock(store)?;
    let mounts: BTreeSet<_> =
        fields.iter().filter_map(|(field, _)| keys::mount_of_lease(field)).collect();
    if mounts.is_empty() {
        return Ok(());
    }
    let there: BTreeSet<_> = members(store)?.into_iter().map(|member| member.mount).collect();
    for mount in mounts.difference(&there) {
        forget(store, *mount, &fields)?;
    }
    Ok(())
}

/// Removes what the superblock's shard has of one mount. Without a tenure nobody leaves words for it.
pub(crate) fn forget(
    store: &impl Store,
    mount: MountId,
    fields: &[(Bytes, Bytes)],
) -> Result<(), StoreError> {
    let tenure = keys::tenure(mount);
    let end = Batch::new().delete(tenure.clone()).reclaims();
    store.batch(keys::SUPERBLOCK, &end)?;
    let left: Vec<_> = fields
        .iter()
        .map(|(field, _)| field)
        .filter(|field| keys::mount_of_lease(field) == Some(mount) && **field != tenure)
        .collect();
    for some in left.chunks(WORDS_PER_BATCH) {
        let batch = Batch::new().absent(tenure.clone()).reclaims();
        let batch = some.iter().fold(batch, |batch, field| batch.delete(&field[..]));
        store.batch(keys::SUPERBLOCK, &batch)?;
    }
    Ok(())
}

/// The batch that takes a keeper off a record whose tenure is over; refused where the record is another.
pub(crate) fn taking_off(record: &[u8], keeper: Keeper) -> Batch {
    let rest = keepers::without(record, |it| *it == keeper);
    replace(stands(Batch::new(), record), rest)
}

impl<S: Store> Deferring<S> {
    /// Looks through a full record that this mount met, and takes keepers off whose tenures are over.
    pub(super) fn make_room(&self) -> Result<(), StoreError> {
        let Some(shard) = self.leases.crowded().pop_first() else { return Ok(()) };
        let read = Batch::new().read(keys::KEEPERS);
        let record = self.store.batch(shard, &read)?.take(0).unwrap_or_default();
        let others = keepers::others(&record, self.leases.me());
        self.note_tenures(&others)?;
        let struck = |keeper: &Keeper| self.leases.struck(*keeper);
        if others.iter().any(|keeper| struck(keeper) == Some(false)) {
            self.leases.crowds(shard);
        }
        let rest = keepers::without(&record, |keeper| struck(keeper) == Some(true));
        if rest.len() < record.len() {
            let batch = replace(stands(Batch::new(), &record), rest.clone());
            if self.store.batch(shard, &batch)?.applied() {
                self.leases.shards.saw_keepers(shard, &rest);
            }
        }
        Ok(())
    }

    /// Asks which tenures go on, of those of which nothing else is known.
    fn note_tenures(&self, keepers: &[Keeper]) -> Result<(), StoreError> {
        let unknown: Vec<_> =
            keepers.iter().filter(|keeper| self.leases.struck(**keeper).is_none()).collect();
        let read = |batch: Batch, keeper: &&Keeper| batch.read(keys::tenure(keeper.mount));
        let asked = unknown.iter().fold(Batch::new(), read);
        if unknown.is_empty() {
            return Ok(());
        }
        let found = self.store.batch(keys::SUPERBLOCK, &asked)?.values;
        for (keeper, found) in unknown.into_iter().zip(found) {
            self.leases.note_tenure(*keeper, found.as_deref());
        }
        Ok(())
    }
}

impl Leases {
    /// Nobody can enter a shard any more.
    pub(super) fn crowds(&self, shard: ShardKey) {
        let mut crowded = self.crowded();
        if crowded.len() < CROWDED_MAX {
            crowded.insert(shard);
        }
    }

    fn crowded(&self) -> MutexGuard<'_, BTreeSet<ShardKey>> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
