//! Nodes as hosts of a problem of rescaling, and what part of the data those of each class can take.

use tidefs_model::NodeClass;

use super::Problem;
use super::aims::{Aims, BANDWIDTH_UNKNOWN};
use crate::capacity::Capacity;
use crate::own_share::ByClass;
use crate::rescaling::Host;

/// Hashing meets a share within some hundredths of it, and partitions are not cut.
const ROOM_PLANNED_WITH: f64 = 0.97;

/// The wished share, or the nearest to it that memory allows; none where no victim stays.
pub(super) fn own_share(problem: &Problem<'_>, aims: &Aims) -> Option<f64> {
    let nodes = problem.inventory.nodes();
    let room = problem.room();
    let of = |class: NodeClass| -> u64 {
        let there = (0..nodes.len()).filter(|&at| problem.stays[at] && nodes[at].class == class);
        there
            .map(|at| {
                (room[at].limit_bytes + problem.content[at]).saturating_sub(nodes[at].used_bytes)
            })
            .sum()
    };
    let victims =
        (0..nodes.len()).any(|at| problem.stays[at] && nodes[at].class == NodeClass::Victim);
    let wished = aims.own_share.filter(|_| victims)?;
    let [metadata, data] = bytes(problem);
    let planned_with = |bytes: u64| (bytes as f64 * ROOM_PLANNED_WITH) as u64;
    let room = ByClass {
        own: planned_with(of(NodeClass::Own)).saturating_sub(metadata),
        victim: planned_with(of(NodeClass::Victim)),
    };
    Some(wished.allowed(data, room))
}

/// Bytes of metadata and of data.
fn bytes(problem: &Problem<'_>) -> [u64; 2] {
    [true, false].map(|metadata| problem.items(metadata).iter().map(|item| item.bytes).sum())
}

/// What a class holds beside the other follows from what is bound to it.
pub(super) fn hosts(problem: &Problem<'_>, aims: &Aims) -> Vec<Host> {
    let nodes = problem.inventory.nodes();
    let bandwidth = |at: usize| {
        let known = aims.bandwidths.get(&nodes[at].id).copied();
        known.filter(|it| it.is_finite() && *it > 0.0).unwrap_or(BANDWIDTH_UNKNOWN)
    };
    let weight = |at: usize| match aims.capacity {
        Capacity::Memory => problem.memory[at].max(1) as f64,
        Capacity::Bandwidth => bandwidth(at),
    };
    let room = problem.room();
    let host = |(at, node): (usize, &crate::observation::Node)| Host {
        class: node.class.into(),
        stays: problem.stays[at],
        newcomer: node.partitions == 0,
        weight: weight(at),
        bandwidth: bandwidth(at),
        limit_bytes: (room[at].limit_bytes + problem.content[at]).saturating_sub(node.used_bytes),
    };
    nodes.iter().enumerate().map(host).collect()
}
