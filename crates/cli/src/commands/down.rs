//! `tidefs down`: stop the file system that `up` started, and see that it has ended.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cleanup;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::process::{self, ProcessId};
use crate::say;
use crate::state::{self, ClusterRecord, Instance, Kind, Running};

/// Longer than all mounts and nodes may take to end.
const STOP_WAIT: Duration = Duration::from_secs(40);
/// For what outlives its owner, before it is killed.
const LEFT_GRACE: Duration = Duration::from_secs(2);

pub fn down(asked: Option<&Path>) -> anyhow::Result<()> {
    let running = state::find(asked)?;
    let directory = running.paths.directory.clone();
    if running.record.kind == Kind::Run {
        return Err(Failure::BelongsToRun(directory).into());
    }
    if running.record.kind == Kind::Host {
        return ask_owner(&running);
    }
    if !running.record.shows_processes() {
        return Err(Failure::ProcessesUnseen(directory).into());
    }
    // Looked up while there is something to look at.
    let processes = processes(&running);
    // One that stands still hears nothing before it goes on.
    running.record.owner.send(Signal::CONT);
    let stopped = match control::ask(&running.paths, &Request::Stop) {
        Ok(_) => ended_within(&running, STOP_WAIT),
        Err(error) => {
            tracing::warn!("{error}");
            false
        }
    };
    if !stopped {
        running.record.owner.send(Signal::KILL);
        ended_within(&running, STOP_WAIT);
        if let Some((instance, record)) = Instance::take_over(&directory) {
            say::note(cleanup::clean(instance, &record));
        }
    }
    let left = left(&processes);
    if !left.is_empty() {
        return Err(Failure::LivesOn(left).into());
    }
    say::answer("stopped");
    Ok(())
}

/// From a host that belongs to it: whoever has the file system ends it everywhere.
fn ask_owner(running: &Running) -> anyhow::Result<()> {
    // This host's agent may have ended before it could answer.
    match control::ask(&running.paths, &Request::Stop) {
        Err(refused @ Failure::Refused(_)) => return Err(refused.into()),
        asked => tracing::debug!("asked to end it: {asked:?}"),
    }
    if !ended_within(running, STOP_WAIT) {
        let pid = running.record.owner.pid;
        return Err(Failure::LivesOn(vec![format!("process {pid} (this host's agent)")]).into());
    }
    say::answer("stopped");
    Ok(())
}

/// All that must be gone in the end, and what it is.
fn processes(running: &Running) -> Vec<(&'static str, ProcessId)> {
    let owner = running.record.owner;
    let table = process::table();
    let nodes =
        ClusterRecord::processes(&running.paths).into_iter().map(|it| ("a storage node", it));
    let mounts = running.paths.mount_records().into_iter().map(|(_, it)| ("a mount", it.owner));
    let below = process::descendants(&table, &[owner.pid]).into_iter();
    let below = below.map(|it| ("started by the file system", it.id));
    let mut all = vec![("the file system", owner)];
    for (what, process) in nodes.chain(mounts).chain(below) {
        if all.iter().all(|(_, known)| *known != process) {
            all.push((what, process));
        }
    }
    all
}

/// What lives on, named; it is asked to end once more, and then made to.
fn left(processes: &[(&'static str, ProcessId)]) -> Vec<String> {
    let left = process::end(LEFT_GRACE, || {
        let is_one = |it: &process::Process| processes.iter().any(|(_, known)| *known == it.id);
        process::table().into_iter().filter(is_one).collect()
    });
    let named = processes.iter().filter(|(_, process)| left.contains(process));
    named.map(|(what, process)| format!("process {} ({what})", process.pid)).collect()
}

fn ended_within(running: &Running, wait: Duration) -> bool {
    let start = Instant::now();
    while running.record.owner.is_running() {
        if start.elapsed() > wait {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
