//! Marks of partitions that were lost with a node, and what a client makes of them.
//!
//! A mark says how far numbers of inodes had been granted: what stripes of those had in the partition is
//! lost. A mark only rises. From then on bytes of such a stripe that are not there are lost bytes and no hole; those that are there
//! were written since, from the stripe's beginning on. Stripes of later inodes are as ever. The mark
//! is asked for only where bytes are missing, after it was found that they are.

use std::collections::BTreeMap;

use tidefs_model::{Granted, PARTITIONS, Partition, StripeKey};
use tidefs_store::StoreError;

use crate::client::Client;
use crate::job::Job;
use crate::slot::mark_name;
use crate::wire::{Malformed, Reply, Request};

/// Marks a partition, also on a node that is full.
pub fn mark_request(slot: u16, granted: Granted) -> Request<'static> {
    let name = mark_name(Partition::new(slot));
    let request = Request::new("FCALL").word(b"tidefs_mark").number(1).word(&name);
    request.word(&granted.encode()).end()
}

/// For each of the stripes, whether what it lacks was lost at a loss after the one `as_of` which it was cut, as
/// [`Cut`](tidefs_store::Cut) has it; 0: at any.
pub fn are_lost(
    client: &Client,
    stripes: &[StripeKey],
    as_of: u64,
) -> Result<Vec<bool>, StoreError> {
    let mut marks: BTreeMap<u16, Option<Granted>> =
        stripes.iter().map(|key| (key.partition().number(), None)).collect();
    let ask = |&slot: &u16| {
        let partition = Partition::new(slot);
        Job::reading(partition, Request::new("GET").word(&mark_name(partition)).end())
    };
    let mut jobs: Vec<_> = marks.keys().map(ask).collect();
    client.perform(&mut jobs)?;
    for (job, mark) in jobs.into_iter().zip(marks.values_mut()) {
        *mark = job.reply(mark_of)?;
    }
    let is_lost = |key: &StripeKey| {
        marks[&key.partition().number()].is_some_and(|it| it.inos > as_of && it.covers(key.ino))
    };
    Ok(stripes.iter().map(is_lost).collect())
}

/// All partitions with a mark, of those whose holders answer, and the inodes that lost something there.
pub fn marks(client: &Client) -> BTreeMap<u16, Granted> {
    let ask = |slot| {
        let partition = Partition::new(slot);
        Job::reading(partition, Request::new("GET").word(&mark_name(partition)).end())
    };
    let mut jobs: Vec<_> = (0..PARTITIONS).map(ask).collect();
    // Each job tells what became of it.
    drop(client.perform(&mut jobs));
    let answered = jobs.into_iter().zip(0..PARTITIONS).filter(|(job, _)| job.failure().is_none());
    answered.filter_map(|(job, slot)| Some((slot, job.reply(mark_of).ok()??))).collect()
}

fn mark_of(reply: Reply) -> Result<Option<Granted>, Malformed> {
    let Some(bytes) = reply.into_optional_bulk()? else { return Ok(None) };
    Granted::decode(&bytes).map(Some).ok_or(Malformed::Number)
}

/// # Errors
/// When what one of the stripes lacks was lost after `as_of`.
pub fn check(client: &Client, stripes: &[StripeKey], as_of: u64) -> Result<(), StoreError> {
    if stripes.is_empty() {
        return Ok(());
    }
    let lost = are_lost(client, stripes, as_of)?;
    match stripes.iter().zip(lost).find(|(_, lost)| *lost) {
        Some((key, _)) => Err(StoreError::Lost { partition: key.partition().number() }),
        None => Ok(()),
    }
}
