//! The status of a file system as programs read it (`--json`) and as people do. The names of the
//! fields are a promise to programs.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidefs_control::{DataShare, Decision, Reason};
use tidefs_manager::NodeStatus;
use tidefs_model::{ByteSize, PARTITIONS};
use tidefs_report::{ByCommand, CommandUse};
use tidefs_store::{NodeOverview, Overview};
use tidefs_valkey::ServerProgram;

use crate::file_system::Size;
use crate::host_view::{AbsentView, HostView};
use crate::joining_view::JoiningView;
use crate::metrics_view::MetricsView;
use crate::node_names::NodeNames;
use crate::nodes::{DeadNode, ManagerView};
use crate::progress_view::{ReconfigurationView, RecoveryView};
use crate::provided_view::{PauseView, ProvidedView};
use crate::state::NodeRecord;

/// The state of a node that answers.
const UP: &str = "up";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    pub epoch: u64,
    pub partitions: u16,
    /// `embedded`, or name and version of the servers.
    pub store: String,
    /// The program that nodes were started with; null of the embedded store.
    #[serde(default)]
    pub server: Option<ServerView>,
    pub nodes: Vec<NodeView>,
    pub mounts: Vec<PathBuf>,
    /// What is under way, or null.
    pub reconfiguration: Option<ReconfigurationView>,
    /// Putting right what nodes that died left has failed, and comes before everything else; or null.
    #[serde(default)]
    pub recovery: Option<RecoveryView>,
    /// What the manager decided last, and why; null of the embedded store, and before the first decision.
    pub last_decision: Option<DecisionView>,
    /// There is a manager, which may add and remove nodes within the limits.
    #[serde(default)]
    pub nodes_may_change: bool,
    /// Within which the number of nodes stays, and by what it is decided; null of the embedded store.
    #[serde(default)]
    pub limits: Option<LimitsView>,
    /// Nodes that died, and what was on them alone.
    #[serde(default)]
    pub lost_nodes: Vec<LostView>,
    /// Where metrics are served; null where they are not.
    #[serde(default)]
    pub metrics: Option<MetricsView>,
    /// Where others join; null where they may not.
    #[serde(default)]
    pub joining: Option<JoiningView>,
    /// The host that started the file system and has it, where others may join; null where one of `hosts` has it.
    #[serde(default)]
    pub own_host: Option<HostView>,
    /// Other hosts that have joined with `tidefs join`.
    #[serde(default)]
    pub hosts: Vec<HostView>,
    /// Hosts of the list that it was started with and that are not there.
    #[serde(default)]
    pub absent_hosts: Vec<AbsentView>,
    /// Hosts that a provision command was asked for.
    #[serde(default)]
    pub provided_hosts: Vec<ProvidedView>,
    /// Why no host is asked for now; null where that is not so.
    #[serde(default)]
    pub provision_pause: Option<PauseView>,
    /// Which commands asked the mounts of the process that has the file system for how much, those that moved the most first.
    #[serde(default)]
    pub commands: Vec<CommandUse>,
    /// The kernel moves bytes of files by itself: what it read is not among `commands`, and what it wrote by how much files grew.
    #[serde(default)]
    pub passes_through: bool,
    /// How the file system came to whoever has it, where that was not who started it, and what to do for that.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A server program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerView {
    pub path: PathBuf,
    /// Name, version and path.
    pub said: String,
    /// It is older than it should be, and nobody asked for it: what that costs.
    pub warning: Option<String>,
}

impl From<ServerProgram> for ServerView {
    fn from(server: ServerProgram) -> ServerView {
        let (said, warning) = (server.to_string(), server.warning());
        ServerView { path: server.path, said, warning }
    }
}

/// What the file system was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsView {
    pub nodes_min: u16,
    pub nodes_max: u16,
    /// As `--policy` takes it.
    pub policy: String,
}

impl LimitsView {
    pub fn of(size: &Size) -> Option<LimitsView> {
        let nodes = size.nodes?;
        let policy = size.elasticity.policy_name(nodes).to_owned();
        Some(LimitsView { nodes_min: nodes.min, nodes_max: nodes.max, policy })
    }

    pub fn follows_a_workflow(&self) -> bool {
        self.policy.split('+').any(|part| part.trim() == "forecast")
    }
}

