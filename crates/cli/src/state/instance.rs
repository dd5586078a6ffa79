//! The directory of one running file system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::base;
use super::lock::Lock;
use super::origin::Whose;
use super::record::{MountRecord, Record, read_json, write_json};
use crate::failure::Failure;
use crate::mount_table;

/// Names inside the directory of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub directory: PathBuf,
}

/// Longest name of a socket, without its final zero.
const SOCKET_NAME_MAX: usize = 107;
/// Longest name of a socket below the directory of an instance, with room to spare.
const SOCKET_NAME_TAIL: usize = "/nodes/00-0/socket".len();

impl Paths {
    pub fn new(directory: PathBuf) -> Paths {
        Paths { directory }
    }

    pub fn record(&self) -> PathBuf {
        self.directory.join("record.json")
    }

    /// How to reach the cluster.
    pub fn cluster(&self) -> PathBuf {
        self.directory.join("cluster.json")
    }

    pub fn secret(&self) -> PathBuf {
        self.directory.join("secret")
    }

    /// With what nodes are reached over a network.
    pub fn credentials(&self) -> PathBuf {
        self.directory.join("credentials")
    }

    /// What lenders show that they know.
    pub fn lend_secret(&self) -> PathBuf {
        self.directory.join("lend-secret")
    }

    /// What hosts show that they know.
    pub fn join_secret(&self) -> PathBuf {
        self.directory.join("join-secret")
    }

    /// Where lenders and hosts are awaited.
    pub fn lend_address(&self) -> PathBuf {
        self.directory.join("lend-address")
    }

    /// What was said on hosts that this one has reached.
    pub fn host_logs(&self) -> PathBuf {
        self.directory.join("hosts")
    }

    /// The hosts that this one has reached.
    pub fn reached(&self) -> PathBuf {
        self.directory.join("hosts.json")
    }

    /// With what stripes are sealed.
    pub fn stripe_key(&self) -> PathBuf {
        self.directory.join("stripe-key")
    }

    /// What programs show that ask for metrics.
    pub fn metrics_token(&self) -> PathBuf {
        self.directory.join("metrics-token")
    }

    /// What people show that look at the page.
    pub fn page_token(&self) -> PathBuf {
        self.directory.join("page-token")
    }

    pub fn nodes(&self) -> PathBuf {
        self.directory.join("nodes")
    }

    pub fn mounts(&self) -> PathBuf {
        self.directory.join("mounts")
    }

    pub fn control(&self) -> PathBuf {
        self.directory.join("control")
    }

    /// Where the manager is asked.
    pub fn manager(&self) -> PathBuf {
        self.directory.join("manager")
    }

    /// Where the manager asks the owner of the nodes.
    pub fn provisioner(&self) -> PathBuf {
        self.directory.join("provisioner")
    }

    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// What was in the log before it grew too long.
    pub fn earlier_log(&self) -> PathBuf {
        self.directory.join("log.1")
    }

    /// Room that nothing else takes, for what must be written when the disk is full.
    pub fn reserve(&self) -> PathBuf {
        self.directory.join("reserve")
    }

    /// Records of all mounts, also of those that are being made or taken away.
    pub fn mount_records(&self) -> Vec<(PathBuf, MountRecord)> {
        let Ok(entries) = fs::read_dir(self.mounts()) else { return Vec::new() };
        let mut found: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .filter_map(|path| Some((path.clone(), read_json(&path).ok()?)))
            .collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found
    }

    /// Where a mount is noted, by its number: those of processes come again.
    pub fn mount_note(&self, number: u64) -> PathBuf {
        self.mounts().join(format!("{number:016x}.json"))
    }

    /// Where whoever serves a mount listens for others that want to go on with it.
    pub fn hand_over(&self, number: u64) -> PathBuf {
        self.directory.join(format!("h{number:016x}"))
    }

    /// Notes a mount before it is made, so that it is found whatever happens.
    pub fn note_mount(&self, record: &MountRecord) -> Result<PathBuf, Failure> {
        let unusable = |cause| Failure::StateUnusable { path: self.directory.clone(), cause };
        fs::create_dir_all(self.mounts()).map_err(unusable)?;
        let path = self.mount_note(record.id);
        write_json(&path, record).map_err(unusable)?;
        Ok(path)
    }

    pub fn check_length(&self) -> Result<(), Failure> {
        let needed = self.directory.as_os_str().len() + SOCKET_NAME_TAIL;
        if needed <= SOCKET_NAME_MAX {
            return Ok(());
        }
        let path = self.directory.parent().unwrap_or(&self.directory).to_owned();
        Err(Failure::StateTooLong { path, needed, most: SOCKET_NAME_MAX })
    }
}

