//! What was decided, on which numbers, and why; also why nothing is done.

use std::fmt;
use std::time::Duration;

use tidefs_model::{ByteSize, NodeId, Time};

use crate::observation::{Observation, percent};
use crate::settings::Settings;
use crate::shares_held::Deviation;
use crate::words::count_of_nodes;

/// A decision and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub at: Time,
    pub numbers: Numbers,
    pub verdict: Verdict,
}

/// What was known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub used_bytes: u64,
    pub capacity_bytes: u64,
    /// Of the own class.
    pub nodes: u16,
    pub nodes_min: u16,
    pub nodes_max: u16,
    pub fullest_percent: f64,
}

impl Numbers {
    pub fn new(observed: &Observation, settings: &Settings) -> Numbers {
        Numbers {
            used_bytes: observed.used_bytes(),
            capacity_bytes: observed.capacity_bytes(),
            nodes: observed.own().count() as u16,
            nodes_min: settings.nodes_min,
            nodes_max: settings.nodes_max,
            fullest_percent: observed.fullest().map_or(0.0, |node| node.used_percent()),
        }
    }

    pub fn used_percent(&self) -> f64 {
        percent(self.used_bytes, self.capacity_bytes)
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Hold(Hold),
    Grow {
        add: u16,
        cause: Cause,
    },
    /// A node that a lender offers comes in.
    TakeIn,
    Shrink {
        leaving: Vec<NodeId>,
        cause: Cause,
    },
    /// Nodes leave and others come in their place, in one go.
    Replace {
        add: u16,
        leaving: Vec<NodeId>,
        cause: Cause,
    },
    Rebalance {
        cause: Cause,
    },
    /// Others are to hold what nodes held that have ended, empty and marked as lost.
    Expunge {
        dead: Vec<NodeId>,
    },
}

/// Why something is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    ByHand,
    /// Hosts that joined have memory for more nodes.
    Offered,
    /// A writer met a node without room.
    NodeFull {
        node: Option<NodeId>,
    },
    AboveThreshold {
        used_percent: f64,
        threshold_percent: u8,
    },
    BelowMinimum {
        nodes: u16,
        min: u16,
    },
    BelowThreshold {
        used_percent: f64,
        threshold_percent: u8,
        quiet: Duration,
    },
    Uneven {
        fullest_percent: f64,
        mean_percent: f64,
    },
    /// Another part of the data lies on own nodes than is wanted.
    OwnShare(Deviation),
    /// Its lender lets a node hold less than it does.
    OverBudget {
        node: NodeId,
    },
    /// A lender wants its node back, and so do those of so many others.
    Lender {
        node: NodeId,
        others: u16,
    },
    /// A node serves and holds nothing.
    EmptyNode {
        node: NodeId,
    },
    /// So much is expected to be in use.
    Forecast {
        expected_bytes: u64,
        ahead: Duration,
    },
    /// In bytes a second: the shares rest on another bandwidth of this node, or on none.
    Bandwidth {
        node: NodeId,
        before: Option<u64>,
        now: u64,
    },
    /// A node has not answered for long, and held nothing.
    DeadAndEmpty {
        node: NodeId,
    },
}