/// A node that died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostView {
    /// Counted from 1 in the order in which nodes came.
    pub number: usize,
    pub endpoint: String,
    /// Of the node, as in `nodes`.
    #[serde(default)]
    pub id: String,
    /// Partitions that only it held.
    pub partitions: Option<u16>,
    /// Others hold those partitions now, empty.
    #[serde(default)]
    pub given_up: bool,
    /// It held names of files as well, which may be missing.
    #[serde(default)]
    pub names: bool,
    /// What it used when it was last looked at; null where that is not known.
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionView {
    pub what: String,
    /// With the numbers it was decided on.
    pub why: String,
    /// Seconds since 1970.
    pub when: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Counted from 1 in the order in which nodes came; 0 of one that this machine did not start.
    pub number: usize,
    pub id: String,
    pub class: String,
    pub endpoint: String,
    /// `up`, `unreachable` where it does not answer, `dead` where its process has ended; or `joining` or
    /// `draining` while nodes come or go.
    pub state: String,
    pub memory_used_bytes: u64,
    pub memory_capacity_bytes: u64,
    pub partitions: u16,
    /// Shards and stripes that the node holds.
    pub keys: u64,
    /// Of its link, as the manager measured it; null where there is no link to measure.
    pub bandwidth_bytes_per_second: Option<u64>,
    /// Between the last two looks of the manager; null until it has looked twice, and of the embedded
    /// store.
    #[serde(default)]
    pub received_bytes_per_second: Option<u64>,
    #[serde(default)]
    pub sent_bytes_per_second: Option<u64>,
    /// Since the node's process began; null as those are.
    #[serde(default)]
    pub received_bytes: Option<u64>,
    #[serde(default)]
    pub sent_bytes: Option<u64>,
    /// Of the data; null of the embedded store.
    #[serde(default)]
    pub share: Option<ShareView>,
}

/// The part of the data that a node is planned to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareView {
    pub percent: f64,
    /// What it follows from, with the numbers.
    pub reason: String,
}

impl ShareView {
    pub fn of(node: &NodeStatus, all: &[NodeStatus]) -> Option<ShareView> {
        let DataShare { part, reason, of_class } = node.share?;
        let counts =
            |it: &&NodeStatus| it.share.is_some() && (of_class.is_none() || it.class == node.class);
        let memory = || all.iter().filter(counts).map(|it| it.capacity_bytes).sum();
        let mut reason = match (reason, node.bandwidth_bytes_per_second) {
            (Reason::Memory, _) => {
                format!("memory: {} of {}", ByteSize(node.capacity_bytes), ByteSize(memory()))
            }
            (Reason::Bandwidth, Some(rate)) => format!("bandwidth: {} a second", ByteSize(rate)),
            (Reason::Bandwidth, None) => "bandwidth: as the mean, until it is measured".to_owned(),
            (Reason::MemoryBound, _) => {
                "memory: it would be too full if it followed its bandwidth".to_owned()
            }
        };
        let percent = |part: f64| (part * 1e4).round() / 100.0;
        if let Some(of_class) = of_class {
            reason += &format!(", of {} % on {} nodes", percent(of_class), node.class);
        }
        Some(ShareView { percent: percent(part), reason })
    }
}

impl StatusView {
    /// As another host shows it, which has these mounts: files are where the file system was started.
    pub fn on_another_host(mut self, mounts: Vec<PathBuf>) -> StatusView {
        let host = self.own_host.as_ref().map(|host| host.name.clone());
        self.joining.iter_mut().for_each(|it| it.host.clone_from(&host));
        self.metrics.iter_mut().for_each(|it| it.host.clone_from(&host));
        StatusView { mounts, ..self }
    }

