//! `tidefs run`: mount, run the command, report, clean up.

use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Rlimit, Signal};
use tidefs_model::ByteSize;

use crate::agents::Agents;
use crate::arguments::Run;
use crate::around::{Copier, Staging};
use crate::cleanup::{MARK, MOUNT, STATE};
use crate::dead_files::Deleter;
use crate::failure::{FAILED, Failure, LOST};
use crate::file_system::{FileSystem, Size};
use crate::host_view::AbsentView;
use crate::limits;
use crate::lost::Lost;
use crate::memory::Memory;
use crate::metrics::{self, Wanted};
use crate::monitor::Monitor;
use crate::mount_point::{Missing, MountPoint};
use crate::own_log::{self, Course};
use crate::preparation;
use crate::privacy;
use crate::process::ProcessId;
use crate::reporting::{self, Ended};
use crate::say;
use crate::scarcity::Score;
use crate::signals::Signals;
use crate::state::{Base, Kind};
use crate::summary::Summary;
use crate::supervise::{self, Order};

/// What --delete-dead was worth.
const NOTHING_TOLD: &str =
    "nothing was deleted: nobody told of a workflow; see `tidefs workflow --help`";

pub fn run(options: &Run, state: Option<&Path>) -> anyhow::Result<ExitCode> {
    let open_files = limits::raise_open_files();
    let score =
        Score::of_what_serves().context("cannot read the kernel's score of this process")?;
    privacy::guard();
    let point = MountPoint::check(&options.storage.mount, Missing::Make)?;
    let staging = Staging::check(&options.staging, options.quiet, &point.path)?;
    let (mut size, hosts) = preparation::check(&options.storage)?;
    preparation::warn_of_server(size.server.as_ref());
    options.report.as_deref().map_or(Ok(()), reporting::check)?;
    let base = Base::named(state)?;
    let metrics = metrics::check(&options.storage.metrics)?;
    let metrics = metrics.map(Wanted::bind).transpose()?;
    let signals = Signals::catch().context("cannot catch signals")?;
    own_log::take(Course::Both);
    supervise::adopt_orphans();

    let goes_on = || uninterrupted(&signals);
    let agents = hosts.map(|hosts| Agents::call(hosts, goes_on)).transpose()?;
    agents.iter().try_for_each(|agents| agents.fit(&mut size))?;
    let instance = base.create(&name(), Kind::Run)?;
    let file_system = FileSystem::start(&size, instance)?;
    uninterrupted(&signals)?;
    file_system.mount(point.clone(), options.storage.serving)?;
    let metrics = metrics.map(|bound| file_system.serve(bound)).transpose()?;
    file_system.listen()?;
    let serving = options.storage.serving;
    let settle = |agents: Agents| agents.settle(&file_system, &size, &point, serving, goes_on);
    let agents = agents.map(settle).transpose()?;
    file_system.asks_for_hosts();
    uninterrupted(&signals)?;
    if !options.quiet {
        agents
            .iter()
            .flat_map(|agents| agents.roll().absent())
            .for_each(|it| say::note(AbsentView::from(it)));
        announce(&size, &point);
        preparation::joining(&size, &file_system.paths).into_iter().for_each(say::note);
        metrics.iter().for_each(|it| say::note(format!("metrics at {}", it.view)));
    }
    staging.bring(&signals)?;
    let before = Before { open_files, score };
    let monitor = Monitor::start(Arc::downgrade(&file_system));
    metrics.iter().for_each(|metrics| metrics.tell_of(&monitor, &point.path));
    carry_out(options, &size, (&file_system, agents), &staging, &signals, before, monitor)
}

/// What this process has of its own that the command is not to have.
struct Before {
    open_files: Rlimit,
    score: Score,
}

