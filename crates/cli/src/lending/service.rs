//! Listens for lenders, and has the manager take their nodes in and give them back.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, sleep};
use std::time::Duration;

use tidefs_model::{ByteSize, NodeClass, NodeId};
use tidefs_valkey::{
    Endpoint, NODE_MEMORY_MIN, Network, NodeDescription, PeerSecrets, ProcessId, identity_at,
    proven_at,
};

use super::channel::{Channel, ChannelError, ChannelKey};
use super::door::Door;
use super::offers::Offers;
use super::sessions::{Answers, Session};
use super::succession::Legacy;
use super::words::{Certificate, FromBorrower, LEASE, Purpose, State, ToBorrower, secret_of};
use crate::nodes::{LocalNodes, Supervision};

/// Between two looks at whether a lender is there again whose connection broke.
pub(super) const RESUME_LOOK: Duration = Duration::from_millis(200);

/// The node of a connection, and how many connections its lender had for it before.
#[derive(Clone, Copy)]
struct Lent {
    id: NodeId,
    line: u64,
}

pub struct Service {
    pub nodes: LocalNodes,
    pub manager: Arc<Supervision>,
    pub offers: Offers,
    /// With one of which whoever joins or lends proves himself.
    pub secrets: PeerSecrets,
    /// As many own nodes as there may be.
    pub nodes_max: u16,
    /// Of a node's memory, what is kept for metadata.
    pub head_room: ByteSize,
    pub answers: Answers,
    /// For hosts that may take the file system over; none where it ends with this process.
    pub legacy: Option<Box<Legacy>>,
    /// Where what hosts say is kept.
    pub host_logs: PathBuf,
    /// Held while nodes are counted and added.
    pub growing: Mutex<()>,
}

/// A node that has been offered and runs.
struct Joining {
    address: SocketAddr,
    bus_port: u16,
    memory_bytes: u64,
    class: NodeClass,
    is_reserve: bool,
    /// The name by which its host was asked for, if it was.
    provided: Option<String>,
}

impl Joining {
    fn described(&self, id: NodeId) -> NodeDescription {
        NodeDescription {
            id,
            class: self.class,
            address: self.address,
            bus_port: self.bus_port,
            socket: PathBuf::new(),
            directory: PathBuf::new(),
            memory: ByteSize(self.memory_bytes),
            process: ProcessId { pid: 0, started_ticks: 0 },
        }
    }
}

impl Service {
    /// Serves lenders for the rest of this process's life.
    pub fn serve(self, listener: TcpListener) {
        let secrets = self.secrets.clone();
        let service = Arc::new(self);
        let door = Door::new(secrets, move |channel| service.loan(channel));
        if door.keep(listener).is_err() {
            tracing::warn!("no thread that listens to lenders");
        }
    }

    /// One lender, from its first word to its last.
    pub(crate) fn loan(self: &Arc<Self>, channel: Channel) {
        let (mut lent, mut session) = (None, None);
        let is_host = channel.purpose() == Purpose::Join;
        let ended = channel
            .addresses()
            .map_err(ChannelError::from)
            .and_then(|(_, peer)| self.converse(channel, peer, &mut lent, &mut session));
        // Where hosts vote, one that does not answer may be electing somebody, and has its node meanwhile.
        let may_vote = self.nodes.hosts().voters().has_enough();
        let is_broken = |error: &ChannelError| {
            error.is_broken() || may_vote && is_host && error.is_unanswered()
        };
        let is_broken = ended.as_ref().is_err_and(is_broken);
        if let Err(error) = ended {
            tracing::info!("a lender, or a host that joins: {error}");
        }
        if let Some(session) = session {
            self.end_session(session, is_broken);
        }
        if let Some(Lent { id, line }) = lent {
            // Nobody has hung up: the lender is waited for as long as one that says nothing.
            while is_broken && self.offers.may_resume(id, line) {
                sleep(RESUME_LOOK);
            }
            self.offers.close(id, line);
        }
    }

