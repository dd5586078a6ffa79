//! The hosts that nodes run on, as a list in a file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    pub name: String,
    pub address: IpAddr,
    /// Words that start a program there when they are put before its command.
    pub command: Vec<String>,
}

impl From<&HostEntry> for tidefs_valkey::Host {
    fn from(entry: &HostEntry) -> tidefs_valkey::Host {
        let HostEntry { name, address, command } = entry.clone();
        tidefs_valkey::Host { name, address, command, network: None }
    }
}

/// What is wrong with a list, and in which line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("there is no host in it")]
    Empty,
    #[error(
        "line {line}: a host is given as NAME ADDRESS COMMAND..., such as: h1 10.0.0.1 nsenter --net=/run/netns/h1"
    )]
    Short { line: usize },
    #[error("line {line}: {word:?} is no address; give numbers, such as 10.0.0.1")]
    Address { line: usize, word: String },
    #[error("line {line}: {word:?} is in the list already")]
    Twice { line: usize, word: String },
    #[error(
        "line {line}: nodes cannot be called by the address {address}; give one that all hosts reach"
    )]
    Unusable { line: usize, address: IpAddr },
}

/// Reads a list: a host a line, `name address command-prefix...`; `#` begins a comment.
///
/// # Errors
/// When the file cannot be read or says something else.
pub fn read(path: &Path) -> Result<Vec<HostEntry>, Failure> {
    let path = || PathBuf::from(path);
    let text = std::fs::read_to_string(path())
        .map_err(|cause| Failure::HostsUnreadable { path: path(), cause })?;
    parse(&text).map_err(|cause| Failure::HostsWrong { path: path(), cause })
}

fn parse(text: &str) -> Result<Vec<HostEntry>, ListError> {
    let mut hosts: Vec<HostEntry> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(name) = words.next() else { continue };
        let host = host(line_number, name, words)?;
        let is_same = |other: &&HostEntry| other.name == host.name || other.address == host.address;
        if let Some(other) = hosts.iter().find(is_same) {
            let word = if other.name == host.name { host.name } else { host.address.to_string() };
            return Err(ListError::Twice { line: line_number, word });
        }
        hosts.push(host);
    }
    if hosts.is_empty() { Err(ListError::Empty) } else { Ok(hosts) }
}

fn host(
    line: usize,
    name: String,
    mut words: impl Iterator<Item = String>,
) -> Result<HostEntry, ListError> {
    let word = words.next().ok_or(ListError::Short { line })?;
    let address: IpAddr = word.parse().map_err(|_| ListError::Address { line, word })?;
    let command: Vec<String> = words.collect();
    if command.is_empty() {
        return Err(ListError::Short { line });
    }
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return Err(ListError::Unusable { line, address });
    }
    Ok(HostEntry { name, address, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_an_address_and_the_words_before_a_command() {
        let hosts = parse(
            "# a test bed\n\nh1 10.0.0.1 nsenter --net=/n/h1  # first\nh2 ::2 ip netns exec h2\n",
        );
        let hosts = hosts.unwrap();
        assert_eq!(hosts.len(), 2);
        assert_eq!((hosts[0].name.as_str(), hosts[0].address), ("h1", "10.0.0.1".parse().unwrap()));
        assert_eq!(hosts[0].command, ["nsenter", "--net=/n/h1"]);
        assert_eq!(hosts[1].command, ["ip", "netns", "exec", "h2"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, says) in [
            ("# nobody\n", "no host"),
            ("h1\n", "line 1: a host is given as"),
            ("h1 10.0.0.1\n", "line 1: a host is given as"),
            ("\nh1 here sh\n", "line 2: \"here\" is no address"),
            ("h1 10.0.0.1 a\nh1 10.0.0.2 b\n", "line 2: \"h1\" is in the list"),
            ("h1 10.0.0.1 a\nh2 10.0.0.1 b\n", "line 2: \"10.0.0.1\" is in the list"),
            ("h1 127.0.0.1 a\n", "line 1: nodes cannot be called by the address 127.0.0.1"),
            ("h1 0.0.0.0 a\n", "cannot be called"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