    /// People know nodes by the numbers and addresses in `nodes`.
    pub fn new(
        overview: &Overview,
        mounts: Vec<PathBuf>,
        nodes: &[(usize, NodeRecord)],
        manager: Option<&ManagerView>,
    ) -> StatusView {
        // A client may know a node that has left for a moment longer.
        let is_ours = |node: &NodeOverview| nodes.iter().any(|(_, ours)| ours.id == node.id);
        let there = overview.nodes.iter().filter(|node| nodes.is_empty() || is_ours(node));
        let mut views: Vec<_> = there.map(NodeView::from).collect();
        for view in &mut views {
            if let Some((number, node)) = nodes.iter().find(|(_, node)| node.id == view.id) {
                view.number = *number;
                view.endpoint.clone_from(&node.endpoint);
                if node.victim {
                    view.class = tidefs_model::NodeClass::Victim.to_string();
                }
            }
            let seen = manager.and_then(|it| it.nodes.iter().find(|seen| seen.id == view.id));
            let Some(seen) = seen else { continue };
            view.bandwidth_bytes_per_second = seen.bandwidth_bytes_per_second;
            view.received_bytes_per_second = seen.received_bytes_per_second;
            view.sent_bytes_per_second = seen.sent_bytes_per_second;
            (view.received_bytes, view.sent_bytes) = (seen.received_bytes, seen.sent_bytes);
            view.share.clone_from(&seen.share);
            if let Some(passage) = seen.passage.as_ref().filter(|_| view.state == UP) {
                view.state.clone_from(passage);
            }
        }
        views.sort_by_key(|view| view.number);
        if nodes.is_empty() {
            (1..).zip(&mut views).for_each(|(number, view)| view.number = number);
        }
        StatusView {
            epoch: overview.epoch.0,
            partitions: PARTITIONS,
            store: overview.store.clone(),
            server: None,
            nodes: views,
            mounts,
            recovery: manager.and_then(|it| it.recovery.clone()),
            reconfiguration: manager.and_then(|it| it.reconfiguration.clone()),
            last_decision: manager.and_then(|it| it.last_decision.clone()),
            nodes_may_change: manager.is_some(),
            limits: None,
            lost_nodes: Vec::new(),
            metrics: None,
            joining: None,
            own_host: None,
            hosts: Vec::new(),
            absent_hosts: Vec::new(),
            provided_hosts: Vec::new(),
            provision_pause: None,
            commands: Vec::new(),
            passes_through: false,
            notes: Vec::new(),
        }
    }

    pub fn within(self, limits: Option<LimitsView>) -> StatusView {
        StatusView { limits, ..self }
    }

    pub fn with_commands(
        self,
        ByCommand { uses: commands, passes_through }: ByCommand,
    ) -> StatusView {
        StatusView { commands, passes_through, ..self }
    }

    /// With nodes called as they are in `nodes`.
    pub fn in_names(mut self, names: &NodeNames) -> StatusView {
        let told = |text: &mut String| *text = names.told(text);
        if let Some(under_way) = &mut self.reconfiguration {
            told(&mut under_way.reason);
            under_way.last_failure.as_mut().map(told);
        }
        if let Some(recovery) = &mut self.recovery {
            told(&mut recovery.last_failure);
        }
        if let Some(decision) = &mut self.last_decision {
            told(&mut decision.what);
            told(&mut decision.why);
        }
        self
    }

    pub fn with_lost(mut self, dead: &[DeadNode]) -> StatusView {
        let mut lost: Vec<_> = dead.iter().map(LostView::from).collect();
        for lost in lost.iter_mut().filter(|lost| !lost.given_up) {
            // As long as nobody else holds them they are still the dead node's.
            let held = self.nodes.iter().find(|node| node.id == lost.id);
            lost.partitions = held.map(|node| node.partitions);
        }
        for node in self.nodes.iter_mut().filter(|node| lost.iter().any(|lost| lost.id == node.id))
        {
            "dead".clone_into(&mut node.state);
        }
        self.lost_nodes = lost;
        self
    }
}

impl From<&Decision> for DecisionView {
    fn from(decision: &Decision) -> DecisionView {
        let text = decision.to_string();
        let (what, why) = text.split_once(": ").unwrap_or((&text, ""));
        DecisionView { what: what.to_owned(), why: why.to_owned(), when: decision.at.seconds() }
    }
}

impl From<&DeadNode> for LostView {
    fn from(dead: &DeadNode) -> LostView {
        LostView {
            number: dead.number,
            endpoint: dead.endpoint.clone(),
            id: dead.id.clone(),
            given_up: dead.lost.is_some(),
            names: dead.names,
            partitions: dead.lost.map(|lost| lost.partitions),
            bytes: dead.lost.and_then(|lost| lost.bytes),
        }
    }
}

impl LostView {
    /// While the file system is there, it can be asked what was lost.
    pub fn advice(&self) -> &'static str {
        if self.partitions == Some(0) { "" } else { "; `tidefs fsck` names them" }
    }
}

/// What people are told of a node that died.
impl fmt::Display for LostView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({}) died", self.number, self.endpoint)?;
        match (self.partitions, self.bytes) {
            (Some(0), _) => return f.write_str(" and held nothing"),
            (Some(partitions), Some(bytes)) => {
                write!(f, " with {partitions} partitions and about {}", ByteSize(bytes))?;
            }
            (Some(partitions), None) => write!(f, " with {partitions} partitions")?,
            (None, _) => {}
        }
        f.write_str(": files with stripes on it answer I/O errors")?;
        match self.names {
            true => f.write_str(", and files whose names were on it may be missing"),
            false => Ok(()),
        }
    }
}

