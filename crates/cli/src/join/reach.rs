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
    ANSWER_WAIT, Ballot, Channel, ChannelError, Entered, FromBorrower, FromHost, Owner, Place,
    Purpose, Rank, ToBorrower, ToHost,
};
use crate::version;
use crate::wall_clock::{self, Ahead};

/// Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Reach {
    pub place: Place,
    pub secret: [u8; 32],
    /// How this host votes on who has the file system.
    pub ballot: Ballot,
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
    stays: bool,
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
    /// Who is asked has taken it over, and this host has heard somebody else too lately.
    NotHeard,
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
        let (ballot, told, age) = Default::default();
        Ok(Reach { place, secret, ballot, agent, provided: None, told, age })
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

    /// All that was asked for here is in service: from now on this host may take the file system over, and votes.
    pub fn stays(&self) {
        self.told().stays = true;
    }

    pub fn has_all(&self) -> bool {
        self.told().stays
    }

    /// Its place in the line, once it has one.
    pub fn stands(&self, rank: Option<Rank>) {
        self.told().rank = rank;
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
        let why = match self.enter_at(address, true).map_err(refused)? {
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
            Answered::NotYet | Answered::NotHeard => {
                "it is a host of the file system, which does not have it".to_owned()
            }
            Answered::Moved(owner) => format!("{} has taken it over", owner.heir.address),
            Answered::Over => "the file system ends".to_owned(),
        };
        Err(Failure::NotLetIn { address, why })
    }

    /// Begins a session with whoever is there, or goes on with it; it is the place from then on. `has_ended`: whoever had
    /// the file system has ended.
    pub fn enter_at(&self, address: SocketAddr, has_ended: bool) -> Result<Answered, ChannelError> {
        let (place, term) = self.place.now();
        // Mounts of a host that enters and leaves end with it.
        if !self.ballot.may_hear((place == address).then_some(term), has_ended) {
            return Ok(Answered::NotHeard);
        }
        let wait = self.place.connect_wait();
        let mut channel = Channel::connect_within(address, Purpose::Join, &self.secret, wait)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (agent, version) = (self.agent, version::line().to_owned());
        let word = {
            let told = self.told();
            let accounts = told.accounts.clone().into_iter().collect();
            FromHost::Enter {
                agent,
                host,
                version,
                port: told.port,
                rank: told.rank,
                accounts,
                provided: self.provided.clone(),
                wall_seconds: Some(wall_clock::seconds()),
                stays: told.stays,
            }
        };
        let asked = SystemClock.steady();
        channel.say(&ToBorrower::Host(word))?;
        channel.patience(wait)?;
        let heard = channel.hear()?;
        channel.patience(ANSWER_WAIT)?;
        Ok(match heard {
            FromBorrower::Host(ToHost::Entered(entered))
                if !self.ballot.hears(entered.succession.term, has_ended) =>
            {
                Answered::NotHeard
            }
            FromBorrower::Host(ToHost::Entered(entered)) => {
                self.stands(entered.rank);
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::lending::Term;

    /// It would be taken for one that has gone again, and its mounts for ended.
    #[test]
    fn a_host_does_not_enter_where_it_would_not_hear_what_is_answered() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (elected, term) = (listener.local_addr().unwrap(), Term::default().next(5));
        let before = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let reach = Reach::new(Place::at(before), [1; 32]).unwrap();
        assert!(reach.ballot.hears(Term::default(), false));
        let enters = |has_ended| match reach.enter_at(elected, has_ended) {
            Ok(Answered::NotHeard) => false,
            Err(error) => error.is_nobody(),
            Ok(_) => panic!("nobody answers there"),
        };
        listener.set_nonblocking(true).unwrap();
        assert!(!enters(false), "it has heard the one before just now");
        reach.place.is(elected, term, true);
        assert!(!enters(false), "also where it knows that he was elected");
        assert!(listener.accept().is_err(), "it has called");
        drop(listener);
        assert!(enters(true), "the one before is known to have ended");
    }
}
