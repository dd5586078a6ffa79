//! Measures Tidefs beside its floors, prints a table and keeps the figures.
//!
//! The driver starts a worker inside each subject and asks them in turn; see `README.md` for what
//! each figure means. It exits with 0 when everything could be measured, whatever the figures are;
//! with `--check`, a missed goal is a failure too.

mod caches;
mod client;
mod driver;
mod figures;
mod goals;
mod machine;
mod null;
mod order;
mod planning;
mod processor;
mod progress;
mod quality;
mod raw;
mod report;
mod start;
mod stop;
mod table;
mod tmpfs;
mod usage;
mod worker;
mod workloads;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use driver::Extent;
use figures::Subject;
use goals::Verdict;
use machine::Machine;
use report::{Plans, Report};
use start::Site;
use stop::Stop;
use tidefs_fuse::Rings;

/// Measure Tidefs beside tmpfs, a FUSE layer that does nothing, and a raw client of its server.
#[derive(Debug, Parser)]
#[command(name = "tidefs-bench", max_term_width = 100, args_conflicts_with_subcommands = true)]
#[command(after_help = "Example:\n  tidefs-bench --tidefs target/release/tidefs --quick")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Work inside a subject; started by the driver.
    #[command(hide = true)]
    Worker(Worker),
    /// Run a worker on a FUSE layer that does nothing; started by the driver.
    #[command(hide = true)]
    Null(Null),
    /// Be a program on a mount; started by bench/mounts.py.
    #[command(hide = true)]
    Client,
}

#[derive(Debug, Args)]
struct Bench {
    /// The binary that is measured
    #[arg(long, default_value = "target/release/tidefs", value_name = "PATH")]
    tidefs: PathBuf,

    /// Less of everything, within a minute; the figures are rough
    #[arg(long)]
    quick: bool,

    /// How often everything is measured [default: 5, changes of the nodes 3; with --quick 2 and 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: Option<u8>,

    /// Only these, separated by commas
    #[arg(long, value_name = "SUBJECTS", value_delimiter = ',', value_enum)]
    only: Vec<Subject>,

    /// Only how long plans take, how good they are, and what --only names
    #[arg(long)]
    planning: bool,

    /// Fail when a goal is missed
    #[arg(long)]
    check: bool,

    /// Keep all of it to one processor, servers and mounts as well; nothing is judged so
    #[arg(long, conflicts_with = "check")]
    pinned: bool,

    /// Where the figures are kept
    #[arg(long, default_value = "bench/results", value_name = "DIR")]
    results: PathBuf,
}

#[derive(Debug, Args)]
struct Worker {
    #[arg(value_enum)]
    subject: Subject,
    directory: PathBuf,
    #[arg(long)]
    tidefs: PathBuf,
    #[arg(long)]
    memory_mib: u64,
}

#[derive(Debug, Args)]
struct Null {
    directory: PathBuf,
    /// Requests come by rings, or not
    #[arg(long, value_parser = null::rings, default_value = "auto")]
    rings: Rings,
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Memory that each subject may use; they never hold their bytes at the same time.
const MEMORY_MIB: u64 = 2048;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Some(Command::Worker(worker)) => {
            worker::serve(worker.subject, &worker.directory, worker.tidefs, worker.memory_mib)
                .map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Null(Null { directory, rings, words })) => {
            null::run(&directory, rings, &words).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Client) => client::serve().map(|()| ExitCode::SUCCESS),
        None => bench(&arguments.bench),
    };
    done.unwrap_or_else(|error| {
        eprintln!("tidefs-bench: {error:#}");
        ExitCode::FAILURE
    })
}

fn bench(options: &Bench) -> anyhow::Result<ExitCode> {
    let tidefs = std::fs::canonicalize(&options.tidefs).with_context(|| {
        format!("there is no {}; build it with: cargo build --release", options.tidefs.display())
    })?;
    let mut extent = if options.quick { Extent::QUICK } else { Extent::FULL };
    if let Some(rounds) = options.rounds.map(usize::from) {
        extent = Extent { rounds, change_rounds: rounds, ..extent };
    }
    let all = options.only.is_empty() && !options.planning;
    let subjects = if all { Subject::ALL.to_vec() } else { options.only.clone() };

    let stop = Stop::catch()?;
    let machine = Machine::look();
    if options.pinned {
        machine::keep_to_one_processor().context("cannot keep to one processor")?;
    }
    let directory = tempfile::Builder::new().prefix("tidefs-bench-").tempdir()?;
    let site = Site { directory: directory.path().to_owned(), tidefs, memory_mib: MEMORY_MIB };
    let run = driver::run(&subjects, extent, &site, &stop)?;

    let plans = if all || options.planning { extent.plans } else { 0 };
    let planning = planning::measure(plans);
    let quality = quality::measure(plans);
    let passthrough = tidefs_fuse::passthrough_available();
    let plans = Plans { planning, quality };
    let report = Report::new(&run, extent, machine, plans, passthrough, options.pinned);
    print!("{report}");
    let path = report.write(&options.results)?;
    println!("\nkept in {}", path.display());
    let ratios = report.ratios.iter().map(|ratio| ratio.verdict);
    let planning = report.plans.planning.iter().map(|it| it.verdict);
    let quality = report.plans.quality.iter().map(|it| it.verdict);
    let mut verdicts = ratios.chain(planning).chain(quality);
    let missed = verdicts.any(|verdict| matches!(verdict, Verdict::HalfGoal | Verdict::Missed));
    Ok(if options.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