impl From<&NodeOverview> for NodeView {
    fn from(node: &NodeOverview) -> NodeView {
        NodeView {
            number: 0,
            id: node.id.clone(),
            class: node.class.to_string(),
            endpoint: node.endpoint.clone(),
            state: if node.available { UP } else { "unreachable" }.to_owned(),
            memory_used_bytes: node.memory_used_bytes,
            memory_capacity_bytes: node.memory_capacity_bytes,
            partitions: node.partitions,
            keys: node.keys,
            bandwidth_bytes_per_second: None,
            received_bytes_per_second: None,
            sent_bytes_per_second: None,
            received_bytes: None,
            sent_bytes: None,
            share: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidefs_model::{Epoch, NodeClass};

    fn view() -> StatusView {
        let node = NodeOverview {
            id: "ab".repeat(20),
            class: NodeClass::Own,
            endpoint: "127.0.0.1:7001".to_owned(),
            available: true,
            memory_used_bytes: 3 << 20,
            memory_capacity_bytes: 512 << 20,
            partitions: PARTITIONS,
            keys: 7,
        };
        let overview =
            Overview { store: "valkey 9.1.2".to_owned(), epoch: Epoch(1), nodes: vec![node] };
        StatusView::new(&overview, vec![PathBuf::from("/home/me/tide")], &[], None)
    }

    #[test]
    fn programs_find_the_promised_fields() {
        let json = serde_json::to_value(view()).unwrap();
        for field in [
            "epoch",
            "partitions",
            "store",
            "nodes",
            "mounts",
            "reconfiguration",
            "recovery",
            "last_decision",
            "limits",
            "commands",
            "passes_through",
        ] {
            assert!(json.get(field).is_some(), "{field} is missing");
        }
        let node = &json["nodes"][0];
        assert_eq!((&node["class"], &node["number"]), (&"own".into(), &1.into()));
        assert_eq!(node["partitions"], 16_384);
        assert!(node["bandwidth_bytes_per_second"].is_null());
    }

    #[test]
    fn what_a_dead_node_held_is_said_before_others_take_it_over() {
        let dead = DeadNode {
            number: 1,
            id: "ab".repeat(20),
            endpoint: "127.0.0.1:7001".to_owned(),
            names: true,
            lost: None,
        };
        let of = |dead: DeadNode| view().with_lost(&[dead]).lost_nodes.remove(0);
        let lost = of(dead.clone());
        assert_eq!((lost.partitions, lost.given_up), (Some(PARTITIONS), false));
        let names = "files whose names were on it may be missing";
        assert!(lost.to_string().ends_with(names), "{lost}");
        assert!(lost.advice().contains("tidefs fsck"));
        let of_bytes_alone = of(DeadNode { names: false, ..dead.clone() });
        assert!(!of_bytes_alone.to_string().contains(names), "{of_bytes_alone}");
        let given_up = Some(crate::nodes::Lost { partitions: 7, bytes: None });
        let lost = of(DeadNode { lost: given_up, ..dead });
        assert_eq!((lost.partitions, lost.given_up), (Some(7), true));
    }

    #[test]
    fn only_a_node_whose_process_has_ended_is_called_dead() {
        let id = "ab".repeat(20);
        let silent = NodeOverview {
            id: id.clone(),
            class: NodeClass::Own,
            endpoint: "127.0.0.1:7001".to_owned(),
            available: false,
            memory_used_bytes: 0,
            memory_capacity_bytes: 512 << 20,
            partitions: PARTITIONS,
            keys: 0,
        };
        let store = "valkey 9.1.2".to_owned();
        let overview = Overview { store, epoch: Epoch(1), nodes: vec![silent] };
        let view = StatusView::new(&overview, Vec::new(), &[], None);
        assert_eq!(view.nodes[0].state, "unreachable");
        let endpoint = "127.0.0.1:7001".to_owned();
        let view = view.with_lost(&[DeadNode { number: 1, id, endpoint, names: true, lost: None }]);
        assert_eq!(view.nodes[0].state, "dead");
    }

    #[test]
    fn people_see_each_node_and_mount() {
        let text = view().to_string();
        for part in ["valkey 9.1.2", "127.0.0.1:7001", "3 MiB of 512 MiB", "/home/me/tide"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
