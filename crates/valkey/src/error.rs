//! Why a node could not be started, a cluster not be formed, or a client not be connected.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tidefs_store::StoreError;

use crate::fault::Fault;
use crate::probe::Version;

/// A client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the cluster has no nodes")]
    NoNodes,
    #[error(
        "the server is {name} {version}, and Tidefs needs Redis {oldest} or Valkey; \
         run scripts/setup or name another server in TIDEFS_SERVER"
    )]
    TooOld { name: String, version: Version, oldest: Version },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A server process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(
        "no server program: looked for {}{}; run scripts/setup, or install valkey-server or \
         redis-server 7.0 or later, or name one with --server or in TIDEFS_SERVER",
        list(tried),
        passed_over(untrusted)
    )]
    NoServer { tried: Vec<PathBuf>, untrusted: Vec<PathBuf> },
    #[error(
        "{} is named in TIDEFS_SERVER, and root does not run what others could change: {why}; name it \
         with --server if you know it", server.display()
    )]
    Untrusted { server: PathBuf, why: crate::process::Distrust },
    #[error(
        "{} cannot be run; name a Valkey or Redis server with --server or in TIDEFS_SERVER",
        server.display()
    )]
    NotRunnable { server: PathBuf, source: io::Error },
    #[error(
        "{} does not say its version; name a Valkey or Redis server with --server or in \
         TIDEFS_SERVER", server.display()
    )]
    NotAServer { server: PathBuf },
    #[error(transparent)]
    TooOld(ConnectError),
    #[error("{} is there already; a node starts in a folder of its own", directory.display())]
    DirectoryTaken { directory: PathBuf },
    #[error("{}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is too long for a socket's name; choose a shorter folder", socket.display())]
    SocketNameTooLong { socket: PathBuf },
    #[error("no free port on {address}; end something that listens there")]
    NoPort { address: std::net::IpAddr },
    #[error("a storage node ended at its start; its log ends: {log}")]
    Ended { log: String, port_was_taken: bool },
    #[error("a storage node did not answer within {waited:?} ({fault}); its log ends: {log}")]
    Silent { waited: Duration, fault: Fault, log: String },
    #[error(
        "{} was built without TLS, with which storage nodes know each other; run scripts/setup, or name \
         a server with TLS in TIDEFS_SERVER", server.display()
    )]
    NoTls { server: PathBuf },
    #[error("a storage node with process id {pid} does not end")]
    Unstoppable { pid: u32 },
    #[error(
        "the storage node {id} still answers at {address}; end its server on that host: what starts \
         nodes there must end with them"
    )]
    LivesOn { id: tidefs_model::NodeId, address: std::net::SocketAddr },
}

/// A cluster could not be formed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("a cluster has 1 to {most} nodes, not {asked}")]
    NodeCount { asked: usize, most: usize },
    #[error("a node needs at least {least}, not {asked}")]
    NodeMemory { asked: tidefs_model::ByteSize, least: tidefs_model::ByteSize },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("storage node {number} does not join the cluster: {fault}")]
    Node { number: usize, fault: Fault },
    #[error(
        "the storage nodes did not agree on a cluster within {waited:?}; the last one said: {said}"
    )]
    NotFormed { waited: Duration, said: String },
}

/// The first three, which a package or a set-up puts there, by their paths, the others, which come from the
/// search path, by their names.
fn list(paths: &[PathBuf]) -> String {
    let (built, others) = paths.split_at(paths.len().min(3));
    let built: Vec<_> = built.iter().map(|path| path.display().to_string()).collect();
    let names: BTreeSet<_> = others.iter().filter_map(|path| path.file_name()).collect();
    let mut said = built.join(", ");
    for name in names.into_iter().rev() {
        said += &format!(", for {} on the search path", name.display());
    }
    said
}

fn passed_over(untrusted: &[PathBuf]) -> String {
    let untrusted: Vec<_> = untrusted.iter().map(|path| path.display().to_string()).collect();
    if untrusted.is_empty() {
        return String::new();
    }
    format!(" (root does not run {}, which others could change)", untrusted.join(", "))
}
