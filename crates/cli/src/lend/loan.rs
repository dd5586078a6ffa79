//! One node on loan: it is offered, used, and given back or lost.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tidefs_model::{ByteSize, NodeId};
use tidefs_valkey::{
    Account, Accounts, Awake, Host, LentNode, Lifetime, NewNode, NodeDescription, NodeKey, Secret,
};

use super::errands::Errands;
use super::manners::Manners;
use super::resuming::{Again, Resumed, Resuming};
use super::tenant::Resident;
use super::{Folder, Group};
use crate::failure::Failure;
use crate::lending::{
    ANSWER_WAIT, Certificate, Channel, ChannelError, FromBorrower, Place, Purpose, State,
    ToBorrower, digits_of,
};
use crate::say;

/// The borrower asks the node who it is before it answers.
const JOIN_WAIT: Duration = Duration::from_secs(15);
/// At one go, for an answer: what the machine needs and which signals came is looked at in between.
const LISTEN: Duration = Duration::from_millis(50);

/// How a loan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The borrower has no use for the node, for this reason where it is known.
    Free(Option<String>),
    /// The borrower has hung up.
    Closed,
    /// The connection broke, and could not be made again.
    Broken,
    /// It has not been heard for so long that it takes the node for lost.
    OutOfTouch,
    /// The node has ended by itself, or was killed.
    NodeDied,
}

/// A node that is about to be offered.
pub struct Offer<'a> {
    pub server: &'a Path,
    /// Where the file system listens.
    pub place: Place,
    pub purpose: Purpose,
    pub secret: &'a [u8; 32],
    /// That the node may hold.
    pub memory: ByteSize,
    /// It is wanted when the file system grows the next time, and not before.
    pub is_reserve: bool,
    /// The name by which its host was asked for, if it was.
    pub provided: Option<String>,
    /// That it is confined to, where it is somebody else's machine.
    pub group: Option<Group>,
}

/// Dropping it ends the node.
pub struct Loan {
    channel: Channel,
    /// While the connection is broken.
    resuming: Option<Resuming>,
    again: Again,
    /// The last word of the borrower.
    heard: Awake,
    node: LentNode,
    errands: Errands,
    resident: Resident,
    /// When the words were said that have not been answered.
    asked: VecDeque<Awake>,
    /// What was said and heard last.
    wants_back: bool,
    state: State,
    pub why: Option<String>,
    /// It is to be emptied, and is not kept back from that.
    is_hurried: bool,
    // In this order: the node has ended before its group and folder go.
    group: Option<Group>,
    _folder: Folder,
}

impl Loan {
    /// Offers a node and starts it. It is not in use yet.
    pub fn begin(offer: Offer<'_>) -> anyhow::Result<Loan> {
        let Offer { server, place, purpose, secret, memory, is_reserve, provided, group } = offer;
        let (address, term) = place.now();
        let refused =
            |error: ChannelError| Failure::CannotJoin { address, cause: error.to_string() };
        let mut channel = Channel::connect(address, purpose, secret).map_err(refused)?;
        let (mut id, mut seed) = ([0; 20], [0; 32]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut seed)?;
        let (id, key) = (NodeId(id), NodeKey::from_seed(&seed));
        let (offered, public) = (id.to_string(), digits_of(&key.public()));
        let offer = ToBorrower::Offer { memory_bytes: memory.0, id: offered, key: public };
        channel.say(&offer).map_err(refused)?;
        let (accounts, certificate) = match channel.hear().map_err(refused)? {
            FromBorrower::Terms { accounts, certificate } => {
                (Accounts::from_text(id, &accounts), certificate)
            }
            other => return Err(unwanted(address, other).into()),
        };
        let signed = |signed: Certificate| key.with(signed.authority, signed.certificate);
        let credentials = certificate.map(signed);
        let folder = Folder::make()?;
        let lender = random_secret()?;
        if group.is_some() {
            // The node inherits them.
            Manners::Patient.have(std::process::id());
        }
        let node = LentNode::start(&NewNode {
            server: server.to_owned(),
            directory: folder.path().to_owned(),
            id,
            class: purpose.class(),
            memory,
            host: Host::here(channel.addresses()?.0),
            accounts: accounts.with_lender(&lender).with_countersign(&channel.key().countersign()),
            credentials,
            asker: Account::lender(lender),
            lifetime: Lifetime::Starter,
        })?;
        group.iter().try_for_each(|group| confine(&node, group))?;
        let described = node.description();
        let join = ToBorrower::Join {
            id: described.id.to_string(),
            port: described.address.port(),
            bus_port: described.bus_port,
            memory_bytes: memory.0,
            is_reserve,
            provided,
        };
        channel.patience(JOIN_WAIT)?;
        channel.say(&join).map_err(refused)?;
        match channel.hear().map_err(refused)? {
            FromBorrower::Standing { .. } => {}
            other => return Err(unwanted(address, other).into()),
        }
        channel.patience(LISTEN)?;
        let errands = Errands::to(node.line())?;
        let described = node.description().clone();
        let again = Again { place, purpose, secret: *secret, node: described, term };
        Ok(Loan {
            channel,
            resuming: None,
            again,
            heard: Awake::now(),
            resident: Resident::of(node.description().process.pid),
            node,
            errands,
            asked: VecDeque::new(),
            wants_back: false,
            state: State::Waiting,
            why: None,
            is_hurried: false,
            group,
            _folder: folder,
        })
    }

    pub fn id(&self) -> NodeId {
        self.node.description().id
    }

    pub fn node(&self) -> &NodeDescription {
        self.node.description()
    }