/// A disk that rests is woken no more often; how exactly the time of a death is known.
const BEAT_EVERY: Duration = Duration::from_secs(10);

/// An instance that this process owns.
#[derive(Debug)]
pub struct Instance {
    pub paths: Paths,
    /// The base was made for this instance and goes with it.
    pub base_made: bool,
    _lock: Lock,
    /// When this process gave a sign of life last, by its own clock.
    beaten: Mutex<Option<Instant>>,
}

impl Instance {
    pub(super) fn new(directory: PathBuf, lock: Lock, base_made: bool) -> Instance {
        Instance { paths: Paths::new(directory), base_made, _lock: lock, beaten: Mutex::default() }
    }

    /// Takes over the instance of a process that is gone, with its record; `None` while one owns it, and
    /// of every instance of another machine or container, which only those who see its processes can judge.
    pub fn take_over(directory: &Path) -> Option<(Instance, Record)> {
        // What others could have written there is nothing to go by.
        if !base::is_only_ours(directory) {
            return None;
        }
        // Whoever makes an instance holds its base until it owns the instance.
        let base = Lock::take(directory.parent()?).ok()?;
        let lock = Lock::try_take(directory).ok()??;
        drop(base);
        let paths = Paths::new(directory.to_owned());
        let record = match Record::read(&paths) {
            Ok(record) => record,
            Err(_) => {
                // Only an empty one can be removed so: somebody was about to remove it, or to fill it.
                if fs::remove_dir(directory).is_err() {
                    let unreadable = Failure::RecordDamaged(paths.record());
                    tracing::warn!("{} is left alone: {unreadable}", directory.display());
                }
                return None;
            }
        };
        let is_ours = match record.whose(&paths) {
            Whose::Ours => record.shows_processes(),
            Whose::Before => true,
            Whose::Elsewhere => false,
        };
        is_ours.then(|| (Instance::new(directory.to_owned(), lock, record.base_made), record))
    }

    /// Gives a sign of life from time to time, for whoever asks when this file system died.
    /// `true` when it was time for that.
    pub fn beat(&self) -> bool {
        let mut beaten = self.beaten.lock().unwrap_or_else(PoisonError::into_inner);
        if beaten.is_some_and(|at| at.elapsed() < BEAT_EVERY) {
            return false;
        }
        *beaten = Some(Instant::now());
        drop(beaten);
        let record = self.paths.record();
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now, last_modification: now };
        if let Err(error) = utimensat(CWD, &record, &now, AtFlags::empty()) {
            tracing::debug!("no sign of life in {}: {error}", record.display());
        }
        true
    }

    pub fn read(&self) -> Result<Record, Failure> {
        Record::read(&self.paths)
    }

    pub fn write(&self, record: &Record) -> Result<(), Failure> {
        let unusable = |cause| Failure::StateUnusable { path: self.paths.record(), cause };
        write_json(&self.paths.record(), record).map_err(unusable)
    }

    /// Removes the directory and all notes of it.
    pub fn remove(self) {
        let directory = &self.paths.directory;
        // Removing must never reach through a mount into somebody's files.
        let inside =
            mount_table::entries().into_iter().find(|row| row.point.starts_with(directory));
        if let Some(row) = inside {
            tracing::warn!("{} stays: {} is mounted", directory.display(), row.point.display());
            return;
        }
        if let Err(error) = remove_all(&self.paths) {
            tracing::warn!("could not remove {}: {error}", directory.display());
        }
        base::forget(directory, self.base_made);
    }
}

/// The record goes last, so that whoever is killed meanwhile leaves a directory that has an owner.
fn remove_all(paths: &Paths) -> io::Result<()> {
    let record = paths.record();
    for entry in fs::read_dir(&paths.directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false if entry.path() != record => fs::remove_file(entry.path())?,
            false => {}
        }
    }
    fs::remove_file(record)?;
    fs::remove_dir(&paths.directory)
}

#[cfg(test)]
mod tests {
    use super::super::record::Kind;
    use super::*;

    #[test]
    fn an_instance_that_is_being_made_is_not_taken_over() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("run-1");
        let making = Lock::take(base.path()).unwrap();
        fs::create_dir(&directory).unwrap();
        let paths = Paths::new(directory.clone());
        write_json(&paths.record(), &Record::new(Kind::Run, false)).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| Instance::take_over(&directory).is_some());
            // Long enough for it to find the directory without an owner.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let _owned = Lock::take(&directory).unwrap();
            drop(making);
            assert!(!other.join().unwrap(), "it was taken from who made it");
        });
        assert!(Instance::take_over(&directory).is_some(), "now nobody owns it");
    }
}
