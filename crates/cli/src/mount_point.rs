//! The directory that a mount lies on: checked before anything starts, made where it is missing,
//! and removed again by who made it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use crate::cleanup::unmount_left;
use crate::failure::Failure;
use crate::mount_table;

/// A network file system may take its time; more is none that a command waits for.
const LOOK_WAIT: Duration = Duration::from_secs(10);

/// A directory that is fit to be mounted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPoint {
    /// Absolute, without symbolic links.
    pub path: PathBuf,
    /// It was not there before.
    pub made: bool,
    /// Which directory it is that was made. Another one may have the name by the time it is removed.
    #[serde(default)]
    directory: Option<Directory>,
}

/// What tells a directory from all others: numbers of inodes are used again, at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Directory {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

impl Directory {
    fn at(path: &Path) -> io::Result<Directory> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let found = statx(CWD, path, flags, StatxFlags::INO | StatxFlags::BTIME)?;
        Ok(Directory {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        })
    }
}

/// Whether a missing directory is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Make,
    Refuse,
}

impl MountPoint {
    /// Checks `path`. Changes nothing, but for a mount of ours that nobody serves any more. The way to it may lead
    /// through a mount that does not answer, which is not waited for without end.
    pub fn check(path: &Path, missing: Missing) -> Result<MountPoint, Failure> {
        let (answer, answered) = channel();
        let asked = path.to_owned();
        let look = move || {
            // The caller may have stopped waiting.
            let _ = answer.send(MountPoint::look(&asked, missing));
        };
        let unusable = |cause| Failure::MountPointUnusable { path: path.to_owned(), cause };
        std::thread::Builder::new().spawn(look).map_err(unusable)?;
        let silent =
            |_| Failure::MountPointSilent { path: path.to_owned(), seconds: LOOK_WAIT.as_secs() };
        answered.recv_timeout(LOOK_WAIT).map_err(silent)?
    }

    fn look(path: &Path, missing: Missing) -> Result<MountPoint, Failure> {
        let path = absolute(path)?;
        unmount_left(&path, None);
        if mount_table::is_mount_point(&path) {
            return Err(Failure::MountPointTaken(path));
        }
        match fs::read_dir(&path) {
            Ok(mut entries) => match entries.next() {
                None if may_write(&path) => Ok(MountPoint::new(path, false)),
                None => Err(Failure::MountPointForeign(path)),
                Some(_) => Err(Failure::MountPointNotEmpty(path)),
            },
            Err(cause) if path.is_symlink() => Err(Failure::MountPointUnusable { path, cause }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match missing {
                Missing::Make => Ok(MountPoint::new(path, true)),
                Missing::Refuse => Err(Failure::MountPointMissing(path)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(Failure::MountPointNotADirectory(path))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Failure::MountPointForeign(path))
            }
            Err(cause) => Err(Failure::MountPointUnusable { path, cause }),
        }
    }

    fn new(path: PathBuf, made: bool) -> MountPoint {
        MountPoint { path, made, directory: None }
    }

    /// Makes the directory where `check` found it missing.
    pub fn make(&mut self) -> Result<(), Failure> {
        if !self.made {
            return Ok(());
        }
        let made = fs::DirBuilder::new().mode(0o755).create(&self.path);
        let found = made.and_then(|()| Directory::at(&self.path));
        let failed = |cause| Failure::MountPointNotMade { path: self.path.clone(), cause };
        self.directory = Some(found.map_err(failed)?);
        Ok(())
    }

    /// Removes what `make` made. A directory that somebody has filled meanwhile stays, and so does one
    /// that somebody else has made in its place.
    pub fn remove(&self) {
        if self.directory.is_some_and(|made| Directory::at(&self.path).is_ok_and(|it| it == made))
            && let Err(error) = fs::remove_dir(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("could not remove {}: {error}", self.path.display());
        }
    }
}

/// The absolute path of a directory that may not exist yet, without symbolic links. Does not ask
/// the last part itself, since that may be a mount that does not answer.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let unusable = || Failure::MountParentMissing(path.to_owned());
    let plain = std::path::absolute(path).map_err(|_| unusable())?;
    if mount_table::is_mount_point(&plain) {
        return Ok(plain);
    }
    if let Ok(real) = fs::canonicalize(&plain) {
        return Ok(real);
    }
    match (plain.parent(), plain.file_name()) {
        (Some(parent), Some(name)) => {
            Ok(fs::canonicalize(parent).map_err(|_| unusable())?.join(name))
        }
        _ => Err(unusable()),
    }
}

fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_nowhere_or_is_too_long_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [link, folder.path().join("n".repeat(256))] {
            let refused = MountPoint::check(&path, Missing::Make).unwrap_err();
            assert!(matches!(refused, Failure::MountPointUnusable { .. }), "{refused}");
        }
    }

    #[test]
    fn a_missing_directory_is_made_and_removed_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tide");
        let refused = MountPoint::check(&path, Missing::Refuse).unwrap_err();
        assert!(matches!(refused, Failure::MountPointMissing(_)), "{refused}");
        let mut point = MountPoint::check(&path, Missing::Make).unwrap();
        point.make().unwrap();
        assert!(path.is_dir());
        point.remove();
        assert!(!path.exists());
        // Another one takes the name, and likely the number of the inode. Times have ticks.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::create_dir(&path).unwrap();
        point.remove();
        assert!(path.is_dir());
    }

    #[test]
    fn what_cannot_be_mounted_on_is_refused_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let full = folder.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("file"), "x").unwrap();
        let reason = |path: &Path| MountPoint::check(path, Missing::Make).unwrap_err();
        assert!(matches!(reason(&full), Failure::MountPointNotEmpty(_)));
        assert!(matches!(reason(&full.join("file")), Failure::MountPointNotADirectory(_)));
        assert!(matches!(reason(&full.join("no/such")), Failure::MountParentMissing(_)));
        let taken = reason(Path::new("/proc"));
        assert!(matches!(taken, Failure::MountPointTaken(_)));
        // `tidefs mount` has no such option.
        assert!(!taken.to_string().contains("--mount"), "{taken}");
    }

    #[test]
    fn an_existing_directory_is_left_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        let real = folder.path().join("real");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let point = MountPoint::check(&link, Missing::Refuse).unwrap();
        assert_eq!(point, MountPoint::new(fs::canonicalize(&real).unwrap(), false));
        point.remove();
        assert!(real.is_dir());
    }
}
