//! Workflows as a dry run of Snakemake prints them (`snakemake --dry-run`): jobs with their files.
//!
//! A dry run knows neither sizes nor runtimes. Where a job states resources, they are what it may use
//! at most: `disk_mb` megabytes for what it writes, and `runtime` minutes. All else is assumed to be
//! alike, so that what remains is the order of things; whoever follows the run learns the rest.

use std::collections::{BTreeMap, BTreeSet};

use super::{BYTES_MOST, Cleanup, Doubt, FileNumber, SECONDS_MOST, Task, Workflow};

/// A file whose size nothing tells.
const ASSUMED_BYTES: f64 = 100e6;
/// A job whose runtime nothing tells.
const ASSUMED_SECONDS: f64 = 60.0;
/// How a job begins; after it comes the name of its rule and a colon.
const BEGINNINGS: [&str; 4] = ["rule ", "localrule ", "checkpoint ", "localcheckpoint "];
/// Said of files that are deleted when nobody reads them any more.
const TEMPORARY: &str = "Would remove temporary output";

/// Why a text is no dry run that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnakemakeError {
    #[error("it has no jobs; WfFormat or the text of `snakemake --dry-run` is wanted")]
    NoJobs,
    #[error("line {line}: {what} of {value:?} is not a number from 0 to {most}")]
    Resource { line: usize, what: &'static str, value: String, most: u64 },
    #[error("all files together have {bytes} bytes, more than the 2^60 that can be foreseen")]
    AllSizes { bytes: u64 },
    #[error("there are {rules} rules, more than the {most} that can be told apart")]
    Rules { rules: usize, most: u16 },
    #[error("line {line}: {file:?} is written by the job of line {first} already")]
    TwoWriters { line: usize, first: usize, file: String },
    #[error("the job of line {line} waits for itself, by way of others or at once")]
    Circle { line: usize },
}

#[derive(Default)]
struct Job {
    line: usize,
    rule: String,
    reads: Vec<String>,
    writes: Vec<String>,
    bytes: Option<f64>,
    seconds: Option<f64>,
}

impl Workflow {
    /// Reads what a dry run printed.
    pub fn from_snakemake(text: &str) -> Result<Workflow, SnakemakeError> {
        let jobs = jobs(text)?;
        if jobs.is_empty() {
            return Err(SnakemakeError::NoJobs);
        }
        let rules = jobs.iter().map(|job| &job.rule).collect::<BTreeSet<_>>().len();
        if rules > usize::from(u16::MAX) {
            return Err(SnakemakeError::Rules { rules, most: u16::MAX });
        }
        let temporary = text.contains(TEMPORARY);
        let cleanup = if temporary { Cleanup::WhenRead } else { Cleanup::Never };
        let name = "snakemake".to_owned();
        let mut workflow = Workflow { name, cleanup, ..Workflow::default() };
        let mut writers: BTreeMap<&str, (FileNumber, usize)> = BTreeMap::new();
        for (at, job) in jobs.iter().enumerate() {
            let each = job.bytes.map_or(ASSUMED_BYTES, |all| all / job.writes.len().max(1) as f64);
            let doubt = job.bytes.map_or(Doubt::Guess, |_| Doubt::AtMost);
            for file in &job.writes {
                let number = workflow.file(each);
                workflow.doubts.insert(number, doubt);
                if let Some((_, first)) = writers.insert(file, (number, at)) {
                    let (line, first) = (job.line, jobs[first].line);
                    return Err(SnakemakeError::TwoWriters { line, first, file: file.clone() });
                }
            }
        }
        let mut input: BTreeMap<&str, FileNumber> = BTreeMap::new();
        for job in &jobs {
            let mut task = Task {
                stage: workflow.stage(&job.rule),
                seconds: job.seconds.unwrap_or(ASSUMED_SECONDS),
                ..Task::default()
            };
            task.writes = job.writes.iter().map(|file| writers[file.as_str()].0).collect();
            for file in &job.reads {
                task.reads.push(match writers.get(file.as_str()) {
                    Some(&(number, writer)) => {
                        task.after.push(writer as u32);
                        number
                    }
                    None => *input.entry(file).or_insert_with(|| workflow.file(ASSUMED_BYTES)),
                });
            }
            for numbers in [&mut task.after, &mut task.reads] {
                numbers.sort_unstable();
                numbers.dedup();
            }
            workflow.task(task);
            workflow.names.push(format!("{} (line {})", job.rule, job.line));
        }
        workflow.input = input.into_values().collect();
        workflow.doubts.extend(workflow.input.iter().map(|&file| (file, Doubt::Guess)));
        let bytes: f64 = workflow.files.iter().map(|&bytes| bytes as f64).sum();
        if bytes > BYTES_MOST {
            return Err(SnakemakeError::AllSizes { bytes: bytes as u64 });
        }
        match workflow.circle() {
            Some(task) => Err(SnakemakeError::Circle { line: jobs[task as usize].line }),
            None => Ok(workflow),
        }
    }
}

