//! One server process: started in a private folder, and ended again.
//!
//! A node's folder is made for it and removed with it, so a process never comes back under the
//! identity of an earlier one. The process gets its secrets as hashes in a private file; it listens
//! on a unix socket and on one address, which is of the loopback unless told otherwise, and there hears
//! nobody who has no certificate, unless the network is trusted. It is in a
//! session of its own, so a terminal's interrupt does not reach it, writes no core, and ends with
//! its starter unless told otherwise.

mod accounts;
mod config;
mod find;
mod identity;
mod spawn;
mod trust;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::{ByteSize, NodeId};

pub use self::accounts::{Accounts, Secrets};
pub(crate) use self::accounts::{end_account, make_account, make_giver};
pub use self::config::NODE_TIMEOUT_MS;
pub use self::find::{ServerProgram, choose_server, find_server};
pub use self::identity::ProcessId;
pub use self::spawn::Lifetime;
pub use self::trust::{Distrust, check as trusts};

use self::find::server_version;
use crate::certificates::Credentials;
use crate::connection::Connection;
use crate::endpoint::{Account, Timeouts};
use crate::error::ProcessError;
use crate::fault::Fault;
use crate::host::{Host, endpoint};

/// How long a process may take until it answers; a loaded machine takes a second.
const START_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Longest name of a unix socket, less its final zero.
const SOCKET_NAME_BYTES_MAX: usize = 107;
const SOCKET_NAME: &str = "s";
const LOG_NAME: &str = "log";
/// What an error shows of a log.
const LOG_LINES: usize = 5;

/// A node to be started.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The server program.
    pub server: PathBuf,
    /// The node's folder, which must not be there yet.
    pub directory: PathBuf,
    pub id: NodeId,
    /// Where the process runs.
    pub host: Host,
    /// What the node may hold at most.
    pub memory: ByteSize,
    /// The host's, with a free port; others call it so.
    pub address: SocketAddr,
    /// Another free port, for news between the nodes.
    pub bus_port: u16,
    pub accounts: Accounts,
    /// With them it speaks to others, and hears nobody without; none where the network is trusted.
    pub credentials: Option<Credentials>,
    pub lifetime: Lifetime,
    /// The table of nodes that the server starts with.
    pub(crate) table: String,
}

/// A server process that this process started. It is ended when this value is dropped.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    process: ProcessId,
    id: NodeId,
    server: PathBuf,
    address: SocketAddr,
    directory: PathBuf,
    /// Left alone when this value is dropped.
    is_left: bool,
}

impl NodeProcess {
    /// Starts the process without waiting until it answers; see [`NodeProcess::wait_until_ready`].
    pub fn start(spec: &NodeSpec) -> Result<NodeProcess, ProcessError> {
        let socket = socket_of(&spec.directory);
        if socket.as_os_str().len() > SOCKET_NAME_BYTES_MAX {
            return Err(ProcessError::SocketNameTooLong { socket });
        }
        make_directory(&spec.directory)?;
        let started = prepare(spec).and_then(|log| {
            let config = spec.directory.join(config::FILE_NAME);
            let command = spawn::Command { host: &spec.host, server: &spec.server };
            spawn::spawn(command, &config, &spec.directory, log, spec.lifetime)
        });
        let (child, process) = started.inspect_err(|_| remove(&spec.directory))?;
        let directory = spec.directory.clone();
        let NodeSpec { id, address, .. } = *spec;
        let server = spec.server.clone();
        Ok(NodeProcess { child, process, id, server, address, directory, is_left: false })
    }

