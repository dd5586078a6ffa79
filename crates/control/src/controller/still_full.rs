//! Writers that waited for room when a reconfiguration ended. They tell their need again after a pause of
//! up to half a second; what they told last is good for as long, where their node is as full as it was. It
//! does not decide what follows.

use std::time::Duration;

use tidefs_model::{NodeId, Time};

use crate::observation::{Node, Observation};

/// Whoever waits for room has said so again within this time, also on a loaded machine.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// A node with less room is as good as full: two stripes of a file.
const ROOM_BYTES: u64 = 2 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StillFull {
    /// During the reconfiguration under way: a writer met this node full, where it is known.
    told: Option<(Time, Option<NodeId>)>,
    /// It has ended, and the nodes were not seen since.
    waits: Option<Option<NodeId>>,
}

impl StillFull {
    pub fn told(&mut self, now: Time, node: Option<NodeId>) {
        self.told = Some((now, node));
    }

    pub fn ended(&mut self, now: Time) {
        let told = self.told.take().filter(|(at, _)| now - *at <= TOLD_WITHIN);
        self.waits = told.map(|(_, node)| node);
    }

    /// Nobody has looked yet whether the node is still full.
    pub fn is_to_be_seen(&self) -> bool {
        self.waits.is_some()
    }

    /// What a writer would say now: asked once, with nodes that were observed after the end.
    pub fn take(&mut self, observed: &Observation) -> Option<Option<NodeId>> {
        let is_full = |node: &Node| {
            node.capacity_bytes.saturating_sub(node.used_bytes) < ROOM_BYTES && node.is_serving()
        };
        self.waits.take().filter(|waits| match waits {
            Some(id) => observed.node(*id).is_some_and(is_full),
            None => observed.nodes().iter().any(is_full),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::NodeState;
    use tidefs_model::NodeClass;

    const CAPACITY_BYTES: u64 = 100 << 20;

    fn id(byte: u8) -> NodeId {
        NodeId([byte; 20])
    }

    fn at(milliseconds: u64) -> Time {
        Time::from_unix(1_000, 0) + Duration::from_millis(milliseconds)
    }

    /// Two nodes, the second of which has this much room.
    fn seen(room_bytes: u64) -> Observation {
        let node = |byte, used_bytes| Node {
            id: id(byte),
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: CAPACITY_BYTES,
            used_bytes,
            partitions: 1,
            received_bytes: 0,
            sent_bytes: 0,
        };
        Observation::new(vec![node(1, 0), node(2, CAPACITY_BYTES - room_bytes)])
    }

    /// What is left of an alarm after an end, where the node has this much room then.
    fn left(node: Option<NodeId>, ended: u64, room_bytes: u64) -> Option<Option<NodeId>> {
        let mut still_full = StillFull::default();
        still_full.told(at(0), node);
        still_full.ended(at(ended));
        let left = still_full.take(&seen(room_bytes));
        assert!(!still_full.is_to_be_seen() && still_full.take(&seen(0)).is_none(), "asked once");
        left
    }

    #[test]
    fn who_waited_a_moment_ago_is_heard_where_the_node_is_still_full() {
        let full = ROOM_BYTES - 1;
        assert_eq!(left(Some(id(2)), 1_000, full), Some(Some(id(2))));
        assert_eq!(left(None, 1_000, full), Some(None));
        assert_eq!(left(Some(id(2)), 1_001, full), None, "it may have gone");
        assert_eq!(left(Some(id(2)), 0, ROOM_BYTES), None, "it got room");
        assert_eq!((left(None, 0, ROOM_BYTES), left(Some(id(3)), 0, full)), (None, None));
    }

    #[test]
    fn what_was_told_of_one_reconfiguration_is_not_told_of_the_next() {
        let mut still_full = StillFull::default();
        still_full.told(at(0), None);
        still_full.ended(at(1));
        assert!(still_full.is_to_be_seen());
        still_full.ended(at(2));
        assert!(!still_full.is_to_be_seen());
    }
}
