//! Nodes whose joining was cut short because whoever let them join was killed.
//!
//! Such a node may still be the replica as which it began, whose epoch is another's; or it may doubt
//! the others, as it does only while it joins. It holds nothing yet, so it can be brought in or left
//! out, and either is better than waiting for it to agree.

use super::links::{node_timeout, set_node_timeout};
use super::members::forget;
use super::{Admin, AdminError, Managed};
use crate::process::NODE_TIMEOUT_MS;

impl Admin {
    /// Brings them in, or has all others forget them.
    pub(super) fn end_joins(&self) -> Result<(), AdminError> {
        for (managed, view) in self.knowing() {
            let Some(itself) = view.into_iter().find(|seen| seen.is_myself) else { continue };
            if itself.replica_of.is_none() && node_timeout(&managed)? == NODE_TIMEOUT_MS {
                continue;
            }
            if itself.slot_count() > 0 {
                // Its links were being mended.
                set_node_timeout(&managed, NODE_TIMEOUT_MS)?;
            } else if let Some(Err(error)) = self.join(std::slice::from_ref(&managed)).pop() {
                tracing::warn!(node = %managed.id(), %error, "a node that half joined is left out");
                self.leave_out(&managed)?;
            }
        }
        Ok(())
    }

    fn leave_out(&self, managed: &Managed) -> Result<(), AdminError> {
        self.manage(managed.id(), None);
        let id = managed.id().to_string();
        self.knowing().iter().try_for_each(|(other, _)| forget(other, &id))
    }
}