    fn converse(
        self: &Arc<Self>,
        mut channel: Channel,
        peer: IpAddr,
        lent: &mut Option<Lent>,
        session: &mut Option<Session>,
    ) -> Result<(), ChannelError> {
        let mut offered = None;
        loop {
            let word = channel.hear()?;
            let lease = match channel.purpose() {
                Purpose::Lend => LEASE,
                Purpose::Join => self.nodes.hosts().lease(),
            };
            channel.patience(lease)?;
            // Its host brings the node to whoever has the file system by now.
            if !matches!(word, ToBorrower::Host(_)) && self.nodes.hosts().moved().is_some() {
                return Err(ChannelError::Gone);
            }
            let answer = match (word, *lent) {
                (ToBorrower::Offer { memory_bytes, id, key }, _) => {
                    let terms = self.terms(ByteSize(memory_bytes), &id, &key);
                    offered = terms.is_ok().then_some(id);
                    terms.unwrap_or_else(FromBorrower::Refused)
                }
                (ToBorrower::Join { .. }, Some(_)) => refused("this connection has a node already"),
                (ToBorrower::Join { id, .. }, None) if offered.as_ref() != Some(&id) => {
                    refused("what joins was not offered on this connection")
                }
                (
                    ToBorrower::Join { id, port, bus_port, memory_bytes, is_reserve, provided },
                    None,
                ) => {
                    let address = SocketAddr::new(peer, port);
                    let class = channel.purpose().class();
                    let joining =
                        Joining { address, bus_port, memory_bytes, class, is_reserve, provided };
                    match self.join(&id, joining, channel.key()) {
                        Ok(id) => {
                            *lent = Some(Lent { id, line: 0 });
                            FromBorrower::Standing { state: State::Waiting, why: None }
                        }
                        Err(why) => FromBorrower::Refused(why),
                    }
                }
                (ToBorrower::Bring { .. }, Some(_)) => {
                    refused("this connection has a node already")
                }
                (ToBorrower::Bring { .. }, None) if channel.purpose() != Purpose::Join => {
                    refused("the secret of lenders brings no node")
                }
                (ToBorrower::Bring { id, port, bus_port, memory_bytes }, None) => {
                    let address = SocketAddr::new(peer, port);
                    let (class, is_reserve, provided) = (NodeClass::Own, true, None);
                    let node =
                        Joining { address, bus_port, memory_bytes, class, is_reserve, provided };
                    match self.bring(&id, node, channel.key()) {
                        Ok(brought) => {
                            *lent = Some(brought);
                            self.beat(brought.id, false)
                        }
                        Err(why) => FromBorrower::Refused(why),
                    }
                }
                (ToBorrower::Resume { .. }, Some(_)) => {
                    refused("this connection has a node already")
                }
                (ToBorrower::Resume { id, proof }, None) => {
                    *lent = self.resume(&channel, &id, &proof);
                    match lent {
                        Some(Lent { id, .. }) => self.beat(*id, false),
                        None => refused("the node has been given up meanwhile"),
                    }
                }
                (ToBorrower::Host(word), _) => self.hear_host(&mut channel, peer, session, word)?,
                (ToBorrower::Beat { .. }, None) => refused("this connection has no node"),
                (ToBorrower::Beat { wants_back }, Some(Lent { id, .. })) => {
                    self.beat(id, wants_back)
                }
            };
            channel.say(&answer)?;
        }
    }

    /// Nobody gets a certificate of a node that there is, was, or was offered.
    fn terms(&self, memory: ByteSize, id: &str, key: &str) -> Result<FromBorrower, String> {
        if memory < NODE_MEMORY_MIN {
            return Err(format!("{memory} is too little; {NODE_MEMORY_MIN} is the least"));
        }
        let id: NodeId = id.parse().map_err(|error| format!("{error}"))?;
        let key = secret_of(key).map_err(|_| "64 hexadecimal digits are a key".to_owned())?;
        if !self.nodes.claim(id) {
            return Err(format!("{id} is the identity of another node"));
        }
        let certificate = match self.nodes.network() {
            Network::Trusted => None,
            Network::Guarded(authority) => Some(Certificate {
                authority: authority.certificate(),
                certificate: authority.certify(id, key),
            }),
        };
        let accounts = self.nodes.secrets().accounts(id).text().to_owned();
        Ok(FromBorrower::Terms { accounts, certificate })
    }