    /// Waits until the process answers whoever asks, and lends the connection.
    pub fn wait_until_ready(&mut self, account: &Account) -> Result<Connection, ProcessError> {
        let endpoint = endpoint(self.address, &self.socket(), self.id);
        let deadline = Instant::now() + START_MAX;
        loop {
            let fault = match Connection::open(&endpoint, account, Timeouts::default()) {
                Ok((connection, _)) => {
                    self.recognize();
                    return Ok(connection);
                }
                Err(fault) => fault,
            };
            // What starts a node on its host may have done its part.
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended && !matches!(self.child.try_wait(), Ok(Some(status)) if status.success()) {
                let log = log_end(&self.directory);
                if config::lacks_tls(&log) {
                    return Err(ProcessError::NoTls { server: self.server.clone() });
                }
                let port_was_taken = log.contains("Address already in use");
                return Err(ProcessError::Ended { log, port_was_taken });
            }
            let final_fault = matches!(fault, Fault::Denied(_) | Fault::Malformed(_));
            if final_fault || Instant::now() >= deadline {
                let log = log_end(&self.directory);
                return Err(ProcessError::Silent { waited: START_MAX, fault, log });
            }
            sleep(LOOK_EVERY);
        }
    }

    /// What was started may have started the server in its turn, in a session of the server's own.
    fn recognize(&mut self) {
        if let Some(server) = ProcessId::serving(&self.socket()) {
            self.process = server;
        }
    }

    /// The server's own.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    pub fn socket(&self) -> PathBuf {
        socket_of(&self.directory)
    }

    /// Ends the process and removes its folder.
    pub fn stop(mut self) -> Result<(), ProcessError> {
        self.end()
    }

    /// Leaves the process and its folder to whoever knows its [`ProcessId`].
    pub fn leave_running(mut self) {
        self.is_left = true;
    }

    fn end(&mut self) -> Result<(), ProcessError> {
        self.is_left = true;
        let ended = end(self.process, &self.directory);
        // It may have been no node yet.
        let child = ProcessId::of(self.child.id()).map_or(Ok(()), ProcessId::stop);
        let ended = ended.and(child);
        // The process has ended or was killed, so this collects it and does not wait long.
        if ended.is_ok() {
            let _ = self.child.wait();
        }
        remove(&self.directory);
        ended
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        if !self.is_left
            && let Err(error) = self.end()
        {
            tracing::warn!(%error, "a storage node was left behind");
        }
    }
}

/// Refuses a program that is no server, or too old a one.
pub fn check_server(server: &Path) -> Result<(), ProcessError> {
    server_version(server).map(|_| ())
}

/// Ends a node's server, whoever else serves its socket, and what started it. Only this user reaches
/// the folder of a node, so what serves a socket there is of this node.
pub fn end(server: ProcessId, directory: &Path) -> Result<(), ProcessError> {
    let starters = server.starters();
    let mut ended = server.stop();
    if let Some(other) = ProcessId::serving(&socket_of(directory)) {
        ended = ended.and(other.stop());
    }
    for starter in starters {
        ended = ended.and(starter.stop());
        starter.collect();
    }
    server.collect();
    ended
}

/// Removes the folder of a node that has ended.
pub fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "a folder was left behind");
    }
}

pub fn socket_of(directory: &Path) -> PathBuf {
    directory.join(SOCKET_NAME)
}

fn make_directory(directory: &Path) -> Result<(), ProcessError> {
    DirBuilder::new().mode(0o700).create(directory).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => {
            ProcessError::DirectoryTaken { directory: directory.to_owned() }
        }
        _ => ProcessError::File { path: directory.to_owned(), source },
    })
}

/// Writes what the server reads at its start; answers with its log.
fn prepare(spec: &NodeSpec) -> Result<fs::File, ProcessError> {
    let write = |name: &str, text: &str| {
        let path = spec.directory.join(name);
        let written = private_file(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|source| ProcessError::File { path, source })
    };
    write(config::FILE_NAME, &config::config(spec))?;
    write(accounts::FILE_NAME, spec.accounts.text())?;
    write(config::TABLE_NAME, &spec.table)?;
    if let Some(Credentials { authority, certificate, key }) = &spec.credentials {
        write(config::AUTHORITY_NAME, authority)?;
        write(config::CERTIFICATE_NAME, certificate)?;
        write(config::KEY_NAME, key.reveal())?;
    }
    let path = spec.directory.join(LOG_NAME);
    private_file(&path).map_err(|source| ProcessError::File { path, source })
}

fn private_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)
}

/// The last lines of a node's log, for an error message.
fn log_end(directory: &Path) -> String {
    let log = fs::read(directory.join(LOG_NAME)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<_> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ")
}
