//! What mounts leave that are gone: a lease term and recalls for it in the superblock's shard, and themselves
//! in the records of shards.
//!
//! Taking a lease term away revokes its mount's delegations, so it is never wrong to do so. A holder whose lease term is
//! over goes when somebody changes what it kept; or, from a record that is full, when others want to
//! enter, which the thread that polls for recalls sees to.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use tidefs_model::{MountId, ShardKey};
use tidefs_store::{Batch, Bytes, Cursor, Store, StoreError};

use super::Delegations;
use super::asking::replace;
use super::holders::{self, Holder};
use super::sending::stands;
use crate::error::Error;
use crate::keys;
use crate::membership::members;
use crate::write_back::WriteBack;

/// Full records that are remembered until they have been looked through.
const CROWDED_MAX: usize = 64;
/// Recalls that are removed in one batch.
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

/// Removes the lease terms of mounts that are not registered, and recalls for them.
pub(crate) fn forget_gone(store: &impl Store) -> Result<(), Error> {
    // Whoever is found there had registered before.
    let fields = superblock(store)?;
    let mounts: BTreeSet<_> =
        fields.iter().filter_map(|(field, _)| keys::mount_of_delegation(field)).collect();
    if mounts.is_empty() {
        return Ok(());
    }
    let there: BTreeSet<_> = members(store)?.into_iter().map(|member| member.mount).collect();
    for mount in mounts.difference(&there) {
        forget(store, *mount, &fields)?;
    }
    Ok(())
}

/// Removes what the superblock's shard has of one mount. Without a lease term nobody leaves recalls for it.
pub(crate) fn forget(
    store: &impl Store,
    mount: MountId,
    fields: &[(Bytes, Bytes)],
) -> Result<(), StoreError> {
    let lease_term = keys::lease_term(mount);
    let end = Batch::new().delete(lease_term.clone()).reclaims();
    store.batch(keys::SUPERBLOCK, &end)?;
    let left: Vec<_> = fields
        .iter()
        .map(|(field, _)| field)
        .filter(|field| keys::mount_of_delegation(field) == Some(mount) && **field != lease_term)
        .collect();
    for some in left.chunks(WORDS_PER_BATCH) {
        let batch = Batch::new().absent(lease_term.clone()).reclaims();
        let batch = some.iter().fold(batch, |batch, field| batch.delete(&field[..]));
        store.batch(keys::SUPERBLOCK, &batch)?;
    }
    Ok(())
}

/// The batch that takes a holder off a record whose lease term is over; refused where the record is another.
pub(crate) fn taking_off(record: &[u8], holder: Holder) -> Batch {
    let rest = holders::without(record, |it| *it == holder);
    replace(stands(Batch::new(), record), rest)
}

impl<S: Store> WriteBack<S> {
    /// Looks through a full record that this mount met, and takes holders off whose lease terms are over.
    pub(super) fn make_room(&self) -> Result<(), StoreError> {
        let Some(shard) = self.delegations.crowded().pop_first() else { return Ok(()) };
        let read = Batch::new().read(keys::HOLDERS);
        let record = self.store.batch(shard, &read)?.take(0).unwrap_or_default();
        let others = holders::others(&record, self.delegations.me());
        self.note_lease_terms(&others)?;
        let is_revoked = |holder: &Holder| self.delegations.revoked(*holder);
        if others.iter().any(|holder| is_revoked(holder) == Some(false)) {
            self.delegations.crowds(shard);
        }
        let rest = holders::without(&record, |holder| is_revoked(holder) == Some(true));
        if rest.len() < record.len() {
            let batch = replace(stands(Batch::new(), &record), rest.clone());
            if self.store.batch(shard, &batch)?.applied() {
                self.delegations.shards.saw_holders(shard, &rest);
            }
        }
        Ok(())
    }

    /// Asks which lease terms go on, of those of which nothing else is known.
    fn note_lease_terms(&self, holders: &[Holder]) -> Result<(), StoreError> {
        let unknown: Vec<_> =
            holders.iter().filter(|holder| self.delegations.revoked(**holder).is_none()).collect();
        let read = |batch: Batch, holder: &&Holder| batch.read(keys::lease_term(holder.mount));
        let asked = unknown.iter().fold(Batch::new(), read);
        if unknown.is_empty() {
            return Ok(());
        }
        let found = self.store.batch(keys::SUPERBLOCK, &asked)?.values;
        for (holder, found) in unknown.into_iter().zip(found) {
            self.delegations.note_lease_term(*holder, found.as_deref());
        }
        Ok(())
    }
}

impl Delegations {
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
