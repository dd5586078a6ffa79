//! Who has the file system after whom: what is told to each host, so that one of them can take it over when the
//! process that has it has ended.
//!
//! Hosts stand in a line, in the order in which they came. Each knows all that stand before it; so the first whose
//! process still runs is the same for all of them, and nobody has to be asked.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::file_system::Size;

/// A place in the line: who has taken over stands before those that came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// How often the file system had been taken over when the host came.
    pub term: u64,
    pub number: u64,
}

/// A host in the line, and where it listens from its first moment to its last: where nobody listens any more, it has
/// ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    pub rank: Rank,
    pub address: SocketAddr,
}

/// The file system beside what lies in the store; it changes with nodes and hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Succession {
    pub term: u64,
    /// First who is next.
    pub heirs: Vec<Heir>,
    /// How many nodes have had a number, and which ones have which.
    pub given: usize,
    pub numbers: Vec<(usize, String)>,
    /// Nodes that end with the process that has the file system, by their ids.
    pub own: Vec<String>,
    /// Mounts that end with its host, by their names.
    pub mounts: Vec<u64>,
}

/// What whoever takes the file system over needs, and never changes. It lets in everywhere.
#[derive(Clone, Serialize, Deserialize)]
pub struct Legacy {
    pub size: Size,
    /// In hexadecimal digits: of the accounts of the nodes, and of the authority that certifies them.
    pub seeds: [String; 2],
    /// What the start of the first nodes took.
    pub start: Duration,
}

impl Succession {
    /// Those that stand before a place, and after another one.
    pub fn between(&self, after: Option<Rank>, before: Rank) -> impl Iterator<Item = &Heir> {
        let stands = move |heir: &&Heir| Some(heir.rank) > after && heir.rank < before;
        self.heirs.iter().filter(stands)
    }
}

impl std::fmt::Debug for Legacy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Legacy(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_came_first_stand_first_and_who_took_over_before_his_newcomers() {
        let heir = |term, number| Heir {
            rank: Rank { term, number },
            address: "127.0.0.1:1".parse().unwrap(),
        };
        let heirs = vec![heir(0, 1), heir(0, 2), heir(1, 0), heir(1, 1)];
        let line = Succession { heirs, ..Succession::default() };
        let between = |after, before| {
            line.between(after, before).map(|it| (it.rank.term, it.rank.number)).collect::<Vec<_>>()
        };
        let rank = |term, number| Rank { term, number };
        assert_eq!(between(None, rank(0, 1)), []);
        assert_eq!(between(None, rank(1, 0)), [(0, 1), (0, 2)]);
        assert_eq!(between(Some(rank(0, 1)), rank(1, 1)), [(0, 2), (1, 0)]);
    }
}
