//! Locks on directories. They end with the process that holds them, however it ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// A locked directory; dropping it unlocks.
#[derive(Debug)]
pub struct Lock {
    _directory: File,
}

/// Somebody holds a base directory only while it makes or removes an entry.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Lock {
    /// `None` when somebody else holds it.
    pub fn try_take(path: &Path) -> io::Result<Option<Lock>> {
        let directory = open(path)?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            // Whoever held it before may have removed the directory.
            Ok(()) if is_at(&directory, path) => Ok(Some(Lock { _directory: directory })),
            Ok(()) => Err(io::ErrorKind::NotFound.into()),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn take(path: &Path) -> io::Result<Lock> {
        let start = Instant::now();
        loop {
            if let Some(lock) = Lock::try_take(path)? {
                return Ok(lock);
            }
            if start.elapsed() > WAIT_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a process holds it now.
    pub fn is_taken(path: &Path) -> bool {
        open(path).is_ok_and(|directory| is_locked(&directory) == Ok(true))
    }
}

/// A directory whose lock somebody else holds, by itself and not by its name.
#[derive(Debug)]
pub struct Watched(File);

impl Watched {
    pub fn new(path: &Path) -> io::Result<Watched> {
        open(path).map(Watched)
    }

    /// `false` once nobody holds the lock. Where that cannot be told it is held as before: whoever served it
    /// would end over a file system of the network that does not answer for a moment.
    pub fn is_taken(&self) -> bool {
        is_locked(&self.0) != Ok(false)
    }
}

fn is_locked(directory: &File) -> rustix::io::Result<bool> {
    match flock(directory, FlockOperation::NonBlockingLockShared) {
        Ok(()) => flock(directory, FlockOperation::Unlock).map(|()| false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

fn is_at(directory: &File, path: &Path) -> bool {
    let (Ok(held), Ok(named)) = (directory.metadata(), path.symlink_metadata()) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Lock::is_taken(folder.path()));
        let lock = Lock::take(folder.path()).unwrap();
        assert!(Lock::is_taken(folder.path()));
        assert!(Lock::try_take(folder.path()).unwrap().is_none());
        drop(lock);
        assert!(Lock::try_take(folder.path()).unwrap().is_some());
    }

    #[test]
    fn a_watched_lock_is_told_by_the_directory_and_not_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("up"), folder.path().join("away"));
        fs::create_dir(&path).unwrap();
        let lock = Lock::take(&path).unwrap();
        let watched = Watched::new(&path).unwrap();
        fs::rename(&path, &away).unwrap();
        assert!(watched.is_taken(), "it has another name");
        fs::create_dir(&path).unwrap();
        assert!(watched.is_taken(), "its name is another directory's");
        drop(lock);
        assert!(!watched.is_taken());
        assert!(Lock::try_take(&away).unwrap().is_some(), "who watches holds nothing");
    }
}
