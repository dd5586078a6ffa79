//! Who waits for what this thread does. It may be told to stop waiting, and then what it waits for
//! is of no use to it any more.

use std::cell::Cell;

/// Somebody who waits; named by a number that means something to whoever serves it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub number: u32,
    /// It does not want to wait any longer.
    pub has_gone: fn(u32) -> bool,
}

thread_local! {
    static CALLER: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// Puts back who was there before.
struct Before(Option<Caller>);

impl Drop for Before {
    fn drop(&mut self) {
        CALLER.set(self.0);
    }
}

/// Works for a caller; `None`: what is done is done to the end.
pub fn serve<T>(caller: Option<Caller>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CALLER.replace(caller));
    work()
}

/// Whoever this thread works for does not want to wait any longer. Takes some microseconds, so it
/// is asked by those who have waited for a while.
pub fn has_gone() -> bool {
    CALLER.get().is_some_and(|caller| (caller.has_gone)(caller.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_the_innermost_and_ends_with_its_work() {
        let even = Caller { number: 2, has_gone: |number| number % 2 == 0 };
        assert!(!has_gone());
        serve(Some(even), || {
            assert!(has_gone());
            serve(None, || assert!(!has_gone()));
            serve(Some(Caller { number: 3, ..even }), || assert!(!has_gone()));
            assert!(has_gone());
        });
        assert!(!has_gone());
        let panicked = std::panic::catch_unwind(|| serve(Some(even), || panic!("on purpose")));
        assert!(panicked.is_err() && !has_gone());
    }
}
