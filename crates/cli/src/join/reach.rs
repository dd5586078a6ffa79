//! How this host reaches the file system that it belongs to, and as whom.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tidefs_fuse::SystemClock;
use tidefs_model::{Clock, Time};

use crate::age_clock::AgeClock;
use crate::failure::Failure;
use crate::lending::{
    ANSWER_WAIT, Channel, ChannelError, Entered, FromBorrower, FromHost, Owner, Place, Purpose,
    Rank, ToBorrower, ToHost,
};
use crate::version;
use crate::wall_clock::{self, Ahead};

/// Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Reach {
    pub place: Place,
    pub secret: [u8; 32],
    /// Of this agent: a number that was never drawn before.
    pub agent: u128,
    /// The name by which somebody has asked for it, where a provision command started it.
    provided: Option<String>,
    told: Arc<Mutex<Told>>,
    age: Arc<Mutex<AgeClock>>,
}

/// What is told of this host when it enters.
#[derive(Default)]
struct Told {
    port: Option<u16>,
    rank: Option<Rank>,
    /// With what the mounts of this host were let in, by their names.
    accounts: BTreeMap<u64, String>,
}

/// What is answered to a host that enters.
pub enum Answered {
    Entered(Box<(Channel, Entered)>),
    /// Who is asked has not taken the file system over, or not yet.
    NotYet,
    /// Who is asked had it, and somebody else has it by now.
    Moved(Owner),
    /// The file system ends.
    Over,
    Refused(String),
}

impl Reach {
    /// As an agent that nobody knows yet.
    pub fn new(place: Place, secret: [u8; 32]) -> anyhow::Result<Reach> {
        let mut agent = [0; 16];
        getrandom::fill(&mut agent).context("no random numbers")?;
        let agent = u128::from_ne_bytes(agent);
        let (told, age) = (Arc::default(), Arc::default());
        Ok(Reach { place, secret, agent, provided: None, told, age })
    }

    /// It is the host that was asked for by this name.
    pub fn provided_as(self, provided: Option<String>) -> Reach {
        Reach { provided, ..self }
    }

    pub fn provided(&self) -> Option<&String> {
        self.provided.as_ref()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By which this host reaches the file system.
    pub fn own_address(&self) -> Result<IpAddr, Failure> {
        let address = self.place.address();
        let refused =
            |error: ChannelError| Failure::CannotJoin { address, cause: error.to_string() };
        let channel = self.channel().map_err(refused)?;
        Ok(channel.addresses().map_err(|error| refused(error.into()))?.0)
    }

    /// It listens there, on the address from which it calls.
    pub fn listens(&self, port: u16) {
        self.told().port = Some(port);
    }

    /// Longer than the file system has been there, by all that was said of it.
    pub fn age(&self) -> AgeClock {
        *self.age.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever has the file system said so, in answer to what this host had asked when it was up for `asked`.
    pub fn told_age(&self, age_ns: u64, asked: Time) {
        let mut age = self.age.lock().unwrap_or_else(PoisonError::into_inner);
        *age = age.told(Time(age_ns), asked);
    }

    /// It comes as the last of the line, or has no place in it any more.
    pub fn loses_place(&self, is_heir: bool) {
        let mut told = self.told();
        told.rank = None;
        told.port = told.port.filter(|_| is_heir);
    }

    pub fn note_account(&self, mount: u64, secret: String) {
        self.told().accounts.insert(mount, secret);
    }

    pub fn forget_account(&self, mount: u64) {
        self.told().accounts.remove(&mount);
    }

    pub fn channel(&self) -> Result<Channel, ChannelError> {
        Channel::connect(self.place.address(), Purpose::Join, &self.secret)
    }

    /// Begins a session.
    pub fn enter(&self) -> Result<(Channel, Entered), Failure> {
        let address = self.place.address();
        let refused =
            |error: ChannelError| Failure::CannotJoin { address, cause: error.to_string() };
        let why = match self.enter_at(address).map_err(refused)? {
            Answered::Entered(entered) => {
                let there = entered.1.wall_seconds;
                if let Some(ahead) = Ahead::of(wall_clock::seconds(), there) {
                    let means = wall_clock::MEANS;
                    tracing::warn!(
                        "the clock of this host is {ahead} of that of {address}: {means}"
                    );
                }
                return Ok(*entered);
            }
            Answered::Refused(why) => why,
            Answered::NotYet => {
                "it is a host of the file system, which does not have it".to_owned()
            }
            Answered::Moved(owner) => format!("{} has taken it over", owner.heir.address),
            Answered::Over => "the file system ends".to_owned(),
        };
        Err(Failure::NotLetIn { address, why })
    }

    /// Begins a session with whoever is there, or goes on with it; it is the place from then on.
    pub fn enter_at(&self, address: SocketAddr) -> Result<Answered, ChannelError> {
        let mut channel = Channel::connect(address, Purpose::Join, &self.secret)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (agent, version) = (self.agent, version::line().to_owned());
        let word = {
            let told = self.told();
            let accounts = told.accounts.clone().into_iter().collect();
            let (port, rank) = (told.port, told.rank);
            let provided = self.provided.clone();
            let wall_seconds = Some(wall_clock::seconds());
            FromHost::Enter { agent, host, version, port, rank, accounts, provided, wall_seconds }
        };
        let asked = SystemClock.steady();
        channel.say(&ToBorrower::Host(word))?;
        channel.patience(ANSWER_WAIT)?;
        Ok(match channel.hear()? {
            FromBorrower::Host(ToHost::Entered(entered)) => {
                self.told().rank = Some(entered.rank);
                self.told_age(entered.age_ns, asked);
                self.place.is(address, entered.succession.term, entered.legacy.is_some());
                Answered::Entered(Box::new((channel, *entered)))
            }
            FromBorrower::Host(ToHost::NotYet) => Answered::NotYet,
            FromBorrower::Host(ToHost::Moved(owner)) => Answered::Moved(owner),
            FromBorrower::Over | FromBorrower::Host(ToHost::Over) => Answered::Over,
            FromBorrower::Refused(why) => Answered::Refused(why),
            _ => Answered::Refused("it answers something else".to_owned()),
        })
    }
}