    /// Nobody's word is taken for who it is: the node itself is asked.
    fn join(self: &Arc<Self>, id: &str, it: Joining, key: ChannelKey) -> Result<NodeId, String> {
        let (address, class, is_reserve) = (it.address, it.class, it.is_reserve);
        let id: NodeId = id.parse().map_err(|error| format!("{error}"))?;
        if self.nodes.addresses().contains(&address) {
            return Err(format!("{id} at {address} claims the address of another node"));
        }
        self.is_that_node(id, address, &key)?;
        // Before anybody takes it.
        if let (Some(name), Some(provider)) = (&it.provided, self.nodes.provider())
            && !provider.offers(name, id, |old| self.offers.has_ended(old))
        {
            return Err(format!("the host {name} was given up, and is taken away"));
        }
        if !self.offers.add(it.described(id), key, is_reserve) {
            return Err(format!("{id} claims the identity of another node"));
        }
        match class {
            NodeClass::Victim => self.aside(id, Service::take_in),
            NodeClass::Own if is_reserve => {}
            NodeClass::Own => self.aside(id, Service::grow),
        }
        Ok(id)
    }

    /// A host comes with its node after the file system was taken over. It is the node that it was, or waits.
    fn bring(&self, id: &str, it: Joining, key: ChannelKey) -> Result<Lent, String> {
        let id: NodeId = id.parse().map_err(|error| format!("{error}"))?;
        let endpoint = Endpoint::Tcp { address: it.address, id };
        let admin = self.nodes.pass(self.nodes.secrets().admin.clone());
        let found = identity_at(&endpoint, admin).map_err(|fault| fault.to_string())?;
        if found != id {
            return Err(format!("what answers at {} is {found}, which is not {id}", it.address));
        }
        self.nodes.claim(id);
        if let Some(line) = self.offers.bring(id, key.clone()) {
            return Ok(Lent { id, line });
        }
        match self.offers.add(it.described(id), key, true) {
            true => Ok(Lent { id, line: 0 }),
            false => Err(format!("{id} has been given up meanwhile")),
        }
    }

    /// The cluster's secret is shown to nobody who has not proved to be this loan's node.
    fn is_that_node(&self, id: NodeId, at: SocketAddr, key: &ChannelKey) -> Result<(), String> {
        let shut_out =
            |fault| format!("the node does not let this file system in at {at}: {fault}");
        let is_it = |found: NodeId| match found == id {
            true => Ok(()),
            false => Err(format!("what answers at {at} is {found}, which is not {id}")),
        };
        let endpoint = Endpoint::Tcp { address: at, id };
        let credentials = self.nodes.network().of_client();
        let proven = proven_at(&endpoint, &key.countersign(), credentials).map_err(shut_out)?;
        let not_proven = || format!("what answers at {at} does not prove to be what is lent");
        is_it(proven.ok_or_else(not_proven)?)?;
        let admin = self.nodes.pass(self.nodes.secrets().admin.clone());
        is_it(identity_at(&endpoint, admin).map_err(shut_out)?)
    }

    fn resume(&self, channel: &Channel, id: &str, proof: &str) -> Option<Lent> {
        let id: NodeId = id.parse().ok()?;
        let is_its = |earlier: &ChannelKey| channel.is_proved(earlier, proof);
        let line = self.offers.resume(id, channel.key(), is_its)?;
        tracing::info!(node = %id, "its lender is there again");
        Some(Lent { id, line })
    }

    fn beat(self: &Arc<Self>, id: NodeId, wants_back: bool) -> FromBorrower {
        let hosts = self.nodes.hosts();
        // A host on the smaller side ends its node like one that is alone.
        while !hosts.may_decide() && !hosts.is_over() && hosts.moved().is_none() {
            sleep(RESUME_LOOK);
        }
        if hosts.is_over() {
            return FromBorrower::Over;
        }
        if wants_back && self.offers.want_back(id) {
            self.aside(id, Service::give_back);
        }
        match self.offers.heard(id) {
            Some((state, why)) => FromBorrower::Standing { state, why },
            None => FromBorrower::Standing { state: State::Free, why: None },
        }
    }

    fn aside(self: &Arc<Self>, id: NodeId, act: fn(&Service, NodeId)) {
        let service = Arc::clone(self);
        if Builder::new().spawn(move || act(&service, id)).is_err() {
            self.offers.note(id, "no thread is free".to_owned());
        }
    }
}

fn refused(why: &str) -> FromBorrower {
    FromBorrower::Refused(why.to_owned())
}
