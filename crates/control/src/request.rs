//! Requests by hand: whether they can be granted, and what they come to.

use tidefs_model::{ByteSize, NodeClass, NodeId};

use crate::decision::{Cause, Verdict};
use crate::observation::{Node, NodeState, Observation};
use crate::settings::Settings;
use crate::words::count_of_nodes;

/// More victim nodes than this are not taken in.
const VICTIMS_MOST: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Have this many nodes.
    Scale(u16),
    /// Empty this node and remove it.
    Drain(NodeId),
    /// Have this many nodes, as hosts that joined offer more; where there are as many already there is nothing to do.
    TakeOffered(u16),
    /// Take in a victim node that a lender offers.
    TakeIn,
    /// A lender wants its node back: as a drain, and others come in its place where there is no room.
    GiveBack(NodeId),
}

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{} would be more than the maximum of {max}; start with a higher maximum", count_of_nodes(*asked))]
    AboveMaximum { asked: u16, max: u16 },
    #[error("{} would be fewer than the minimum of {min}; start with a lower minimum", count_of_nodes(*asked))]
    BelowMinimum { asked: u16, min: u16 },
    #[error("{node} is not one of the nodes; `tidefs status` lists them")]
    UnknownNode { node: NodeId },
    #[error(
        "{node} does not answer, so what it holds cannot be moved; ask again when it does, or end its \
         process, and the others take its place"
    )]
    DoesNotAnswer { node: NodeId },
    #[error(
        "{node} does not answer; when it does again there would be more than the maximum of {max} \
         nodes: ask again when it does, or end its process"
    )]
    IsLate { node: NodeId, max: u16 },
    #[error(
        "{node} does not answer; when it does again there are {}, not {asked}: ask again when it does, \
         or end its process", count_of_nodes(*nodes)
    )]
    MayComeBack { node: NodeId, asked: u16, nodes: u16 },
    #[error(
        "{node} has ended, and the others are taking its place; `tidefs status` shows how far it is"
    )]
    HasEnded { node: NodeId },
    #[error("{node} is the last node; `tidefs down` ends the file system")]
    LastNode { node: NodeId },
    #[error("{node} is the last node of the class own, and metadata lies on those only")]
    LastOwnNode { node: NodeId },
    #[error(
        "the remaining {} can take {room}, and {used} are in use: {missing} are missing; delete \
         files, or keep more nodes", count_of_nodes(*nodes)
    )]
    DoesNotFit { nodes: u16, room: ByteSize, used: ByteSize, missing: ByteSize },
    #[error("{node} was not lent, so nobody can want it back; `tidefs drain` empties it")]
    NotLent { node: NodeId },
    #[error("{victims} victim nodes are there already, as many as there can be")]
    TooManyVictims { victims: usize },
    #[error(
        "no node answers; ask again when one does, or end the file system, and all that it held, with \
         `tidefs down`"
    )]
    NobodyServes,
    #[error(
        "the nodes cannot be observed, and nothing is decided on how they were: {why}; ask again \
         when `tidefs status` shows them"
    )]
    NotObserved { why: String },
    #[error("{waiting} requests wait already; ask again when they are done")]
    TooManyRequests { waiting: usize },
}

/// What the request comes to; `None` when there is nothing to do.
pub fn grant(
    request: Request,
    observed: &Observation,
    settings: &Settings,
) -> Result<Option<Verdict>, Refused> {
    let nodes = observed.own().count() as u16;
    if nodes == 0 {
        return Err(Refused::NobodyServes);
    }
    match request {
        Request::Scale(asked) => scale(asked, Cause::ByHand, nodes, observed, settings),
        Request::TakeOffered(asked) if asked <= nodes => Ok(None),
        Request::TakeOffered(asked) => scale(asked, Cause::Offered, nodes, observed, settings),
        Request::Drain(node) => drain(node, nodes, observed, settings).map(Some),
        Request::TakeIn => take_in(observed).map(Some),
        Request::GiveBack(node) => give_back(&[node], observed, settings).map(Some),
    }
}

/// `cause`: of growing.
fn scale(
    asked: u16,
    cause: Cause,
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
    // One that is late to answer may come back.
    let silent = |node: &&Node| node.class == NodeClass::Own && !node.is_serving();
    let silent: Vec<_> = observed.nodes().iter().filter(silent).collect();
    if let Some(node) = silent.first() {
        let (node, late) = (node.id, silent.len() as u16);
        if asked <= nodes {
            return Err(Refused::MayComeBack { node, asked, nodes: asked + late });
        }
        if asked + late > max {
            return Err(Refused::IsLate { node, max });
        }
    }
    if asked == nodes {
        return Ok(None);
    }
    if asked > nodes {
        return Ok(Some(Verdict::Grow { add: asked - nodes, cause }));
    }
    let leaving = cheapest_to_leave(observed, nodes - asked);
    fits(&leaving, 0, observed, settings)?;
    Ok(Some(Verdict::Shrink { leaving, cause: Cause::ByHand }))
}

