//! What an instance writes down of itself: enough for other commands to reach it, and for the
//! next start to clean up after it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidefs_model::MountId;

use super::instance::Paths;
use super::origin::{Origin, Whose, is_private};
use crate::failure::Failure;
use crate::mount_point::MountPoint;
use crate::process::ProcessId;

/// Who started the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Run,
    Up,
    /// It runs elsewhere, and this host has joined it.
    Host,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub kind: Kind,
    pub owner: ProcessId,
    /// Process numbers mean nothing elsewhere, nor after the machine has started again.
    #[serde(flatten)]
    pub origin: Origin,
    /// Seconds since 1970, by the clock of its machine.
    #[serde(default)]
    pub started_unix_seconds: u64,
    pub base_made: bool,
    /// Those that it started with; empty for the embedded store.
    pub nodes: Vec<NodeRecord>,
    /// What `run` runs.
    pub command: Option<ProcessId>,
    /// In the environment of everything that `run` starts, and of nothing else; empty of `up`.
    #[serde(default)]
    pub mark: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub id: String,
    pub endpoint: String,
    /// Of a lent node: nobody's.
    pub process: ProcessId,
    /// It is lent.
    #[serde(default)]
    pub victim: bool,
}

/// One mount, made or about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    pub point: MountPoint,
    /// The process that serves it.
    pub owner: ProcessId,
    /// What tells the mount from all others, in the store and in the table of mounts.
    pub id: u64,
    /// What it calls itself in the store since it was expelled last; 0 before.
    #[serde(default)]
    pub renamed: u64,
}

impl MountRecord {
    pub fn new(point: MountPoint, owner: ProcessId, id: u64) -> MountRecord {
        MountRecord { point, owner, id, renamed: 0 }
    }

    /// What it calls itself in the store.
    pub fn name(&self) -> MountId {
        MountId(if self.renamed == 0 { self.id } else { self.renamed })
    }
}

impl Record {
    pub fn new(kind: Kind, base_made: bool) -> Record {
        Record {
            kind,
            owner: ProcessId::current(),
            origin: Origin::here(),
            started_unix_seconds: unix_seconds(SystemTime::now()),
            base_made,
            nodes: Vec::new(),
            command: None,
            mark: String::new(),
        }
    }

    /// What can be said of the instance from here.
    pub fn whose(&self, paths: &Paths) -> Whose {
        self.origin.seen_from(&Origin::here(), is_private(&paths.directory))
    }

    /// Whether its processes can be looked for from here.
    pub fn shows_processes(&self) -> bool {
        self.origin.shows_processes_to(&Origin::here())
    }

    pub fn read(paths: &Paths) -> Result<Record, Failure> {
        read_json(&paths.record()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::NotRunning(paths.directory.clone()),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Failure::RecordDamaged(paths.record())
            }
            _ => Failure::StateUnusable { path: paths.record(), cause: error },
        })
    }
}

/// Seconds since 1970; 0 before it.
pub fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
}

/// Replaces the file at once, so that a reader never sees half of it; for this user's eyes only.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut options = fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    fs::rename(&fresh, path)
}
