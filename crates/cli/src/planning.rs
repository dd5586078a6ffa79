//! The planner alone, for `tidefs plan`: what it is asked, and what it answers in words.

pub mod explain;
pub mod inventory;
pub mod made_up;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use tidefs_control::Inventory;
use tidefs_model::NodeId;

/// Everything that a plan is made for.
#[derive(Debug)]
pub struct Question {
    pub inventory: Inventory,
    pub leaving: BTreeSet<NodeId>,
    /// What people call the nodes.
    pub names: BTreeMap<NodeId, String>,
    /// By partition; see [`tidefs_control::Aims`].
    pub loads: Vec<f64>,
    /// Bytes a second, where they are known.
    pub bandwidths: BTreeMap<NodeId, f64>,
}

impl Question {
    pub fn name(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| node.to_string())
    }
}

/// The id of the nth node in the order of names; a plan does not depend on the order in a file.
fn id(number: usize) -> NodeId {
    let mut id = [0; 20];
    id[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    NodeId(id)
}