fn drain(
    id: NodeId,
    nodes: u16,
    observed: &Observation,
    settings: &Settings,
) -> Result<Verdict, Refused> {
    let node = serving(id, observed)?;
    if node.class == NodeClass::Own {
        if observed.serving().count() == 1 {
            return Err(Refused::LastNode { node: id });
        }
        if !observed.own().any(|other| other.id != id) {
            return Err(Refused::LastOwnNode { node: id });
        }
        if nodes <= settings.nodes_min {
            return Err(Refused::BelowMinimum { asked: nodes - 1, min: settings.nodes_min });
        }
    }
    let leaving = vec![id];
    fits(&leaving, 0, observed, settings)?;
    Ok(Verdict::Shrink { leaving, cause: Cause::ByHand })
}

/// A node whose content can be moved.
fn serving(id: NodeId, observed: &Observation) -> Result<&Node, Refused> {
    let node = observed.node(id).ok_or(Refused::UnknownNode { node: id })?;
    match node.state {
        NodeState::Serving => Ok(node),
        NodeState::Unreachable => Err(Refused::DoesNotAnswer { node: id }),
        NodeState::Ended => Err(Refused::HasEnded { node: id }),
    }
}

/// Each node has some of the partitions of data; beyond this many they would be few.
fn take_in(observed: &Observation) -> Result<Verdict, Refused> {
    let victims = observed.nodes().iter().filter(|node| node.class == NodeClass::Victim).count();
    if victims >= VICTIMS_MOST {
        return Err(Refused::TooManyVictims { victims });
    }
    Ok(Verdict::TakeIn)
}

/// Where there is no room, nodes come in the place of those that leave, if the policy lets them and
/// there may be enough of them.
///
/// # Panics
/// Without a node.
pub(crate) fn give_back(
    leaving: &[NodeId],
    observed: &Observation,
    settings: &Settings,
) -> Result<Verdict, Refused> {
    for &id in leaving {
        if serving(id, observed)?.class == NodeClass::Own {
            return Err(Refused::NotLent { node: id });
        }
    }
    if observed.own().next().is_none() {
        return Err(Refused::NobodyServes);
    }
    // One that is late to answer may come back.
    let is_own = |node: &&Node| node.class == NodeClass::Own;
    let nodes = observed.nodes().iter().filter(is_own).count() as u16;
    let cause = Cause::Lender { node: leaving[0], others: leaving.len() as u16 - 1 };
    let leaving = leaving.to_vec();
    match fits(&leaving, 0, observed, settings) {
        Ok(()) => Ok(Verdict::Shrink { leaving, cause }),
        Err(refused @ Refused::DoesNotFit { missing, .. }) => {
            let Some(_) = settings.policy.scale_out.filter(|_| nodes < settings.nodes_max) else {
                return Err(refused);
            };
            let wanted = missing.0.div_ceil(settings.node_capacity().0 / 2).max(1);
            let add = wanted.min(u64::from(settings.nodes_max - nodes)) as u16;
            fits(&leaving, add, observed, settings).map_err(|_| refused)?;
            Ok(Verdict::Replace { add, leaving, cause })
        }
        Err(refused) => Err(refused),
    }
}

/// The own nodes that hold least, since what they hold has to move, and those before all others whose hosts go with
/// them; one stays at least. Victim nodes go when their lenders want them to.
pub(crate) fn cheapest_to_leave(observed: &Observation, count: u16) -> Vec<NodeId> {
    let mut nodes: Vec<_> = observed.own().collect();
    let stays = |node: &Node| !observed.is_guest(node.id);
    nodes.sort_by_key(|node| (stays(node), node.used_bytes, std::cmp::Reverse(node.id)));
    let most = nodes.len().saturating_sub(1).min(count.into());
    nodes.into_iter().take(most).map(|node| node.id).collect()
}

/// What is in use must fit into the others, with so many that come, up to where nodes are filled.
fn fits(
    leaving: &[NodeId],
    added: u16,
    observed: &Observation,
    settings: &Settings,
) -> Result<(), Refused> {
    let stays = observed.serving().filter(|node| !leaving.contains(&node.id));
    let (nodes, capacity) =
        stays.fold((0, 0), |(nodes, bytes), node| (nodes + 1, bytes + node.capacity_bytes));
    let (nodes, capacity) =
        (nodes + added, capacity + settings.node_capacity().0 * u64::from(added));
    let room = capacity / 100 * u64::from(settings.spreading.fill_percent);
    let empty = |nodes: usize| crate::EMPTY_NODE_BYTES * nodes as u64;
    let used = (observed.used_bytes() + empty(added.into())).saturating_sub(empty(leaving.len()));
    if used <= room {
        return Ok(());
    }
    let missing = ByteSize(used - room);
    Err(Refused::DoesNotFit { nodes, room: ByteSize(room), used: ByteSize(used), missing })
}
