//! The hands of whoever changes a running cluster: they observe nodes, add and remove them, and
//! move partitions between them while clients read and write.
//!
//! Nothing here decides. Every call may be repeated: what was done already is left alone, and what
//! a predecessor left half done is found by [`Admin::unfinished`] and ended by [`Admin::finish`].
//! One admin at a time may change a cluster; any number may look.

mod bandwidth;
mod epochs;
mod error;
mod expunge;
mod giving;
mod halves;
mod joining;
mod keywise;
mod limit;
mod links;
mod marks;
mod members;
mod moves;
mod observe;
mod phases;
mod placement;
mod sizes;
mod strangers;
mod together;
mod unfinished;
mod whole;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use tidefs_model::{ByteSize, NodeClass, NodeId};

pub use self::bandwidth::Probe;
pub use self::error::AdminError;
pub use self::limit::Pace;
pub use self::moves::{Move, MoveFailure, MoveOptions, MoveReport, Step, StepKind};
pub use self::observe::{Observation, Readings};
pub use self::placement::{Owner, Ownership};
pub use self::sizes::PartitionSizes;
pub use self::unfinished::{Finished, Unfinished};

use self::joining::Joined;
use self::limit::Paid;
use self::strangers::Vouched;
use self::together::Together;
use crate::cluster::{ClusterDescription, NodeDescription};
use crate::endpoint::{Account, Pass, Successor, Timeouts};
use crate::fault::Fault;
use crate::function::HEAD_ROOM;
use crate::guard::Guard;
use crate::login::Login;
use crate::pool::{Access, Node};
use crate::probe::{Server, probe};
use crate::view::{Row, ViewNode, rows_of, view_of};
use crate::wire::{Reply, Request};

/// Connections to a node: one for each pair of nodes that move partitions at the same time, and
/// one to look.
const CONNECTIONS_PER_NODE: usize = phases::PAIRS_AT_ONCE + 1;

/// Changes a running cluster with the rights of its admin account.
pub struct Admin {
    nodes: RwLock<Vec<Managed>>,
    vouched: Vouched,
    access: Arc<Access>,
    server: Server,
    paid: Arc<Paid>,
    /// Nodes that are added at the same time.
    together: Together<Managed, Joined>,
    in_haste: Box<dyn Fn() -> bool + Send + Sync>,
    /// Of nodes that are added.
    head_room: ByteSize,
}

/// A node of the cluster, and the way to it.
#[derive(Clone)]
struct Managed {
    description: NodeDescription,
    node: Arc<Node>,
}

impl Admin {
    /// Connects to the nodes of a running cluster; later connections are made when needed. Nodes
    /// that run and are no members are left out.
    ///
    /// # Errors
    /// When no node answers or none lets the admin in.
    pub fn connect(
        cluster: &ClusterDescription,
        pass: impl Into<Pass>,
        timeouts: Timeouts,
    ) -> Result<Admin, AdminError> {
        Admin::connect_as(cluster, Account::admin(pass), timeouts, Guard::default())
    }

    /// The same in place of one that has died, of which nothing is carried out any more by a node that this one has told
    /// anything.
    pub fn succeed(
        cluster: &ClusterDescription,
        pass: impl Into<Pass>,
        timeouts: Timeouts,
        successor: Successor,
        guard: Guard,
    ) -> Result<Admin, AdminError> {
        let account = Account::admin(pass).of_successor(Some(successor));
        Admin::connect_as(cluster, account, timeouts, guard)
    }

    fn connect_as(
        cluster: &ClusterDescription,
        account: Account,
        timeouts: Timeouts,
        guard: Guard,
    ) -> Result<Admin, AdminError> {
        let login = Login::lasting(account);
        let connections_per_node = CONNECTIONS_PER_NODE;
        let access = Arc::new(Access { login, timeouts, connections_per_node, guard });
        let manage = |description: &NodeDescription| Managed::new(description, &access);
        let nodes: Vec<_> = cluster.nodes.iter().map(manage).collect();
        let asked: Vec<_> = nodes.iter().map(|managed| Arc::clone(&managed.node)).collect();
        let server = probe(&asked, access.timeouts.reply)?;
        let admin = Admin {
            nodes: RwLock::new(nodes),
            vouched: Vouched::new(cluster),
            access,
            server,
            paid: Arc::new(Mutex::new(Instant::now())),
            together: Together::default(),
            in_haste: Box::new(|| false),
            head_room: HEAD_ROOM,
        };
        admin.leave_out_strangers();
        Ok(admin)
    }

    /// While `in_haste` says so, moves wait for no rate: what they move would be lost meanwhile. It is
    /// asked again and again.
    pub fn hastened_while(self, in_haste: impl Fn() -> bool + Send + Sync + 'static) -> Admin {
        Admin { in_haste: Box::new(in_haste), ..self }
    }

