//! Waiting for a reply that is about to come by asking for it again and again.
//!
//! A server on this machine answers a small request in some ten microseconds, but a thread that
//! sleeps meanwhile may take fifty more to wake up: its idle processor has to be woken first. So a
//! waiter asks the socket for a moment before it sleeps. What that may cost is bounded: a moment is
//! short, only some of the machine's processors are kept busy with it at a time, and a node that
//! is slower than a moment is spun for only now and then, to notice when it no longer is.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// About what falling asleep and being woken costs: spinning longer never pays.
const MOMENT: Duration = Duration::from_micros(60);
/// After so many spins in vain in a row a node counts as slow.
const LOSSES_MAX: u32 = 4;
/// A slow node is spun for once in so many waits.
const REST: u32 = 64;

/// On two processors one thread may spin, since the server needs the other; on one processor none.
static SEATS: LazyLock<Seats> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    Seats { all: processors / 2, taken: AtomicUsize::new(0) }
});

/// How spinning for one node has gone lately.
#[derive(Debug, Default)]
pub struct Fortune {
    /// Spins in vain since the last one that paid.
    losses: AtomicU32,
    /// Waits since the node counts as slow.
    waits: AtomicU32,
}

impl Fortune {
    /// Whether it is worth trying now.
    fn is_promising(&self) -> bool {
        self.losses.load(Ordering::Relaxed) < LOSSES_MAX
            || self.waits.fetch_add(1, Ordering::Relaxed) % REST == REST - 1
    }

    fn won(&self) {
        self.losses.store(0, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed);
    }

    fn lost(&self) {
        // Beside another thread's loss or gain one of them may be forgotten: it is a guess anyway.
        let losses = self.losses.load(Ordering::Relaxed);
        self.losses.store(losses.saturating_add(1), Ordering::Relaxed);
    }
}

/// Asks for a moment, where that is worth trying; `None` when there was no answer.
///
/// # Errors
/// The first that `ask` has.
pub fn spin<T, E>(
    fortune: &Fortune,
    mut ask: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    if !fortune.is_promising() {
        return Ok(None);
    }
    let Some(_seat) = SEATS.take() else { return Ok(None) };
    let end = Instant::now() + MOMENT;
    loop {
        if let Some(answer) = ask()? {
            fortune.won();
            return Ok(Some(answer));
        }
        if Instant::now() >= end {
            fortune.lost();
            return Ok(None);
        }
        std::hint::spin_loop();
    }
}

/// How many threads may keep a processor busy at the same time.
#[derive(Debug)]
struct Seats {
    all: usize,
    taken: AtomicUsize,
}

impl Seats {
    fn take(&self) -> Option<Seat<'_>> {
        let one_more = |taken| (taken < self.all).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Seat(&self.taken))
    }
}

/// The right of one thread; given back when it is dropped.
#[derive(Debug)]
struct Seat<'s>(&'s AtomicUsize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promising(fortune: &Fortune, waits: u32) -> usize {
        (0..waits).filter(|_| fortune.is_promising()).count()
    }

    #[test]
    fn a_slow_node_is_tried_now_and_then_and_one_success_makes_it_quick_again() {
        let fortune = Fortune::default();
        (0..LOSSES_MAX - 1).for_each(|_| fortune.lost());
        assert_eq!(promising(&fortune, 10), 10);
        fortune.lost();
        assert_eq!(promising(&fortune, 10 * REST), 10);
        fortune.won();
        assert_eq!(promising(&fortune, 10), 10);
    }

    #[test]
    fn an_answer_or_an_error_ends_it_and_silence_ends_by_itself() {
        // Without a free seat nothing is asked, so the first answer may be to the sleeper.
        let fortune = Fortune::default();
        assert!(matches!(spin(&fortune, || Ok::<_, ()>(Some(7))), Ok(Some(7) | None)));
        assert_eq!(spin(&fortune, || Ok::<Option<u8>, ()>(None)), Ok(None));
        assert!(matches!(spin(&fortune, || Err::<Option<u8>, _>(())), Err(()) | Ok(None)));
    }

    #[test]
    fn there_are_no_more_seats_than_said_and_they_come_back() {
        let seats = Seats { all: 2, taken: AtomicUsize::new(0) };
        let (first, second) = (seats.take(), seats.take());
        assert!(first.is_some() && second.is_some() && seats.take().is_none());
        drop(first);
        assert!(seats.take().is_some());
    }
}
