//! What the manager says of itself, for people and for programs.

use std::time::Duration;

use tidefs_control::{Controller, Decision, Kind, NodeState, Phase};
use tidefs_model::{NodeClass, NodeId, Time};

/// The manager as it was a moment ago.
#[derive(Clone, Debug)]
pub struct Status {
    pub nodes: Vec<NodeStatus>,
    /// `None` when nothing is under way.
    pub reconfiguration: Option<Progress>,
    /// What was decided last, on which numbers, and why.
    pub last_decision: Option<Decision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    pub id: NodeId,
    pub class: NodeClass,
    pub state: NodeLife,
    pub used_bytes: u64,
    pub capacity_bytes: u64,
    pub partitions: u16,
}

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLife {
    /// Came with the reconfiguration under way.
    Joining,
    Serving,
    /// Its partitions are moving to others, and it will be removed.
    Draining,
    /// Does not answer.
    Unreachable,
}

impl NodeLife {
    pub fn name(self) -> &'static str {
        match self {
            NodeLife::Joining => "joining",
            NodeLife::Serving => "serving",
            NodeLife::Draining => "draining",
            NodeLife::Unreachable => "unreachable",
        }
    }
}

/// A reconfiguration under way.
#[derive(Clone, Debug)]
pub struct Progress {
    pub kind: Kind,
    pub phase: Phase,
    pub reason: String,
    pub started_at: Time,
    pub nodes_before: u16,
    pub bytes_moved: u64,
    /// As planned now; more may follow while files are written.
    pub bytes_planned: u64,
    /// At the speed so far; `None` while nothing has moved.
    pub left: Option<Duration>,
    /// What went wrong last; it is being tried again.
    pub last_failure: Option<String>,
}

/// `copied` are bytes of the step under way; `moving_since` is when the first step began.
pub(crate) fn status(
    controller: &Controller,
    now: Time,
    copied: u64,
    moving_since: Option<Time>,
) -> Status {
    let under_way = controller.reconfiguration();
    let record = under_way.map(|under_way| under_way.record());
    let life = |node: &tidefs_control::Node| match record {
        _ if node.state == NodeState::Unreachable => NodeLife::Unreachable,
        Some(record) if record.leaving.contains(&node.id) => NodeLife::Draining,
        Some(record) if !record.nodes_before.contains(&node.id) => NodeLife::Joining,
        _ => NodeLife::Serving,
    };
    let node = |node: &tidefs_control::Node| NodeStatus {
        id: node.id,
        class: node.class,
        state: life(node),
        used_bytes: node.used_bytes,
        capacity_bytes: node.capacity_bytes,
        partitions: node.partitions,
    };
    let progress = under_way.map(|under_way| {
        let left = under_way.bytes_left();
        let done = under_way.moved().bytes;
        let bytes_moved = done + copied.min(left);
        let bytes_planned = done + left;
        let since = moving_since.map(|since| now - since);
        Progress {
            kind: under_way.kind(),
            phase: under_way.phase(),
            reason: under_way.record().reason.clone(),
            started_at: under_way.record().started_at,
            nodes_before: under_way.record().nodes_before.len() as u16,
            bytes_moved,
            bytes_planned,
            left: since.and_then(|since| time_left(since, bytes_moved, bytes_planned)),
            last_failure: under_way.last_failure().map(ToString::to_string),
        }
    });
    Status {
        nodes: controller.observed().nodes().iter().map(node).collect(),
        reconfiguration: progress,
        last_decision: controller.last_decision().cloned(),
    }
}

fn time_left(since: Duration, moved: u64, planned: u64) -> Option<Duration> {
    if moved == 0 {
        return None;
    }
    let seconds = since.as_secs_f64() * planned.saturating_sub(moved) as f64 / moved as f64;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_from_the_speed_so_far() {
        let since = Duration::from_secs(10);
        assert_eq!(time_left(since, 0, 100), None);
        assert_eq!(time_left(since, 25, 100), Some(Duration::from_secs(30)));
        assert_eq!(time_left(since, 100, 100), Some(Duration::ZERO));
        assert_eq!(time_left(since, 120, 100), Some(Duration::ZERO));
    }
}
