//! What a killed `tidefs` left is removed by the next one that starts: its processes, its mounts,
//! the mount points that it made and its directory.

use std::path::Path;
use std::time::Duration;

use crate::death::Death;
use crate::kept_logs;
use crate::mount_table::{self, Mounted};
use crate::process::{self, Process, ProcessId};
use crate::say;
use crate::state::{Base, ClusterRecord, Instance, Paths, Record, Whose};

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
    for (instance, record) in directories.iter().filter_map(|it| Instance::take_over(it)) {
        say::note(clean(instance, &record));
    }
}

/// Ends and removes everything that belongs to an instance, whose lock this process holds; answers
/// with what happened to it.
pub fn clean(instance: Instance, record: &Record) -> Death {
    let mut death = Death::of(record, &instance.paths);
    if death.whose == Whose::Ours {
        let left = process::end(GRACE, || belonging(record, &instance.paths));
        death.left = left.into_iter().map(|process| process.pid).collect();
    }
    for (_, mount) in instance.paths.mount_records() {
        unmount_left(&mount.point.path, Some(mount.id));
        if mount_table::at(&mount.point.path) == Mounted::Nothing {
            mount.point.remove();
        }
    }
    death.log = kept_logs::keep(&instance.paths);
    instance.remove();
    death
}

/// Takes away a mount that nobody serves any more, the one with this number if there is one; leaves one
/// that answers alone, since it is somebody else's.
pub fn unmount_left(path: &Path, number: Option<u64>) {
    if mount_table::at(path) != Mounted::Stale {
        return;
    }
    if let Err(error) = tidefs_fuse::unmount_stale(path, number) {
        tracing::warn!("could not unmount {}: {error}", path.display());
    }
}

/// Everything that runs on behalf of an instance: nodes, holders of mounts, the command of a run and
/// what it started. Never this process nor any that it descends from: somebody may clean up from a
/// shell that the killed run had started.
fn belonging(record: &Record, paths: &Paths) -> Vec<Process> {
    let table = process::table();
    let spared = process::lineage(&table, std::process::id() as i32);
    let mut roots: Vec<ProcessId> = paths.mount_records().iter().map(|(_, it)| it.owner).collect();
    roots.extend(ClusterRecord::processes(paths));
    roots.extend(record.nodes.iter().map(|node| node.process));
    roots.extend(record.command);
    let is_marked =
        |it: &Process| !record.mark.is_empty() && process::carries(*it, MARK, &record.mark);
    let mut found: Vec<Process> =
        table.iter().filter(|it| roots.contains(&it.id) || is_marked(it)).copied().collect();
    let below: Vec<i32> =
        found.iter().map(|it| it.id.pid).filter(|pid| !spared.contains(pid)).collect();
    found.extend(process::descendants(&table, &below));
    found.retain(|it| !spared.contains(&it.id.pid));
    found
}

/// The variable that tells a command where its file system is. People set it, too.
pub const STATE: &str = "TIDEFS_STATE";
/// The variable that marks what a run has started, with a value that no other run has. Nobody else
/// sets it.
pub const MARK: &str = "_TIDEFS_RUN";
/// The variable that tells a command where its mount is.
pub const MOUNT: &str = "TIDEFS_MOUNT";
