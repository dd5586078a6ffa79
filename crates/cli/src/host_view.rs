//! The hosts of a file system as its status tells of them: those that are there, and those that were to be.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::wall_clock::Ahead;

/// A host that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentView {
    pub name: String,
    pub why: String,
}

impl From<(String, String)> for AbsentView {
    fn from((name, why): (String, String)) -> AbsentView {
        AbsentView { name, why }
    }
}

impl AbsentView {
    /// With a user or without.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name.rsplit_once('@').map_or(name, |(_, name)| name)
    }
}

impl fmt::Display for AbsentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not there: {}", self.name, self.why)
    }
}

/// A host that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    pub name: String,
    pub address: IpAddr,
    /// How many mounts it has.
    pub mounts: usize,
    /// By how much its wall clock is ahead of that of the host that has the file system, below zero: behind; null where
    /// they agree.
    #[serde(default)]
    pub clock_ahead_seconds: Option<i64>,
    /// It has the file system: its manager runs there, and it answers what others ask.
    #[serde(default)]
    pub has_file_system: bool,
}

impl HostView {
    /// Its wall clock, where that is far from the one of whoever has the file system.
    pub fn clock(&self) -> Option<Ahead> {
        self.clock_ahead_seconds.map(|seconds| Ahead { seconds })
    }
}

impl fmt::Display for HostView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostView { name, address, mounts, .. } = self;
        write!(f, "{name} at {address}, mounts: {mounts}")?;
        if self.has_file_system {
            f.write_str(", has the file system")?;
        }
        self.clock().map_or(Ok(()), |ahead| write!(f, ", its clock is {ahead}"))
    }
}
