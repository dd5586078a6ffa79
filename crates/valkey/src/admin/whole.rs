//! Moving whole slots at once, where the server can: it sends a snapshot and what changed since,
//! holds writes back for some milliseconds, and hands the slots over in one instant. A server that
//! fails in between leaves the slots where they were.

use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::Partition;

use super::giving::Giver;
use super::moves::{Carriage, StepKind};
use super::{AdminError, Managed};
use crate::slot::any_name;
use crate::wire::{Malformed, Reply, Request};

/// Runs of slots of one job: a server compares every two of them before it begins, and looks through
/// all of them for each write meanwhile.
pub const BATCH_RUNS_MAX: usize = 512;
/// A job that the servers gave up is begun again so often: nodes that are slow to hear the news of
/// the last one refuse the next.
const TRIES: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The accounts of all jobs are long; between two looks at them one slot is asked for.
const READ_ACCOUNTS_EVERY: Duration = Duration::from_millis(250);
/// While a job takes its time, the target is asked whether it is there.
const ASK_TARGET_EVERY: Duration = Duration::from_secs(1);
/// A job takes this long at most, and as long as its bytes take at a slow node's rate.
const JOB_WITHIN: Duration = Duration::from_secs(60);
const SLOW_BYTES_PER_SECOND: u64 = 4 << 20;
/// Jobs that a node remembers; each look at them sends all.
const JOBS_REMEMBERED: &str = "32";
/// Bytes that clients wrote meanwhile and that the target has yet to be sent when the source begins to
/// hold writes back. With none at all, which is usual, a source that is written to without a pause
/// looks for such a moment ten times a second only. So many are sent in ten milliseconds.
const LEFT_TO_SEND: &str = "4194304";

/// A node's account of slots that it gives away or takes in.
pub struct Job {
    /// The same at both nodes.
    pub name: String,
    pub leaves: bool,
    /// As the server writes them: `0-5 7-7`.
    pub slots: String,
    pub target: String,
    pub state: String,
    pub said: String,
}

impl Job {
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "success" | "failed" | "cancelled")
    }

    pub fn slot_numbers(&self) -> impl Iterator<Item = u16> + '_ {
        let range = |range: &str| {
            let (first, last) = range.split_once('-')?;
            Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
        };
        self.slots.split(' ').filter_map(range).flatten()
    }
}

/// Moves slots from a source that holds them; answers with the bytes that they had. `None`: it was
/// asked to stop before it was their turn.
pub fn move_slots(
    carriage: &Carriage<'_>,
    slots: &[u16],
    bytes: u64,
) -> Result<Option<u64>, AdminError> {
    let Carriage { from, work, .. } = carriage;
    let stopped = || carriage.waits_no_longer();
    work.limit.wait_for(bytes, stopped);
    if work.is_stopped() {
        return Ok(None);
    }
    // Others may have had their turn meanwhile.
    let run = || match work.is_stopped() {
        true => Ok(None),
        false => {
            prepare(carriage).and_then(|()| run_jobs(carriage, slots, bytes)).map(|()| Some(bytes))
        }
    };
    work.limit.giving(from.id(), stopped, run)
}

/// Until the servers have done it.
fn run_jobs(carriage: &Carriage<'_>, slots: &[u16], bytes: u64) -> Result<(), AdminError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let ended = run_job(carriage, slots, bytes)?;
        if ended.state == "success" {
            carriage.step(StepKind::Carried, 0, bytes);
            carriage.step(StepKind::Closed, slots.len(), 0);
            return Ok(());
        }
        // The source may know no more than that the target hung up.
        let theirs = jobs(&carriage.to)?.into_iter().find(|job| job.name == ended.name);
        let theirs = theirs.map(|job| job.said).unwrap_or_default();
        if theirs.contains("OOM") {
            return Err(carriage.no_room(bytes)?);
        }
        let said = format!("{} {theirs}", ended.said);
        if tries == TRIES {
            let (from, to) = (carriage.from.id(), carriage.to.id());
            return Err(AdminError::GivenUp { from, to, said });
        }
        tracing::debug!(said, tries, "slots did not move");
        sleep(LOOK_EVERY * 2_u32.pow(tries + 1));
    }
}

/// The source keeps what it is let in with by the target in memory only.
fn prepare(carriage: &Carriage<'_>) -> Result<(), AdminError> {
    let Giver { name, secret, .. } = &carriage.giver;
    carriage.giver.let_in(&carriage.to)?;
    let orders = [
        Request::of(&["CONFIG", "SET", "masteruser", name, "masterauth", secret.reveal()]),
        Request::of(&["CONFIG", "SET", "cluster-slot-migration-log-max-len", JOBS_REMEMBERED]),
        Request::of(&["CONFIG", "SET", "slot-migration-max-failover-repl-bytes", LEFT_TO_SEND]),
    ];
    carriage.from.order_all(&orders).map(|_| ())
}

