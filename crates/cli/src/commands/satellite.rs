//! A provision command that `tidefs` brings along: it has a host come as a job of Slurm, and takes it away.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::arguments::satellite::{Satellite as Asked, Wish};
use crate::satellites::{Satellite, Seen, jobs_of, seen};
use crate::{say, slurm};

/// Between two looks at a job, which become rarer while nothing changes: a queue may be long, and many ask.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_MOST: Duration = Duration::from_secs(15);
/// A job whose agent cannot join has ended by then.
const JOINS_WITHIN: Duration = Duration::from_secs(60);

pub fn satellite(asked: &Asked) -> anyhow::Result<()> {
    match asked.wish {
        Wish::Add => add(asked),
        Wish::Remove => remove(&asked.name),
    }
}

/// Submits the job, and says why it is pending until it runs. It ends a while after that, or with the job.
fn add(asked: &Asked) -> anyhow::Result<()> {
    let satellite =
        Satellite::of(&asked.name, |name| std::env::var(name).ok(), std::fs::read_to_string)?;
    let words = satellite.words(&asked.options, |name| std::env::var_os(name).is_some());
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let said =
        slurm::says("sbatch", &words, Some(&satellite.script())).map_err(anyhow::Error::msg)?;
    // The name of a cluster may come after the number.
    let job = said.trim().split(';').next().unwrap_or_default().to_owned();
    say::answer(format!("job {job} was submitted"));
    let (mut before, mut pause, mut ran) = (None, LOOK, None);
    loop {
        sleep(pause);
        // Whoever is asked rarely answers late at times, and the job is none the worse for it.
        let Ok(now) = seen(&job) else { continue };
        let same = before.as_ref() == Some(&now);
        pause = if same { (pause * 2).min(LOOK_MOST) } else { LOOK };
        match &now {
            Seen::Pending(reason) if !same => {
                say::answer(format!("job {job} is pending: {reason}"))
            }
            Seen::Pending(_) => {}
            Seen::Runs => {
                if !same {
                    say::answer(format!("job {job} runs"));
                }
                if ran.get_or_insert_with(Instant::now).elapsed() > JOINS_WITHIN {
                    return Ok(());
                }
            }
            Seen::Over => bail!("job {job} has ended; sacct -j {job} may say why"),
        }
        before = Some(now);
    }
}

/// Whatever there is by the name; until there is nothing, as long as the caller waits.
fn remove(name: &str) -> anyhow::Result<()> {
    let mut told = Vec::new();
    loop {
        let jobs = jobs_of(name).map_err(anyhow::Error::msg)?;
        if jobs.is_empty() {
            return Ok(());
        }
        // A second wish would have an agent that leaves end at once.
        for job in jobs.iter().filter(|job| !told.contains(*job)).cloned().collect::<Vec<_>>() {
            slurm::says("scancel", &["--quiet", &job], None).map_err(anyhow::Error::msg)?;
            told.push(job);
        }
        sleep(LOOK / 4);
    }
}
