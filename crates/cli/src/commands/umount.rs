//! `tidefs umount`: take one mount away, whoever serves it.

use std::path::Path;

use crate::arguments::running::Umount;
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
    let noted = all_running(asked)?
        .into_iter()
        .find_map(|running| Some((served(&running, &path)?, running)));
    let number = noted.as_ref().map(|(record, _)| record.id);
    match noted {
        Some((record, running)) if record.owner == running.record.owner => {
            let request = Request::Unmount(path.clone());
            control::ask_within(&running.paths, &request, WRITE_BACK_WAIT)?;
        }
        Some((record, _)) => {
            end_holder(record.owner);
            // One that was killed could not take its mount away.
            unmount_left(&path, number);
        }
        // What a killed process left, and nobody has noted.
        None if mount_table::at(&path) == Mounted::Stale && mount_table::is_ours(&path) => {
            unmount_left(&path, None);
        }
        None => return Err(Failure::NotMounted(path).into()),
    }
    // Somebody may have mounted something else there by now.
    let remains = number.map_or_else(
        || mount_table::at(&path) != Mounted::Nothing,
        |number| mount_table::has(&path, number),
    );
    if remains { Err(Failure::StillMounted(path).into()) } else { Ok(()) }
}

/// The note of what is mounted there.
pub fn served(running: &Running, path: &Path) -> Option<MountRecord> {
    let records = running.paths.mount_records();
    records
        .into_iter()
        .map(|(_, record)| record)
        .find(|record| record.point.path == path && mount_table::has(path, record.id))
}

fn end_holder(owner: ProcessId) {
    process::end(WRITE_BACK_WAIT, || {
        process::table().into_iter().filter(|process| process.id == owner).collect()
    });
}
