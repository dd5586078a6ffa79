//! Hosts elect one of them where whoever has the file system has fallen silent: who is asked, and what is made of the
//! answers. What each may answer is in `lending/voting.rs`.

use std::collections::BTreeSet;
use std::thread::{Builder, scope};

use crate::lending::{Ballot, FromHost, Heir, Owner, Rank, Succession, Term, Vote, asked};

pub struct Electing<'a> {
    pub secret: &'a [u8; 32],
    pub ballot: &'a Ballot,
    /// As it was told last by whoever fell silent, and his place in the line.
    pub succession: &'a Succession,
    pub owner: Option<Rank>,
    pub own: Rank,
}

/// What an election came to.
pub enum Elected {
    Nobody,
    /// Somebody else has the file system by now.
    Other(Owner),
    /// This host, for that term.
    This(Term),
}

impl Electing<'_> {
    /// Once all that are there have answered.
    pub fn go(&self, draw: impl FnOnce(Term) -> Option<Term>) -> Elected {
        let version = self.succession.voters.version;
        if !self.ballot.would(version) {
            return Elected::Nobody;
        }
        let votes = self.ask(None);
        let known = self.ballot.term();
        let is_later = |owner: &&Owner| owner.term > self.succession.term && owner.term >= known;
        let other = votes.iter().filter_map(|vote| vote.owner.as_ref()).filter(is_later);
        if let Some(owner) = other.max_by_key(|owner| owner.term) {
            return Elected::Other(owner.clone());
        }
        // The first of them in the line stands for it, of those that know who votes.
        let is_behind = |vote: &Vote| vote.version < version || vote.rank > Some(self.own);
        let is_first = votes.iter().all(|vote| !vote.grants || is_behind(vote));
        if !is_first || !self.are_enough(&votes) {
            return Elected::Nobody;
        }
        let term = votes.iter().map(|vote| vote.term).max().unwrap_or_default().max(known);
        let Some(term) = draw(term).filter(|term| self.ballot.grants(*term, version)) else {
            return Elected::Nobody;
        };
        if !self.are_enough(&self.ask(Some(term))) || self.ballot.term() != term {
            return Elected::Nobody;
        }
        Elected::This(term)
    }

    /// With this host's own.
    fn are_enough(&self, votes: &[Vote]) -> bool {
        let granted = votes.iter().filter(|vote| vote.grants).filter_map(|vote| vote.rank);
        let all: BTreeSet<_> = granted.chain([self.own]).map(Some).collect();
        self.succession.voters.elect(&all)
    }

    fn others(&self) -> impl Iterator<Item = &Heir> {
        let is_other = |heir: &&Heir| heir.rank != self.own && Some(heir.rank) != self.owner;
        let voters = &self.succession.voters;
        self.succession.heirs.iter().filter(is_other).filter(|it| voters.has(Some(it.rank)))
    }

    fn ask(&self, term: Option<Term>) -> Vec<Vote> {
        let version = self.succession.voters.version;
        scope(|scope| {
            let asks = |heir: &Heir| {
                let (rank, address) = (heir.rank, heir.address);
                scope.spawn(move || {
                    let vote = asked(address, self.secret, FromHost::Vote { term, version });
                    // Another one may listen there by now.
                    vote.ok().flatten().filter(|it| !it.grants || it.rank == Some(rank))
                })
            };
            let asked: Vec<_> = self.others().map(asks).collect();
            asked.into_iter().filter_map(|it| it.join().ok().flatten()).collect()
        })
    }

    /// Tells all that this host has the file system; who does not hear it asks.
    pub fn tell(&self, owner: &Owner) {
        for heir in self.others() {
            let (address, secret, owner) = (heir.address, *self.secret, owner.clone());
            let tells = move || drop(asked(address, &secret, FromHost::Elected(owner)));
            let _ = Builder::new().name("elected".to_owned()).spawn(tells);
        }
    }
}
