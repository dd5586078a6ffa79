//! Who waits for what this thread does. It may be told to stop waiting, and then what it waits for
//! is of no use to it any more. Work may be called off as well, whoever waits for it. And work may belong
//! to a term of its client: once the client has been expelled and let in again, nothing of it is done any
//! more. Of what a program asked for it may be known in which term that was.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Somebody who waits; named by a number that means something to whoever serves it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub number: u32,
    /// It does not want to wait any longer.
    pub has_gone: fn(u32) -> bool,
    /// What it asked for is begun again from the start, since it has gone to wait elsewhere.
    pub begins_again: fn() -> bool,
}

/// Work that somebody may call off.
pub trait Work: Send + Sync {
    fn is_called_off(&self) -> bool;
}

thread_local! {
    static CALLER: Cell<Option<Caller>> = const { Cell::new(None) };
    static IS_PATIENT: Cell<bool> = const { Cell::new(true) };
    static TERM: Cell<Option<u64>> = const { Cell::new(None) };
    static ASKED_IN: Cell<Option<u64>> = const { Cell::new(None) };
    static WORK: RefCell<Option<Arc<dyn Work>>> = const { RefCell::new(None) };
}

/// Puts back whether there was patience before.
struct PatienceBefore(bool);

impl Drop for PatienceBefore {
    fn drop(&mut self) {
        IS_PATIENT.set(self.0);
    }
}

/// Puts back which term it was before.
struct TermBefore(Option<u64>);

impl Drop for TermBefore {
    fn drop(&mut self) {
        TERM.set(self.0);
    }
}

/// The same for the term in which it was asked for.
struct AskedBefore(Option<u64>);

impl Drop for AskedBefore {
    fn drop(&mut self) {
        ASKED_IN.set(self.0);
    }
}

/// Puts back who was there before.
struct Before(Option<Caller>);

impl Drop for Before {
    fn drop(&mut self) {
        CALLER.set(self.0);
    }
}

/// The same for work.
struct WorkBefore(Option<Arc<dyn Work>>);

impl Drop for WorkBefore {
    fn drop(&mut self) {
        let before = self.0.take();
        drop(WORK.with_borrow_mut(|work| std::mem::replace(work, before)));
    }
}

/// Works for a caller; `None`: what is done is done to the end.
pub fn serve<T>(caller: Option<Caller>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CALLER.replace(caller));
    work()
}

/// Does work that may be called off; then it does not wait any longer.
pub fn work_at<T>(what: Arc<dyn Work>, work: impl FnOnce() -> T) -> T {
    let before = WORK.with_borrow_mut(|current| current.replace(what));
    let _before = WorkBefore(before);
    work()
}

/// Does work in which no call of a store waits for room: what is full fails at once.
pub fn without_waiting<T>(work: impl FnOnce() -> T) -> T {
    let _before = PatienceBefore(IS_PATIENT.replace(false));
    work()
}

/// Does work that belongs to a term of the client: in another one, a store that has terms refuses each call
/// of it.
pub fn in_term<T>(term: u64, work: impl FnOnce() -> T) -> T {
    let _before = TermBefore(TERM.replace(Some(term)));
    work()
}

/// The term to which the work of this thread belongs; `None`: to whichever there is.
pub fn term() -> Option<u64> {
    TERM.get()
}

/// Does what a program asked for while a term was the last that was open to all: it may have counted on what
/// was lost with that term, and then a store that has terms does not do it in a later one.
pub fn asked_in<T>(term: u64, work: impl FnOnce() -> T) -> T {
    let _before = AskedBefore(ASKED_IN.replace(Some(term)));
    work()
}

/// The term in which a program asked for what this thread does; `None`: it does not matter.
pub fn asked_term() -> Option<u64> {
    ASKED_IN.get()
}

/// By what whoever this thread works for is known.
pub fn number() -> Option<u32> {
    CALLER.get().map(|caller| caller.number).filter(|number| *number > 0)
}

/// Calls of a store may wait for room.
pub fn may_wait() -> bool {
    IS_PATIENT.get()
}

/// What this thread does is given up for now, and begun again from the start.
pub fn begins_again() -> bool {
    CALLER.get().is_some_and(|caller| (caller.begins_again)())
}

/// Whoever this thread works for does not want to wait any longer, or its work was called off. Takes
/// some microseconds, so it is asked by those who have waited for a while.
pub fn has_gone() -> bool {
    WORK.with_borrow(|work| work.as_ref().is_some_and(|work| work.is_called_off()))
        || CALLER.get().is_some_and(|caller| (caller.has_gone)(caller.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_the_innermost_and_ends_with_its_work() {
        let even = Caller { number: 2, has_gone: |number| number % 2 == 0, begins_again: || true };
        assert!(!has_gone());
        serve(Some(even), || {
            assert!(has_gone());
            serve(None, || assert!(!has_gone() && !begins_again()));
            assert!(begins_again());
            without_waiting(|| assert!(!may_wait()));
            assert!(may_wait());
            in_term(1, || {
                in_term(2, || assert_eq!(term(), Some(2)));
                assert_eq!(term(), Some(1));
            });
            assert_eq!(term(), None);
            asked_in(4, || {
                in_term(1, || assert_eq!((term(), asked_term()), (Some(1), Some(4))));
                asked_in(5, || assert_eq!(asked_term(), Some(5)));
                assert_eq!((term(), asked_term()), (None, Some(4)));
            });
            assert_eq!(asked_term(), None);
            serve(Some(Caller { number: 3, ..even }), || assert!(!has_gone()));
            assert!(has_gone());
        });
        assert!(!has_gone());
        struct Off(bool);
        impl Work for Off {
            fn is_called_off(&self) -> bool {
                self.0
            }
        }
        work_at(Arc::new(Off(true)), || {
            assert!(has_gone());
            work_at(Arc::new(Off(false)), || assert!(!has_gone()));
            assert!(has_gone());
        });
        assert!(!has_gone());
        let panicked = std::panic::catch_unwind(|| serve(Some(even), || panic!("on purpose")));
        assert!(panicked.is_err() && !has_gone());
    }
}
