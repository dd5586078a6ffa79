//! What a killed `tidefs` left is removed by the next one that starts: its processes, its mounts,
//! the mount points that it made and its directory.

use std::path::Path;
use std::time::Duration;

use crate::mount_table::{self, Mounted};
use crate::process::{self, Process, ProcessId};
use crate::say;
use crate::state::{Base, ClusterRecord, Instance, Paths, Record, boot_id};

/// How long what is left of a workflow has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Cleans up after every instance that nobody owns, in the base asked for and in all others that
/// this user has used.
pub fn sweep(asked: Option<&Path>) {
    let own = Base::own();
    let mut directories = own.instances();
    directories.extend(own.instances_elsewhere());
    if let Ok(base) = Base::named(asked)
        && base != own
    {
        directories.extend(base.instances());
    }
    directories.sort();
    directories.dedup();
    for instance in directories.iter().filter_map(|directory| Instance::take_over(directory)) {
        clean(instance);
    }
}

/// Ends and removes everything that belongs to an instance, whose lock this process holds.
pub fn clean(instance: Instance) {
    let directory = instance.directory().to_owned();
    let record = instance.read().ok();
    if record.as_ref().is_none_or(|record| record.boot_id == boot_id()) {
        let left = process::end(GRACE, || belonging(record.as_ref(), &instance.paths));
        if !left.is_empty() {
            tracing::warn!("processes of {} remain: {left:?}", directory.display());
        }
    }
    for (_, mount) in instance.paths.mount_records() {
        unmount_left(&mount.point.path);
        if mount_table::at(&mount.point.path) == Mounted::Nothing {
            mount.point.remove();
        }
    }
    instance.remove();
    say::note(format!("cleaned up after a tidefs that was killed ({})", directory.display()));
}

/// Takes away a mount that nobody serves any more; leaves one that answers alone, since it is
/// somebody else's.
pub fn unmount_left(path: &Path) {
    if mount_table::at(path) != Mounted::Stale {
        return;
    }
    if let Err(error) = tidefs_fuse::unmount_stale(path) {
        tracing::warn!("could not unmount {}: {error}", path.display());
    }
}

/// Everything that runs on behalf of an instance: nodes, holders of mounts, the command and what
/// it started. Never this process nor any that it descends from: somebody may clean up from a
/// shell that the killed run had started.
fn belonging(record: Option<&Record>, paths: &Paths) -> Vec<Process> {
    let table = process::table();
    let spared = process::lineage(&table, std::process::id() as i32);
    let mut roots: Vec<ProcessId> = paths.mount_records().iter().map(|(_, it)| it.owner).collect();
    roots.extend(ClusterRecord::processes(paths));
    if let Some(record) = record {
        roots.extend(record.nodes.iter().map(|node| node.process));
        roots.extend(record.command);
    }
    let mut found: Vec<Process> = table
        .iter()
        .filter(|it| roots.contains(&it.id) || process::carries(**it, STATE, &paths.directory))
        .copied()
        .collect();
    let below: Vec<i32> =
        found.iter().map(|it| it.id.pid).filter(|pid| !spared.contains(pid)).collect();
    found.extend(process::descendants(&table, &below));
    found.retain(|it| !spared.contains(&it.id.pid));
    found
}

/// The variable that marks what a run has started.
pub const STATE: &str = "TIDEFS_STATE";
/// The variable that tells a command where its mount is.
pub const MOUNT: &str = "TIDEFS_MOUNT";
