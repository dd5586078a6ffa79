//! Batches on shards.
//!
//! A batch runs as a server function. One that only reads fields is a plain command instead, which
//! takes the server a tenth of the time; but a command that finds nothing does not tell whether the
//! shard is empty, so then the function is asked after all, and its answer alone counts.

use tidefs_model::ShardKey;
use tidefs_store::{Batch, Bytes, Outcome, Read, StoreError, Update};

use crate::client::Client;
use crate::function::{self, batch_request, batch_request_in_head_room};
use crate::job::Job;
use crate::slot::shard_name;
use crate::wire::{Malformed, Reply, Request};

/// A longer value in a shard is a mistake of the caller: metadata records are small.
const VALUE_BYTES_MAX: u64 = 16 << 20;

pub fn batch(client: &Client, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
    check_reach(batch)?;
    if is_plain(batch) {
        let mut jobs = [plain_job(shard, batch)];
        client.perform(&mut jobs)?;
        let [job] = jobs;
        if let Some(outcome) = job.reply(|reply| plain_outcome(reply, batch))? {
            return Ok(outcome);
        }
    }
    let mut jobs = [function_job(shard, batch)];
    // The job tells what became of it.
    drop(client.perform(&mut jobs));
    let [job] = jobs;
    end(client, shard, batch, job)
}

pub fn batches(client: &Client, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
    batches.iter().try_for_each(|(_, batch)| check_reach(batch))?;
    let job = |(shard, batch): &(ShardKey, Batch)| match is_plain(batch) {
        true => plain_job(*shard, batch),
        false => function_job(*shard, batch),
    };
    let mut jobs: Vec<_> = batches.iter().map(job).collect();
    drop(client.perform(&mut jobs));
    let outcomes =
        jobs.into_iter().zip(batches).map(|(job, (shard, batch))| match is_plain(batch) {
            true => job.reply(|reply| plain_outcome(reply, batch)),
            false => end(client, *shard, batch, job).map(Some),
        });
    let mut outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
    ask_again(client, batches, &mut outcomes)?;
    Ok(outcomes.into_iter().flatten().collect())
}

/// A batch that goes along with other jobs.
pub fn job(shard: ShardKey, batch: &Batch) -> Result<Job<'static>, StoreError> {
    check_reach(batch)?;
    Ok(function_job(shard, batch))
}

/// What such a job, carried out, was answered. One that a node full of data refused is carried out in
/// the node's head-room, as far as there is any.
pub fn end(
    client: &Client,
    shard: ShardKey,
    batch: &Batch,
    job: Job<'_>,
) -> Result<Outcome, StoreError> {
    let outcome = |job: Job<'_>| job.reply(|it| function::outcome(it, batch.reads.len()));
    match outcome(job) {
        Err(StoreError::Full { .. }) if !batch.reclaims && !batch.only_reads() => {
            let request = batch_request_in_head_room(&shard_name(shard), batch);
            let mut jobs = [Job::new(shard.partition(), request, false)];
            drop(client.perform(&mut jobs));
            let [job] = jobs;
            outcome(job)
        }
        done => done,
    }
}

/// Has those batches answered by the function that have no outcome yet.
fn ask_again(
    client: &Client,
    batches: &[(ShardKey, Batch)],
    outcomes: &mut [Option<Outcome>],
) -> Result<(), StoreError> {
    let open = outcomes.iter_mut().zip(batches).filter(|(outcome, _)| outcome.is_none());
    let (open, mut jobs): (Vec<_>, Vec<_>) = open
        .map(|(outcome, (shard, batch))| ((outcome, batch), function_job(*shard, batch)))
        .unzip();
    client.perform(&mut jobs)?;
    for ((outcome, batch), job) in open.into_iter().zip(jobs) {
        *outcome = Some(job.reply(|reply| function::outcome(reply, batch.reads.len()))?);
    }
    Ok(())
}

/// A batch that only reads may be repeated; any other may have been applied when it got lost.
fn function_job(shard: ShardKey, batch: &Batch) -> Job<'static> {
    let (partition, request) = (shard.partition(), batch_request(&shard_name(shard), batch));
    match batch.only_reads() {
        true => Job::reading(partition, request),
        false => Job::new(partition, request, false),
    }
}

/// Reads fields and does nothing else.
fn is_plain(batch: &Batch) -> bool {
    let fields_only = batch.reads.iter().all(|read| matches!(read, Read::Field { .. }));
    batch.checks.is_empty() && batch.only_reads() && fields_only && !batch.reads.is_empty()
}

fn plain_job(shard: ShardKey, batch: &Batch) -> Job<'static> {
    let mut request = Request::new("HMGET").word(&shard_name(shard));
    for read in &batch.reads {
        let (Read::Field { field } | Read::Linked { field, .. }) = read;
        request.push(field);
    }
    Job::reading(shard.partition(), request.end())
}

/// `None` where all fields are missing: the shard may be empty or not.
fn plain_outcome(reply: Reply, batch: &Batch) -> Result<Option<Outcome>, Malformed> {
    let values = reply.into_array()?.into_iter().map(Reply::into_optional_bulk);
    let values: Vec<Option<Bytes>> = values.collect::<Result<_, _>>()?;
    if values.len() != batch.reads.len() {
        return Err(Malformed::Unexpected);
    }
    let found = values.iter().any(Option::is_some);
    Ok(found.then_some(Outcome { refused_by: None, shard_was_empty: false, values }))
}

fn check_reach(batch: &Batch) -> Result<(), StoreError> {
    match batch.updates.iter().map(reach).max() {
        Some(bytes) if bytes > VALUE_BYTES_MAX => Err(StoreError::TooLarge { bytes }),
        _ => Ok(()),
    }
}

/// Length of the value that an update needs.
fn reach(update: &Update) -> u64 {
    match update {
        Update::Put { value, .. } => value.len() as u64,
        Update::Delete { .. } => 0,
        Update::Patch { at, bytes, .. } => u64::from(*at) + bytes.len() as u64,
        Update::Add { at, .. } | Update::Max { at, .. } => u64::from(*at) + 8,
    }
}
