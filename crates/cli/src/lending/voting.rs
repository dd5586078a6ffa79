//! Who may have the file system while hosts fall silent: what a host that votes supports, and for how long whoever has
//! the file system may decide. There is no input or output here, and each time is an argument, by one clock of one host.
//!
//! Whoever has the file system decides only while more than half of the voters have heard it within a lease, counted from
//! when it spoke. A voter that has heard it hears nobody else for longer than that. So there are never two that decide,
//! whatever was lost or came late, and an election only chooses who is heard next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::succession::{Rank, Term};

/// Fewer cannot tell who of them fell silent.
const VOTERS_MIN: usize = 3;
/// A voter that has heard nobody for so long hears somebody else. Longer than an owner on a busy machine is silent.
pub const VOTER_LEASE: Duration = Duration::from_secs(12);
/// Shorter than a voter's by more than clocks differ in speed meanwhile.
pub const OWNER_LEASE: Duration = Duration::from_secs(10);

/// By its place in the line; who started the file system has none.
pub type Voter = Option<Rank>;

/// Of the voters; later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    pub term: Term,
    pub number: u64,
}

/// Who votes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voters {
    pub version: Version,
    set: Vec<Voter>,
    /// Those that are to vote from then on when more than half of both know of it.
    next: Option<Vec<Voter>>,
}

impl Voters {
    #[cfg(test)]
    pub fn of_three() -> Voters {
        let rank = |number| Some(Rank { term: Term::default(), number });
        Voters { set: vec![None, rank(0), rank(1)], ..Voters::default() }
    }

    fn sets(&self) -> impl Iterator<Item = &Vec<Voter>> {
        std::iter::once(&self.set).chain(&self.next)
    }

    /// There are enough of them, or will be.
    pub fn has_enough(&self) -> bool {
        self.sets().any(|set| set.len() >= VOTERS_MIN)
    }

    /// There are enough of them.
    pub fn can_elect(&self) -> bool {
        self.sets().all(|set| set.len() >= VOTERS_MIN)
    }

    /// Whether these are more than half.
    pub fn elect(&self, granted: &BTreeSet<Voter>) -> bool {
        self.can_elect() && self.sets().all(|set| is_most(set, |voter| granted.contains(voter)))
    }

    pub fn has(&self, voter: Voter) -> bool {
        self.sets().any(|set| set.contains(&voter))
    }
}

fn is_most(set: &[Voter], has: impl Fn(&Voter) -> bool) -> bool {
    set.iter().filter(|voter| has(voter)).count() * 2 > set.len()
}

/// Whom a voter hears. Lost with its process, which is another voter then.
#[derive(Clone, Debug)]
pub struct Support {
    /// Of whoever it hears, or has agreed to hear.
    term: Term,
    heard: Duration,
    version: Version,
    /// It has the file system itself.
    is_owner: bool,
}

impl Support {
    pub fn begin(term: Term, now: Duration) -> Support {
        Support { term, heard: now, version: Version::default(), is_owner: false }
    }

    pub fn term(&self) -> Term {
        self.term
    }

    pub fn version(&self) -> Version {
        self.version
    }

    fn is_free(&self, now: Duration) -> bool {
        !self.is_owner && now.saturating_sub(self.heard) >= VOTER_LEASE
    }

    /// Whether it would hear whoever has the file system in that term; `None`: in a later one.
    pub fn may_hear(&self, term: Option<Term>, has_ended: bool, now: Duration) -> bool {
        term == Some(self.term)
            || term.is_none_or(|term| term > self.term)
                && (has_ended && !self.is_owner || self.is_free(now))
    }

    /// Whoever has the file system in that term has said something. `has_ended`: who was heard before is known to have
    /// ended, or has said that it has the file system no more. `false`: it is not heard.
    pub fn hears(&mut self, term: Term, has_ended: bool, now: Duration) -> bool {
        let may = self.may_hear(Some(term), has_ended, now);
        if may {
            (self.term, self.heard) = (term, now);
        }
        may
    }

    /// Of the voters it has been told that, by whoever it hears.
    pub fn learns(&mut self, version: Version) {
        self.version = version;
    }

    /// It would agree to hear somebody else whom voters of that version choose.
    pub fn would(&self, version: Version, now: Duration) -> bool {
        version >= self.version && self.is_free(now)
    }

    /// It agrees, and hears nobody of an earlier term from then on.
    pub fn grants(&mut self, term: Term, version: Version, now: Duration) -> bool {
        let may = term > self.term && self.would(version, now);
        if may {
            self.term = term;
        }
        may
    }

