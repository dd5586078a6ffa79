//! What the process of the manager and the one that owns the nodes say to each other.
//!
//! The owner has node processes started and stopped, the manager decides about them. Each listens
//! on a socket of its own and asks the other one; so either may be answered while it waits.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_control::Verdict;
use tidefs_manager::{Claim, NodeLife, ReportedReconfiguration, Status};

use super::room::Hope;
use crate::age_clock::AgeClock;
use crate::change_view::ChangeView;
use crate::file_system::Size;
use crate::live_workflow::{Told, Version};
use crate::progress_view::{ReconfigurationView, RecoveryView};
use crate::state::NodeEntry;
use crate::steady_clock::SteadyClock;
use crate::view::{DecisionView, ShareView};

/// What a manager is started with, on its standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Of the instance.
    pub directory: std::path::PathBuf,
    /// Of the admin account of all nodes.
    pub secret: String,
    pub size: Size,
    pub clock: SteadyClock,
    pub age: AgeClock,
    /// Of the owner of the nodes.
    pub claim: Claim,
    /// What the start of the first nodes took.
    pub start: Duration,
}

/// Asked of the manager.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToManager {
    /// How it stands, with reconfigurations that ended in this life, less the first `known`.
    Look { known: usize },
    /// A writer met a full node; this one, by its id, where it is known.
    Full { node: Option<String> },
    /// Answered when it is done.
    Scale(u16),
    /// The same, as hosts that joined offer more nodes.
    TakeOffered(u16),
    /// A node by its id; answered when it is done.
    Drain(String),
    /// A lender offers a node; answered when one is in use.
    TakeIn,
    /// A lender wants its node back, by its id; answered when it is empty, or others have come that
    /// make room for what it holds.
    GiveBack(String),
    /// What of a workflow is still to come.
    Follow(Box<Told>),
}

/// What the manager answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromManager {
    Seen(Box<ManagerView>),
    /// Whether a writer may hope for room.
    Room {
        hope: Hope,
    },
    /// The nodes were changed.
    Changed(Box<ChangeView>),
    /// The workflow is followed.
    Followed,
    /// Why not, in words.
    Refused(String),
    /// The nodes could not be observed; in words.
    Unseen(String),
    /// There is no such node; in words.
    Gone(String),
}

/// The manager as the owner sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManagerView {
    pub nodes: Vec<NodeSeen>,
    pub reconfiguration: Option<ReconfigurationView>,
    #[serde(default)]
    pub recovery: Option<RecoveryView>,
    pub last_decision: Option<DecisionView>,
    /// The same for decisions of the same kind, whatever their numbers.
    pub decision_kind: String,
    /// What was decided last and why, in a word each.
    #[serde(default)]
    pub decision_names: Option<(String, String)>,
    pub finished: Vec<ReportedReconfiguration>,
    /// How many more there were in the manager's life than it remembers.
    #[serde(default)]
    pub finished_left_out: u64,
    /// What it has heard of a workflow.
    #[serde(default)]
    pub follows: Option<Version>,
}

/// A node as the manager sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSeen {
    pub id: String,
    /// `joining`, `draining`, or what it is without a manager.
    pub passage: Option<String>,
    pub bandwidth_bytes_per_second: Option<u64>,
    pub received_bytes_per_second: Option<u64>,
    pub sent_bytes_per_second: Option<u64>,
    #[serde(default)]
    pub received_bytes: Option<u64>,
    #[serde(default)]
    pub sent_bytes: Option<u64>,
    pub share: Option<ShareView>,
}

impl ManagerView {
    pub fn new(
        status: &Status,
        finished: Vec<ReportedReconfiguration>,
        finished_left_out: u64,
    ) -> ManagerView {
        let node = |node: &tidefs_manager::NodeStatus| NodeSeen {
            id: node.id.to_string(),
            passage: matches!(node.state, NodeLife::Joining | NodeLife::Draining)
                .then(|| node.state.name().to_owned()),
            bandwidth_bytes_per_second: node.bandwidth_bytes_per_second,
            received_bytes_per_second: node.traffic.map(|rates| rates.received as u64),
            sent_bytes_per_second: node.traffic.map(|rates| rates.sent as u64),
            received_bytes: node.received_bytes,
            sent_bytes: node.sent_bytes,
            share: ShareView::of(node, &status.nodes),
        };
        let names =
            |verdict: &Verdict| (verdict.name().to_owned(), verdict.cause_name().to_owned());
        let kind = |verdict: &Verdict| match verdict {
            Verdict::Hold(hold) => format!("{:?}", std::mem::discriminant(hold)),
            verdict => format!("{verdict:?}"),
        };
        ManagerView {
            nodes: status.nodes.iter().map(node).collect(),
            reconfiguration: status.reconfiguration.as_ref().map(ReconfigurationView::from),
            recovery: status.recovery.as_ref().map(RecoveryView::from),
            last_decision: status.last_decision.as_ref().map(DecisionView::from),
            decision_kind: status
                .last_decision
                .as_ref()
                .map(|it| kind(&it.verdict))
                .unwrap_or_default(),
            decision_names: status.last_decision.as_ref().map(|it| names(&it.verdict)),
            finished,
            finished_left_out,
            follows: None,
        }
    }
}

/// Asked of the owner of the nodes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToOwner {
    /// For how long may be decided, by a clock that goes on while the machine sleeps.
    MayDecide,
    /// Somebody else has the nodes, with a later claim; the manager ends.
    Outlived {
        by: Claim,
    },
    /// Answered when its process answers.
    Start {
        victim: bool,
        memory_bytes: u64,
    },
    Stop {
        id: String,
    },
    /// One that never became a node of the cluster.
    PutBack {
        id: String,
    },
    /// All nodes that were started and not stopped.
    Started,
    /// Those of them whose hosts go with them.
    Guests,
    /// How long the start of one more takes.
    StartTakes,
    /// Those of them whose processes have ended.
    Ended,
    /// A node that has ended was dealt with; this was lost with it.
    Bury {
        id: String,
        partitions: u16,
        bytes: Option<u64>,
    },
}

/// What the owner answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromOwner {
    Started(Box<NodeEntry>),
    Nodes(Vec<String>),
    StartTakes(Option<Duration>),
    /// Until then; for ever where there is none.
    MayDecide(Option<Duration>),
    Done,
    /// Why not, in words.
    Failed(String),
}
