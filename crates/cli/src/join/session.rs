//! The connection by which this host belongs to a file system. A thread of its own keeps it, and writes down
//! which nodes there are; where it breaks it is made again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use anyhow::Context;
use tidefs_valkey::{Awake, NodeDescription};

use crate::failure::Failure;
use crate::lend::{Ended, until_answered};
use crate::lending::{
    ANSWER_WAIT, Channel, ChannelError, Entered, FromBorrower, FromHost, Purpose, ToBorrower,
    ToHost,
};
use crate::state::{ClusterRecord, Keys, Paths};
use crate::{say, version};

/// How the file system is reached, and as whom.
#[derive(Clone)]
pub struct Reach {
    pub address: SocketAddr,
    pub secret: [u8; 32],
    /// Of this agent: a number that was never drawn before.
    pub agent: u128,
}

impl Reach {
    /// As an agent that nobody knows yet.
    pub fn new(address: SocketAddr, secret: [u8; 32]) -> anyhow::Result<Reach> {
        let mut agent = [0; 16];
        getrandom::fill(&mut agent).context("no random numbers")?;
        Ok(Reach { address, secret, agent: u128::from_ne_bytes(agent) })
    }

    pub fn channel(&self) -> Result<Channel, ChannelError> {
        Channel::connect(self.address, Purpose::Join, &self.secret)
    }

    /// Begins a session, or goes on with it.
    pub fn enter(&self) -> Result<(Channel, Entered), Failure> {
        let address = self.address;
        let refused =
            |error: ChannelError| Failure::CannotJoin { address, cause: error.to_string() };
        let mut channel = self.channel().map_err(refused)?;
        match self.enters(&mut channel).map_err(refused)? {
            Ok(entered) => Ok((channel, entered)),
            Err(why) => Err(Failure::NotLetIn { address, why }),
        }
    }

    /// `Err` in the answer: why it is not let in.
    fn enters(&self, channel: &mut Channel) -> Result<Result<Entered, String>, ChannelError> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (agent, version) = (self.agent, version::line().to_owned());
        channel.say(&ToBorrower::Host(FromHost::Enter { agent, host, version }))?;
        channel.patience(ANSWER_WAIT)?;
        Ok(match channel.hear()? {
            FromBorrower::Host(ToHost::Entered(entered)) => Ok(*entered),
            FromBorrower::Refused(why) => Err(why),
            _ => Err("it answers something else".to_owned()),
        })
    }
}

/// Ends with its process.
pub struct Session(Arc<Kept>);

struct Kept {
    reach: Reach,
    paths: Paths,
    keys: Keys,
    state: Mutex<State>,
}

struct State {
    /// The nodes as they were told last.
    nodes: ClusterRecord,
    /// The node of this host, which its programs reach by its socket.
    own: Option<NodeDescription>,
    ended: Option<Ended>,
}

impl Session {
    /// Keeps the session that was begun on this connection.
    pub fn keep(
        reach: Reach,
        paths: &Paths,
        channel: Channel,
        entered: Entered,
    ) -> anyhow::Result<Session> {
        let Entered { number, nodes, keys, .. } = entered;
        let state = Mutex::new(State { nodes, own: None, ended: None });
        let kept = Arc::new(Kept { reach, paths: paths.clone(), keys, state });
        kept.write()?;
        let thread = Arc::clone(&kept);
        let keeps = move || {
            let ended = thread.keep(channel, number);
            thread.state().ended = Some(ended);
        };
        Builder::new().name("session".to_owned()).spawn(keeps).context("no thread")?;
        Ok(Session(kept))
    }

    /// Why it is over for good.
    pub fn ended(&self) -> Option<Ended> {
        self.0.state().ended.clone()
    }

    /// The node of this host, or that there is none any more.
    pub fn set_own(&self, own: Option<NodeDescription>) -> Result<(), Failure> {
        self.0.state().own = own;
        self.0.write()
    }
}

impl Kept {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> Result<(), Failure> {
        let state = self.state();
        let nodes = state.nodes.clone();
        let nodes = state.own.iter().fold(nodes, |nodes, own| nodes.with_own(own));
        nodes.rewrite(&self.paths)
    }

    /// Until it is over for good.
    fn keep(&self, mut channel: Channel, mut number: u64) -> Ended {
        loop {
            let (error, heard) = self.watch(&mut channel, &mut number);
            tracing::info!("the session: {error}");
            match error {
                error if error.is_silence() => return Ended::OutOfTouch,
                error if error.is_broken() => {}
                _ => return Ended::Closed,
            }
            say::note("the connection broke; making it again");
            match self.again(heard) {
                Ok((again, entered)) => {
                    say::note("the connection is there again");
                    (channel, number) = (again, entered.number);
                    self.learn(entered.nodes);
                }
                Err(ended) => return ended,
            }
        }
    }

    /// Until the connection is over; answers why, and when it was heard last.
    fn watch(&self, channel: &mut Channel, number: &mut u64) -> (ChannelError, Awake) {
        let mut heard = Awake::now();
        loop {
            let asked = channel.say(&ToBorrower::Host(FromHost::Watch { seen: *number }));
            match asked.and_then(|()| channel.hear()) {
                Ok(FromBorrower::Host(ToHost::Nodes { number: told, nodes })) => {
                    heard = Awake::now();
                    *number = told;
                    nodes.into_iter().for_each(|nodes| self.learn(nodes));
                }
                Ok(_) => return (ChannelError::Gone, heard),
                Err(error) => return (error, heard),
            }
        }
    }

    /// Programs of this host find it before the next word says that they do.
    fn learn(&self, nodes: ClusterRecord) {
        self.state().nodes = nodes;
        if let Err(error) = self.write() {
            tracing::warn!("programs of this host do not learn of other nodes: {error}");
        }
    }

    fn again(&self, heard: Awake) -> Result<(Channel, Entered), Ended> {
        until_answered(heard, || {
            let mut channel = self.reach.channel()?;
            Ok(match self.reach.enters(&mut channel)? {
                Ok(entered) if entered.keys == self.keys => Ok((channel, entered)),
                Ok(_) => Err(Ended::Closed),
                Err(why) => Err(Ended::Free(Some(why))),
            })
        })
    }
}