    /// It has the file system itself.
    pub fn takes(&mut self, term: Term, now: Duration) {
        (self.term, self.heard, self.is_owner) = (term, now, true);
    }

    /// It has the file system no more. It may hear others; it votes no more as whom it was, so that an owner that has ended
    /// is known to have heard nobody else.
    pub fn gives_way(&mut self) {
        self.is_owner = false;
    }
}

/// What whoever takes the file system over has found of the voters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub own: Voter,
    /// Who had the file system, where that one is known to have ended: it hears nobody any more, and heard nobody else.
    pub before: Option<Voter>,
    /// Others that are known to have ended.
    pub ended: BTreeSet<Voter>,
}

/// For how long whoever has the file system may decide.
#[derive(Debug)]
pub struct Lease {
    voters: Voters,
    /// How long each still hears nobody else.
    until: BTreeMap<Voter, Duration>,
    /// Those that never hear anybody else.
    lasting: BTreeSet<Voter>,
    /// Those that may have agreed to hear somebody else before they ended.
    ended: BTreeSet<Voter>,
    /// Those that know of this version of the voters.
    know: BTreeSet<Voter>,
}

impl Default for Lease {
    /// Of who starts the file system.
    fn default() -> Lease {
        let voters = Voters { set: vec![None], ..Voters::default() };
        let (until, ended, know) = Default::default();
        Lease { voters, until, lasting: BTreeSet::from([None]), ended, know }
    }
}

impl Lease {
    /// Of who takes it over, with the voters that it knew.
    pub fn succeeding(term: Term, voters: Voters, found: Found) -> Lease {
        let Found { own, before, ended } = found;
        let voters = Voters { version: Version { term, number: 0 }, ..voters };
        let lasting = [own].into_iter().chain(before).collect();
        let (until, know) = Default::default();
        Lease { voters, until, lasting, ended, know }
    }

    pub fn voters(&self) -> &Voters {
        &self.voters
    }

    /// The voter has heard what was said to it at that time.
    pub fn is_heard(&mut self, voter: Voter, said: Duration) {
        let until = self.until.entry(voter).or_default();
        *until = (*until).max(said + OWNER_LEASE);
    }

    /// The voter is known to have ended. If it cannot have agreed to hear somebody else by now, it never does.
    pub fn has_ended(&mut self, voter: Voter, now: Duration) {
        if self.until.get(&voter).is_some_and(|until| *until > now) {
            self.lasting.insert(voter);
        }
    }

    /// The voter knows who votes now.
    pub fn knows(&mut self, voter: Voter) {
        self.know.insert(voter);
    }

    /// Until when it may decide; `None`: for ever.
    pub fn until(&self) -> Option<Duration> {
        let set = &self.voters.set;
        if set.len() < VOTERS_MIN {
            return None;
        }
        let of = |voter: &Voter| match self.lasting.contains(voter) {
            true => Duration::MAX,
            false => self.until.get(voter).copied().unwrap_or_default(),
        };
        let mut each: Vec<_> = set.iter().map(of).collect();
        each.sort_unstable();
        let most = each[(set.len() - 1) / 2];
        // Or all that there still are.
        let living = set.iter().filter(|voter| !self.ended.contains(voter)).map(of).min();
        Some(most.max(living.unwrap_or_default())).filter(|until| *until < Duration::MAX)
    }

    pub fn may_decide(&self, now: Duration) -> bool {
        self.until().is_none_or(|until| now < until)
    }

    /// These are to vote. `true`: the voters have changed, and all are to be told.
    pub fn wants(&mut self, mut set: Vec<Voter>, now: Duration) -> bool {
        set.sort_unstable();
        if !self.may_decide(now) {
            return false;
        }
        let knows = |it: &Voter| self.know.contains(it) || self.lasting.contains(it);
        // All that are there, as one that knows only those before may take the file system over without asking anybody.
        if self.voters.next.as_ref() == Some(&set) && set.iter().all(knows) {
            let before = &self.voters.set;
            if is_most(before, knows)
                || before.iter().all(|it| knows(it) || self.ended.contains(it))
            {
                (self.voters.set, self.voters.next) = (set, None);
                return self.changed();
            }
        }
        let is_wanted = self.voters.next.as_ref().unwrap_or(&self.voters.set) == &set;
        if is_wanted {
            return false;
        }
        self.voters.next = Some(set).filter(|set| *set != self.voters.set);
        self.changed()
    }

    fn changed(&mut self) -> bool {
        self.voters.version.number += 1;
        self.know.clear();
        true
    }
}

#[cfg(test)]
mod tests;
