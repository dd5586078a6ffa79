//! The nodes of a running cluster, and those that leave it.

use std::sync::PoisonError;
use std::thread::sleep;
use std::time::Duration;

use tidefs_model::NodeId;

use super::{Admin, AdminError, Managed};
use crate::cluster::NodeDescription;
use crate::fault::Fault;
use crate::view::ViewNode;

/// Replies of a node that leaves reach everybody in this time, before its process is ended.
const LAST_REPLIES_WITHIN: Duration = Duration::from_millis(100);

impl Admin {
    /// Has a node among those that are managed, or not.
    pub(super) fn manage(&self, id: NodeId, managed: Option<Managed>) -> Option<Managed> {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let before = nodes.iter().position(|known| known.id() == id).map(|at| nodes.remove(at));
        nodes.extend(managed);
        before
    }

    /// Makes all nodes forget one that holds nothing, which may be dead. It is described for
    /// whoever ends its process, if it was managed; see [`NodeDescription::stop`].
    ///
    /// # Errors
    /// When it still holds partitions, or some are on their way to or from it.
    pub fn remove_node(&self, id: NodeId) -> Result<Option<NodeDescription>, AdminError> {
        let open = self.unfinished()?;
        let touched = open.iter().filter(|open| open.from == id || open.to == id).count();
        if touched > 0 {
            return Err(AdminError::Unfinished { partitions: touched });
        }
        self.settle_epochs()?;
        let known = self.knowing();
        let seen = known.iter().flat_map(|(_, view)| view).filter(|seen| seen.id == id);
        let partitions = seen.map(ViewNode::slot_count).max().unwrap_or(0);
        if partitions > 0 {
            return Err(AdminError::StillHolds { node: id, partitions });
        }
        // What it answered last was an answer of an owner; nothing of that may get lost.
        sleep(LAST_REPLIES_WITHIN);
        let text = id.to_string();
        for (other, view) in known.iter().filter(|(other, _)| other.id() != id) {
            if view.iter().any(|seen| seen.id == id) {
                match forget(other, &text) {
                    // Several nodes may leave at the same time; one that has gone knows nobody.
                    Err(error) if other.view().is_err() => {
                        tracing::debug!(node = %other.id(), %error, "has gone meanwhile");
                    }
                    told => told?,
                }
            }
        }
        self.vouched.remove(id);
        Ok(self.manage(id, None).map(|managed| managed.description))
    }
}

pub fn forget(managed: &Managed, id: &str) -> Result<(), AdminError> {
    match managed.say(&["CLUSTER", "FORGET", id]) {
        Err(AdminError::Node { fault: Fault::Refused(said), .. })
            if said.contains("Unknown node") =>
        {
            Ok(())
        }
        other => other.map(|_| ()),
    }
}
