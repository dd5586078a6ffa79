//! A plan in words and in JSON: what moves, why, how long it takes, and how far it is from what no
//! plan could do better (Pufferscale, equations 8 to 11).

use std::fmt;

use serde::Serialize;
use tidefs_control::rescaling::{Bounds, Quality};
use tidefs_control::{AimedPlan, Aims, BANDWIDTH_UNKNOWN};
use tidefs_model::{ByteSize, NodeId};

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

#[derive(Debug, Serialize)]
pub struct BoundFigures {
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
    let Bounds { seconds, seconds_forced, seconds_from_here, bytes_moved } = aimed.bounds;
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
        bounds: BoundFigures {
            duration_seconds: seconds,
            leaving_seconds: seconds_forced,
            from_here_seconds: seconds_from_here,
            bytes_moved,
        },
        partitions_moved: aimed.plan.partitions_moved(),
        bytes_moved: aimed.plan.bytes_moved(),
        steps: aimed.plan.steps.len(),
        left_out: aimed.plan.left_out,
        seconds_to_leave: aimed.seconds_to_leave,
        moves: moves.map(view).collect(),
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

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide =
            self.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(4).max(4);
        writeln!(
            f,
            "{:<wide$}  {:<6}  {:>15}  {:>23}  {:>10}  {:>10}  {:>8}  why",
            "node", "class", "partitions", "bytes", "sends", "receives", "seconds"
        )?;
        for node in &self.nodes {
            let partitions = format!("{} > {}", node.partitions_before, node.partitions_after);
            let bytes = format!("{} > {}", ByteSize(node.bytes_before), ByteSize(node.bytes_after));
            writeln!(
                f,
                "{:<wide$}  {:<6}  {partitions:>15}  {bytes:>23}  {:>10}  {:>10}  {:>8.2}  {}",
                node.name,
                node.class,
                ByteSize(node.sent_bytes).to_string(),
                ByteSize(node.received_bytes).to_string(),
                node.seconds,
                node.why,
            )?;
        }
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let Explained { before, after, bounds, .. } = self;
        writeln!(f)?;
        for (name, before, after) in [
            ("load", before.load_balance, after.load_balance),
            ("bytes", before.data_balance, after.data_balance),
        ] {
            let (before, after) = (percent(before), percent(after));
            writeln!(f, "{name:<9} fullest node {before:.2} % above its share, then {after:.2} %")?;
        }
        writeln!(
            f,
            "time      {:.2} s at full bandwidth; between even spreads at least {:.2} s, from \
             here at least {:.2} s, to empty what leaves at least {:.2} s",
            after.duration_seconds,
            bounds.duration_seconds,
            bounds.from_here_seconds,
            bounds.leaving_seconds
        )?;
        write!(
            f,
            "moves     {} partitions with {} in {} steps; any plan that ends even moves {}",
            self.partitions_moved,
            ByteSize(self.bytes_moved),
            self.steps,
            ByteSize(bounds.bytes_moved)
        )?;
        if self.left_out > 0 {
            write!(
                f,
                "\nleft out  {} moves, for which there is no room at any time",
                self.left_out
            )?;
        }
        Ok(())
    }
}
