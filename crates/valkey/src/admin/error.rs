//! Why a cluster could not be observed or changed.

use std::time::Duration;

use tidefs_model::{ByteSize, NodeId, Partition};

use crate::error::ConnectError;
use crate::fault::Fault;

#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("the cluster has no nodes")]
    NoNodes,
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{node:?} is not among the cluster's nodes")]
    UnknownNode { node: NodeId },
    /// The node is away or refuses.
    #[error("{endpoint} does not do as it is asked: {fault}")]
    Node { node: NodeId, endpoint: Box<str>, fault: Fault },
    #[error("{node:?} has room for {free} and would need {needed}; add a node or free memory")]
    NoRoom { node: NodeId, needed: ByteSize, free: ByteSize },
    #[error("partition {} is not held by {expected:?}, but by {found:?}", partition.number())]
    HeldElsewhere { partition: Partition, expected: NodeId, found: Option<NodeId> },
    #[error("{node:?} still holds {partitions} partitions; move them away first")]
    StillHolds { node: NodeId, partitions: usize },
    #[error("{partitions} partitions are on their way since earlier; finish them first")]
    Unfinished { partitions: usize },
    #[error("the nodes did not agree within {waited:?}; {said}")]
    NotAgreed { waited: Duration, said: String },
    #[error("the servers gave up to move partitions from {from:?} to {to:?}: {said}")]
    GivenUp { from: NodeId, to: NodeId, said: String },
    #[error("partitions from {from:?} to {to:?} made no progress for {waited:?}")]
    Stuck { from: NodeId, to: NodeId, waited: Duration },
}

impl AdminError {
    /// The node that this is about is full.
    pub fn is_full(&self) -> bool {
        matches!(self, AdminError::NoRoom { .. })
    }
}
