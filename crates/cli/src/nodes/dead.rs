//! Nodes that died, and what went with them.

use tidefs_model::NodeClass;
use tidefs_valkey::NodeDescription;

/// A node that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadNode {
    /// Counted from 1 in the order in which nodes came.
    pub number: usize,
    pub id: String,
    pub endpoint: String,
    /// It held names and records of files as well, and not only bytes.
    pub names: bool,
    /// What was on it alone; `None` until its partitions were given to others.
    pub lost: Option<Lost>,
}

/// What was on a node that died, and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    pub partitions: u16,
    /// What the node used when it was last looked at; `None` where nobody had.
    pub bytes: Option<u64>,
}

impl DeadNode {
    pub fn of(number: usize, node: &NodeDescription, lost: Option<Lost>) -> DeadNode {
        DeadNode {
            number,
            id: node.id.to_string(),
            endpoint: node.address.to_string(),
            // Metadata lies on own nodes alone.
            names: node.class == NodeClass::Own,
            lost,
        }
    }
}
