//! How this host votes, for the threads that ask others and those that answer them. The rules are in `voting`.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidefs_valkey::Awake;

use super::host_words::{FromHost, ToHost, Vote};
use super::owner::Owner;
use super::succession::{Rank, Term};
use super::voting::{Support, Version};
use super::words::ToBorrower;

/// Cheap to clone; clones are one. Lost with its process, which comes as another host then.
#[derive(Clone, Default)]
pub struct Ballot(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    support: Option<Support>,
    /// That it votes as.
    rank: Option<Rank>,
    /// Whom it hears, where that is not who started the file system.
    owner: Option<Owner>,
    /// Others have elected him, and this host has not heard him yet.
    elected: Option<Owner>,
}

/// Time in which this process runs.
fn now() -> Duration {
    static BEGUN: LazyLock<Awake> = LazyLock::new(Awake::now);
    Awake::now().since(*BEGUN)
}

impl Ballot {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this host would hear whoever has the file system in that term; `None`: in a later one.
    pub fn may_hear(&self, term: Option<Term>, has_ended: bool) -> bool {
        self.known().support.as_ref().is_none_or(|it| it.may_hear(term, has_ended, now()))
    }

    /// Whoever has the file system in that term has said something. `false`: this host does not hear him.
    pub fn hears(&self, term: Term, has_ended: bool) -> bool {
        let mut known = self.known();
        let support = known.support.get_or_insert_with(|| Support::begin(term, now()));
        let hears = support.hears(term, has_ended, now());
        if hears && known.owner.as_ref().is_some_and(|owner| owner.term != term) {
            known.owner = None;
        }
        if hears {
            known.elected = None;
        }
        hears
    }

    /// Whom it hears by now.
    pub fn follows(&self, owner: Option<Owner>) {
        self.known().owner = owner;
    }

    /// Who votes, and as whom it does itself.
    pub fn learns(&self, version: Version, rank: Rank) {
        let mut known = self.known();
        known.rank = Some(rank);
        known.support.iter_mut().for_each(|support| support.learns(version));
    }

    /// The greatest term that it knows of.
    pub fn term(&self) -> Term {
        self.known().support.as_ref().map(Support::term).unwrap_or_default()
    }

    pub fn would(&self, version: Version) -> bool {
        self.known().support.as_ref().is_some_and(|support| support.would(version, now()))
    }

    pub fn grants(&self, term: Term, version: Version) -> bool {
        let mut known = self.known();
        known.support.as_mut().is_some_and(|support| support.grants(term, version, now()))
    }

    /// This host has the file system.
    pub fn takes(&self, owner: Owner) {
        let mut known = self.known();
        known.support.iter_mut().for_each(|support| support.takes(owner.term, now()));
        (known.owner, known.elected) = (Some(owner), None);
    }

    /// It has it no more.
    pub fn gives_way(&self) {
        self.known().support.iter_mut().for_each(Support::gives_way);
    }

    /// Somebody else was elected, of a term that this host may hear.
    pub fn is_elected(&self, owner: Owner) {
        let mut known = self.known();
        let may = |support: &Support| owner.term >= support.term();
        let is_news = known.owner.as_ref() != Some(&owner);
        if is_news && known.support.as_ref().is_some_and(may) {
            known.elected = Some(owner);
        }
    }

    pub fn elected(&self) -> Option<Owner> {
        self.known().elected.take()
    }

    /// What is answered by a host that has not taken the file system over.
    pub fn answer(&self, word: &ToBorrower) -> ToHost {
        match word {
            ToBorrower::Host(FromHost::Vote { term, version }) => {
                let grants = match term {
                    Some(term) => self.grants(*term, *version),
                    None => self.would(*version),
                };
                let (term, known) = (self.term(), self.known());
                let (rank, owner) = (known.rank, known.owner.clone());
                let version = known.support.as_ref().map(Support::version).unwrap_or_default();
                ToHost::Vote(Box::new(Vote { grants, term, version, rank, owner }))
            }
            ToBorrower::Host(FromHost::Elected(owner)) => {
                self.is_elected(owner.clone());
                ToHost::NotYet
            }
            _ => ToHost::NotYet,
        }
    }
}