    /// Nodes that it adds have so much for metadata beyond what they may hold.
    pub fn with_head_room(self, head_room: ByteSize) -> Admin {
        Admin { head_room, ..self }
    }

    /// A node that nobody knows and that holds nothing has been started, but is no member.
    fn leave_out_strangers(&self) {
        let known = self.knowing();
        let is_known = |id: NodeId| {
            let others = known.iter().filter(|(other, _)| other.id() != id);
            others.flat_map(|(_, view)| view).any(|seen| seen.id == id)
        };
        let holds =
            |view: &[ViewNode]| view.iter().any(|seen| seen.is_myself && seen.slot_count() > 0);
        let strangers = known.iter().filter(|(node, view)| !is_known(node.id()) && !holds(view));
        let strangers: Vec<_> = strangers.map(|(node, _)| node.id()).collect();
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|managed| !strangers.contains(&managed.id()));
    }

    /// The nodes that are managed now.
    pub fn description(&self) -> ClusterDescription {
        let nodes = self.nodes().into_iter().map(|managed| managed.description);
        ClusterDescription { nodes: nodes.collect() }
    }

    /// What the servers are and can do.
    pub fn server(&self) -> &Server {
        &self.server
    }

    fn nodes(&self) -> Vec<Managed> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_lent(&self, id: NodeId) -> bool {
        self.managed(id).is_ok_and(|managed| managed.description.class == NodeClass::Victim)
    }

    fn managed(&self, id: NodeId) -> Result<Managed, AdminError> {
        let found = self.nodes().into_iter().find(|managed| managed.id() == id);
        found.ok_or(AdminError::UnknownNode { node: id })
    }

    /// Has something asked of every node at the same time.
    fn each<T: Send>(&self, ask: impl Fn(&Managed) -> T + Sync) -> Vec<(Managed, T)> {
        let nodes = self.nodes();
        let answers: Vec<T> = thread::scope(|scope| {
            let ask = &ask;
            let threads: Vec<_> =
                nodes.iter().map(|managed| scope.spawn(move || ask(managed))).collect();
            threads.into_iter().map(|thread| thread.join().expect("asking a node")).collect()
        });
        nodes.into_iter().zip(answers).collect()
    }

    /// What each node knows of nodes that are vouched for; `None` of those that do not answer.
    fn views(&self) -> Vec<(Managed, Option<Vec<ViewNode>>)> {
        self.each(|managed| {
            let view = managed.view();
            let view = view
                .inspect_err(|error| tracing::debug!(node = %managed.id(), %error, "no view"))
                .ok()?;
            Some(view.into_iter().filter(|seen| self.vouched.has(seen.id)).collect())
        })
    }
}

impl Managed {
    fn new(description: &NodeDescription, access: &Arc<Access>) -> Managed {
        let NodeDescription { id, class, memory, .. } = *description;
        let endpoint = description.endpoint();
        let node = Node::new(id, class, endpoint, memory, Arc::clone(access));
        Managed { description: description.clone(), node }
    }

    fn id(&self) -> NodeId {
        self.description.id
    }

    fn error(&self, fault: Fault) -> AdminError {
        AdminError::Node { node: self.id(), endpoint: self.node.name(), fault }
    }

    fn ask(&self, request: &Request<'_>) -> Result<Reply, AdminError> {
        self.node.ask(request).map_err(|fault| self.error(fault))
    }

    fn say(&self, words: &[&str]) -> Result<Reply, AdminError> {
        self.ask(&Request::of(words))
    }

    /// Sends short requests together; some of the replies may be errors.
    fn ask_all(&self, requests: &[Request<'_>]) -> Result<Vec<Reply>, AdminError> {
        self.node.ask_all(requests).map_err(|fault| self.error(fault))
    }

    /// Sends short requests together that all have to be accepted.
    fn order_all(&self, requests: &[Request<'_>]) -> Result<Vec<Reply>, AdminError> {
        let replies = self.ask_all(requests)?.into_iter().map(crate::connection::accepted);
        replies.collect::<Result<_, _>>().map_err(|fault| self.error(fault))
    }

    /// The table of nodes as this one has it.
    fn view(&self) -> Result<Vec<ViewNode>, AdminError> {
        let reply = self.say(&["CLUSTER", "NODES"])?;
        view_of(&reply).map_err(|malformed| self.error(malformed.into()))
    }

    /// Whom that table names, also those that it has not met.
    fn rows(&self) -> Result<Vec<Row>, AdminError> {
        let reply = self.say(&["CLUSTER", "NODES"])?;
        rows_of(&reply).map_err(|malformed| self.error(malformed.into()))
    }

    /// What the node says of itself.
    fn itself(&self) -> Result<ViewNode, AdminError> {
        let mut view = self.view()?.into_iter();
        let itself = view.find(|seen| seen.is_myself);
        itself.ok_or_else(|| self.error(crate::wire::Malformed::Unexpected.into()))
    }
}
