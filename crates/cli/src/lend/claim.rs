//! Directories that lenders make and that somebody may find after them: each is locked for as long as
//! the process lives that made it. Process numbers are used again, and mean nothing in another
//! container; a lock ends with its holder, however that comes.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = "tidefs-lend-";
/// Somebody who sweeps may take a directory for left before it is locked.
const TRIES: u32 = 10;

/// A directory of this process. Whoever has it removes it while the lock is held.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Claim {
    pub fn make(parent: &Path) -> io::Result<Claim> {
        let mut tries = 0;
        loop {
            let path = parent.join(random_name()?);
            DirBuilder::new().mode(0o700).create(&path)?;
            match lock(&path) {
                Ok(Some(lock)) => return Ok(Claim { path, _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
                _ if tries == TRIES => return Err(io::ErrorKind::ResourceBusy.into()),
                _ => tries += 1,
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes what lenders of this user left that have ended.
pub fn sweep(parent: &Path, remove: fn(&Path) -> io::Result<()>) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_lenders = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_ours = || entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_lenders
            && is_ours()
            && let Ok(Some(_lock)) = lock(&entry.path())
        {
            // A group with a process in it stays.
            let _ = remove(&entry.path());
        }
    }
}

/// `None`: somebody else holds it, or has removed it meanwhile.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let directory = File::open(path)?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let is_there = fs::metadata(path).map(identity)? == identity(directory.metadata()?);
    Ok(is_there.then_some(directory))
}

fn random_name() -> io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_holds_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let held = Claim::make(base.path()).unwrap();
        let left = Claim::make(base.path()).unwrap().path;
        let other = base.path().join("tidefs-lent");
        fs::create_dir(&other).unwrap();
        sweep(base.path(), |path| fs::remove_dir_all(path));
        assert!(held.path().is_dir() && other.is_dir());
        assert!(!left.exists(), "its lock has ended");
    }

    #[test]
    fn whoever_sweeps_meanwhile_takes_nothing_away() {
        let base = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let makes = || {
                (0..50).for_each(|_| {
                    let claim = Claim::make(base.path()).unwrap();
                    fs::write(claim.path().join("x"), "x").unwrap();
                    assert!(claim.path().join("x").is_file());
                })
            };
            let makers = [scope.spawn(makes), scope.spawn(makes)];
            while makers.iter().any(|it| !it.is_finished()) {
                sweep(base.path(), |path| fs::remove_dir_all(path));
            }
        });
    }
}
