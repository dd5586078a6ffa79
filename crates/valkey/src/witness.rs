//! What nodes say of whether somebody has them: the kernel of a process that has ended has closed its connections, and
//! that of one that lives has not, whoever else cannot reach it.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use tidefs_model::NodeId;

use crate::cluster::NodeDescription;
use crate::connection::Connection;
use crate::endpoint::{Account, Pass, Timeouts, WITNESS};
use crate::fault::Fault;
use crate::wire::Request;

/// A node that takes longer says nothing.
const TIMEOUTS: Timeouts =
    Timeouts { connect: Duration::from_secs(1), reply: Duration::from_secs(1) };
/// Nodes that are asked at a time.
const TOGETHER: usize = 32;

/// Who counts of those that have the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectedFrom {
    Anywhere,
    /// Whose address this is.
    At(IpAddr),
    /// Whose address is known and another one.
    NotAt(IpAddr),
}

impl ConnectedFrom {
    /// `address`: `None` of a connection within a machine.
    fn counts(self, address: Option<IpAddr>) -> bool {
        match self {
            ConnectedFrom::Anywhere => true,
            ConnectedFrom::At(at) => address == Some(at),
            ConnectedFrom::NotAt(at) => address.is_some_and(|address| address != at),
        }
    }
}

/// The first of these nodes to which whoever has them is connected: who lets mounts in, or moves partitions. Takes two
/// seconds at most for every 32 nodes.
pub fn witness(
    nodes: &[NodeDescription],
    admin: impl Into<Pass>,
    whose: ConnectedFrom,
) -> Option<NodeId> {
    let account = Account::witness(admin);
    let asks = |node: &NodeDescription| match has_somebody(node, &account, whose) {
        Ok(true) => Some(node.id),
        Ok(false) => None,
        Err(fault) => {
            tracing::debug!(node = %node.id, %fault, "a node does not say who has it");
            None
        }
    };
    nodes.chunks(TOGETHER).find_map(|nodes| {
        thread::scope(|scope| {
            let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(|| asks(node))).collect();
            threads.into_iter().find_map(|thread| thread.join().expect("asking a node"))
        })
    })
}

fn has_somebody(
    node: &NodeDescription,
    account: &Account,
    whose: ConnectedFrom,
) -> Result<bool, Fault> {
    let (mut connection, _) = Connection::open(&node.endpoint(), account, TIMEOUTS)?;
    let list = connection.ask(&Request::of(&["CLIENT", "LIST", "TYPE", "NORMAL"]))?;
    let user = format!("user={}", account.name);
    let is_owners = |client: &str| {
        let has = |word: &str| client.split(' ').any(|it| it == word);
        let address: Option<SocketAddr> =
            client.split(' ').find_map(|it| it.strip_prefix("addr=")?.parse().ok());
        // Other hosts may ask the same at the same time.
        whose.counts(address.map(|it| it.ip())) && has(&user) && !has(&format!("name={WITNESS}"))
    };
    Ok(list.lossy()?.lines().any(is_owners))
}
