//! Marks of partitions that were lost with a node, and what a client makes of them.
//!
//! A mark names an inode number: what stripes of inodes before it had in the partition is lost. From
//! then on bytes of such a stripe that are not there are lost bytes and no hole; those that are there
//! were written since, from the stripe's beginning on. Stripes of later inodes are as ever. The mark
//! is asked for only where bytes are missing, after it was found that they are.

use std::collections::{BTreeMap, BTreeSet};

use tidefs_model::{Ino, PARTITIONS, Partition, StripeKey};
use tidefs_store::StoreError;

use crate::client::Client;
use crate::job::Job;
use crate::slot::mark_name;
use crate::wire::{Malformed, Request};

/// Marks a partition, also on a node that is full.
pub fn mark_request(slot: u16, before: Ino) -> Request<'static> {
    let name = mark_name(Partition::new(slot));
    let request = Request::new("FCALL").word(b"tidefs_mark").number(1).word(&name);
    request.word(before.0.to_string().as_bytes()).end()
}

/// For each of the stripes, whether what it lacks was lost.
pub fn are_lost(client: &Client, stripes: &[StripeKey]) -> Result<Vec<bool>, StoreError> {
    let mut marks: BTreeMap<u16, Option<u64>> =
        stripes.iter().map(|key| (key.partition().number(), None)).collect();
    let ask = |&slot: &u16| {
        let partition = Partition::new(slot);
        Job::new(partition, Request::new("GET").word(&mark_name(partition)).end(), true)
    };
    let mut jobs: Vec<_> = marks.keys().map(ask).collect();
    client.perform(&mut jobs)?;
    for (job, mark) in jobs.into_iter().zip(marks.values_mut()) {
        *mark = job.reply(|reply| match reply.into_optional_bulk()? {
            None => Ok(None),
            Some(text) => std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok())
                .map(Some)
                .ok_or(Malformed::Number),
        })?;
    }
    let is_lost = |key: &StripeKey| {
        marks[&key.partition().number()].is_some_and(|before| key.ino.is_before(before))
    };
    Ok(stripes.iter().map(is_lost).collect())
}

/// All partitions with a mark, of those whose holders answer.
pub fn marked(client: &Client) -> BTreeSet<u16> {
    let ask = |slot| {
        let partition = Partition::new(slot);
        Job::new(partition, Request::new("EXISTS").word(&mark_name(partition)).end(), true)
    };
    let mut jobs: Vec<_> = (0..PARTITIONS).map(ask).collect();
    // Each job tells what became of it.
    drop(client.perform(&mut jobs));
    let numbers = jobs.into_iter().zip(0..PARTITIONS);
    numbers
        .filter(|(job, _)| job.failure().is_none())
        .filter_map(|(job, slot)| (job.reply(|reply| reply.integer()).ok()? > 0).then_some(slot))
        .collect()
}

/// # Errors
/// When what one of the stripes lacks was lost.
pub fn check(client: &Client, stripes: &[StripeKey]) -> Result<(), StoreError> {
    if stripes.is_empty() {
        return Ok(());
    }
    let lost = are_lost(client, stripes)?;
    match stripes.iter().zip(lost).find(|(_, lost)| *lost) {
        Some((key, _)) => Err(StoreError::Lost { partition: key.partition().number() }),
        None => Ok(()),
    }
}
