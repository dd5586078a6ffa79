//! The report of a run, out of what the monitor and the manager saw.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tidefs_control::Kind;
use tidefs_fuse::Requests;
use tidefs_manager::ReportedReconfiguration;
use tidefs_model::Time;
use tidefs_report::{
    ByCommand, DeadFiles, Decision, Losses, PhaseTime, Reconfiguration, Report, RunFacts,
};

use crate::elasticity::{NodeRange, policy_in_words};
use crate::failure::Failure;
use crate::file_system::Size;
use crate::live_workflow::Deleted;
use crate::monitor::Observed;

/// What is known when the command has ended.
pub struct Ended<'a> {
    pub command: Vec<String>,
    pub status: u8,
    pub wall: Duration,
    pub size: &'a Size,
    pub observed: &'a Observed,
    pub losses: Losses,
    pub by_command: ByCommand,
}

/// Writes the three files of the report.
pub fn write(ended: &Ended<'_>, directory: &Path) -> anyhow::Result<()> {
    let Ended { size, observed, .. } = ended;
    let facts = RunFacts {
        command: ended.command.clone(),
        command_status: ended.status.into(),
        started_unix_seconds: observed.started.seconds(),
        wall_seconds: ended.wall.as_secs_f64(),
        io_errors: observed.requests.failed,
        store: observed.store.clone(),
        nodes_min: size.nodes.map_or(0, |nodes| nodes.min.into()),
        nodes_max: size.nodes.map_or(0, |nodes| nodes.max.into()),
        node_memory_bytes: size.nodes.map_or(0, |_| size.node_capacity().0),
        policy: size.nodes.map_or("static".to_owned(), |nodes| policy(size, nodes)),
    };
    let history = &observed.history;
    let reconfigurations = reconfigurations(observed);
    let (rows, mut decisions) = (history.rows().to_vec(), history.decisions().to_vec());
    for Decision { what, why, .. } in &mut decisions {
        (*what, *why) = (observed.names.told(what), observed.names.told(why));
    }
    let report = Report::new(facts, rows, reconfigurations, decisions)?;
    let report = report.with_left_out(history.left_out()).with_losses(ended.losses.clone());
    let report = report.with_commands(ended.by_command.clone());
    let report =
        report.with_dead_files(observed.deleted.map(|Deleted { files, bytes }| DeadFiles {
            deleted: files,
            deleted_bytes: bytes,
            peak_used_bytes_undeleted: observed.memory_used_bytes_max_undeleted,
        }));
    Ok(report.write(directory)?)
}

/// With the numbers that it goes by.
fn policy(size: &Size, nodes: NodeRange) -> String {
    let name = size.elasticity.policy_name(nodes);
    match size.settings(nodes) {
        Ok(settings) => format!("{name}{}", policy_in_words(&settings.policy)),
        // It could not have been started.
        Err(_) => name.to_owned(),
    }
}

/// Says before a run of hours whether its report can be written. Makes nothing.
pub fn check(directory: &Path) -> Result<(), Failure> {
    let unusable = |cause| Failure::ReportUnusable { path: directory.to_owned(), cause };
    let wanted = std::path::absolute(directory).map_err(unusable)?;
    // What is missing of the path is made in the end.
    let there = wanted.ancestors().find(|path| path.exists());
    let there = there.ok_or_else(|| unusable(std::io::ErrorKind::NotFound.into()))?;
    // Root may write anywhere, and still not where the kernel keeps its own files.
    let tried = there.join(format!(".report-{}", std::process::id()));
    fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)).map_err(unusable)
}

fn reconfigurations(observed: &Observed) -> Vec<Reconfiguration> {
    let reported = |one| reported(one, observed);
    observed.finished.iter().map(reported).collect()
}

fn reported(one: &ReportedReconfiguration, observed: &Observed) -> Reconfiguration {
    let Observed { history, names, started, .. } = observed;
    let started_at = (Time(one.started_unix_ns) - *started).as_secs_f64();
    let stall = history.stall(one.started_unix_ns);
    let milliseconds = |part: f64| Some(stall?.quantile(part)?.as_secs_f64() * 1_000.0);
    Reconfiguration {
        kind: kind(&one.kind),
        reason: names.told(&one.reason),
        started_at,
        seconds: one.seconds,
        nodes_before: one.nodes_before.into(),
        nodes_after: one.nodes_after.into(),
        partitions_moved: one.partitions_moved.into(),
        bytes_moved: one.bytes_moved,
        bytes_minimum: one.bytes_minimum,
        requests: stall.map(Requests::total),
        io_stall_max_ms: milliseconds(1.0),
        io_stall_p99_ms: milliseconds(0.99),
        imbalance_percent: one.imbalance_percent,
        phases: one.phases.iter().map(phase).collect(),
        outcome: names.told(&one.outcome),
    }
}

fn phase((name, seconds): &(String, f64)) -> PhaseTime {
    PhaseTime { name: name.clone(), seconds: *seconds }
}

fn kind(name: &str) -> tidefs_report::Kind {
    if name == Kind::Commission.name() {
        tidefs_report::Kind::Commission
    } else if name == Kind::Decommission.name() {
        tidefs_report::Kind::Decommission
    } else {
        tidefs_report::Kind::Rebalance
    }
}
