//! A node that starts alone and holds nothing, to be added to a running cluster.

use std::path::{Path, PathBuf};

use tidefs_model::{ByteSize, NodeClass, NodeId};

use super::formation::describe;
use super::plan::plan_newcomer;
use super::{ATTEMPTS, NODE_MEMORY_MIN, NodeDescription};
use crate::certificates::Credentials;
use crate::endpoint::Account;
use crate::error::{ClusterError, ProcessError};
use crate::host::Host;
use crate::process::{Accounts, Lifetime, NodeProcess, check_server};

/// Digits of its id in the name of a node's folder: the name of a socket may not be long.
const NAME_DIGITS: usize = 12;

/// A node to be started. Its folder is called after its id.
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
    /// None where the network is trusted.
    pub credentials: Option<Credentials>,
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
