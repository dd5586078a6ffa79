//! Where lenders and hosts are awaited, and the secrets by which they are let in.

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::Context;
use tidefs_model::ByteSize;
use tidefs_valkey::PeerSecrets;

use super::ballot::Ballot;
use super::channel::Channel;
use super::door::Door;
use super::service::Service;
use super::sessions::Answers;
use super::succession::Legacy;
use super::words::{FromBorrower, Purpose, ToBorrower, digits_of};
use crate::failure::Failure;
use crate::nodes::{LocalNodes, Supervision};
use crate::state::Paths;

pub struct Listening(TcpListener);

/// Where a host listens that may take the file system over; who calls before is told that it has not.
pub struct Awaiting {
    address: SocketAddr,
    service: Arc<OnceLock<Arc<Service>>>,
    secrets: PeerSecrets,
    secret: [u8; 32],
}

impl Awaiting {
    /// Until this process ends: others know by that whether it has.
    pub fn begin(at: IpAddr, secret: &[u8; 32], ballot: Ballot) -> io::Result<Awaiting> {
        let listener = TcpListener::bind((at, 0))?;
        let address = listener.local_addr()?;
        let secrets = PeerSecrets::new(&[(Purpose::Join.name(), *secret)]);
        let service = Arc::<OnceLock<Arc<Service>>>::default();
        let there = Arc::clone(&service);
        let door = Door::new(secrets.clone(), move |channel| match there.get() {
            Some(service) => service.loan(channel),
            None => turn_away(channel, &ballot),
        });
        door.keep(listener)?;
        Ok(Awaiting { address, service, secrets, secret: *secret })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// By which hosts are let in everywhere.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// It has the file system from now on.
    pub fn serve(&self, nodes: &LocalNodes, manager: &Arc<Supervision>, terms: Terms) -> Answers {
        let (service, answers) = terms.service(nodes, manager, self.secrets.clone());
        let _ = self.service.set(Arc::new(service));
        answers
    }
}

fn turn_away(mut channel: Channel, ballot: &Ballot) {
    let word = channel.hear::<ToBorrower>();
    let told = word.and_then(|word| channel.say(&FromBorrower::Host(ballot.answer(&word))));
    if let Err(error) = told {
        tracing::debug!("who asked whether this host has the file system has gone: {error}");
    }
}

/// On which others join.
pub struct Terms {
    /// As many of the own class as there may be.
    pub nodes_max: u16,
    /// Of a node's memory, what is kept for metadata.
    pub head_room: ByteSize,
    /// Lenders may, and not only hosts.
    pub lenders: bool,
    /// For hosts that may take the file system over; none where it ends with this process.
    pub legacy: Option<Box<Legacy>>,
    /// Where what hosts say is kept.
    pub host_logs: PathBuf,
}

impl Listening {
    /// Begins to listen, so that whoever is refused is told before anything else is started.
    pub fn at(address: SocketAddr) -> Result<Listening, Failure> {
        let unusable = |cause| Failure::ListenUnusable { address, cause };
        TcpListener::bind(address).map(Listening).map_err(unusable)
    }

    /// The secrets are in files that only this user can read.
    pub fn serve(
        self,
        nodes: &LocalNodes,
        manager: &Arc<Supervision>,
        terms: Terms,
        paths: &Paths,
    ) -> anyhow::Result<Answers> {
        let join = draw(&paths.join_secret()).context("cannot write the secret for hosts")?;
        let mut secrets = vec![(Purpose::Join.name(), join)];
        if terms.lenders {
            let lend = draw(&paths.lend_secret()).context("cannot write the secret for lenders")?;
            secrets.push((Purpose::Lend.name(), lend));
        }
        // The port that was chosen, where none was asked for.
        let address = self.0.local_addr().context("no address for lenders")?;
        fs::write(paths.lend_address(), address.to_string()).context("cannot write the address")?;
        let (service, answers) = terms.service(nodes, manager, PeerSecrets::new(&secrets));
        service.serve(self.0);
        Ok(answers)
    }
}

impl Terms {
    fn service(
        self,
        nodes: &LocalNodes,
        manager: &Arc<Supervision>,
        secrets: PeerSecrets,
    ) -> (Service, Answers) {
        let Terms { nodes_max, head_room, legacy, host_logs, .. } = self;
        let (nodes, manager) = (nodes.clone(), Arc::clone(manager));
        let (offers, growing) = (nodes.offers().clone(), Mutex::default());
        let answers = Answers::default();
        let told = answers.clone();
        let service = Service {
            nodes,
            manager,
            offers,
            secrets,
            nodes_max,
            head_room,
            answers,
            growing,
            legacy,
            host_logs,
        };
        (service, told)
    }
}

/// A secret that was never drawn before, in a new file.
fn draw(path: &Path) -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", digits_of(&secret))?;
    Ok(secret)
}
