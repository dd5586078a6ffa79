//! What `tidefs join` takes.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::Args;
use tidefs_model::ByteSize;

use super::serving::Serving;

#[derive(Debug, Args)]
pub struct Join {
    /// Where the file system listens (`tidefs up --listen`)
    #[arg(value_name = "ADDRESS:PORT", value_parser = address)]
    pub address: SocketAddr,

    /// File with the secret of the file system's hosts; - reads it from the first line of standard input,
    /// and leaves the file system when that ends
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,

    /// Memory that this host's node offers, such as 4GiB [default: a share of what is free]
    #[arg(long, value_name = "SIZE", value_parser = super::node_memory)]
    pub memory: Option<ByteSize>,

    /// Mount the file system there; made, and removed at the end, where it does not exist
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,

    /// Be the host NAME that a provision command was asked for (`tidefs run --provision-command`): leave the file system
    /// once the node was emptied
    #[arg(long, value_name = "NAME", conflicts_with = "mount_only")]
    pub provided: Option<String>,

    /// Have a mount here and no node
    #[arg(long, requires = "mount", conflicts_with = "memory")]
    pub mount_only: bool,

    #[command(flatten)]
    pub serving: Serving,
}

impl Join {
    pub const STDIN: &str = "-";

    pub fn reads_stdin(&self) -> bool {
        self.secret_file == Path::new(Join::STDIN)
    }
}

/// A host may be named, and its first address is taken.
fn address(text: &str) -> Result<SocketAddr, String> {
    let example = "give an address and a port, such as 10.0.0.1:7400";
    let mut found = text.to_socket_addrs().map_err(|error| format!("{error}; {example}"))?;
    found.next().ok_or_else(|| format!("no address is known of it; {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_by_number_or_by_name() {
        assert_eq!(address("10.0.0.1:7400"), Ok("10.0.0.1:7400".parse().unwrap()));
        assert!(address("localhost:7400").is_ok_and(|found| found.ip().is_loopback()));
        for text in ["10.0.0.1", "", "10.0.0.1:x"] {
            assert!(address(text).unwrap_err().contains("10.0.0.1:7400"), "{text}");
        }
    }
}
