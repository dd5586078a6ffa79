//! Which nodes a client may log in to: those that the owner of the file system vouches for.
//!
//! What servers say of each other tells where partitions lie, and nothing else. Whoever gets into a
//! server's table without being on the roster is not asked anything and shown no secret.

use crate::cluster::{ClusterDescription, NodeDescription};

/// The owner's list of nodes, as it stands now.
pub trait Roster: Send + Sync {
    /// None where that cannot be told at the moment; those that were on it are not forgotten then.
    fn nodes(&self) -> Vec<NodeDescription>;
}

/// A list that does not change.
impl Roster for ClusterDescription {
    fn nodes(&self) -> Vec<NodeDescription> {
        self.nodes.clone()
    }
}

impl<F: Fn() -> Vec<NodeDescription> + Send + Sync> Roster for F {
    fn nodes(&self) -> Vec<NodeDescription> {
        self()
    }
}
