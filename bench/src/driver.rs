//! Goes through the rounds: each workload on each subject, one right after the other, so that
//! what else the machine does hits all of them alike. The order of the subjects rotates from
//! round to round.

use std::time::Duration;

use anyhow::Context;

use crate::figures::{Samples, Subject};
use crate::order::Order;
use crate::progress::Progress;
use crate::start::{Site, Worker, redis_server};
use crate::stop::Stop;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Extent {
    pub rounds: usize,
    pub sequential_bytes: u64,
    pub random_bytes: u64,
    pub random_reads: u64,
    pub files: u64,
    pub memory_large_bytes: u64,
    pub memory_files: u64,
    pub change_rounds: usize,
    pub change_bytes: u64,
    pub plans: u32,
}

impl Extent {
    pub const FULL: Extent = Extent {
        rounds: 5,
        sequential_bytes: 512 << 20,
        random_bytes: 256 << 20,
        random_reads: 20_000,
        files: 10_000,
        memory_large_bytes: 512 << 20,
        memory_files: 100_000,
        change_rounds: 3,
        change_bytes: 384 << 20,
        plans: 50,
    };

    pub const QUICK: Extent = Extent {
        rounds: 2,
        sequential_bytes: 128 << 20,
        random_bytes: 64 << 20,
        random_reads: 5_000,
        files: 2_000,
        memory_large_bytes: 128 << 20,
        memory_files: 10_000,
        change_rounds: 1,
        change_bytes: 128 << 20,
        plans: 10,
    };
}

/// Between two measurements, for what the first one removed to be freed.
const PAUSE: Duration = Duration::from_millis(200);

/// What a run found out.
pub struct Run {
    pub samples: Samples,
    /// What each Tidefs says that it keeps its bytes in.
    pub stores: Vec<(Subject, String)>,
}

pub fn run(subjects: &[Subject], extent: Extent, site: &Site, stop: &Stop) -> anyhow::Result<Run> {
    let progress = Progress::new();
    let (changing, subjects): (Vec<_>, Vec<_>) =
        subjects.iter().copied().partition(|subject| subject.changes());
    let subjects = &subjects[..];
    let mut workers = start(subjects, site, stop, &progress)?;
    let mut stores: Vec<_> =
        workers.iter().filter_map(|it| Some((it.subject, it.store.clone()?))).collect();
    let mut samples = Samples::default();
    let orders = [
        Order::Sequential { bytes: extent.sequential_bytes },
        Order::RandomRead { bytes: extent.random_bytes, reads: extent.random_reads },
        Order::SmallFiles { files: extent.files },
    ];
    for round in 0..extent.rounds {
        for order in orders {
            for subject in rotated(subjects, round) {
                progress.show(round, extent.rounds, order, subject);
                measure(&mut workers, subject, order, &mut samples, stop)?;
            }
        }
    }
    for worker in workers {
        worker.end()?;
    }
    let memory =
        Order::Memory { large_bytes: extent.memory_large_bytes, files: extent.memory_files };
    for &subject in subjects.iter().filter(|&&subject| keeps_bytes(subject)) {
        progress.show(extent.rounds - 1, extent.rounds, memory, subject);
        // Afresh, without what earlier workloads left in allocators.
        let mut worker = Worker::start(subject, site, stop)?;
        keep(&mut samples, subject, worker.ask(memory, stop)?);
        worker.end()?;
    }
    for subject in changing {
        if subject == Subject::ElasticRedis && redis_server().is_none() {
            eprintln!("{} is left out: there is no redis-server", subject.name());
            continue;
        }
        for round in 0..extent.change_rounds {
            let order = Order::Changes { bytes: extent.change_bytes };
            progress.show(round, extent.change_rounds, order, subject);
            let mut worker = Worker::start(subject, site, stop)?;
            if round == 0 {
                stores.extend(worker.store.clone().map(|store| (subject, store)));
            }
            keep(&mut samples, subject, worker.ask(order, stop)?);
            worker.end()?;
        }
    }
    Ok(Run { samples, stores })
}

fn start(
    subjects: &[Subject],
    site: &Site,
    stop: &Stop,
    progress: &Progress,
) -> anyhow::Result<Vec<Worker>> {
    let with_worker = subjects.iter().filter(|&&subject| subject != Subject::Raw);
    with_worker
        .map(|&subject| {
            progress.starting(subject);
            Worker::start(subject, site, stop)
                .with_context(|| format!("{} could not be started", subject.name()))
        })
        .collect()
}

fn measure(
    workers: &mut [Worker],
    subject: Subject,
    order: Order,
    samples: &mut Samples,
    stop: &Stop,
) -> anyhow::Result<()> {
    let (host, order) = match (subject, order) {
        // The raw client works beside Tidefs, on the very server that serves it.
        (Subject::Raw, Order::Sequential { bytes }) => (Subject::Valkey, Order::Raw { bytes }),
        (Subject::Raw, _) => return Ok(()),
        _ => (subject, order),
    };
    let worker = workers.iter_mut().find(|worker| worker.subject == host);
    let worker = worker.with_context(|| format!("{} needs {}", subject.name(), host.name()))?;
    keep(samples, subject, worker.ask(order, stop)?);
    std::thread::sleep(PAUSE);
    Ok(())
}

fn keeps_bytes(subject: Subject) -> bool {
    !matches!(subject, Subject::Null | Subject::Raw)
}

fn keep(samples: &mut Samples, subject: Subject, figures: Vec<(crate::figures::Figure, f64)>) {
    for (figure, value) in figures {
        samples.add(subject, figure, value);
    }
}

fn rotated(subjects: &[Subject], round: usize) -> impl Iterator<Item = Subject> {
    let from = round % subjects.len().max(1);
    subjects[from..].iter().chain(&subjects[..from]).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_subject() {
        let subjects = [Subject::Embedded, Subject::Tmpfs, Subject::Null];
        let second: Vec<_> = rotated(&subjects, 1).collect();
        assert_eq!(second, [Subject::Tmpfs, Subject::Null, Subject::Embedded]);
        assert_eq!(rotated(&subjects, 3).collect::<Vec<_>>(), subjects);
    }
}
