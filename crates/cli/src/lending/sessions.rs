//! Serves hosts that have joined: tells each what it needs and which nodes there are, answers what its
//! programs ask, and ends its mounts when it has gone.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, sleep};
use std::time::Duration;

use super::channel::{Channel, ChannelError};
use super::host_words::{Entered, FromHost, ToHost, Vote, WATCH_MOST};
use super::hosts::Entering;
use super::owner::Owner;
use super::service::Service;
use super::succession::Succession;
use super::words::{FromBorrower, Purpose};
use crate::control::{Answer, Request};
use crate::host_logs;
use crate::provision::Entrance;
use crate::version;
use crate::wall_clock::{self, Ahead};
use tidefs_model::MountId;

/// A process that hung up may take a moment until it has ended.
const END_LOOKS: u32 = 10;
const END_LOOK: Duration = Duration::from_secs(1);
const END_PAUSE: Duration = Duration::from_millis(200);

/// A host, and which of its connections this is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub agent: u128,
    pub line: u64,
}

type Answering = dyn Fn(Request) -> Answer + Send + Sync;

/// Who answers what programs ask, once the file system has started. Cheap to clone.
#[derive(Clone, Default)]
pub struct Answers(Arc<OnceLock<Box<Answering>>>);

impl Answers {
    /// Once.
    pub fn come_from(&self, answer: impl Fn(Request) -> Answer + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(answer));
    }

    fn of(&self, request: Request) -> Answer {
        match self.0.get() {
            Some(answer) => answer(request),
            None => Answer::Refused("the file system is starting; try again".to_owned()),
        }
    }
}

impl Service {
    /// What is answered to a word of a host's.
    pub(super) fn hear_host(
        &self,
        channel: &mut Channel,
        peer: IpAddr,
        session: &mut Option<Session>,
        word: FromHost,
    ) -> Result<FromBorrower, ChannelError> {
        if channel.purpose() != Purpose::Join {
            return Ok(refused("the secret of lenders lets no host in"));
        }
        if matches!(word, FromHost::Vote { .. } | FromHost::Elected(_)) {
            return Ok(FromBorrower::Host(ToHost::Vote(Box::new(self.vote()))));
        }
        if let Some(owner) = self.nodes.hosts().moved() {
            return Ok(match word {
                FromHost::Ask { .. } => refused(&format!(
                    "{} has taken the file system over; ask again in a moment",
                    owner.heir.address
                )),
                _ => FromBorrower::Host(ToHost::Moved(owner)),
            });
        }
        Ok(match (word, *session) {
            (FromHost::Enter { .. }, Some(_)) => refused("this connection has a session already"),
            (
                FromHost::Enter {
                    agent,
                    host,
                    version,
                    port,
                    rank,
                    accounts,
                    provided,
                    wall_seconds,
                    stays,
                },
                None,
            ) => {
                let clock = wall_seconds.and_then(|there| Ahead::of(there, wall_clock::seconds()));
                let (name, address) = (host, peer);
                let entering = Entering { agent, name, address, port, rank, stays, clock };
                match self.entered(entering, &version, accounts, provided) {
                    Ok((line, entered)) => {
                        *session = Some(Session { agent, line });
                        channel.patience(self.nodes.hosts().lease())?;
                        FromBorrower::Host(ToHost::Entered(Box::new(entered)))
                    }
                    Err(why) => FromBorrower::Refused(why),
                }
            }
            (FromHost::Watch { .. }, None) => refused("this connection has no session"),
            (FromHost::Watch { seen, stays, said }, Some(Session { agent, line })) => {
                let hosts = self.nodes.hosts();
                let rank = hosts.heard(agent, line, seen, stays);
                if hosts.voters().has_enough() {
                    self.offers.hosts_vote();
                }
                self.keep_log(agent, &said);
                let number = hosts.number_after(seen, WATCH_MOST);
                if let Some(owner) = hosts.moved() {
                    return Ok(FromBorrower::Host(ToHost::Moved(owner)));
                }
                if hosts.is_over() {
                    return Ok(FromBorrower::Host(ToHost::Over));
                }
                let is_new = number != seen;
                let nodes = is_new.then(|| self.nodes.record_for_hosts());
                let succession = is_new.then(|| Box::new(self.succession()));
                let age_ns = self.nodes.age().now().0;
                hosts.answers(agent, line);
                FromBorrower::Host(ToHost::Nodes { number, nodes, succession, rank, age_ns })
            }
            (FromHost::Ask { agent, request }, _) => {
                FromBorrower::Host(ToHost::Answer(Box::new(self.asked(agent, *request))))
            }
            (FromHost::Vote { .. } | FromHost::Elected(_), _) => refused("that was answered"),
        })
    }

    /// Whoever has the file system agrees to nobody else.
    fn vote(&self) -> Vote {
        let hosts = self.nodes.hosts();
        let owner = hosts.moved().or_else(|| Owner::of(&self.nodes.claimed()));
        let version = hosts.voters().version;
        Vote { grants: false, term: hosts.term(), version, rank: None, owner }
    }

    /// What changes of what an heir needs.
    fn succession(&self) -> Succession {
        let hosts = self.nodes.hosts();
        let (term, heirs, mounts) = (hosts.term(), hosts.heirs(), hosts.own_mounts());
        let voters = hosts.voters();
        Succession { term, heirs, mounts, voters, ..self.nodes.succession() }
    }