/// Runs the command on the mounted file system, and ends everything.
fn carry_out(
    options: &Run,
    size: &Size,
    (file_system, agents): (&Arc<FileSystem>, Option<Agents>),
    staging: &Staging<'_>,
    signals: &Signals,
    before: Before,
    monitor: Monitor,
) -> anyhow::Result<ExitCode> {
    let mount = staging.mount();
    let start = Instant::now();
    let deleter = options
        .storage
        .delete_dead
        .then(|| Deleter::start(Arc::downgrade(file_system), mount.to_owned(), staging.kept()));
    let copier = staging.copy_as_written();
    let outcome = supervised(options, size, file_system, mount, signals, before);
    let wall = start.elapsed();
    let deletes_dead = deleter.map(Deleter::finish).is_some();
    let left = supervise::end_descendants(&file_system.node_processes());
    if !left.is_empty() {
        tracing::warn!("{}", Failure::Remaining { left: left.len() });
    }
    copier.into_iter().for_each(Copier::finish);
    let is_staged_out = staging.fetch(signals);
    let observed = monitor.finish();
    let lost = file_system.lost(mount);
    let losses = file_system.losses(lost.as_ref());
    let remaining = file_system.stop();
    drop(agents);
    remaining.iter().for_each(say::note);
    let status = match supervise::exit_status(outcome?) {
        // The command did what it should, and this did not.
        0 if !remaining.is_empty() => FAILED,
        0 if lost.as_ref().is_some_and(Lost::may_miss_something) => LOST,
        status => status,
    };
    if options.quiet && status == LOST {
        say::note(lost.iter().map(Lost::to_string).collect::<String>().trim_start());
    }
    if deletes_dead && observed.deleted.is_none() {
        say::note(NOTHING_TOLD);
    }
    if !options.quiet {
        let totals = file_system.totals();
        let head_room = ByteSize(size.head_room_bytes);
        say::note(Summary { totals, observed: &observed, head_room, lost, wall });
    }
    if let Some(directory) = &options.report {
        let words = options.command.iter().map(|word| word.to_string_lossy().into_owned());
        let (command, by_command) = (words.collect(), file_system.by_command());
        let ended = Ended { command, status, wall, size, observed: &observed, losses, by_command };
        // What the command did counts, not what could be told of it.
        match reporting::write(&ended, directory) {
            Ok(()) if options.quiet => {}
            Ok(()) => say::note(format!("report in {}", directory.display())),
            Err(error) => say::note(format!("there is no report: {error:#}")),
        }
    }
    Ok(match status {
        0 if !is_staged_out => ExitCode::from(FAILED),
        status => ExitCode::from(status),
    })
}

fn supervised(
    options: &Run,
    size: &Size,
    file_system: &FileSystem,
    mount: &Path,
    signals: &Signals,
    before: Before,
) -> anyhow::Result<ExitStatus> {
    let state = file_system.paths.directory.clone();
    let mark = format!("{:016x}", getrandom::u64().context("no random numbers")?);
    // Noted first: whatever is marked is found.
    file_system.set_mark(&mark)?;
    let environment = [(MOUNT, mount), (STATE, state.as_path()), (MARK, Path::new(&mark))];
    let Before { open_files, mut score } = before;
    let order = Order { words: &options.command, environment: &environment, open_files };
    let machine = Memory::of_this_machine().total;
    let mut child = score.for_a_command(size.each(), machine, || supervise::start(&order))?;
    let command = ProcessId::of(child.id() as i32).context("the command has no process")?;
    file_system.set_command(command)?;
    let tick = || {
        file_system.collect_orphans(command);
        file_system.beat();
    };
    // So Slurm says that the time of a job is over soon, where it is asked to.
    let notice = options.storage.hosts.slurm.then_some(Signal::USR1.as_raw());
    supervise::wait(&mut child, signals, notice, tick).context("cannot wait for the command")
}

fn announce(size: &Size, point: &MountPoint) {
    let offer = preparation::describe(size);
    say::note(format!("{offer}, mounted on {}", point.path.display()));
}

/// Several runs may share a base; a process number may come again while its directory is there.
fn name() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO);
    format!("run-{}-{:05x}", std::process::id(), since.subsec_micros())
}

fn uninterrupted(signals: &Signals) -> Result<(), Failure> {
    match signals.take() {
        Some(received) => Err(Failure::Interrupted(received.signal)),
        None => Ok(()),
    }
}
