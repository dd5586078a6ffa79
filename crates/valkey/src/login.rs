//! As whom a client logs in, and in which of its terms.
//!
//! The owner of a file system ends the account of a mount that it expels. One that comes back gets another
//! account, and with it begins a term. What was begun in an earlier one must never be done, so work that
//! belongs to a term (`caller::in_term`) is refused in any other; work of no term waits until the new one
//! is open to all. It is refused then, too, where a program asked for it before (`caller::asked_in`) and locks
//! were lost with the term: the program may have counted on them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tidefs_store::caller;

use crate::endpoint::Account;
use crate::fault::Fault;

#[derive(Debug)]
pub struct Login {
    current: RwLock<(u64, Arc<Account>)>,
    /// The last term that is open to all.
    open: AtomicU64,
    /// What was asked for in a term before is refused.
    oldest_asked: AtomicU64,
    /// The account may be ended and replaced.
    has_terms: bool,
}

impl Login {
    /// With an account that stays.
    pub fn lasting(account: Account) -> Login {
        Login::new(account, false)
    }

    /// With one that may be ended.
    pub fn for_a_term(account: Account) -> Login {
        Login::new(account, true)
    }

    fn new(account: Account, has_terms: bool) -> Login {
        let current = RwLock::new((0, Arc::new(account)));
        let (open, oldest_asked) = (AtomicU64::new(0), AtomicU64::new(0));
        Login { current, open, oldest_asked, has_terms }
    }

    pub fn term(&self) -> u64 {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0
    }

    pub fn account(&self) -> Arc<Account> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).1)
    }

    pub fn begin_term(&self, account: Account) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = (current.0 + 1, Arc::new(account));
    }

    /// Opens the term to all. `refuse_earlier`: but for what was asked for before.
    pub fn admit(&self, refuse_earlier: bool) {
        let term = self.term();
        if refuse_earlier {
            self.oldest_asked.store(term, Ordering::SeqCst);
        }
        self.open.store(term, Ordering::SeqCst);
    }

    /// The account for the work of this thread.
    ///
    /// # Errors
    /// When the work is of another term, or of none and this one is not open yet, or was asked for too early.
    pub fn for_this_work(&self) -> Result<Arc<Account>, Fault> {
        if !self.has_terms {
            return Ok(self.account());
        }
        let (term, account) = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        match caller::term() {
            Some(wanted) if wanted == term => Ok(account),
            Some(_) => Err(Fault::Expelled),
            None if term > self.open.load(Ordering::SeqCst) => Err(Fault::Outside),
            None if self.was_asked_too_early() => Err(Fault::Expelled),
            None => Ok(account),
        }
    }

    fn was_asked_too_early(&self) -> bool {
        let oldest = self.oldest_asked.load(Ordering::SeqCst);
        caller::asked_term().is_some_and(|asked| asked < oldest)
    }

    /// What it means for the work of this thread that a node lets nobody in with the account: who is of no
    /// term waits for the next one.
    pub fn refused(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Denied(_) if self.has_terms => match caller::term() {
                Some(_) => Fault::Expelled,
                None => Fault::Outside,
            },
            fault => fault,
        }
    }
}
