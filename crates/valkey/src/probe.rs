//! What a server is and what it can do. Abilities are asked for, never guessed from a name.

use std::fmt;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use crate::awake::Awake;
use crate::error::ConnectError;
use crate::fault::Fault;
use crate::pool::Node;
use crate::wire::{Malformed, Reply, Request};

/// Before nodes that had no time are asked again; one that could not be reached is not tried sooner than after a second.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The first protocol level that has server functions and everything else that is used here.
pub const OLDEST: Version = Version { major: 7, minor: 0, patch: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl Version {
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.').map(str::parse);
        let mut next = || parts.next()?.ok();
        Some(Version { major: next()?, minor: next()?, patch: next().unwrap_or(0) })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What the first server that answered said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `valkey`, `redis`, or what else calls itself so.
    pub name: String,
    /// By the server's own count.
    pub version: Version,
    pub abilities: Abilities,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// What not every server can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Moves whole slots while they are in use (CLUSTER MIGRATESLOTS).
    pub atomic_slot_migration: bool,
    /// Counts keys and traffic by slot (CLUSTER SLOT-STATS).
    pub slot_statistics: bool,
}

/// Asks nodes in turn what they are, until one says so. Where all that are there have no time for another
/// connection, as when many clients begin at once, they are asked again for so long.
///
/// # Errors
/// The last node's when none answers, or that a server is older than the oldest that works.
pub fn probe(nodes: &[Arc<Node>], within: Duration) -> Result<Server, ConnectError> {
    let until = Awake::now() + within;
    loop {
        let mut refused = Err(ConnectError::NoNodes);
        let mut is_any_busy = false;
        for node in nodes {
            match ask(node) {
                Ok(told) => return told,
                Err(fault) => {
                    is_any_busy |= fault.is_of_a_busy_node();
                    refused = Err(ConnectError::Store(node.store_error(fault)));
                }
            }
        }
        if !is_any_busy || Awake::now() >= until {
            return refused;
        }
        sleep(AGAIN_AFTER);
    }
}

/// What a node says of itself; a server that is too old says so as well.
fn ask(node: &Arc<Node>) -> Result<Result<Server, ConnectError>, Fault> {
    let said = node.ask(&Request::of(&["INFO", "server"]))?;
    let info = said.lossy()?;
    let (name, version, level) = identity(&info).ok_or(Malformed::Unexpected)?;
    if level < OLDEST {
        return Ok(Err(ConnectError::TooOld { name, version, oldest: OLDEST }));
    }
    let commands = ["cluster|migrateslots", "cluster|slot-stats"];
    let request = Request::of(&["COMMAND", "INFO", commands[0], commands[1]]);
    let known = node.ask(&request)?.into_array()?;
    let has = |at: usize| matches!(known.get(at), Some(Reply::Array(about)) if !about.is_empty());
    let abilities = Abilities { atomic_slot_migration: has(0), slot_statistics: has(1) };
    Ok(Ok(Server { name, version, abilities }))
}

/// Name, version by its own count, and the level of the protocol that it claims to speak.
fn identity(info: &str) -> Option<(String, Version, Version)> {
    let level = Version::parse(info_field(info, "redis_version")?)?;
    let name = info_field(info, "server_name").unwrap_or("redis");
    let version = info_field(info, &format!("{name}_version"));
    let version = version.and_then(Version::parse).unwrap_or(level);
    Some((name.to_owned(), version, level))
}

fn info_field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
}

/// A number among what INFO answers.
pub fn info_number(info: &str, name: &str) -> Result<u64, Malformed> {
    info_field(info, name).and_then(|value| value.parse().ok()).ok_or(Malformed::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_what_they_say() {
        let valkey =
            "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n";
        let (name, version, level) = identity(valkey).unwrap();
        assert_eq!(format!("{name} {version}, {level}"), "valkey 9.1.2, 7.2.4");
        let (name, version, level) = identity("redis_version:6.2.16\r\n").unwrap();
        assert_eq!((name.as_str(), version), ("redis", level));
        assert!(level < OLDEST);
        assert_eq!(identity("redis_version:new\r\n"), None);
        assert_eq!(info_number("used_memory:17\r\nused_memory_rss:18\r\n", "used_memory"), Ok(17));
        assert!(info_number("used_memory:-1\r\n", "used_memory").is_err());
    }
}
