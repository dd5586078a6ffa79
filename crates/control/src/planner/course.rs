//! Where a reconfiguration has gone so far, so that its later rounds do not go back.

use std::collections::BTreeSet;

use tidefs_model::NodeId;

/// Nodes that have gained, and nodes that have given, since it began. Files are written while data is
/// moved, so who has too much in the end is partly chance; what is moved there for its sake and then
/// back again was moved in vain twice. A node that has gained gives little but what it must, and one
/// that has given takes as little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    pub gained: BTreeSet<NodeId>,
    pub gave: BTreeSet<NodeId>,
    /// So much may go back all the same.
    pub back_bytes: u64,
}

impl Course {
    pub(super) fn goes_back(&self, from: NodeId, to: NodeId) -> bool {
        self.gained.contains(&from) || self.gave.contains(&to)
    }
}
