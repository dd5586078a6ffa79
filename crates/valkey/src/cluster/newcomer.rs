//! A node that starts alone and holds nothing, to be added to a running cluster.

use std::fs;
use std::path::{Path, PathBuf};

use tidefs_model::{ByteSize, NodeClass, NodeId};

use super::formation::describe;
use super::plan::plan_newcomer;
use super::{ATTEMPTS, NODE_MEMORY_MIN, NodeDescription};
use crate::endpoint::Account;
use crate::error::{ClusterError, ProcessError};
use crate::host::Host;
use crate::process::{Accounts, Lifetime, NodeProcess, check_server, socket_of};

/// Digits of its id in the name of a node's folder: the name of a socket may not be long.
const NAME_DIGITS: usize = 12;

/// A node to be started. Its folder is called after its id, so that whoever knows the folder of all
/// nodes and an id finds the socket.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// The server program; see [`find_server`](crate::find_server).
    pub server: PathBuf,
    /// The folder in which the node gets its own.
    pub directory: PathBuf,
    /// Where it runs.
    pub host: Host,
    /// Random, and never used before.
    pub id: NodeId,
    pub class: NodeClass,
    /// What it may hold at most.
    pub memory: ByteSize,
    pub accounts: Accounts,
    /// Who asks it whether it is ready.
    pub asker: Account,
    pub lifetime: Lifetime,
}

impl NewNode {
    /// Starts the process and waits until it answers; see [`Admin::add_node`](crate::Admin).
    ///
    /// # Errors
    /// When it does not start; then nothing is left of it.
    pub fn start(&self) -> Result<NodeDescription, ClusterError> {
        if self.memory < NODE_MEMORY_MIN {
            let (asked, least) = (self.memory, NODE_MEMORY_MIN);
            return Err(ClusterError::NodeMemory { asked, least });
        }
        check_server(&self.server)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_to_start(attempt) {
                Err(ProcessError::Ended { port_was_taken: true, .. }) if attempt < ATTEMPTS => {}
                result => return Ok(result?),
            }
        }
    }

    fn try_to_start(&self, attempt: u8) -> Result<NodeDescription, ProcessError> {
        let planned = plan_newcomer(self, attempt)?;
        let mut process = NodeProcess::start(&planned)?;
        process.wait_until_ready(&self.asker)?;
        let description = NodeDescription { class: self.class, ..describe(&planned, &process) };
        process.leave_running();
        Ok(description)
    }
}

/// The folder of a node that was added to a running cluster.
pub fn directory_of(directory: &Path, id: NodeId) -> PathBuf {
    directory.join(format!("node-{}", &id.to_string()[..NAME_DIGITS]))
}

/// Where its socket is, if the node is on this machine and its folder beside another node's.
pub fn socket_beside(other: &Path, id: NodeId) -> Option<PathBuf> {
    let directory = other.parent()?.parent()?;
    let socket = socket_of(&directory_of(directory, id));
    socket.exists().then_some(socket)
}

/// The sockets of all nodes whose folders are beside another node's, which may be gone.
pub fn sockets_beside(other: &Path) -> Vec<PathBuf> {
    let directory = other.parent().and_then(Path::parent);
    let folders = directory.and_then(|directory| fs::read_dir(directory).ok());
    let sockets = folders.into_iter().flatten().flatten().map(|folder| socket_of(&folder.path()));
    sockets.filter(|socket| socket.exists() && socket != other).collect()
}