fn jobs(text: &str) -> Result<Vec<Job>, SnakemakeError> {
    let mut jobs: Vec<Job> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let begins = BEGINNINGS.iter().find_map(|word| line.strip_prefix(word));
        if let Some(rule) = begins.and_then(|rest| rest.strip_suffix(':')) {
            jobs.push(Job { line: at + 1, rule: rule.to_owned(), ..Job::default() });
            continue;
        }
        let (Some(job), Some((key, value))) = (jobs.last_mut(), line.trim().split_once(": "))
        else {
            continue;
        };
        if !line.starts_with(' ') {
            continue;
        }
        match key {
            "input" => job.reads = listed(value),
            "output" => job.writes = listed(value),
            "resources" => resources(job, at + 1, value)?,
            _ => {}
        }
    }
    Ok(jobs)
}

fn listed(value: &str) -> Vec<String> {
    value.split(", ").map(|file| file.trim().to_owned()).filter(|file| !file.is_empty()).collect()
}

fn resources(job: &mut Job, line: usize, value: &str) -> Result<(), SnakemakeError> {
    let stated = listed(value);
    let number = |what: &'static str, most: f64| {
        let found = stated.iter().find_map(|it| it.strip_prefix(what)?.strip_prefix('='));
        // What is only known later is written in angle brackets.
        let found = found.filter(|value| !value.starts_with('<'));
        let read = |value: &str| {
            let number = value.parse::<f64>().ok().filter(|it| (0.0..=most).contains(it));
            let (value, most) = (value.to_owned(), most as u64);
            number.ok_or(SnakemakeError::Resource { line, what, value, most })
        };
        found.map(read).transpose()
    };
    job.bytes = number("disk_mb", BYTES_MOST / 1e6)?.map(|megabytes| megabytes * 1e6);
    job.seconds = number("runtime", SECONDS_MOST / 60.0)?.map(|minutes| minutes * 60.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRY_RUN: &str = "Building DAG of jobs...\nJob stats:\njob      count\n\n\
        [Sun Nov 22 06:00:00 2026]\nrule align:\n    input: reads.fq, genome.fa\n    output: a.bam\n    \
        jobid: 1\n    reason: Missing output files: a.bam\n    resources: tmpdir=<TBD>, disk_mb=2000, \
        runtime=5\n\n[Sun Nov 22 06:00:00 2026]\nlocalrule all:\n    input: a.bam\n    jobid: 0\n";

    #[test]
    fn jobs_and_files_are_read() {
        let workflow = Workflow::from_snakemake(DRY_RUN).unwrap();
        assert_eq!(workflow.stages, ["align", "all"]);
        assert_eq!((workflow.tasks[0].seconds, workflow.tasks[1].seconds), (300.0, 60.0));
        assert_eq!(workflow.files[0], 2_000_000_000);
        assert_eq!(workflow.input.len(), 2);
        let doubts = [Doubt::AtMost, Doubt::Guess, Doubt::Guess];
        assert_eq!(workflow.doubts.values().copied().collect::<Vec<_>>(), doubts);
        assert_eq!((workflow.most_bytes(), workflow.without_doubts().files[0]), (None, 0));
        assert_eq!(workflow.tasks[1].after, [0]);
        assert_eq!(workflow.cleanup, Cleanup::Never);
        assert_eq!(workflow.name_of(1), "\"all (line 14)\"");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let second = "rule again:\n    output: a.bam\n";
        let circle = "rule x:\n    input: b\n    output: a\nrule y:\n    input: a\n    output: b\n";
        for (text, says) in [
            ("nothing here".to_owned(), "no jobs"),
            (DRY_RUN.replace("=2000", "=-1"), "line 11: disk_mb of \"-1\""),
            (DRY_RUN.replace("=2000", "=2e12"), "from 0 to 1152921504606"),
            (DRY_RUN.replace("runtime=5", "runtime=1e7"), "from 0 to 527040"),
            (DRY_RUN.replace("=2000", "=1152921504606"), "all files together"),
            (format!("{DRY_RUN}{second}"), "line 17: \"a.bam\" is written by the job of line 6"),
            (circle.to_owned(), "the job of line 1 waits for itself"),
        ] {
            let message = Workflow::from_snakemake(&text).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
    }

    /// What Snakemake 9.27.1 prints: three jobs make a temporary file each, one gathers them and a file
    /// that is there, and one wants the sum.
    #[test]
    fn what_snakemake_prints_is_read() {
        let text = include_str!("snakemake/dry-run-9.27.1.txt");
        let workflow = Workflow::from_snakemake(text).expect("a dry run");
        assert_eq!(workflow.stages, ["make", "gather", "all"]);
        let after: Vec<_> = workflow.tasks.iter().map(|task| task.after.as_slice()).collect();
        assert_eq!(after, [&[][..], &[], &[], &[0, 1, 2], &[3]]);
        assert_eq!(workflow.tasks[0].seconds, 120.0);
        assert_eq!(workflow.bytes(&workflow.tasks[0].writes), 50_000_000);
        assert_eq!((workflow.cleanup, workflow.input.len()), (Cleanup::WhenRead, 1));
    }
}
