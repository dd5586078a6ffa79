//! What an instance writes down of itself: enough for other commands to reach it, and for the
//! next start to clean up after it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::instance::Paths;
use crate::failure::Failure;
use crate::mount_point::MountPoint;
use crate::process::ProcessId;

/// Who started the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Run,
    Up,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub kind: Kind,
    pub owner: ProcessId,
    /// Process numbers mean nothing after the machine has started again.
    pub boot_id: String,
    pub base_made: bool,
    /// Those that it started with; empty for the embedded store.
    pub nodes: Vec<NodeRecord>,
    /// What `run` runs.
    pub command: Option<ProcessId>,
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
    /// What the mount calls itself in the store; 0 where that is not known.
    #[serde(default)]
    pub id: u64,
}

impl Record {
    pub fn new(kind: Kind, base_made: bool) -> Record {
        Record {
            kind,
            owner: ProcessId::current(),
            boot_id: boot_id(),
            base_made,
            nodes: Vec::new(),
            command: None,
        }
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

/// Drawn by the kernel at each start of the machine.
pub fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
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
