//! A cluster of storage nodes on this machine: started, formed, described, stopped.
//!
//! [`Cluster`] owns the processes that it started and ends them when it is dropped.
//! [`ClusterDescription`] is what another process needs to reach the nodes, or to end them; it
//! holds no secret.

mod formation;
mod newcomer;
mod plan;

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use tidefs_model::{ByteSize, NodeClass, NodeId};

pub use self::newcomer::NewNode;
pub use self::plan::is_predecessors;

use crate::certificates::Network;
use crate::endpoint::{Endpoint, Pass};
use crate::error::{ClusterError, ConnectError, ProcessError};
use crate::host::{Host, endpoint, is_here};
use crate::options::Options;
use crate::process::{Lifetime, NodeProcess, ProcessId, Secrets, check_server, end, remove};
use crate::store::Valkey;

/// Every node gets at least this share of the metadata range.
const METADATA_PARTITIONS_MIN: u16 = 16;
pub const NODES_MAX: usize = (tidefs_model::METADATA_PARTITIONS / METADATA_PARTITIONS_MIN) as usize;
/// An empty server takes 2 to 5 MiB; what is left must hold the metadata of something.
pub const NODE_MEMORY_MIN: ByteSize = ByteSize::mib(16);
/// Other ports are tried so often when somebody takes one between its choice and its use.
const ATTEMPTS: u8 = 3;
/// How long a node on another host that was ended may still be heard.
const ANSWERS_MAX: u32 = 20;
const ANSWER_EVERY: Duration = Duration::from_millis(50);
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// A cluster to be started.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// The server program; see [`find_server`](crate::find_server).
    pub server: PathBuf,
    /// A private folder that is there; each node gets a folder in it.
    pub directory: PathBuf,
    /// Where the nodes run, in turn; none: on this machine, for this machine alone.
    pub hosts: Vec<Host>,
    pub nodes: usize,
    /// What each node may hold at most.
    pub node_memory: ByteSize,
    /// What metadata may use beyond that; data may not.
    pub head_room: ByteSize,
    pub secrets: Secrets,
    pub network: Network,
    /// Random bytes that were never used before: the nodes' identities come from them.
    pub seed: [u8; 32],
    pub lifetime: Lifetime,
}

/// The nodes of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    pub nodes: Vec<NodeDescription>,
}

/// A node as any process on this machine can reach and end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    pub id: NodeId,
    pub class: NodeClass,
    /// How other nodes call it.
    pub address: SocketAddr,
    pub bus_port: u16,
    /// On this machine; empty for a node elsewhere, which is reached at its address.
    pub socket: PathBuf,
    pub directory: PathBuf,
    pub memory: ByteSize,
    pub process: ProcessId,
}

impl NodeDescription {
    /// How this machine reaches it.
    pub fn endpoint(&self) -> Endpoint {
        match self.is_elsewhere() {
            true => Endpoint::Tcp { address: self.address, id: self.id },
            false => endpoint(self.address, &self.socket, self.id),
        }
    }

    /// Its process is not this machine's to end.
    pub fn is_elsewhere(&self) -> bool {
        self.socket.as_os_str().is_empty()
    }

    /// Ends the node, if it runs, and removes its folder.
    pub fn stop(&self) -> Result<(), ProcessError> {
        if self.is_elsewhere() {
            return Ok(());
        }
        let ended = end(self.process, &self.directory);
        remove(&self.directory);
        ended.and_then(|()| self.is_silent())
    }

    /// A node on another host was ended by ending what had started it there; whether that was the node
    /// shows at its address.
    fn is_silent(&self) -> Result<(), ProcessError> {
        let address = self.address;
        let answers = || TcpStream::connect_timeout(&address, ANSWER_WAIT).is_ok();
        // What has been told to end may take a moment.
        let lives_on = || {
            !is_here(address.ip())
                && (0..ANSWERS_MAX).all(|_| {
                    sleep(ANSWER_EVERY);
                    answers()
                })
        };
        if lives_on() { Err(ProcessError::LivesOn { id: self.id, address }) } else { Ok(()) }
    }
}

impl ClusterDescription {
    /// Ends every node that runs, and removes their folders. All are tried.
    ///
    /// # Errors
    /// One for each node that does not end.
    pub fn stop(&self) -> Result<(), Vec<ProcessError>> {
        let here = self.nodes.iter().filter(|node| !node.is_elsewhere());
        here.for_each(|node| node.process.ask_to_end());
        let left: Vec<_> = self.nodes.iter().filter_map(|node| node.stop().err()).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    }
}

/// A running cluster whose processes this process started.
#[derive(Debug)]
pub struct Cluster {
    processes: Vec<NodeProcess>,
    description: ClusterDescription,
    secrets: Secrets,
    network: Network,
}

impl Cluster {
    /// Starts the nodes and returns when all of them serve and know each other.
    pub fn start(spec: &ClusterSpec) -> Result<Cluster, ClusterError> {
        if !(1..=NODES_MAX).contains(&spec.nodes) {
            return Err(ClusterError::NodeCount { asked: spec.nodes, most: NODES_MAX });
        }
        if spec.node_memory < NODE_MEMORY_MIN {
            let (asked, least) = (spec.node_memory, NODE_MEMORY_MIN);
            return Err(ClusterError::NodeMemory { asked, least });
        }
        check_server(&spec.server)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match formation::start(spec, attempt) {
                Err(ClusterError::Process(ProcessError::Ended {
                    port_was_taken: true, ..
                })) if attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    pub fn description(&self) -> &ClusterDescription {
        &self.description
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// A client with the rights of a mount, of these nodes.
    pub fn connect(&self, options: Options) -> Result<Valkey, ConnectError> {
        let (secret, credentials) = (self.secrets.data.clone(), self.network.of_client());
        Valkey::connect(&self.description, Pass { secret, credentials }, options)
    }

    /// Ends all nodes and removes their folders.
    pub fn stop(mut self) -> Result<(), ProcessError> {
        self.ask_to_end();
        let stop = |result: Result<(), ProcessError>, node: NodeProcess| result.and(node.stop());
        self.processes.drain(..).fold(Ok(()), stop)
    }

    /// Nodes that end at the same time do not have to be waited for one after the other.
    fn ask_to_end(&self) {
        self.processes.iter().for_each(|node| node.process().ask_to_end());
    }

    /// Leaves the nodes to whoever has their description.
    pub fn leave_running(mut self) -> ClusterDescription {
        self.processes.drain(..).for_each(NodeProcess::leave_running);
        self.description.clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}