/// Why nothing is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Hold {
    NotObserved,
    NobodyServes,
    /// Usage is between the thresholds that the policy has.
    Between {
        shrink_below: Option<u8>,
        grow_above: Option<u8>,
    },
    /// The least number of nodes is the most: what they hold is spread anew, and nothing else is done.
    Fixed {
        nodes: u16,
    },
    /// A writer met a full node, and the policy does not grow.
    NoScaleOut,
    AtMaximum {
        max: u16,
    },
    /// A node more might be one too many: this one is late to answer.
    Silent {
        node: NodeId,
        max: u16,
    },
    AtMinimum {
        min: u16,
    },
    /// As many nodes as the forecast wants, or none of them may leave yet.
    Forecast {
        wanted: u16,
        expected_bytes: u64,
        ahead: Duration,
    },
    /// Usage is low, but has not been for long enough without growing.
    Quiet {
        so_far: Duration,
        needed: Duration,
    },
    /// With any node less the others would be too full.
    WouldBeTooFull {
        percent_after: f64,
        ceiling_percent: u8,
    },
    /// The nodes were seen so long ago that nothing is decided on it.
    Blind {
        age: Duration,
        why: String,
    },
    /// The last try failed.
    BackOff {
        left: Duration,
        failures: u32,
        why: String,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Numbers { used_bytes, capacity_bytes, nodes, .. } = self.numbers;
        write!(f, "{}", self.verdict)?;
        write!(f, " ({} of {}", ByteSize(used_bytes), ByteSize(capacity_bytes))?;
        write!(f, " = {:.1} % in use", self.numbers.used_percent())?;
        write!(f, " on {nodes} of {}..{} nodes", self.numbers.nodes_min, self.numbers.nodes_max)?;
        write!(f, ", the fullest at {:.1} %)", self.numbers.fullest_percent)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Hold(hold) => write!(f, "hold: {hold}"),
            Verdict::TakeIn => f.write_str("take in a victim node: a lender offers it"),
            Verdict::Grow { add, cause } => write!(f, "grow by {add}: {cause}"),
            Verdict::Shrink { leaving, cause } => write!(f, "shrink by {}: {cause}", leaving.len()),
            Verdict::Replace { add, leaving, cause } => {
                write!(f, "grow by {add} and shrink by {}: {cause}", leaving.len())
            }
            Verdict::Rebalance { cause } => write!(f, "rebalance: {cause}"),
            Verdict::Expunge { dead } => {
                let nodes = count_of_nodes(dead.len() as u16);
                write!(f, "give up what was on {nodes} that ended: others take over, empty")
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::ByHand => f.write_str("asked by hand"),
            Cause::Offered => f.write_str("hosts that joined offer memory"),
            Cause::NodeFull { node: None } => f.write_str("a writer met a full node"),
            Cause::NodeFull { node: Some(node) } => write!(f, "a writer met {node} full"),
            Cause::AboveThreshold { used_percent, threshold_percent } => {
                write!(f, "{used_percent:.1} % in use is above {threshold_percent} %")
            }
            Cause::BelowMinimum { nodes, min } => {
                write!(f, "nodes that answer: {nodes}, of at least {min}")
            }
            Cause::BelowThreshold { used_percent, threshold_percent, quiet } => write!(
                f,
                "{used_percent:.1} % in use is below {threshold_percent} %, and has not grown for \
                 {} s",
                quiet.as_secs()
            ),
            Cause::Uneven { fullest_percent, mean_percent } => {
                write!(f, "one node is at {fullest_percent:.1} %, the mean is {mean_percent:.1} %")
            }
            Cause::OwnShare(Deviation { own_percent, wanted_percent }) => write!(
                f,
                "{own_percent:.1} % of the data is on own nodes, and {wanted_percent:.1} % is wanted"
            ),
            Cause::Forecast { expected_bytes, ahead } => write!(
                f,
                "{} are expected to be in use at most within {:.0} s",
                ByteSize(*expected_bytes),
                ahead.as_secs_f64()
            ),
            Cause::Bandwidth { before: None, .. } => {
                f.write_str("the bandwidths of the nodes have been measured")
            }
            Cause::Bandwidth { node, before: Some(before), now } => write!(
                f,
                "the bandwidth of {node} went from {} to {} a second",
                ByteSize(*before),
                ByteSize(*now)
            ),
            Cause::DeadAndEmpty { node } => {
                write!(f, "{node} has not answered for long, and holds nothing")
            }
            Cause::OverBudget { node } => {
                write!(f, "its lender lets {node} hold less than it does")
            }
            Cause::Lender { node, others: 0 } => write!(f, "its lender wants {node} back"),
            Cause::Lender { node, others } => {
                write!(f, "lenders want {node} and {others} more back")
            }
            Cause::EmptyNode { node } => write!(f, "{node} holds nothing"),
        }
    }
}

impl Hold {
    /// In a row, of what waits for its next try.
    pub(crate) fn failures(&self) -> u32 {
        match self {
            Hold::BackOff { failures, .. } => *failures,
            _ => 0,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::NotObserved => f.write_str("the nodes have not been observed yet"),
            Hold::NobodyServes => f.write_str(
                "no node answers; if none comes back, `tidefs down` ends the file system",
            ),
            Hold::Between { shrink_below: None, grow_above: None } => {
                f.write_str("the policy is static; `tidefs scale` changes the number of nodes")
            }
            Hold::Between { shrink_below: None, grow_above: Some(grow) } => {
                write!(f, "grows above {grow} %")
            }
            Hold::Between { shrink_below: Some(shrink), grow_above: None } => {
                write!(f, "shrinks below {shrink} %")
            }
            Hold::Between { shrink_below: Some(shrink), grow_above: Some(grow) } => {
                write!(f, "grows above {grow} %, shrinks below {shrink} %")
            }
            Hold::Fixed { nodes } => write!(
                f,
                "the number of nodes is fixed, {nodes}; what they hold is spread anew where one is full"
            ),
            Hold::NoScaleOut => f.write_str(
                "a writer met a full node, and the policy does not grow; `tidefs scale` does",
            ),
            Hold::AtMaximum { max } => {
                write!(f, "more room is needed, and {max} nodes are the maximum")
            }
            Hold::Silent { node, max } => write!(
                f,
                "more room is needed, and {node} may answer again, with which there are {max}, the \
                 maximum"
            ),
            Hold::AtMinimum { min } => {
                write!(f, "fewer nodes would do, and {min} are the minimum")
            }
            Hold::Forecast { wanted, expected_bytes, ahead } => write!(
                f,
                "{wanted} nodes are wanted: {} are expected to be in use at most within {:.0} s",
                ByteSize(*expected_bytes),
                ahead.as_secs_f64()
            ),
            Hold::Quiet { so_far, needed } => write!(
                f,
                "usage is low, but only for {} of {} s",
                so_far.as_secs(),
                needed.as_secs()
            ),
            Hold::WouldBeTooFull { percent_after, ceiling_percent } => write!(
                f,
                "with one node less {percent_after:.1} % would be in use, and at most \
                 {ceiling_percent} % may be"
            ),
            Hold::Blind { age, why } => write!(
                f,
                "the nodes were last observed {:.0} s ago, too long to decide on: {why}",
                age.as_secs_f64()
            ),
            Hold::BackOff { left, failures, why } => write!(
                f,
                "trying again in {:.1} s after {failures} failures: {why}",
                left.as_secs_f64()
            ),
        }
    }
}
