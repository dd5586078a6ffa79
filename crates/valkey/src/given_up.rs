//! Changes that were given up on a node that may still carry them out: by their partitions.
//!
//! The node itself carries nothing out behind what this client asks it next (see the pool). But its
//! partition may be asked for elsewhere by then, and come back; and another client may be about to change
//! the same. So what follows such a change waits until the node has ended the connection, or is no member
//! any more, or its process has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use tidefs_model::Partition;

use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::fault::Fault;
use crate::pool::Node;

#[derive(Default)]
pub struct GivenUp {
    /// There are some.
    any: AtomicBool,
    nodes: Mutex<BTreeMap<Partition, Vec<Arc<Node>>>>,
}

impl GivenUp {
    pub fn note(&self, partition: Partition, node: &Arc<Node>) {
        let mut nodes = self.nodes();
        let known = nodes.entry(partition).or_default();
        if !known.iter().any(|it| Arc::ptr_eq(it, node)) {
            known.push(Arc::clone(node));
        }
        self.any.store(true, Ordering::Release);
    }

    fn of(&self, partition: Partition) -> Vec<Arc<Node>> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.nodes().get(&partition).cloned().unwrap_or_default()
    }

    fn is_over(&self, partition: Partition, node: &Arc<Node>) {
        let mut nodes = self.nodes();
        if let Some(known) = nodes.get_mut(&partition) {
            known.retain(|it| !Arc::ptr_eq(it, node));
            if known.is_empty() {
                nodes.remove(&partition);
            }
        }
        self.any.store(!nodes.is_empty(), Ordering::Release);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<Partition, Vec<Arc<Node>>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Returns when no change of the partition that was given up can be carried out any more, on any
    /// node but `owner`, which sees to it itself.
    ///
    /// # Errors
    /// The node that may still carry one out, and why it cannot be kept from it.
    pub fn fence(
        &self,
        partition: Partition,
        owner: Option<&Arc<Node>>,
    ) -> Result<(), (Arc<Node>, Fault)> {
        for node in self.given_up.of(partition) {
            if owner.is_some_and(|owner| Arc::ptr_eq(owner, &node)) {
                continue;
            }
            match node.fence() {
                Err(fault) if !self.is_dead(&node, &fault) => return Err((node, fault)),
                _ => self.given_up.is_over(partition, &node),
            }
        }
        Ok(())
    }

    /// Its process has ended, or the others have forgotten it and it holds nothing.
    fn is_dead(&self, node: &Arc<Node>, fault: &Fault) -> bool {
        let has_ended = match fault {
            Fault::Unreachable(Errno::CONNREFUSED) | Fault::Stranger => true,
            Fault::Unreachable(Errno::NOENT) => is_unlinked(&node.endpoint),
            _ => false,
        };
        if has_ended {
            return true;
        }
        self.topology.refresh_if_old(Some(node));
        !self.topology.map().members.iter().any(|member| member.node.id == node.id)
    }
}

/// A server takes its socket away when it ends. One that was moved with its directory may be served still.
fn is_unlinked(endpoint: &Endpoint) -> bool {
    endpoint.socket().and_then(Path::parent).is_some_and(Path::is_dir)
}

#[cfg(test)]
mod tests {
    use tidefs_model::NodeId;

    use super::*;

    #[test]
    fn a_socket_that_is_away_with_its_directory_is_none_of_a_node_that_ended() {
        let id: NodeId = "ab".repeat(20).parse().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let within = |path: &Path| Endpoint::Unix { path: path.join("s"), id };
        assert!(is_unlinked(&within(directory.path())));
        assert!(!is_unlinked(&within(&directory.path().join("moved"))));
        let address = "127.0.0.1:1".parse().unwrap();
        assert!(!is_unlinked(&Endpoint::Tcp { address, id }));
    }
}
