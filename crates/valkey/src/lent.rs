//! A node as whoever lends it has it: its process, and the right to ask how full it is and to have it
//! hold less. The cluster's secrets are not needed for that.

use std::time::Duration;

use tidefs_model::{ByteSize, NodeId};

use crate::certificates::Credentials;
use crate::cluster::{NewNode, NodeDescription};
use crate::connection::Connection;
use crate::endpoint::{Account, Endpoint, Pass, Secret, Timeouts};
use crate::error::ClusterError;
use crate::fault::Fault;
use crate::probe::info_number;
use crate::wire::{Malformed, Reply, Request};

/// A node that is busy for longer is asked again, on another connection.
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

    /// To ask it something.
    pub fn line(&self) -> LentLine {
        let (endpoint, account) = (self.description.endpoint(), self.account.clone());
        LentLine { endpoint, account, connection: None, given_up: None }
    }

    /// Ends its process at once: what it holds still is lost.
    pub fn kill(&self) {
        self.description.process.kill();
    }
}

/// What a lender may ask of its node, on a connection that is kept. Each question may take as long as
/// a node that is busy, or stands still, takes: some seconds at most.
pub struct LentLine {
    endpoint: Endpoint,
    account: Account,
    connection: Option<Connection>,
    /// One that was given up with something under way, by the node's number.
    given_up: Option<u64>,
}

impl LentLine {
    pub fn usage(&mut self) -> Result<LentUsage, Fault> {
        let reply = self.ask(&["INFO", "memory"])?;
        let text = reply.lossy()?;
        Ok(LentUsage {
            used: ByteSize(info_number(&text, "used_memory")?),
            budget: ByteSize(info_number(&text, "maxmemory")?),
            resident: ByteSize(info_number(&text, "used_memory_rss")?),
        })
    }

    /// Has it hold no more than this from now on. What it holds already stays: it refuses to take in
    /// more until there is less.
    pub fn set_budget(&mut self, budget: ByteSize) -> Result<(), Fault> {
        self.ask(&["CONFIG", "SET", "maxmemory", &budget.0.to_string()]).map(|_| ())
    }

    /// Gives freed pieces of memory back to the machine, as far as the server can.
    pub fn purge(&mut self) -> Result<(), Fault> {
        self.ask(&["MEMORY", "PURGE"]).map(|_| ())
    }

    fn ask(&mut self, words: &[&str]) -> Result<Reply, Fault> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let timeouts = Timeouts { reply: REPLY_WAIT, ..Timeouts::default() };
                let mut connection = Connection::open(&self.endpoint, &self.account, timeouts)?.0;
                // A budget of before must not come behind a new one.
                connection.end_others(self.given_up.as_slice())?;
                connection
            }
        };
        self.given_up = Some(connection.number());
        let reply = connection.ask(&Request::of(words))?;
        // After a fault a connection is of no more use.
        self.connection = Some(connection);
        Ok(reply)
    }
}

impl Drop for LentNode {
    fn drop(&mut self) {
        if let Err(error) = self.description.stop() {
            tracing::warn!(%error, "a lent node was left behind");
        }
    }
}

/// What a lent node proves itself with before any secret of the cluster is shown to it. Both sides of a
/// loan make it for that loan alone.
///
/// Whoever answers at the node's address learns the challenge when it is asked; with that it could ask the
/// true node for the answer, if there were one at another address. No server offers a proof that binds the
/// answer to a question.
#[derive(Clone, Debug)]
pub struct Countersign {
    /// Lets nobody do anything but ask a node of this loan who it is.
    pub challenge: Secret,
    /// Only who knows the loan knows it.
    pub answer: Secret,
}

impl Countersign {
    /// As a node says it.
    pub(crate) fn answer(&self) -> String {
        format!("tidefs-countersign-{}", self.answer.reveal())
    }
}

/// The id of the node that answers at an address; `None` where it does not know the countersign.
pub fn proven_at(
    endpoint: &Endpoint,
    countersign: &Countersign,
    credentials: Option<Credentials>,
) -> Result<Option<NodeId>, Fault> {
    let account = Account::newcomer(Pass { secret: countersign.challenge.clone(), credentials });
    let (mut connection, id) = Connection::open(endpoint, &account, Timeouts::default())?;
    let names = connection.ask(&Request::of(&["ACL", "USERS"]))?.into_array()?;
    let answer = countersign.answer();
    let is_its = names.iter().any(|name| name.text().is_ok_and(|name| name == answer));
    is_its.then(|| id.parse()).transpose().map_err(|_| Malformed::Unexpected.into())
}

/// The id of the node that answers the admin at an address.
pub fn identity_at(endpoint: &Endpoint, admin: impl Into<Pass>) -> Result<NodeId, Fault> {
    let (_, id) = Connection::open(endpoint, &Account::admin(admin), Timeouts::default())?;
    id.parse().map_err(|_| Malformed::Unexpected.into())
}
