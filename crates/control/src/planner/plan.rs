//! A plan: which partitions move where, in which order, and what that costs.

use std::fmt;
use std::time::Duration;

use crate::rescaling::Unsound;
use crate::words::{count_of_nodes, count_of_partitions, count_of_steps};
use tidefs_model::{ByteSize, NodeId, Partition};

/// One partition goes from the node that holds it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    pub partition: Partition,
    pub from: NodeId,
    pub to: NodeId,
    /// Memory that it was found to take.
    pub bytes: u64,
}

/// Moves that may happen at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub moves: Vec<Move>,
}

impl Step {
    pub fn bytes(&self) -> u64 {
        self.moves.iter().map(|step| step.bytes).sum()
    }
}

/// What to move, step by step. A plan leaves whoever carries it out no choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Nodes that hold nothing afterwards.
    pub leaving: Vec<NodeId>,
    pub steps: Vec<Step>,
    /// What any plan must move that ends with every node at its share and with the leaving nodes
    /// empty: all that is on those, and what the others have above their shares. Partitions are not
    /// cut, so a plan may move a little less, and end a little less even.
    pub bytes_minimum: u64,
    /// Moves that an even spread wants and for which there is no room at any time. Those among them
    /// that take a partition off a leaving node are made all the same, to where there is room.
    pub left_out: u32,
    /// By how much the node that is farthest from its share of all bytes is off, of that share; of
    /// 2 % of its memory where the share is smaller.
    pub imbalance_percent_before: f64,
    /// The same when the plan has been carried out.
    pub imbalance_percent_after: f64,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Leaves out the last moves, so that what remains just brings this part of all bytes.
    pub(crate) fn cut_to(&mut self, percent: u8) {
        let most = (u128::from(self.bytes_moved()) * u128::from(percent) / 100) as u64;
        let mut bytes = 0;
        for step in &mut self.steps {
            step.moves.retain(|it| {
                let is_wanted = bytes <= most;
                bytes += it.bytes;
                is_wanted
            });
        }
        self.steps.retain(|step| !step.moves.is_empty());
    }

    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.steps.iter().flat_map(|step| &step.moves)
    }

    pub fn partitions_moved(&self) -> u32 {
        self.steps.iter().map(|step| step.moves.len() as u32).sum()
    }

    pub fn bytes_moved(&self) -> u64 {
        self.steps.iter().map(Step::bytes).sum()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} with {} in {} (any plan moves {}), imbalance from {:.1} % to {:.1} %",
            count_of_partitions(self.partitions_moved()),
            ByteSize(self.bytes_moved()),
            count_of_steps(self.steps.len()),
            ByteSize(self.bytes_minimum),
            self.imbalance_percent_before,
            self.imbalance_percent_after,
        )
    }
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{node} is not one of the nodes")]
    UnknownNode { node: NodeId },
    #[error("no node would be left to hold the data")]
    NoNodeLeft,
    #[error("no node of the class own would be left, and metadata lies on those only")]
    NoOwnNodeLeft,
    #[error("{node} does not answer, so its {partitions} partitions cannot be moved off it")]
    LeavingUnreachable { node: NodeId, partitions: u16 },
    #[error(
        "{data} do not fit into the {room} that the remaining {} can take; {missing} are missing",
        count_of_nodes(*nodes)
    )]
    DoesNotFit { data: ByteSize, room: ByteSize, missing: ByteSize, nodes: u16 },
    #[error(
        "partition {} with {bytes} fits on no remaining node; the most room is {room}",
        partition.number()
    )]
    NoRoomToMove { partition: Partition, bytes: ByteSize, room: ByteSize },
    #[error("there is no plan for this: {0}")]
    Unsound(#[from] Unsound),
    #[error(
        "the leaving nodes would be empty after {:.1} s and must be after {:.1} s; give more time, \
         or let fewer leave", needed.as_secs_f64(), deadline.as_secs_f64()
    )]
    TooLate { needed: Duration, deadline: Duration },
}
