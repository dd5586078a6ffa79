//! What the manager says of itself, for people and for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use tidefs_control::{Controller, DataShare, Decision, Kind, Node, NodeState, Observation, Phase};
use tidefs_model::{NodeClass, NodeId, Time};

/// The manager as it was a moment ago.
#[derive(Clone, Debug)]
pub struct Status {
    pub nodes: Vec<NodeStatus>,
    /// `None` when nothing is under way.
    pub reconfiguration: Option<Progress>,
    /// `None` when nothing that comes before everything else has failed.
    pub recovery: Option<RecoveryStatus>,
    /// What was decided last, on which numbers, and why.
    pub last_decision: Option<Decision>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeStatus {
    pub id: NodeId,
    pub class: NodeClass,
    pub state: NodeLife,
    pub used_bytes: u64,
    pub capacity_bytes: u64,
    pub partitions: u16,
    /// Of its link, as measured; `None` where it was not.
    pub bandwidth_bytes_per_second: Option<u64>,
    /// Received and sent between the last two observations; `None` when it was seen only once.
    pub traffic: Option<Rates>,
    /// Since its process began; `None` when it does not answer.
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The part of the data that it is planned to hold; `None` when it does not answer.
    pub share: Option<DataShare>,
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

/// Putting right what ended nodes or a predecessor left has failed; nothing else is done meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryStatus {
    /// In a row.
    pub failures: u32,
    pub last_failure: String,
    /// Until the next try; `None` while it is being tried.
    pub retry_in: Option<Duration>,
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
    /// So far, since the first move began; `None` while nothing has moved.
    pub bytes_per_second: Option<u64>,
    /// While partitions move: at the speed so far, and not faster than the limit allows. `None` while
    /// there is neither.
    pub left: Option<Duration>,
    /// What went wrong last; it is being tried again.
    pub last_failure: Option<String>,
    /// Until the next try; `None` while nothing waits for one.
    pub retry_in: Option<Duration>,
}

/// What the controller does not know: bytes of the step under way that have been copied, when the
/// first step began, and how busy nodes are.
#[derive(Debug, Default)]
pub(crate) struct Beside<'a> {
    pub copied: u64,
    pub moving_since: Option<Time>,
    /// The limit on what is moved, if there is one.
    pub bytes_per_second_most: Option<u64>,
    pub traffic: Option<&'a Traffic>,
}

pub(crate) fn status(controller: &Controller, now: Time, beside: &Beside<'_>) -> Status {
    let under_way = controller.reconfiguration();
    let record = under_way.map(|under_way| under_way.record());
    let life = |node: &tidefs_control::Node| match record {
        _ if node.state != NodeState::Serving => NodeLife::Unreachable,
        Some(record) if record.leaving.contains(&node.id) => NodeLife::Draining,
        Some(record) if !record.nodes_before.contains(&node.id) => NodeLife::Joining,
        _ => NodeLife::Serving,
    };
    let shares: BTreeMap<_, _> = controller.shares().into_iter().collect();
    let of_serving =
        |node: &tidefs_control::Node, bytes| (node.state == NodeState::Serving).then_some(bytes);
    let node = |node: &tidefs_control::Node| NodeStatus {
        id: node.id,
        class: node.class,
        state: life(node),
        used_bytes: node.used_bytes,
        capacity_bytes: node.capacity_bytes,
        partitions: node.partitions,
        bandwidth_bytes_per_second: controller.bandwidths().of(node.id),
        share: shares.get(&node.id).copied(),
        traffic: beside.traffic.and_then(|traffic| traffic.rates(node.id)),
        received_bytes: of_serving(node, node.received_bytes),
        sent_bytes: of_serving(node, node.sent_bytes),
    };
    let progress = under_way.map(|under_way| {
        let left = under_way.bytes_left();
        let done = under_way.moved().bytes;
        let bytes_moved = done + beside.copied.min(left);
        let bytes_planned = done + left;
        let since = beside.moving_since.map(|since| now - since);
        Progress {
            kind: under_way.kind(),
            phase: under_way.phase(),
            reason: under_way.record().reason.clone(),
            started_at: under_way.record().started_at,
            nodes_before: under_way.record().nodes_before.len() as u16,
            bytes_moved,
            bytes_planned,
            bytes_per_second: since.and_then(|since| rate(since, bytes_moved)),
            left: since.filter(|_| under_way.phase() == Phase::Moving).and_then(|since| {
                time_left(since, bytes_moved, bytes_planned, beside.bytes_per_second_most)
            }),
            last_failure: under_way.last_failure().map(ToString::to_string),
            retry_in: under_way.retry_at().map(|at| at - now),
        }
    });
    Status {
        nodes: controller.observed().nodes().iter().map(node).collect(),
        reconfiguration: progress,
        recovery: controller.recovery().map(|recovery| RecoveryStatus {
            failures: recovery.failures,
            last_failure: recovery.last_failure.to_string(),
            retry_in: recovery.retry_at.map(|at| at - now),
        }),
        last_decision: controller.last_decision().cloned(),
    }
}

