//! What the manager needs of the world: hands that reach the cluster, and a provisioner that
//! starts and stops the processes of nodes.
//!
//! All calls block, are made from several threads, and end within a bounded time, or soon after
//! `stop` where they take it. All may be repeated: what was done already is left alone. Errors are
//! for people; what follows from them is found out by looking again.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidefs_control::{Failure, Held, Move, Moved, Node};
use tidefs_model::{ByteSize, NodeClass, NodeId};

/// The cluster as it was found, partition by partition.
#[derive(Clone, Debug)]
pub struct Survey {
    pub nodes: Vec<Node>,
    /// Partition *p* is entry *p*. Sizes of partitions on nodes that do not answer are unknown; a
    /// partition that several nodes claim is an error and not listed as anybody's.
    pub partitions: Vec<Held>,
}

/// How moves ended.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// What has changed hands.
    pub moved: Moved,
    /// Why the rest has not, where something may be half moved.
    pub failure: Option<Failure>,
    /// Where nothing is: a target had no room for what was to come.
    pub crowded: Option<Failure>,
}

/// Reaches the cluster.
pub trait Hands: Send + Sync {
    /// How a node that was started is reached, as the provisioner says.
    type Address: Send;

    /// The bandwidth of each node's link, in bytes a second, by a short transfer; of those that can be
    /// measured from here. Takes up to a second for each node.
    fn measure(&self) -> Vec<(NodeId, u64)> {
        Vec::new()
    }

    /// So many bytes are moved in a second at most; `None`: as fast as the nodes can.
    fn bytes_per_second(&self) -> Option<u64> {
        None
    }

    /// All members, also those that do not answer; quickly. How many partitions a node holds is
    /// what the nodes say.
    fn observe(&self) -> Result<Vec<Node>, Failure>;

    /// Where each partition lies and how large it is, to a few per cent.
    fn survey(&self) -> Result<Survey, Failure>;

    /// A node is being started: [`add_node`](Self::add_node) or [`expect_no_longer`](Self::expect_no_longer)
    /// follows. Nodes that join together join sooner.
    fn expect_node(&self) {}

    /// A node that was being started will not be added.
    fn expect_no_longer(&self) {}

    /// Lets a running node join, holding nothing.
    fn add_node(&self, node: NodeId, address: &Self::Address) -> Result<(), Failure>;

    /// Lets all members forget a node that holds nothing, which may be dead.
    fn remove_node(&self, node: NodeId) -> Result<(), Failure>;

    /// Copies, verifies, switches, then deletes, in any order; what verifies is the receiving server, by the
    /// checksum of each key or the acknowledgement of the whole stream. `progress` is told what has been
    /// copied since it was last told. After `stop` it ends soon, with each partition on one node, and
    /// that is no failure.
    fn move_partitions(
        &self,
        moves: &[Move],
        progress: &(dyn Fn(u64) + Sync),
        stop: &AtomicBool,
    ) -> Carried;

    /// Finishes or undoes every move that somebody left half done. What the nodes among `ended` held
    /// is lost: others hold it from then on, empty and marked, so that what was lost is never taken
    /// for what was never written; all members forget those nodes. Answers with what each held.
    fn recover(&self, ended: &[NodeId]) -> Result<Vec<Loss>, Failure>;
}

/// What was lost with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub node: NodeId,
    pub partitions: u16,
    /// What it used when it was last observed; `None` where nobody had.
    pub bytes: Option<u64>,
}

/// A node to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub class: NodeClass,
    /// What data may fill. The head-room of the file system's settings comes on top, and what the process
    /// itself takes.
    pub memory: ByteSize,
}

/// Starts and stops the processes of nodes: on this machine, by SSH, as a job of Slurm, as a pod of
/// Kubernetes. Starting may take minutes where a queue is asked for a machine.
///
/// What is started carries the name of its file system, so that [`started`](Self::started) finds it
/// also when the manager that started it was killed before it learnt the node's id.
pub trait Provisioner: Send + Sync {
    type Address: Send;

    /// Returns when the process answers; it belongs to no cluster yet. A victim node is one that a
    /// lender has offered, with the memory that it lends; there may be none.
    fn start(&self, wanted: Wanted, stop: &AtomicBool) -> Result<(NodeId, Self::Address), Failure>;

    /// Ends a node's process; its memory goes back to the machine. A node that is not there is
    /// stopped already.
    fn stop(&self, node: NodeId) -> Result<(), Failure>;

    /// The same for one that never became a node of the cluster: its manager was killed, or it could
    /// not join. One that a lender offered may be offered again.
    fn put_back(&self, node: NodeId) -> Result<(), Failure> {
        self.stop(node)
    }

    /// All that were started for this file system and were not stopped.
    fn started(&self) -> Result<Vec<NodeId>, Failure>;

    /// Those of them whose hosts are there for them alone, and go when they do. They leave first.
    fn guests(&self) -> Result<Vec<NodeId>, Failure> {
        Ok(Vec::new())
    }

    /// How long it takes until a node of the own class runs that is asked for now, as was measured of the last one that
    /// came from where it would; `None` where none has.
    fn start_takes(&self) -> Result<Option<Duration>, Failure> {
        Ok(None)
    }

    /// Those of them whose processes are known to have ended. One that only does not answer is not
    /// among them: it may come back with all that it held.
    fn ended(&self) -> Result<Vec<NodeId>, Failure>;

    /// Clears away a node that has ended, whose loss has been dealt with, and tells people.
    fn bury(&self, loss: Loss) -> Result<(), Failure>;
}
