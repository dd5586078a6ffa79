//! `tidefs list`: the file systems that run on this machine.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::arguments::running::List;
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::mount_table;
use crate::say;
use crate::state::{self, Kind, Running};
use crate::view::StatusView;

/// The names of the fields are a promise to programs.
#[derive(Debug, Serialize)]
struct ListView {
    file_systems: Vec<Listed>,
    /// Mounts of file systems of other users, of which no more is known to this one.
    other_mounts: Vec<OtherMount>,
}

#[derive(Debug, Serialize)]
struct Listed {
    /// As `--state` takes it.
    state: PathBuf,
    /// `up` or `run`.
    kind: Kind,
    process: i32,
    /// Seconds since 1970.
    started: u64,
    /// What it says of itself; null where it does not answer.
    status: Option<Box<StatusView>>,
    /// Why it does not answer, and what to do; null where it does.
    silent: Option<String>,
}

/// A node that does not answer is waited for ten seconds.
const STATUS_WAIT: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize)]
struct OtherMount {
    mount: PathBuf,
    /// Who made it.
    user: Option<u32>,
}

pub fn list(options: &List, asked: Option<&Path>) -> anyhow::Result<()> {
    let list = look(asked)?;
    if options.json {
        say::answer(serde_json::to_string_pretty(&list).context("cannot print JSON")?);
    } else {
        print(&list);
    }
    Ok(())
}

fn look(asked: Option<&Path>) -> anyhow::Result<ListView> {
    let mut running = state::all_running(asked)?;
    // One that lies in a base that was named may be noted in the user's own as well.
    running.sort_by(|one, other| one.paths.directory.cmp(&other.paths.directory));
    running.dedup_by(|one, other| one.paths.directory == other.paths.directory);
    let known: BTreeSet<_> =
        running.iter().flat_map(|it| it.paths.mount_records()).map(|(_, mount)| mount.id).collect();
    let others = mount_table::entries()
        .into_iter()
        .filter(|mount| mount.is_ours() && !known.iter().any(|&id| mount.is(id)));
    // As the kernel has it: a mount that is asked itself may not answer.
    let other_mounts =
        others.map(|mount| OtherMount { user: mount.user, mount: mount.point }).collect();
    // All at once, so that one that is silent is waited for once.
    let file_systems = std::thread::scope(|scope| {
        let asked: Vec<_> = running.into_iter().map(|it| scope.spawn(|| listed(it))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()).collect()
    });
    Ok(ListView { file_systems, other_mounts })
}

fn listed(running: Running) -> Listed {
    let (status, silent) = match control::ask_within(&running.paths, &Request::Status, STATUS_WAIT)
    {
        Ok(Answer::Status(status)) => (Some(status), None),
        Ok(_) => (None, Some(Failure::Silent(running.paths.directory.clone()).to_string())),
        Err(why) => (None, Some(why.to_string())),
    };
    let record = running.record;
    Listed {
        state: running.paths.directory,
        kind: record.kind,
        process: record.owner.pid,
        started: record.started_unix_seconds,
        status,
        silent,
    }
}

fn print(list: &ListView) {
    if list.file_systems.is_empty() && list.other_mounts.is_empty() {
        say::answer("nothing runs here; start a file system: tidefs up");
    }
    for it in &list.file_systems {
        let kind = match it.kind {
            Kind::Up => "up",
            Kind::Host => "join",
            Kind::Run => "run",
        };
        let since = tidefs_report::instant_to_the_second(it.started);
        say::answer(format!(
            "{}  ({kind}, process {}, since {since})",
            it.state.display(),
            it.process
        ));
        let Some(status) = &it.status else {
            it.silent.iter().for_each(|why| say::answer(format!("  {why}")));
            continue;
        };
        let nodes = match status.nodes.len() {
            0 => String::new(),
            1 => ", 1 node".to_owned(),
            nodes => format!(", {nodes} nodes"),
        };
        say::answer(format!("  store  {}{nodes}", status.store));
        for mount in &status.mounts {
            say::answer(format!("  mount  {}", mount.display()));
        }
    }
    for other in &list.other_mounts {
        say::answer(other);
    }
}

impl fmt::Display for OtherMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mount = self.mount.display();
        match self.user {
            Some(user) if user == rustix::process::geteuid().as_raw() => write!(
                f,
                "{mount}  (a mount of yours, whose file system has its state in a directory that is not known here: \
                 name it with --state, or take the mount away: tidefs umount {mount})"
            ),
            Some(user) => write!(f, "{mount}  (a mount of user {user}, not of yours)"),
            None => write!(f, "{mount}  (a mount, not of yours)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_whoever_asks_is_not_called_somebody_elses() {
        let own = rustix::process::geteuid().as_raw();
        let said = |user| OtherMount { mount: "/m".into(), user }.to_string();
        let of_own = said(Some(own));
        assert!(of_own.contains("of yours, ") && of_own.contains("--state"), "{of_own}");
        assert!(said(Some(own + 1)).contains(&format!("of user {}, not of yours", own + 1)));
        assert!(said(None).contains("not of yours"));
    }
}
