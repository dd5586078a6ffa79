//! What a report is made of: plain data, as the manager or the simulator recorded it.
//!
//! All times are seconds since the run started, and the names are those of `report.json`.

use serde::{Deserialize, Serialize};

/// The run as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Word for word, as it was started.
    pub command: Vec<String>,
    /// As a shell would say it: 0 is success, 128 and more a signal.
    pub command_status: i32,
    /// Seconds since 1970-01-01 UTC at the start.
    pub started_unix_seconds: u64,
    pub wall_seconds: f64,
    /// System calls that a program saw fail because of the file system, on mounts of the run's own
    /// process; `tidefs mount` makes others.
    pub io_errors: u64,
    /// `embedded`, or a server's name and version.
    pub store: String,
    pub nodes_min: u32,
    pub nodes_max: u32,
    /// Memory of each node that data may fill, without the head-room; 0 where the store has no nodes.
    pub node_memory_bytes: u64,
    /// With the thresholds and steps that it goes by.
    pub policy: String,
}

/// What nodes that died took with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// In words, with what each held.
    pub lost_nodes: Vec<String>,
    /// Files that could not be read in full at the end, by path from the mount on.
    pub lost_files: Vec<String>,
    /// Directories of which names were lost.
    pub lost_names_in: Vec<String>,
    /// There are more than these.
    pub more_lost: bool,
}

/// Files that were deleted since no task of the workflow would read them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadFiles {
    pub deleted: u64,
    pub deleted_bytes: u64,
    /// The most memory that would have been in use with them.
    pub peak_used_bytes_undeleted: u64,
}

/// What one command asked mounts of the run's own process for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandUse {
    /// As the kernel calls the program: the first fifteen bytes of its name.
    pub command: String,
    pub calls: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// Which command asked for how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByCommand {
    /// Those that moved the most come first.
    pub uses: Vec<CommandUse>,
    /// The kernel moved bytes of files by itself: what it read is not known, and what it wrote counts by how much files grew.
    pub passes_through: bool,
}

/// What there was too much of to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub reconfigurations: u64,
    pub decisions: u64,
    /// Reconfigurations of which it is not kept how long requests waited meanwhile.
    pub stalls: u64,
}

/// What was observed at one instant. It holds until the next row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub t: f64,
    pub used_bytes: u64,
    pub allocated_bytes: u64,
    /// Nodes in service.
    pub nodes: u32,
    /// Each of those nodes; empty where nobody looked at them one by one.
    #[serde(default)]
    pub per_node: Vec<NodeUsage>,
}

/// What one node held at one instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeUsage {
    pub id: String,
    pub used_bytes: u64,
    pub capacity_bytes: u64,
}

/// What a reconfiguration was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Bring nodes into service.
    Commission,
    /// Take nodes out of service for good.
    Decommission,
    /// Only move partitions.
    Rebalance,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Commission => "commission",
            Kind::Decommission => "decommission",
            Kind::Rebalance => "rebalance",
        }
    }
}

/// A reconfiguration that came to an end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reconfiguration {
    pub kind: Kind,
    pub reason: String,
    pub started_at: f64,
    pub seconds: f64,
    pub nodes_before: u32,
    pub nodes_after: u32,
    pub partitions_moved: u64,
    pub bytes_moved: u64,
    /// What any plan must move to come from the old spread to the new one.
    pub bytes_minimum: u64,
    /// Requests that were under way meanwhile, on mounts of the run's own process; `None` where nobody
    /// counted.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Longest time of one request that was under way meanwhile; `None` where nobody measured, or none came.
    pub io_stall_max_ms: Option<f64>,
    /// 99th percentile of those times; `None` likewise.
    pub io_stall_p99_ms: Option<f64>,
    /// Afterwards, how far the node that is farthest from its share is off, in per cent of that
    /// share. `None` lets the report read it from the timeline, if that shows it.
    #[serde(default)]
    pub imbalance_percent: Option<f64>,
    /// Where the time went, in the order in which the phases began.
    #[serde(default)]
    pub phases: Vec<PhaseTime>,
    /// `completed`, or what became of it and why.
    pub outcome: String,
}

#[cfg(test)]
impl Reconfiguration {
    /// One of which only the time matters.
    pub(crate) fn at(started_at: f64, seconds: f64) -> Reconfiguration {
        Reconfiguration {
            kind: Kind::Rebalance,
            reason: String::new(),
            started_at,
            seconds,
            nodes_before: 2,
            nodes_after: 2,
            partitions_moved: 0,
            bytes_moved: 0,
            bytes_minimum: 0,
            requests: None,
            io_stall_max_ms: None,
            io_stall_p99_ms: None,
            imbalance_percent: None,
            phases: Vec::new(),
            outcome: "completed".to_owned(),
        }
    }
}

/// How long a phase of a reconfiguration took, all its turns together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    pub name: String,
    pub seconds: f64,
}

/// A decision of the policy, also one to do nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub t: f64,
    pub what: String,
    pub why: String,
}