fn run_job(carriage: &Carriage<'_>, slots: &[u16], bytes: u64) -> Result<Job, AdminError> {
    let Carriage { from, to, .. } = carriage;
    let before: HashSet<_> = jobs(from)?.into_iter().map(|job| job.name).collect();
    let ranges = ranges(slots);
    let mut request = Request::new("CLUSTER").word(b"MIGRATESLOTS").word(b"SLOTSRANGE");
    for (first, last) in &ranges {
        request = request.number((*first).into()).number((*last).into());
    }
    from.ask(&request.word(b"NODE").word(to.id().to_string().as_bytes()).end())?;
    carriage.step(StepKind::Opened, slots.len(), 0);
    let text: Vec<_> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    let text = text.join(" ");
    let within = JOB_WITHIN + Duration::from_secs(bytes / SLOW_BYTES_PER_SECOND);
    let begun = Instant::now();
    let (mut answered, mut read) = (begun, begun);
    loop {
        sleep(LOOK_EVERY);
        if answered.elapsed() >= ASK_TARGET_EVERY {
            // A target that stands still would be waited for a minute.
            to.say(&["PING"]).or_else(|error| cancel(from).and(Err(error)))?;
            answered = Instant::now();
        }
        let is_late = begun.elapsed() >= within;
        if !is_late && read.elapsed() < READ_ACCOUNTS_EVERY && serves(from, slots[0])? {
            continue;
        }
        read = Instant::now();
        let mut jobs = jobs(from)?.into_iter();
        let job = jobs.find(|job| job.leaves && job.slots == text && !before.contains(&job.name));
        if let Some(job) = job.filter(Job::is_over) {
            tracing::debug!(
                from = %from.id(), to = %to.id(), slots = slots.len(), runs = ranges.len(), bytes,
                state = job.state, took = ?begun.elapsed(), "a job is over"
            );
            return Ok(job);
        }
        if is_late {
            cancel(from)?;
            let (from, to, waited) = (from.id(), to.id(), within);
            return Err(AdminError::Stuck { from, to, waited });
        }
    }
}

/// Whether a node answers for a slot itself.
fn serves(managed: &Managed, slot: u16) -> Result<bool, AdminError> {
    let name = any_name(Partition::new(slot));
    let replies = managed.ask_all(&[Request::new("EXISTS").word(&name).end()])?;
    Ok(!matches!(&replies[..], [Reply::Error(said)] if said.starts_with(b"MOVED ")))
}

/// Ends all jobs by which a node gives slots away; the slots stay where they are.
pub fn cancel(managed: &Managed) -> Result<(), AdminError> {
    match managed.say(&["CLUSTER", "CANCELSLOTMIGRATIONS"]) {
        Err(AdminError::Node { fault: crate::fault::Fault::Refused(said), .. })
            if said.contains("No migrations") =>
        {
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

/// What a node is giving away and taking in, and what it did lately.
pub fn jobs(managed: &Managed) -> Result<Vec<Job>, AdminError> {
    let reply = managed.say(&["CLUSTER", "GETSLOTMIGRATIONS"])?;
    let jobs = reply.into_array().map_err(|malformed| managed.error(malformed.into()))?;
    // One that is not understood is none of ours.
    Ok(jobs.into_iter().filter_map(|reply| job(reply).ok()).collect())
}

/// Names and values in turn.
fn job(reply: Reply) -> Result<Job, Malformed> {
    let mut words = reply.into_array()?.into_iter();
    let [mut name, mut slots, mut target, mut state, mut said, mut operation] =
        [const { String::new() }; 6];
    while let (Some(field), Some(value)) = (words.next(), words.next()) {
        let place = match field.text()? {
            "name" => &mut name,
            "slot_ranges" => &mut slots,
            "target_node" => &mut target,
            "state" => &mut state,
            "message" => &mut said,
            "operation" => &mut operation,
            _ => continue,
        };
        *place = value.text()?.to_owned();
    }
    let leaves = operation == "EXPORT";
    Ok(Job { name, leaves, slots, target, state, said })
}

/// How many of the slots, which are in ascending order, fit into one job.
pub fn slots_of_a_batch(slots: &[u16]) -> usize {
    let begins_run = |pair: &[u16]| pair[1] != pair[0] + 1;
    let begins = slots.windows(2).enumerate().filter(|(_, pair)| begins_run(pair));
    begins.map(|(at, _)| at + 1).nth(BATCH_RUNS_MAX - 1).unwrap_or(slots.len())
}

/// Runs of slots, which are in ascending order.
fn ranges(slots: &[u16]) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for &slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_told_in_runs() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [(1, 3), (7, 7), (9, 10)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn a_job_has_few_runs_and_any_number_of_slots() {
        let all: Vec<u16> = (0..16_384).collect();
        assert_eq!(slots_of_a_batch(&all), all.len());
        let single: Vec<u16> = (0..2_000).map(|number| 2 * number).collect();
        assert_eq!(slots_of_a_batch(&single), BATCH_RUNS_MAX);
        assert_eq!(ranges(&single[..slots_of_a_batch(&single)]).len(), BATCH_RUNS_MAX);
        assert_eq!(slots_of_a_batch(&[5]), 1);
    }

    #[test]
    fn a_job_is_read_whatever_else_is_said() {
        let bulk = |text: &str| Reply::Bulk(text.as_bytes().to_vec());
        let words = ["operation", "EXPORT", "slot_ranges", "3-4 7-7", "state", "failed"];
        let more = ["name", "x", "message", "OOM", "target_node", "t"];
        let mut fields: Vec<_> = words.into_iter().chain(more).map(bulk).collect();
        fields.extend([bulk("cow_size"), Reply::Integer(3)]);
        let job = job(Reply::Array(fields)).unwrap();
        assert_eq!(job.slot_numbers().collect::<Vec<_>>(), [3, 4, 7]);
        assert!(job.is_over());
        assert_eq!((job.said.as_str(), job.target.as_str()), ("OOM", "t"));
        let import = [bulk("operation"), bulk("IMPORT")];
        assert!(job.leaves && !super::job(Reply::Array(import.into())).unwrap().leaves);
    }
}
