//! What the store has of the mounts: a record each, and a counter of those that came and went.

use tidefs_model::MountId;
use tidefs_store::{Batch, Cursor, Store};

use crate::error::Error;
use crate::inode::u64_at;
use crate::keys;

pub(super) const CHANGES: &[u8] = b"changes";
/// The number of the census that is under way; see [`crate::census`].
pub(crate) const QUESTION: &[u8] = b"question";
/// Offsets in the record of a mount: its heartbeat, and 1 once it acknowledged that it shares.
pub(super) const BEATS: u32 = 0;
pub(super) const SHARES: u32 = 8;

/// A mount's record.
pub(crate) struct Member {
    pub mount: MountId,
    pub beats: u64,
    pub shares: bool,
}

pub(super) fn registration(mount: MountId, shares: bool) -> Batch {
    let mut record = [0; 16];
    record[SHARES as usize + 7] = shares.into();
    Batch::new().put(keys::mount(mount), record).add(CHANGES, 0, 1).reclaims()
}

/// All that are registered.
pub(crate) fn members(store: &impl Store) -> Result<Vec<Member>, Error> {
    let mut members = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let page = store.list(&[(keys::MOUNTS, from)])?.pop().unwrap_or_default();
        members.extend(page.fields.iter().filter_map(|(field, record)| decode(field, record)));
        cursor = page.next;
    }
    Ok(members)
}

/// Ends the registration of a mount that died, if its heartbeat is still the same.
pub(crate) fn remove(store: &impl Store, mount: MountId, beats: u64) -> Result<bool, Error> {
    let field = keys::mount(mount);
    let batch = Batch::new()
        .at_least(field.clone(), BEATS, beats)
        .at_most(field.clone(), BEATS, beats)
        .delete(field)
        .delete(keys::stands_still(mount))
        .add(CHANGES, 0, 1)
        .reclaims();
    Ok(store.batch(keys::MOUNTS, &batch)?.applied())
}

pub(super) fn decode(field: &[u8], record: &[u8]) -> Option<Member> {
    let mount = field.strip_prefix(b"m").and_then(|id| id.try_into().ok())?;
    let mut padded = [0; 16];
    let known = record.len().min(16);
    padded[..known].copy_from_slice(&record[..known]);
    Some(Member {
        mount: MountId(u64::from_be_bytes(mount)),
        beats: u64_at(&padded, BEATS),
        shares: u64_at(&padded, SHARES) == 1,
    })
}

pub(super) fn number(record: Option<Vec<u8>>) -> u64 {
    record.filter(|record| record.len() >= 8).map_or(0, |record| u64_at(&record, 0))
}
