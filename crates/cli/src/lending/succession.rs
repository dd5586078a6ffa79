//! Who has the file system after whom: what is told to each host, so that one of them can take it over when the
//! process that has it has ended.
//!
//! Hosts stand in a line, in the order in which they came. Each knows all that stand before it; so the first whose
//! process still runs is the same for all of them, and nobody has to be asked.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidefs_valkey::{Pass, Secrets};

use super::voting::{Found, Voters};
use super::words::{ParseSecretError, secret_of};
use crate::file_system::Size;

/// The time in which one process has the file system. Two that took it over shortly after each other may not know of
/// each other, and count alike; what they have drawn tells their terms apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term {
    /// How often the file system had been taken over when it began.
    pub count: u64,
    /// At random.
    pub drawn: u64,
}

/// A place in the line: who has taken over stands before those that came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// In which the host came.
    pub term: Term,
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
    pub term: Term,
    /// First who is next.
    pub heirs: Vec<Heir>,
    /// How many nodes have had a number, and which ones have which.
    pub given: usize,
    pub numbers: Vec<(usize, String)>,
    /// Nodes that end with the process that has the file system, by their ids.
    pub own: Vec<String>,
    /// Mounts that end with its host, by their names.
    pub mounts: Vec<u64>,
    /// Hosts that a command on its host provided, and takes away again, by the names that it knows them by.
    #[serde(default)]
    pub provided: Vec<String>,
    /// Who elects somebody when whoever has it falls silent.
    #[serde(default)]
    pub voters: Voters,
    /// What whoever takes it over has found of them; nobody is told.
    #[serde(skip)]
    pub found: Found,
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

impl Rank {
    /// Of a host that has no place in the line yet.
    pub const BEHIND_ALL: Rank =
        Rank { term: Term { count: u64::MAX, drawn: u64::MAX }, number: u64::MAX };
}

impl Term {
    /// That of whoever takes over now; `drawn`: at random.
    pub fn next(self, drawn: u64) -> Term {
        Term { count: self.count + 1, drawn }
    }
}

impl Succession {
    /// Those that stand before a place, and after another one.
    pub fn between(&self, after: Option<Rank>, before: Rank) -> impl Iterator<Item = &Heir> {
        let stands = move |heir: &&Heir| Some(heir.rank) > after && heir.rank < before;
        self.heirs.iter().filter(stands)
    }
}

impl Legacy {
    /// As whom the nodes let in whoever has them; `data`: what lets this host in.
    ///
    /// # Errors
    /// When the seeds are none.
    pub fn admin(&self, data: Pass) -> Result<Pass, ParseSecretError> {
        let secrets = Secrets::from_seed(&secret_of(&self.seeds[0])?);
        Ok(Pass { secret: secrets.admin, ..data })
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
        let term = |count| Term { count, drawn: 7 };
        let rank = |count, number| Rank { term: term(count), number };
        let heir = |count, number| Heir {
            rank: rank(count, number),
            address: "127.0.0.1:1".parse().unwrap(),
        };
        let heirs = vec![heir(0, 1), heir(0, 2), heir(1, 0), heir(1, 1)];
        let line = Succession { heirs, ..Succession::default() };
        let between = |after, before| {
            let between = line.between(after, before);
            between.map(|it| (it.rank.term.count, it.rank.number)).collect::<Vec<_>>()
        };
        assert_eq!(between(None, rank(0, 1)), []);
        assert_eq!(between(None, rank(1, 0)), [(0, 1), (0, 2)]);
        assert_eq!(between(Some(rank(0, 1)), rank(1, 1)), [(0, 2), (1, 0)]);
    }

    /// The second to take over has not heard of the first one's term.
    #[test]
    fn newcomers_of_two_that_took_over_shortly_after_each_other_stand_one_behind_the_other() {
        let of = |drawn| Rank { term: Term::default().next(drawn), number: 0 };
        let line = [of(3), of(9)].map(|rank| Heir { rank, address: "[::1]:1".parse().unwrap() });
        let line = Succession { heirs: line.to_vec(), ..Succession::default() };
        let before = |rank| line.between(None, rank).count();
        assert_eq!([before(of(3)), before(of(9))], [0, 1], "only the first may take over");
    }
}
