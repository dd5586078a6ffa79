//! Nodes for the manager: processes on this machine or on a list of hosts, which are started and
//! stopped, and nodes that lenders offer, which are taken and given back.
//!
//! Nodes are numbered in the order in which they came, and a number is never given twice, so that
//! people can name a node that is gone. Whoever else wants to reach or end the nodes reads the
//! cluster's record, which is written before a node is used and after it has gone.

mod adopted;
mod provided;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidefs_control::Failure;
use tidefs_manager::{Claim, Loss, Provisioner, Wanted};
use tidefs_model::{NodeClass, NodeId};
use tidefs_valkey::{
    Account, ClusterDescription, ClusterSpec, ConnectedFrom, Host, Lifetime, Network, NewNode,
    NodeDescription, Pass, ProcessError, ProcessId, Secret, Secrets, witness,
};

use self::provided::Provided;
use super::accounts::Accounts;
use super::dead::{DeadNode, Lost};
use crate::age_clock::AgeClock;
use crate::lending::{Hosts, Offers};
use crate::state::{ClusterRecord, Keys, Paths, room};
use crate::{failure, process};

/// Cheap to clone.
#[derive(Clone)]
pub struct LocalNodes(Arc<Inner>);

struct Inner {
    server: PathBuf,
    /// Where this process starts nodes; empty: on this machine. None: hosts offer all nodes, and this process starts
    /// none, since it has taken the file system over and its own host may leave.
    hosts: Option<Vec<Host>>,
    secrets: Secrets,
    network: Network,
    paths: Paths,
    offers: Offers,
    /// That have joined, and are told of the nodes.
    joined: Hosts,
    accounts: Accounts,
    age: AgeClock,
    /// With which this process has the nodes.
    claim: Mutex<Claim>,
    roster: Mutex<Roster>,
    /// Where more hosts come from, if they do.
    provided: OnceLock<Provided>,
    /// How long the last node took that this process started.
    launch_took: Mutex<Option<Duration>>,
    /// A node that was being started has been, or has not.
    started: Condvar,
}

/// No start of a node takes longer.
const STARTS_END_WITHIN: Duration = Duration::from_secs(60);

/// A host that does not hear of a new node for so long hears of it when it answers again.
const HOSTS_KNOW_WITHIN: Duration = Duration::from_secs(2);

/// A host that has emptied a node, or lost one, offers another within seconds.
const OFFERED_WITHIN: Duration = Duration::from_secs(5);

/// The nodes that are there, by number.
#[derive(Default)]
struct Roster {
    nodes: Vec<(usize, NodeDescription)>,
    /// Nodes that are being ended; they are not dead.
    ending: Vec<NodeDescription>,
    given: usize,
    /// Nodes that ended by themselves and were dealt with.
    buried: Vec<DeadNode>,
    /// Of all nodes that there were and are; none comes back.
    identities: BTreeSet<NodeId>,
    /// Where nodes are being started.
    starting: Vec<IpAddr>,
    /// No node is started any more.
    is_closed: bool,
}

impl Roster {
    fn add(&mut self, node: NodeDescription) {
        self.given += 1;
        self.identities.insert(node.id);
        self.nodes.push((self.given, node));
    }
}

impl LocalNodes {
    /// Takes over nodes that were started already, as `spec` says.
    pub fn new(spec: ClusterSpec, paths: Paths, started: ClusterDescription) -> LocalNodes {
        let hosts = Some(spec.hosts.clone());
        LocalNodes::begin(spec, hosts, paths, started, AgeClock::default())
    }

    fn begin(
        spec: ClusterSpec,
        hosts: Option<Vec<Host>>,
        paths: Paths,
        started: ClusterDescription,
        age: AgeClock,
    ) -> LocalNodes {
        let ClusterSpec { server, secrets, network, .. } = spec;
        let mut roster = Roster::default();
        started.nodes.into_iter().for_each(|node| roster.add(node));
        let pass = Pass { secret: secrets.admin.clone(), credentials: network.of_client() };
        let joined = Hosts::default();
        let accounts = Accounts::new(pass, joined.clone());
        LocalNodes(Arc::new(Inner {
            server,
            hosts,
            secrets,
            network,
            accounts,
            age,
            claim: Mutex::default(),
            paths,
            offers: Offers::default(),
            joined,
            roster: Mutex::new(roster),
            provided: OnceLock::new(),
            launch_took: Mutex::default(),
            started: Condvar::new(),
        }))
    }

