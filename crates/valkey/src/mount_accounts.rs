//! The accounts of mounts on nodes: made before a mount starts, and ended before anybody acts on its end.
//!
//! Whoever has the admin's secret does that. An order that was given up is not carried out behind a later
//! one, as with everything that is asked of a node through the pool: an account that was ended is not made
//! again by an order of before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidefs_model::NodeId;

use crate::cluster::NodeDescription;
use crate::endpoint::{Account, Pass, Successor, Timeouts};
use crate::fault::Fault;
use crate::guard::Guard;
use crate::login::Login;
use crate::pool::{Access, Node};
use crate::process::{end_account, make_account};
use crate::wire::{Reply, Request};

/// A node that takes longer is asked again later.
const TIMEOUTS: Timeouts =
    Timeouts { connect: Duration::from_secs(1), reply: Duration::from_secs(2) };
const CONNECTIONS_PER_NODE: usize = 2;

pub struct MountAccounts {
    access: Arc<Access>,
    nodes: Mutex<BTreeMap<NodeId, Arc<Node>>>,
}

impl MountAccounts {
    /// In place of whoever let mounts in before; `guard` is asked before each order.
    pub fn new(admin: impl Into<Pass>, successor: Successor, guard: Guard) -> MountAccounts {
        let login = Login::lasting(Account::admin(admin).of_successor(Some(successor)));
        let (timeouts, connections_per_node) = (TIMEOUTS, CONNECTIONS_PER_NODE);
        let access = Arc::new(Access { login, timeouts, connections_per_node, guard });
        MountAccounts { access, nodes: Mutex::default() }
    }

    /// Has nodes let mounts in. Answers those that did not do so: they do not answer, or refuse.
    pub fn let_in(&self, nodes: &[NodeDescription], accounts: &[Account]) -> Vec<NodeId> {
        if accounts.is_empty() {
            return Vec::new();
        }
        let orders = |node| accounts.iter().map(|account| make_account(account, node)).collect();
        self.order(nodes, &orders)
    }

    /// Has nodes let somebody in no more. On those that are not in the answer nothing of that account is
    /// carried out from here on.
    pub fn shut_out(&self, nodes: &[NodeDescription], name: &str) -> Vec<NodeId> {
        self.order(nodes, &|_| vec![end_account(name)])
    }

    /// The accounts of any kind on any of these nodes, by name, and the nodes that did not say which they have.
    pub fn names(&self, nodes: &[NodeDescription]) -> (BTreeSet<String>, Vec<NodeId>) {
        let (mut names, mut silent) = (BTreeSet::new(), Vec::new());
        for (id, said) in self.ask(nodes, &|_| vec![Request::of(&["ACL", "USERS"])]) {
            let said = said.and_then(|replies| {
                let users =
                    replies.into_iter().map(Reply::into_array).collect::<Result<Vec<_>, _>>()?;
                let users = users.iter().flatten().map(|user| user.text().map(str::to_owned));
                Ok(users.collect::<Result<Vec<_>, _>>()?)
            });
            match said {
                Ok(said) => names.extend(said),
                Err(fault) => {
                    tracing::debug!(node = %id, %fault, "a node has yet to say who is let in");
                    silent.push(id);
                }
            }
        }
        (names, silent)
    }

    fn order(
        &self,
        nodes: &[NodeDescription],
        orders: &(dyn Fn(NodeId) -> Vec<Request<'static>> + Sync),
    ) -> Vec<NodeId> {
        let failed = self.ask(nodes, orders).into_iter().filter_map(|(id, done)| {
            let fault = done.err()?;
            tracing::debug!(node = %id, %fault, "a node has yet to hear who is let in");
            Some(id)
        });
        failed.collect()
    }

    /// All of them at once; a reply that is an error is a fault.
    fn ask(
        &self,
        nodes: &[NodeDescription],
        requests: &(dyn Fn(NodeId) -> Vec<Request<'static>> + Sync),
    ) -> Vec<(NodeId, Result<Vec<Reply>, Fault>)> {
        let ways: Vec<_> = nodes.iter().map(|node| self.way_to(node)).collect();
        let ask = |node: &Arc<Node>| {
            let replies = node.ask_all(&requests(node.id))?;
            replies.into_iter().map(crate::connection::accepted).collect()
        };
        thread::scope(|scope| {
            let threads: Vec<_> = ways.iter().map(|node| scope.spawn(move || ask(node))).collect();
            let answers = threads.into_iter().map(|thread| thread.join().expect("asking a node"));
            ways.iter().map(|node| node.id).zip(answers).collect()
        })
    }

    /// The same each time: it knows what was given up on the way.
    fn way_to(&self, node: &NodeDescription) -> Arc<Node> {
        let NodeDescription { id, class, memory, .. } = *node;
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Node::new(id, class, node.endpoint(), memory, Arc::clone(&self.access));
        Arc::clone(nodes.entry(id).or_insert_with(new))
    }

    /// Nodes that are gone.
    pub fn forget(&self, is_gone: impl Fn(NodeId) -> bool) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|id, _| !is_gone(*id));
    }
}