    pub fn address(&self) -> SocketAddr {
        self.node.description().address
    }

    /// What the machine has given the node.
    pub fn resident(&self) -> ByteSize {
        self.resident.now()
    }

    /// To ask the node something. The borrower sees when it may hold less, and takes away what is too
    /// much.
    pub fn errands(&self) -> &Errands {
        &self.errands
    }

    /// Tells the borrower that the lender is there, and learns how it stands: as it was said last, where
    /// the answer is not there soon.
    pub fn beat(&mut self, wants_back: bool) -> Result<State, Ended> {
        if !self.node.is_running() {
            return Err(Ended::NodeDied);
        }
        if wants_back && !std::mem::replace(&mut self.is_hurried, true) {
            self.hurry();
        }
        if let Some(resuming) = &self.resuming {
            let Some(resumed) = resuming.poll() else { return Ok(self.state) };
            self.goes_on(resumed?).map_err(|error| broken(&error))?;
        }
        match self.speak(wants_back).and_then(|()| self.channel.hear()) {
            Ok(word) => {
                self.asked.pop_front();
                self.heard = Awake::now();
                self.heard(word)
            }
            Err(error) if error.is_silence() && !error.is_unanswered() && !self.is_given_up() => {
                Ok(self.state)
            }
            // The node is ended before the borrower takes it for lost, which is soon where its machine does not answer.
            Err(error) if error.is_silence() && !self.again.place.votes() => Err(Ended::OutOfTouch),
            Err(error) if error.is_broken() || error.is_silence() || self.outlives(&error) => {
                say::note("the connection broke; making it again");
                let resuming = Resuming::begin(self.again.clone(), self.channel.key(), self.heard);
                self.resuming = Some(resuming.map_err(|error| broken(&error))?);
                Ok(self.state)
            }
            Err(error) => {
                tracing::debug!("the borrower: {error}");
                Err(Ended::Closed)
            }
        }
    }

    /// It has not answered for too long.
    fn is_given_up(&self) -> bool {
        self.asked.front().is_some_and(|asked| Awake::now().since(*asked) >= ANSWER_WAIT)
    }

    /// Whoever had the file system has gone, and somebody else takes it over.
    fn outlives(&self, error: &ChannelError) -> bool {
        matches!(error, ChannelError::Gone) && self.again.place.outlives()
    }

    /// This machine lacks the memory.
    pub fn hurry_most(&mut self) {
        self.hurry();
        self.group.iter().for_each(Group::hurry_most);
        self.is_hurried = true;
    }

    /// Somebody waits for the memory: what empties the node gets the processors as everybody does.
    fn hurry(&self) {
        let Some(group) = &self.group else { return };
        group.hurry();
        for process in [self.node.description().process.pid, std::process::id()] {
            Manners::Usual.have(process);
        }
    }

    fn goes_on(&mut self, resumed: Resumed) -> io::Result<()> {
        let Resumed { mut channel, term } = resumed;
        channel.patience(LISTEN)?;
        self.again.term = term;
        (self.channel, self.resuming, self.wants_back) = (channel, None, false);
        self.asked.clear();
        say::note("the connection is there again");
        Ok(())
    }

    /// Nothing more while an answer is missing, unless the machine needs its memory by now.
    fn speak(&mut self, wants_back: bool) -> Result<(), ChannelError> {
        if self.asked.is_empty() || wants_back && !self.wants_back {
            self.channel.say(&ToBorrower::Beat { wants_back })?;
            self.asked.push_back(Awake::now());
            self.wants_back = wants_back;
        }
        Ok(())
    }

    fn heard(&mut self, word: FromBorrower) -> Result<State, Ended> {
        match word {
            FromBorrower::Standing { state: State::Free, why } => Err(Ended::Free(why)),
            FromBorrower::Standing { state, why } => {
                self.why = why;
                self.state = state;
                Ok(state)
            }
            FromBorrower::Refused(why) => Err(Ended::Free(Some(why))),
            FromBorrower::Over | FromBorrower::Terms { .. } | FromBorrower::Host(_) => {
                Err(Ended::Closed)
            }
        }
    }

    /// Ends the node at once where nothing is left on it.
    pub fn end_empty(self) {
        self.node.kill();
        self.end();
    }

    /// Ends the node, and clears away its group and its folder.
    pub fn end(self) {
        let Loan { channel, node, errands, group, is_hurried, _folder, .. } = self;
        if !is_hurried {
            group.iter().for_each(Group::hurry);
        }
        drop(errands);
        drop(node);
        drop(channel);
        drop(group);
    }
}

fn broken(error: &io::Error) -> Ended {
    tracing::warn!("the connection is not made again: {error}");
    Ended::Broken
}

fn unwanted(address: SocketAddr, answer: FromBorrower) -> Failure {
    let why = match answer {
        FromBorrower::Refused(why) => why,
        other => format!("it answers something else: {other:?}"),
    };
    Failure::NotWanted { address, why }
}

/// When memory is short, the kernel ends the node before it ends anything of the tenant's.
fn confine(node: &LentNode, group: &Group) -> anyhow::Result<()> {
    let process = node.description().process.pid;
    group.take(process).map_err(|error| Failure::NoControlGroup { why: error.to_string() })?;
    if let Err(error) = fs::write(format!("/proc/{process}/oom_score_adj"), "1000") {
        tracing::warn!("the kernel may end others before the node when memory is short: {error}");
    }
    Ok(())
}

fn random_secret() -> anyhow::Result<Secret> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    Ok(Secret::from_bytes(&random))
}
