//! A plan in words and in JSON: what moves, why, how long it takes, and how far it is from what no
//! plan could do better (Pufferscale, equations 8 to 11).

use serde::Serialize;
use tidefs_control::rescaling::{Bounds, Quality};
use tidefs_control::{AimedPlan, Aims, BANDWIDTH_UNKNOWN, OwnShare};
use tidefs_model::NodeId;

use super::Question;

/// `tidefs plan --json`.
#[derive(Debug, Serialize)]
pub struct Explained {
    pub strategy: String,
    pub nodes: Vec<NodeChange>,
    pub before: Figures,
    pub after: Figures,
    pub bounds: BoundFigures,
    pub partitions_moved: u32,
    pub bytes_moved: u64,
    pub steps: usize,
    /// Moves that an even spread wants and for which there is no room at any time.
    pub left_out: u32,
    pub seconds_to_leave: f64,
    /// What leaves goes to where it is soonest: an even spread would miss the deadline.
    pub hurried: bool,
    /// The part of the data that is planned for own nodes, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_share: Option<f64>,
    #[serde(skip)]
    pub own_share_wished: Option<f64>,
    pub moves: Vec<MoveView>,
}

/// What becomes of a node.
#[derive(Debug, Serialize)]
pub struct NodeChange {
    pub name: String,
    pub class: String,
    pub partitions_before: u32,
    pub partitions_after: u32,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub seconds: f64,
    pub why: String,
}

/// Each as a multiple of its lower bound.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub load_balance: f64,
    pub data_balance: f64,
    /// In seconds, at full bandwidth.
    pub duration_seconds: f64,
}

/// What no plan can do better than; loads and bytes are means over nodes, of which each one's share
/// is the bound.
#[derive(Debug, Serialize)]
pub struct BoundFigures {
    /// Equation 8.
    pub load: f64,
    /// Equation 9.
    pub bytes: u64,
    /// The same before nodes come or go: equation 10.
    pub bytes_before: u64,
    /// Between even spreads: equation 11.
    pub duration_seconds: f64,
    /// What the nodes that leave need to send what they hold.
    pub leaving_seconds: f64,
    /// From where the partitions lie to an even spread.
    pub from_here_seconds: f64,
    pub bytes_moved: u64,
}

#[derive(Debug, Serialize)]
pub struct MoveView {
    pub step: usize,
    pub partition: u16,
    pub from: String,
    pub to: String,
    pub bytes: u64,
}

impl From<&Quality> for Figures {
    fn from(quality: &Quality) -> Figures {
        let Quality { load_balance, data_balance, seconds, .. } = *quality;
        Figures { load_balance, data_balance, duration_seconds: seconds }
    }
}

pub fn explain(question: &Question, aims: &Aims, aimed: &AimedPlan) -> Explained {
    let steps = aimed.plan.steps.iter().enumerate();
    let moves = steps.flat_map(|(step, of)| of.moves.iter().map(move |moved| (step, moved)));
    let view = |(step, moved): (usize, &tidefs_control::Move)| MoveView {
        step,
        partition: moved.partition.number(),
        from: question.name(moved.from),
        to: question.name(moved.to),
        bytes: moved.bytes,
    };
    Explained {
        strategy: aims.weights.to_string(),
        nodes: changes(question, aims, aimed),
        before: (&aimed.before).into(),
        after: (&aimed.after).into(),
        bounds: bounds(question, &aimed.bounds),
        partitions_moved: aimed.plan.partitions_moved(),
        bytes_moved: aimed.plan.bytes_moved(),
        steps: aimed.plan.steps.len(),
        left_out: aimed.plan.left_out,
        seconds_to_leave: aimed.seconds_to_leave,
        hurried: aimed.hurried,
        own_share: aimed.own_share,
        own_share_wished: aims.own_share.map(OwnShare::part),
        moves: moves.map(view).collect(),
    }
}

fn bounds(question: &Question, bounds: &Bounds) -> BoundFigures {
    let Bounds { seconds, seconds_forced, seconds_from_here, bytes_moved } = *bounds;
    let inventory = &question.inventory;
    let nodes = inventory.nodes();
    let after = nodes.iter().filter(|node| !question.leaving.contains(&node.id)).count().max(1);
    let before = nodes.iter().filter(|node| node.partitions > 0).count().max(1);
    let bytes: u64 = inventory.bytes_by_node().iter().sum();
    let load: f64 = question.loads.iter().sum();
    // Without loads, the number of partitions is what is balanced.
    let load = if load > 0.0 { load } else { inventory.partitions().len() as f64 };
    BoundFigures {
        load: load / after as f64,
        bytes: bytes / after as u64,
        bytes_before: bytes / before as u64,
        duration_seconds: seconds,
        leaving_seconds: seconds_forced,
        from_here_seconds: seconds_from_here,
        bytes_moved,
    }
}

fn changes(question: &Question, aims: &Aims, aimed: &AimedPlan) -> Vec<NodeChange> {
    let inventory = &question.inventory;
    let change = |node: &tidefs_control::Node| {
        let here = |partition: &_| inventory.owner(*partition) == Some(node.id);
        let bytes = inventory.partitions().filter(here).map(|it| inventory.bytes(it)).sum();
        NodeChange {
            name: question.name(node.id),
            class: node.class.to_string(),
            partitions_before: node.partitions.into(),
            partitions_after: node.partitions.into(),
            bytes_before: bytes,
            bytes_after: bytes,
            sent_bytes: 0,
            received_bytes: 0,
            seconds: 0.0,
            why: String::new(),
        }
    };
    let mut changes: Vec<NodeChange> = inventory.nodes().iter().map(change).collect();
    let index = |id: NodeId| inventory.nodes().iter().position(|node| node.id == id);
    for moved in aimed.plan.moves() {
        let (from, to) = (index(moved.from), index(moved.to));
        let (from, to) = (from.expect("a node"), to.expect("a node"));
        changes[from].partitions_after -= 1;
        changes[from].bytes_after -= moved.bytes;
        changes[from].sent_bytes += moved.bytes;
        changes[to].partitions_after += 1;
        changes[to].bytes_after += moved.bytes;
        changes[to].received_bytes += moved.bytes;
    }
    for (node, change) in inventory.nodes().iter().zip(&mut changes) {
        let bandwidth = aims.bandwidths.get(&node.id).copied().unwrap_or(BANDWIDTH_UNKNOWN);
        change.seconds = change.sent_bytes.max(change.received_bytes) as f64 / bandwidth;
        change.why = why(change, question.leaving.contains(&node.id));
    }
    changes
}

fn why(change: &NodeChange, leaves: bool) -> String {
    let NodeChange { sent_bytes: sent, received_bytes: received, .. } = *change;
    let text = if leaves {
        "leaves, so everything goes"
    } else if change.partitions_before == 0 && received > 0 {
        "is new and takes its share"
    } else if sent == 0 && received == 0 {
        "has its share already"
    } else if sent == 0 {
        "has less than its share"
    } else if received == 0 {
        "has more than its share"
    } else {
        "exchanges partitions, so that load and bytes come out even together"
    };
    text.to_owned()
}
