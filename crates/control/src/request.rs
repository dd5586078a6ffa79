//! Requests by hand: whether they can be granted, and what they come to.

use tidefs_model::{ByteSize, NodeClass, NodeId};

use crate::decision::{Cause, Verdict};
use crate::observation::{Node, Observation};
use crate::settings::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Have this many nodes.
    Scale(u16),
    /// Empty this node and remove it.
    Drain(NodeId),
}

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{asked} nodes are more than the maximum of {max}; start with a higher maximum")]
    AboveMaximum { asked: u16, max: u16 },
    #[error("{asked} nodes are fewer than the minimum of {min}; start with a lower minimum")]
    BelowMinimum { asked: u16, min: u16 },
    #[error("{node} is not one of the nodes; `tidefs status` lists them")]
    UnknownNode { node: NodeId },
    #[error("{node} is the last node; `tidefs down` ends the file system")]
    LastNode { node: NodeId },
    #[error("{node} is the last node of the class own, and metadata lies on those only")]
    LastOwnNode { node: NodeId },
    #[error(
        "the remaining {nodes} nodes can take {room}, and {used} are in use: {missing} are \
         missing; delete files, or keep more nodes"
    )]
    DoesNotFit { nodes: u16, room: ByteSize, used: ByteSize, missing: ByteSize },
    #[error("no node answers")]
    NobodyServes,
    #[error("{waiting} requests wait already; ask again when they are done")]
    TooManyRequests { waiting: usize },
}

/// What the request comes to; `None` when there is nothing to do.
pub fn grant(
    request: Request,
    observed: &Observation,
    settings: &Settings,
) -> Result<Option<Verdict>, Refused> {
    let nodes = observed.serving().count() as u16;
    if nodes == 0 {
        return Err(Refused::NobodyServes);
    }
    match request {
        Request::Scale(asked) => scale(asked, nodes, observed, settings),
        Request::Drain(node) => drain(node, nodes, observed, settings).map(Some),
    }
}

fn scale(
    asked: u16,
    nodes: u16,
    observed: &Observation,
    settings: &Settings,
) -> Result<Option<Verdict>, Refused> {
    let (min, max) = (settings.nodes_min, settings.nodes_max);
    if asked > max {
        return Err(Refused::AboveMaximum { asked, max });
    }
    if asked < min {
        return Err(Refused::BelowMinimum { asked, min });
    }
    if asked == nodes {
        return Ok(None);
    }
    if asked > nodes {
        return Ok(Some(Verdict::Grow { add: asked - nodes, cause: Cause::ByHand }));
    }
    let leaving = cheapest_to_leave(observed, nodes - asked);
    fits(&leaving, observed, settings)?;
    Ok(Some(Verdict::Shrink { leaving, cause: Cause::ByHand }))
}

fn drain(
    id: NodeId,
    nodes: u16,
    observed: &Observation,
    settings: &Settings,
) -> Result<Verdict, Refused> {
    let node = observed.node(id).ok_or(Refused::UnknownNode { node: id })?;
    if nodes == 1 {
        return Err(Refused::LastNode { node: id });
    }
    let others_own = |other: &&Node| other.class == NodeClass::Own && other.id != id;
    if node.class == NodeClass::Own && !observed.serving().any(|other| others_own(&other)) {
        return Err(Refused::LastOwnNode { node: id });
    }
    if nodes <= settings.nodes_min {
        return Err(Refused::BelowMinimum { asked: nodes - 1, min: settings.nodes_min });
    }
    let leaving = vec![id];
    fits(&leaving, observed, settings)?;
    Ok(Verdict::Shrink { leaving, cause: Cause::ByHand })
}

/// The nodes that hold least, since what they hold has to move; one own node stays at least.
pub(crate) fn cheapest_to_leave(observed: &Observation, count: u16) -> Vec<NodeId> {
    let mut nodes: Vec<_> = observed.serving().collect();
    nodes.sort_by_key(|node| (node.used_bytes, std::cmp::Reverse(node.id)));
    let own = nodes.iter().filter(|node| node.class == NodeClass::Own).count();
    let mut own_that_may_leave = own.saturating_sub(1);
    let mut leaving = Vec::new();
    for node in nodes {
        if leaving.len() == usize::from(count) {
            break;
        }
        if node.class == NodeClass::Own {
            if own_that_may_leave == 0 {
                continue;
            }
            own_that_may_leave -= 1;
        }
        leaving.push(node.id);
    }
    leaving
}

/// What is in use must fit into the others up to where nodes are filled.
fn fits(leaving: &[NodeId], observed: &Observation, settings: &Settings) -> Result<(), Refused> {
    let stays = observed.serving().filter(|node| !leaving.contains(&node.id));
    let (nodes, capacity) =
        stays.fold((0, 0), |(nodes, bytes), node| (nodes + 1, bytes + node.capacity_bytes));
    let room = capacity / 100 * u64::from(settings.spreading.fill_percent);
    let empty = crate::EMPTY_NODE_BYTES * leaving.len() as u64;
    let used = observed.used_bytes().saturating_sub(empty);
    if used <= room {
        return Ok(());
    }
    let missing = ByteSize(used - room);
    Err(Refused::DoesNotFit { nodes, room: ByteSize(room), used: ByteSize(used), missing })
}
