//! Room in an instance's directory for what its nodes need to start, whatever else fills the disk.
//!
//! A file of the instance holds it, and gives some of it back when the disk is full and something has to be
//! written. What others write then may take it; so it lasts for a while, in which somebody is told.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::instance::Paths;

/// For some dozens of nodes.
const RESERVE: u64 = 1 << 20;
/// What a node's folder, and the records of all, take at most; given back at a time.
const STEP: u64 = 64 << 10;
/// With less on the disk something may not be written.
const LITTLE: u64 = STEP;
/// With so much on the disk, what was given back is taken again.
pub const PLENTY: u64 = 8 * RESERVE;

/// Holds what there is plenty of. Asked from time to time, it also gives back.
pub fn hold(paths: &Paths) {
    let held = held(paths);
    match free(&paths.directory) {
        Ok(free) if free >= PLENTY && held < RESERVE => {
            if let Err(error) = take(paths) {
                tracing::warn!("no room is held back in {}: {error}", paths.directory.display());
            }
        }
        Ok(free) if free < LITTLE && held > 0 => make(paths),
        _ => {}
    }
}

/// Sees that there is room for something that has to be written.
pub fn make(paths: &Paths) {
    if free(&paths.directory).is_ok_and(|free| free >= LITTLE) {
        return;
    }
    let left = held(paths).saturating_sub(STEP);
    let given = File::options().write(true).open(paths.reserve());
    if let Ok(given) = given
        && given.set_len(left).is_ok()
    {
        tracing::warn!(
            "the state directory {} is full: of what is held back for nodes {} KiB are left; make room \
             there",
            paths.directory.display(),
            left >> 10
        );
    }
}

fn held(paths: &Paths) -> u64 {
    paths.reserve().metadata().map_or(0, |found| found.len())
}

fn take(paths: &Paths) -> io::Result<()> {
    let file = File::options().create(true).append(true).open(paths.reserve())?;
    let taken = fallocate(&file, FallocateFlags::empty(), 0, RESERVE);
    if taken.is_err() {
        file.set_len(0)?;
    }
    Ok(taken?)
}

/// For this user, on the disk of a directory.
pub fn free(directory: &Path) -> io::Result<u64> {
    let found = statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_held_once_there_is_plenty() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path().to_owned());
        if free(folder.path()).unwrap() < 2 * PLENTY {
            return;
        }
        hold(&paths);
        assert_eq!(held(&paths), RESERVE);
        make(&paths);
        assert_eq!(held(&paths), RESERVE, "there is room");
        File::create(paths.reserve()).unwrap();
        hold(&paths);
        assert_eq!(held(&paths), RESERVE, "taken again");
    }
}