/// How fast a node receives and sends, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    pub received: f64,
    pub sent: f64,
}

/// How fast nodes receive and send.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// When a node was seen last, its counts then, and the rates since the time before.
    seen: BTreeMap<NodeId, (Time, Node, Option<Rates>)>,
}

impl Traffic {
    pub fn observe(&mut self, now: Time, observed: &Observation) {
        let before = std::mem::take(&mut self.seen);
        for node in observed.serving() {
            let rates = before.get(&node.id).and_then(|(then, before, _)| {
                let seconds = (now - *then).as_secs_f64();
                let received = node.received_bytes.checked_sub(before.received_bytes)?;
                let sent = node.sent_bytes.checked_sub(before.sent_bytes)?;
                let rate = |bytes| bytes as f64 / seconds;
                (seconds > 0.0).then(|| Rates { received: rate(received), sent: rate(sent) })
            });
            self.seen.insert(node.id, (now, *node, rates));
        }
    }

    fn rates(&self, node: NodeId) -> Option<Rates> {
        self.seen.get(&node)?.2
    }
}

/// What is left at the speed so far, or at the limit where that is slower: a part that went at once
/// says nothing of the rest.
fn time_left(since: Duration, moved: u64, planned: u64, most: Option<u64>) -> Option<Duration> {
    let left = planned.saturating_sub(moved) as f64;
    let at_limit = most.map(|most| left / most.max(1) as f64);
    let so_far = (moved > 0).then(|| since.as_secs_f64() * left / moved as f64);
    let seconds = so_far.into_iter().chain(at_limit).reduce(f64::max)?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn rate(since: Duration, moved: u64) -> Option<u64> {
    let seconds = since.as_secs_f64();
    (moved > 0 && seconds > 0.0).then(|| (moved as f64 / seconds) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_the_difference_of_two_observations() {
        let node = |received_bytes| Node {
            id: NodeId([1; 20]),
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: 1,
            used_bytes: 1,
            partitions: 1,
            received_bytes,
            sent_bytes: received_bytes / 5,
        };
        let mut traffic = Traffic::default();
        let mut see = |seconds, bytes| {
            let at = Time::from_unix(seconds, 0);
            traffic.observe(at, &Observation::new(vec![node(bytes)]));
            traffic.rates(NodeId([1; 20]))
        };
        assert_eq!(see(10, 500), None);
        assert_eq!(see(12, 1_500), Some(Rates { received: 500.0, sent: 100.0 }));
        assert_eq!(see(13, 100), None, "a count that falls is another life's");
    }

    #[test]
    fn time_left_follows_from_the_speed_so_far() {
        let since = Duration::from_secs(10);
        assert_eq!(time_left(since, 0, 100, None), None);
        assert_eq!(time_left(since, 25, 100, None), Some(Duration::from_secs(30)));
        assert_eq!(time_left(since, 100, 100, None), Some(Duration::ZERO));
        assert_eq!(time_left(since, 120, 100, None), Some(Duration::ZERO));
        assert_eq!((rate(since, 0), rate(since, 25)), (None, Some(2)));
    }

    #[test]
    fn time_left_counts_the_limit() {
        let since = Duration::from_secs(1);
        assert_eq!(time_left(since, 0, 100, Some(2)), Some(Duration::from_secs(50)));
        // The first piece went at once; the others wait for their turn.
        assert_eq!(time_left(since, 50, 100, Some(2)), Some(Duration::from_secs(25)));
        assert_eq!(time_left(since, 1, 101, Some(1 << 20)), Some(Duration::from_secs(100)));
    }
}
