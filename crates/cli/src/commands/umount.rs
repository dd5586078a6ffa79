//! `tidefs umount`: take one mount away, whoever serves it.

use std::path::Path;

use crate::arguments::Umount;
use crate::cleanup::unmount_left;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::mount_point::absolute;
use crate::mount_table::{self, Mounted};
use crate::mounting::WRITE_BACK_WAIT;
use crate::process::{self, ProcessId};
use crate::state::{MountRecord, Running, all_running};

pub fn umount(options: &Umount, asked: Option<&Path>) -> anyhow::Result<()> {
    // Where there is no directory there is no mount either.
    let path =
        absolute(&options.directory).map_err(|_| Failure::NotMounted(options.directory.clone()))?;
    match all_running(asked)?.iter().find_map(|running| Some((running, served(running, &path)?))) {
        Some((running, record)) if record.owner == running.record.owner => {
            let request = Request::Unmount(path.clone());
            control::ask_within(&running.paths, &request, WRITE_BACK_WAIT)?;
        }
        Some((_, record)) => {
            end_holder(record.owner);
            // One that was killed could not take its mount away.
            unmount_left(&path);
        }
        // What a killed process left, and nobody has noted.
        None if mount_table::at(&path) == Mounted::Stale && mount_table::is_ours(&path) => {
            unmount_left(&path);
        }
        None => return Err(Failure::NotMounted(path).into()),
    }
    match mount_table::at(&path) {
        Mounted::Nothing => Ok(()),
        _ => Err(Failure::StillMounted(path).into()),
    }
}

fn served(running: &Running, path: &Path) -> Option<MountRecord> {
    let records = running.paths.mount_records();
    records.into_iter().map(|(_, record)| record).find(|record| record.point.path == path)
}

fn end_holder(owner: ProcessId) {
    process::end(WRITE_BACK_WAIT, || {
        process::table().into_iter().filter(|process| process.id == owner).collect()
    });
}
