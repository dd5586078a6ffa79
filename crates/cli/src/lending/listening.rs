//! Where lenders and hosts are awaited, and the secrets by which they are let in.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use tidefs_model::ByteSize;
use tidefs_valkey::PeerSecrets;

use super::service::Service;
use super::sessions::Answers;
use super::words::{Purpose, digits_of};
use crate::failure::Failure;
use crate::nodes::{LocalNodes, Supervision};
use crate::state::Paths;

pub struct Listening(TcpListener);

/// On which others join.
pub struct Terms {
    /// As many of the own class as there may be.
    pub nodes_max: u16,
    /// Of a node's memory, what is kept for metadata.
    pub head_room: ByteSize,
    /// Lenders may, and not only hosts.
    pub lenders: bool,
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
        let Terms { nodes_max, head_room, lenders } = terms;
        let join = draw(&paths.join_secret()).context("cannot write the secret for hosts")?;
        let mut secrets = vec![(Purpose::Join.name(), join)];
        if lenders {
            let lend = draw(&paths.lend_secret()).context("cannot write the secret for lenders")?;
            secrets.push((Purpose::Lend.name(), lend));
        }
        // The port that was chosen, where none was asked for.
        let address = self.0.local_addr().context("no address for lenders")?;
        fs::write(paths.lend_address(), address.to_string()).context("cannot write the address")?;
        let (nodes, manager) = (nodes.clone(), Arc::clone(manager));
        let (offers, growing) = (nodes.offers().clone(), Mutex::default());
        let secrets = PeerSecrets::new(&secrets);
        let answers = Answers::default();
        let told = answers.clone();
        Service { nodes, manager, offers, secrets, nodes_max, head_room, answers, growing }
            .serve(self.0);
        Ok(told)
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
