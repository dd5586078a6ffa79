//! What a host that joins and the file system say to each other, beside what is said of nodes.
//!
//! A session is one connection that lasts as long as the host belongs to the file system. Each request to
//! the file system has a connection of its own, since it may take long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::owner::Owner;
use super::succession::{Legacy, Rank, Succession, Term};
use super::voting::Version;
use crate::control::{Answer, Request};
use crate::state::{ClusterRecord, Keys};

/// After this a host is told that nothing has changed.
pub const WATCH_MOST: Duration = Duration::from_secs(1);

/// What a host asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// It begins a session, or goes on with one whose connection broke. Nobody else knows the number of its
    /// agent.
    Enter {
        agent: u128,
        host: String,
        version: String,
        /// Where it listens, on the address from which it calls.
        port: Option<u16>,
        /// That it had before the file system was taken over.
        rank: Option<Rank>,
        /// With what its mounts were let in, by their names.
        accounts: Vec<(u64, String)>,
        /// The name by which it was asked for, where a provision command started it.
        provided: Option<String>,
        /// What the clock on its wall shows, in seconds since 1970.
        wall_seconds: Option<i64>,
        /// As in [`FromHost::Watch`].
        stays: bool,
    },
    /// Answered when the nodes are others than those with this number, or after [`WATCH_MOST`].
    Watch {
        seen: u64,
        /// All that was asked for on that host is in service.
        stays: bool,
        /// What the host has said since it said this last.
        #[serde(default)]
        said: Vec<String>,
    },
    /// Of a program of that host.
    Ask { agent: u128, request: Box<Request> },
    /// Would it agree that somebody else has the file system, or, where a term is named, does it? `version`: of the voters
    /// that elect him.
    Vote { term: Option<Term>, version: Version },
    /// More than half have agreed that he has the file system.
    Elected(Owner),
}

/// What a voter says.
#[derive(Debug, Serialize, Deserialize)]
pub struct Vote {
    pub grants: bool,
    /// That it agrees with by now.
    pub term: Term,
    /// Of the voters that it knows.
    pub version: Version,
    /// Its place in the line.
    pub rank: Option<Rank>,
    /// Who has the file system, where that is not who started it.
    pub owner: Option<Owner>,
}

/// What it is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHost {
    Entered(Box<Entered>),
    /// None: they are as before.
    Nodes {
        number: u64,
        nodes: Option<ClusterRecord>,
        succession: Option<Box<Succession>>,
        /// As in [`Entered`].
        rank: Option<Rank>,
        /// As in [`Entered`].
        age_ns: u64,
    },
    Answer(Box<Answer>),
    /// Who is asked has not taken the file system over.
    NotYet,
    Vote(Box<Vote>),
    /// Somebody else has taken it over, though whoever is asked lives.
    Moved(Owner),
    /// The file system ends, with all that belongs to it.
    Over,
}

/// All that a host needs to have nodes and mounts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entered {
    /// Of the nodes, as in [`FromHost::Watch`].
    pub number: u64,
    pub nodes: ClusterRecord,
    pub keys: Keys,
    /// Of a node's memory, what is kept for metadata.
    pub head_room_bytes: u64,
    /// Its place in the line of heirs; none before all that was asked for on it is in service.
    pub rank: Option<Rank>,
    pub succession: Succession,
    /// Longer than the file system has been there; whoever takes it over counts on from that.
    pub age_ns: u64,
    /// As in [`FromHost::Enter`], of whoever has the file system.
    pub wall_seconds: i64,
    /// None where the file system ends with whoever started it.
    pub legacy: Option<Box<Legacy>>,
}