    /// Those that clients may log in to.
    pub fn vouched(&self) -> Arc<dyn tidefs_valkey::Roster> {
        // A client does not keep the nodes from being stopped.
        let inner = Arc::downgrade(&self.0);
        Arc::new(move || {
            let inner = inner.upgrade();
            inner.map_or_else(Vec::new, |inner| describe(&LocalNodes(inner).roster()).nodes)
        })
    }

    pub fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// With a secret of theirs.
    pub fn pass(&self, secret: Secret) -> Pass {
        Pass { secret, credentials: self.0.network.of_client() }
    }

    pub fn network(&self) -> &Network {
        &self.0.network
    }

    pub(super) fn accounts(&self) -> &Accounts {
        &self.0.accounts
    }

    /// All nodes that may carry something out, also those that are being ended.
    pub(super) fn running(&self) -> Vec<NodeDescription> {
        let there = describe(&self.roster()).nodes.into_iter();
        there.filter(|node| !self.has_ended(node)).collect()
    }

    /// Longer than the file system has been there.
    pub fn age(&self) -> AgeClock {
        self.0.age
    }

    pub fn claimed(&self) -> Claim {
        self.0.claim.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn claims(&self, claim: Claim) {
        *self.0.claim.lock().unwrap_or_else(PoisonError::into_inner) = claim;
    }

    /// More than whoever made this claim, and has ended.
    pub fn claims_more_than(&self, by: &Claim) {
        self.0.claim.lock().unwrap_or_else(PoisonError::into_inner).count = by.count + 1;
    }

    /// A node is connected to one of these that has it.
    pub fn is_had_from(&self, whose: ConnectedFrom) -> bool {
        let admin = self.pass(self.0.secrets.admin.clone());
        witness(&self.running(), admin, whose).is_some()
    }

    /// Nodes that lenders offer.
    pub fn offers(&self) -> &Offers {
        &self.0.offers
    }

    /// Hosts that have joined.
    pub fn hosts(&self) -> &Hosts {
        &self.0.joined
    }

    /// The nodes as other hosts reach them.
    pub fn record_for_hosts(&self) -> ClusterRecord {
        ClusterRecord::new(&describe(&self.roster())).for_hosts()
    }

    /// With what other hosts reach them.
    pub fn keys(&self) -> Result<Keys, failure::Failure> {
        Keys::read(&self.0.paths)
    }

    /// Where nodes are that there are.
    pub fn addresses(&self) -> BTreeSet<SocketAddr> {
        describe(&self.roster()).nodes.iter().map(|node| node.address).collect()
    }

    /// Sets an identity aside for a node that is being offered. `false`: another one has it, had it, or was
    /// offered with it.
    pub fn claim(&self, id: NodeId) -> bool {
        self.roster().identities.insert(id)
    }

    /// Nodes of the own class that are there and have not ended.
    pub fn own(&self) -> u16 {
        let nodes = self.roster().nodes.clone();
        let own = nodes.iter().filter(|(_, node)| node.class == NodeClass::Own);
        own.filter(|(_, node)| !self.has_ended(node)).count() as u16
    }

    pub fn class_of(&self, id: NodeId) -> Option<NodeClass> {
        self.roster().nodes.iter().find(|(_, node)| node.id == id).map(|(_, node)| node.class)
    }

    /// Its process, or its host, is known to have ended.
    fn has_ended(&self, node: &NodeDescription) -> bool {
        match node.is_elsewhere() {
            true => self.0.offers.has_ended(node.id),
            false => !node.process.is_running(),
        }
    }

    /// Number and description of each node that is there.
    pub fn nodes(&self) -> Vec<(usize, NodeDescription)> {
        self.roster().nodes.clone()
    }

    /// Nodes that ended by themselves, in the order of their numbers.
    pub fn dead(&self) -> Vec<DeadNode> {
        let roster = self.roster();
        let ended = roster.nodes.iter().filter(|(_, node)| self.has_ended(node));
        let ended = ended.map(|(number, node)| DeadNode::of(*number, node, None));
        let mut dead: Vec<_> = ended.chain(roster.buried.iter().cloned()).collect();
        dead.sort_by_key(|node| node.number);
        dead
    }

    /// Of all nodes, also of those that are being ended.
    pub fn processes(&self) -> Vec<ProcessId> {
        let there = describe(&self.roster()).nodes.into_iter();
        there.filter(|node| !node.is_elsewhere()).map(|node| node.process).collect()
    }

    /// To all of this process.
    pub fn send(&self, signal: Signal) {
        self.processes().into_iter().for_each(|it| process::ProcessId::from(it).send(signal));
    }

    /// Ends them all and removes their folders; answers with those that do not end. Happens at the
    /// latest when nobody has this value any more.
    pub fn stop_all(&self) -> Vec<ProcessError> {
        self.roster().is_closed = true;
        stop_all(&mut self.settled())
    }

    /// When no node is being started.
    fn settled(&self) -> MutexGuard<'_, Roster> {
        let starting = |roster: &mut Roster| !roster.starting.is_empty();
        let roster = self.roster();
        let waited = self.0.started.wait_timeout_while(roster, STARTS_END_WITHIN, starting);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// What a host offers costs no start, and is memory that nobody else has.
    fn start_own(
        &self,
        host: Option<Host>,
        wanted: Wanted,
        offered_within: Duration,
    ) -> Result<NodeDescription, Failure> {
        let offers = &self.0.offers;
        if let (None, Some(provider)) = (&host, self.provider()) {
            return self.of_a_provided_host(provider);
        }
        let Some(host) = host else {
            let offered = offers.take_within(NodeClass::Own, offered_within);
            return offered.ok_or_else(|| self.nobody_offers());
        };
        offers.take(NodeClass::Own).map_or_else(|| self.launch(host, wanted), Ok)
    }

    fn launch(&self, host: Host, wanted: Wanted) -> Result<NodeDescription, Failure> {
        room::make(&self.0.paths);
        let mut id = [0; 20];
        getrandom::fill(&mut id).map_err(Failure::new)?;
        let node = NewNode {
            server: self.0.server.clone(),
            directory: self.0.paths.nodes(),
            host,
            id: NodeId(id),
            class: wanted.class,
            memory: wanted.memory,
            accounts: self.0.secrets.accounts(NodeId(id)),
            credentials: self.0.network.of_node(NodeId(id)),
            asker: Account::admin(self.pass(self.0.secrets.admin.clone())),
            lifetime: Lifetime::Starter,
        };
        let begun = Instant::now();
        let started = node.start().map_err(Failure::new)?;
        self.launched_within(begun.elapsed());
        Ok(started)
    }

    /// Ends a node; `offered` says what becomes of one that a lender offered.
    fn end(&self, id: NodeId, offered: fn(&Offers, NodeId)) -> Result<(), Failure> {
        let mut offered = offered;
        let node = {
            let mut roster = self.roster();
            if roster.ending.iter().any(|node| node.id == id) {
                // Somebody who was done with it was killed.
                offered = Offers::free;
            }
            if let Some(at) = roster.nodes.iter().position(|(_, node)| node.id == id) {
                let (_, node) = roster.nodes.remove(at);
                roster.ending.push(node);
            }
            roster.ending.iter().find(|node| node.id == id).cloned()
        };
        let Some(node) = node else { return Ok(()) };
        node.stop().map_err(Failure::new)?;
        offered(&self.0.offers, id);
        let mut roster = self.roster();
        roster.ending.retain(|node| node.id != id);
        self.write(&roster)
    }

    /// Nobody reads the record of a file system that stops, and its directory is being removed.
    fn write(&self, roster: &Roster) -> Result<(), Failure> {
        if roster.is_closed {
            return Ok(());
        }
        room::make(&self.0.paths);
        ClusterRecord::new(&describe(roster)).rewrite(&self.0.paths).map_err(Failure::new)?;
        self.0.joined.nodes_changed();
        Ok(())
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.0.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of one that somebody else starts: no address of anybody.
fn address_of(host: Option<&Host>) -> IpAddr {
    host.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |host| host.address)
}

fn stop_all(roster: &mut Roster) -> Vec<ProcessError> {
    let described = describe(roster);
    (roster.nodes, roster.ending) = Default::default();
    let left = described.stop().err().unwrap_or_default();
    left.iter().for_each(|error| tracing::error!("{error}"));
    left
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.provided.get().iter().for_each(|provided| drop(provided.provider.end()));
        stop_all(self.roster.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

fn describe(roster: &Roster) -> ClusterDescription {
    let nodes = roster.nodes.iter().map(|(_, node)| node).chain(&roster.ending);
    ClusterDescription { nodes: nodes.cloned().collect() }
}

impl Provisioner for LocalNodes {
    type Address = NodeDescription;

    fn start(
        &self,
        wanted: Wanted,
        _stop: &AtomicBool,
    ) -> Result<(NodeId, NodeDescription), Failure> {
        let host = {
            let mut roster = self.roster();
            if roster.is_closed {
                return Err(Failure::new("the file system is stopping"));
            }
            let host = self.host(&roster);
            roster.starting.push(address_of(host.as_ref()));
            host
        };
        let address = address_of(host.as_ref());
        let started = match wanted.class {
            NodeClass::Own => self.start_own(host, wanted, OFFERED_WITHIN),
            NodeClass::Victim => {
                let offered = self.0.offers.take(NodeClass::Victim);
                offered.ok_or_else(|| Failure::new("no lender offers a node any more"))
            }
        };
        let mut roster = self.roster();
        if let Some(at) = roster.starting.iter().position(|it| *it == address) {
            roster.starting.swap_remove(at);
        }
        self.0.started.notify_all();
        let started = started?;
        roster.add(started.clone());
        drop(roster);
        // Before anybody makes it hold something.
        let told = self.tell_newcomer(&started);
        let mut roster = self.roster();
        if let Err(failure) = told.and_then(|()| self.write(&roster)) {
            roster.nodes.retain(|(_, node)| node.id != started.id);
            self.0.offers.free(started.id);
            let _ = started.stop();
            return Err(failure);
        }
        drop(roster);
        self.provider().iter().for_each(|provider| provider.in_use(started.id));
        for host in self.0.joined.all_know(HOSTS_KNOW_WITHIN) {
            tracing::warn!(%host, "a host has not heard of a new node yet");
        }
        Ok((started.id, started))
    }

    fn stop(&self, id: NodeId) -> Result<(), Failure> {
        self.end(id, Offers::free)
    }

    fn put_back(&self, id: NodeId) -> Result<(), Failure> {
        self.end(id, Offers::put_back)
    }

    fn guests(&self) -> Result<Vec<NodeId>, Failure> {
        Ok(self.nodes_of_guests())
    }

    fn start_takes(&self) -> Result<Option<Duration>, Failure> {
        Ok(self.next_start_takes())
    }

    fn ended(&self) -> Result<Vec<NodeId>, Failure> {
        let roster = self.roster();
        let ended = roster.nodes.iter().filter(|(_, node)| self.has_ended(node));
        Ok(ended.map(|(_, node)| node.id).collect())
    }

    fn bury(&self, loss: Loss) -> Result<(), Failure> {
        let mut roster = self.roster();
        let Some(at) = roster.nodes.iter().position(|(_, node)| node.id == loss.node) else {
            return Ok(());
        };
        let (number, node) = roster.nodes.remove(at);
        let lost = Lost { partitions: loss.partitions, bytes: loss.bytes };
        roster.buried.push(DeadNode::of(number, &node, Some(lost)));
        self.0.offers.bury(node.id);
        // The process has ended; this collects it and clears its folder.
        node.stop().map_err(Failure::new)?;
        self.write(&roster)
    }

    fn started(&self) -> Result<Vec<NodeId>, Failure> {
        // A predecessor of whoever asks may have been killed while it had a node started.
        Ok(describe(&self.settled()).nodes.iter().map(|node| node.id).collect())
    }
}
