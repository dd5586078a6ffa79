//! The status of a file system as programs read it (`--json`) and as people do. The names of the
//! fields are a promise to programs.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidefs_model::{ByteSize, PARTITIONS};
use tidefs_store::{NodeOverview, Overview};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusView {
    pub epoch: u64,
    pub partitions: u16,
    /// `embedded`, or name and version of the servers.
    pub store: String,
    pub nodes: Vec<NodeView>,
    pub mounts: Vec<PathBuf>,
    /// What is under way; always null as long as nodes do not come and go.
    pub reconfiguration: Option<String>,
    /// What was decided last, and why; null likewise.
    pub last_decision: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    pub id: String,
    pub class: String,
    pub endpoint: String,
    /// `up` or `dead`.
    pub state: String,
    pub memory_used_bytes: u64,
    pub memory_capacity_bytes: u64,
    pub partitions: u16,
    /// Shards and stripes that the node holds.
    pub keys: u64,
    /// Null until it has been measured.
    pub bandwidth_bytes_per_second: Option<u64>,
}

impl StatusView {
    pub fn new(overview: &Overview, mounts: Vec<PathBuf>) -> StatusView {
        StatusView {
            epoch: overview.epoch.0,
            partitions: PARTITIONS,
            store: overview.store.clone(),
            nodes: overview.nodes.iter().map(NodeView::from).collect(),
            mounts,
            reconfiguration: None,
            last_decision: None,
        }
    }
}

impl From<&NodeOverview> for NodeView {
    fn from(node: &NodeOverview) -> NodeView {
        NodeView {
            id: node.id.clone(),
            class: node.class.to_string(),
            endpoint: node.endpoint.clone(),
            state: if node.available { "up" } else { "dead" }.to_owned(),
            memory_used_bytes: node.memory_used_bytes,
            memory_capacity_bytes: node.memory_capacity_bytes,
            partitions: node.partitions,
            keys: node.keys,
            bandwidth_bytes_per_second: None,
        }
    }
}

impl fmt::Display for StatusView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "store      {}, epoch {}", self.store, self.epoch)?;
        for mount in &self.mounts {
            writeln!(f, "mount      {}", mount.display())?;
        }
        let width = self.nodes.iter().map(|node| node.endpoint.len()).max().unwrap_or(0).max(8);
        writeln!(
            f,
            "\nnode  {:width$}  class   state       used of capacity         partitions",
            "endpoint"
        )?;
        for (at, node) in self.nodes.iter().enumerate() {
            let used = ByteSize(node.memory_used_bytes).to_string();
            let capacity = ByteSize(node.memory_capacity_bytes).to_string();
            writeln!(
                f,
                "{:<4}  {:width$}  {:<6}  {:<5}  {used:>9} of {capacity:<15}  {:>10}",
                at + 1,
                node.endpoint,
                node.class,
                node.state,
                node.partitions,
            )?;
        }
        Ok(())
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
        StatusView::new(&overview, vec![PathBuf::from("/home/me/tide")])
    }

    #[test]
    fn programs_find_the_promised_fields() {
        let json = serde_json::to_value(view()).unwrap();
        for field in
            ["epoch", "partitions", "store", "nodes", "mounts", "reconfiguration", "last_decision"]
        {
            assert!(json.get(field).is_some(), "{field} is missing");
        }
        let node = &json["nodes"][0];
        assert_eq!(node["class"], "own");
        assert_eq!(node["partitions"], 16_384);
        assert!(node["bandwidth_bytes_per_second"].is_null());
    }

    #[test]
    fn people_see_each_node_and_mount() {
        let text = view().to_string();
        for part in ["valkey 9.1.2", "127.0.0.1:7001", "3 MiB of 512 MiB", "/home/me/tide"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
