//! A node as whoever lends it has it: its process, and the right to ask how full it is and to have it
//! hold less. The cluster's secrets are not needed for that.

use std::net::SocketAddr;
use std::time::Duration;

use tidefs_model::{ByteSize, NodeId};

use crate::cluster::{NewNode, NodeDescription};
use crate::connection::Connection;
use crate::endpoint::{Account, Endpoint, Secret, Timeouts};
use crate::error::ClusterError;
use crate::fault::Fault;
use crate::probe::info_number;
use crate::wire::{Malformed, Request};

/// Its lender has more to do than to wait for a node that is busy, and asks again.
const REPLY_WAIT: Duration = Duration::from_secs(1);

/// A running node; it is ended when this value is dropped.
#[derive(Debug)]
pub struct LentNode {
    description: NodeDescription,
    account: Account,
}

/// What a lent node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentUsage {
    pub used: ByteSize,
    /// What it may hold at most.
    pub budget: ByteSize,
    /// What the machine has given it, freed pieces included.
    pub resident: ByteSize,
}

impl LentNode {
    /// Starts it; `node` lets the lender in.
    ///
    /// # Errors
    /// When it does not start; then nothing is left of it.
    pub fn start(node: &NewNode) -> Result<LentNode, ClusterError> {
        let account = node.asker.clone();
        Ok(LentNode { description: node.start()?, account })
    }

    pub fn description(&self) -> &NodeDescription {
        &self.description
    }

    pub fn is_running(&self) -> bool {
        self.description.process.is_running()
    }

    pub fn usage(&self) -> Result<LentUsage, Fault> {
        let reply = self.connect()?.ask(&Request::of(&["INFO", "memory"]))?;
        let text = reply.text()?;
        Ok(LentUsage {
            used: ByteSize(info_number(text, "used_memory")?),
            budget: ByteSize(info_number(text, "maxmemory")?),
            resident: ByteSize(info_number(text, "used_memory_rss")?),
        })
    }

    /// Has it hold no more than this from now on. What it holds already stays: it refuses to take in
    /// more until there is less.
    pub fn set_budget(&self, budget: ByteSize) -> Result<(), Fault> {
        let mut connection = self.connect()?;
        let bytes = budget.0.to_string();
        connection.ask(&Request::of(&["CONFIG", "SET", "maxmemory", &bytes])).map(|_| ())
    }

    /// Gives freed pieces of memory back to the machine, as far as the server can.
    pub fn purge(&self) -> Result<(), Fault> {
        self.connect()?.ask(&Request::of(&["MEMORY", "PURGE"])).map(|_| ())
    }

    /// Ends its process at once: it holds nothing any more, and nobody calls it.
    pub fn kill(&self) {
        self.description.process.kill();
    }

    fn connect(&self) -> Result<Connection, Fault> {
        let endpoint = self.description.endpoint();
        let timeouts = Timeouts { reply: REPLY_WAIT, ..Timeouts::default() };
        Ok(Connection::open(&endpoint, &self.account, timeouts)?.0)
    }
}

impl Drop for LentNode {
    fn drop(&mut self) {
        if let Err(error) = self.description.stop() {
            tracing::warn!(%error, "a lent node was left behind");
        }
    }
}

/// The id of the node that answers the admin at an address.
pub fn identity_at(address: SocketAddr, admin: Secret) -> Result<NodeId, Fault> {
    let endpoint = Endpoint::Tcp(address);
    let (_, id) = Connection::open(&endpoint, &Account::admin(admin), Timeouts::default())?;
    id.parse().map_err(|_| Malformed::Unexpected.into())
}