    fn entered(
        &self,
        entering: Entering,
        version: &str,
        accounts: Vec<(u64, String)>,
        provided: Option<String>,
    ) -> Result<(u64, Entered), String> {
        let here = version::line();
        if version != here {
            return Err(format!(
                "tidefs {here} runs here and {version} there; have the same version on all hosts"
            ));
        }
        let keys = self.nodes.keys().map_err(|error| error.to_string())?;
        provided.map_or(Ok(()), |name| self.provided(&name, entering.agent))?;
        tracing::info!(host = entering.name, peer = %entering.address, "a host is there");
        let (hosts, agent) = (self.nodes.hosts(), entering.agent);
        let clock = entering.clock.map(|ahead| (entering.name.clone(), ahead));
        let (line, rank) = hosts.enter(entering);
        if let Some((name, ahead)) = clock.filter(|_| line == 0) {
            tracing::warn!("the clock of {name} is {ahead} of this host's: {}", wall_clock::MEANS);
        }
        // Newcomers among the nodes are to let them in as well.
        for (mount, secret) in accounts {
            hosts.note_mount(agent, mount);
            self.nodes.know(MountId(mount), &secret);
        }
        // A change between the two is told once more than need be.
        let number = hosts.number();
        let nodes = self.nodes.record_for_hosts();
        let entered = Entered {
            number,
            nodes,
            keys,
            head_room_bytes: self.head_room.0,
            rank,
            succession: self.succession(),
            age_ns: self.nodes.age().now().0,
            wall_seconds: wall_clock::seconds(),
            legacy: self.legacy.clone(),
        };
        Ok((line, entered))
    }

    /// What cannot be kept is lost.
    fn keep_log(&self, agent: u128, said: &[String]) {
        let Some(name) = self.nodes.hosts().name(agent).filter(|_| !said.is_empty()) else {
            return;
        };
        if let Err(error) = host_logs::append(&self.host_logs, &name, said) {
            tracing::debug!("what {name} says is not kept: {error}");
        }
    }

    /// A host comes that says that it was asked for by this name.
    fn provided(&self, name: &str, agent: u128) -> Result<(), String> {
        let Some(provider) = self.nodes.provider() else { return Ok(()) };
        match provider.came(name, agent) {
            Entrance::Expected => Ok(()),
            Entrance::Unasked => {
                tracing::warn!(
                    "nobody waits for the host {name} that has come; it is as any that joins"
                );
                Ok(())
            }
            Entrance::TooLate => {
                Err(format!("the host {name} was given up before it came, and is taken away"))
            }
        }
    }

    /// Mounts end with their host, so it is noted whose they are before they are let in.
    fn asked(&self, agent: u128, request: Request) -> Answer {
        let hosts = self.nodes.hosts();
        match request {
            // All accounts end with the nodes, which may have gone already.
            Request::Left { .. } if hosts.is_over() => Answer::Done,
            Request::Join { .. } if hosts.is_over() => {
                Answer::Refused("the file system ends".to_owned())
            }
            Request::Join { mount } if !hosts.note_mount(agent, mount) => {
                Answer::Refused("this host does not belong to the file system any more".to_owned())
            }
            Request::Join { mount } => {
                let answer = self.answers.of(request);
                if matches!(answer, Answer::Refused(_)) {
                    hosts.forget_mount(agent, mount);
                }
                answer
            }
            Request::Left { mount } => {
                hosts.forget_mount(agent, mount);
                self.answers.of(request)
            }
            Request::Mount { .. } | Request::Unmount(_) => Answer::Refused(
                "this is done on the host where the file system was started".to_owned(),
            ),
            Request::Stop
            | Request::Status
            | Request::Absent
            | Request::Logs
            | Request::Check { .. }
            | Request::Full { .. }
            | Request::Workflow(_)
            | Request::Scale(_)
            | Request::Drain(_) => self.answers.of(request),
        }
    }

    /// The connection of a host is over. Where nobody has hung up, the host is waited for.
    pub(super) fn end_session(&self, session: Session, is_broken: bool) {
        let hosts = self.nodes.hosts();
        let Session { agent, line } = session;
        while is_broken && hosts.may_return(agent, line) {
            sleep(super::service::RESUME_LOOK);
        }
        let voter = hosts.listens(agent);
        let mounts = hosts.leave(agent, line);
        if let Some((rank, address)) = voter.filter(|_| !hosts.is_there(agent)) {
            let hosts = hosts.clone();
            let looks = move || has_ended(address).then(|| hosts.has_ended(rank));
            // Where there is no thread, it counts as one that is silent.
            let _ = Builder::new().name("ended".to_owned()).spawn(looks);
        }
        if let Some(provider) = self.nodes.provider().filter(|_| !hosts.is_there(agent)) {
            provider.left(agent);
        }
        if hosts.is_over() || hosts.moved().is_some() {
            // They go on elsewhere, or end by themselves; one that was shut out would ask to be let in again.
            return;
        }
        for mount in mounts {
            tracing::warn!(mount, "a mount ends with its host");
            self.answers.of(Request::Left { mount });
        }
    }
}

/// Whether nobody listens any more where a host did that has hung up: a kernel says that of a process that has ended.
fn has_ended(address: SocketAddr) -> bool {
    let refuses = || {
        let error = TcpStream::connect_timeout(&address, END_LOOK).err();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    (0..END_LOOKS).any(|_| {
        sleep(END_PAUSE);
        refuses() && refuses()
    })
}

fn refused(why: &str) -> FromBorrower {
    FromBorrower::Refused(why.to_owned())
}
