//! Where a file system is reached that others have: another place once one of its hosts has taken it over.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::succession::Term;
use super::words::{ANSWER_WAIT, VOTERS_WAIT};

/// For a connection with whoever may have fallen silent.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
const VOTERS_CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Cheap to clone; clones are one place.
#[derive(Clone)]
pub struct Place(Arc<Mutex<Known>>);

struct Known {
    address: SocketAddr,
    term: Term,
    /// Somebody takes the file system over when whoever has it ends.
    outlives: bool,
    /// This host ends with whoever has it all the same.
    is_bound: bool,
    /// It is one of the hosts that elect somebody when whoever has it falls silent.
    votes: bool,
}

impl Place {
    pub fn at(address: SocketAddr) -> Place {
        let known = Known {
            address,
            term: Term::default(),
            outlives: false,
            is_bound: false,
            votes: false,
        };
        Place(Arc::new(Mutex::new(known)))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn address(&self) -> SocketAddr {
        self.known().address
    }

    /// And the term in which the file system was reached there.
    pub fn now(&self) -> (SocketAddr, Term) {
        let known = self.known();
        (known.address, known.term)
    }

    /// This host goes on with whoever takes the file system over.
    pub fn outlives(&self) -> bool {
        let known = self.known();
        known.outlives && !known.is_bound
    }

    pub fn is(&self, address: SocketAddr, term: Term, outlives: bool) {
        let mut known = self.known();
        (known.address, known.term, known.outlives) = (address, term, outlives);
    }

    /// Whoever has it may be succeeded also when he only falls silent.
    pub fn votes(&self) -> bool {
        let known = self.known();
        known.votes && known.outlives && !known.is_bound
    }

    pub fn has_voters(&self, votes: bool) {
        self.known().votes = votes;
    }

    /// For a word of whoever has it; then this host ends what it has of it.
    pub fn patience(&self) -> Duration {
        if self.votes() { VOTERS_WAIT } else { ANSWER_WAIT }
    }

    pub fn connect_wait(&self) -> Duration {
        if self.votes() { VOTERS_CONNECT_WAIT } else { CONNECT_WAIT }
    }

    /// A start that is cut short leaves nothing: until all that it starts is there, this host ends with it.
    pub fn bind(&self) {
        self.known().is_bound = true;
    }

    pub fn unbind(&self) {
        self.known().is_bound = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_bound_ends_with_whoever_has_the_file_system_though_others_go_on() {
        let at = "127.0.0.1:1".parse().unwrap();
        let place = Place::at(at);
        assert!(!place.outlives(), "nobody has said that it does");
        place.bind();
        place.is(at, Term::default().next(1), true);
        assert!(!place.outlives());
        place.unbind();
        assert!(place.outlives());
    }
}
