//! Two ways of waiting for a reply that is about to come: asleep, or asking for it again and again.
//!
//! A server on this machine answers a small request in some ten microseconds. A thread that sleeps
//! meanwhile may take fifty more to wake up, because its processor went idle and has to be woken
//! first; a thread that asks again and again has the answer at once. But where processors are
//! scarce, it keeps the server itself from running. So both ways are timed and the quicker one is
//! taken, with the other one tried now and then. Sleep must be quicker by a half: whoever sleeps wakes
//! up on the server's processor, and the program that is answered then on its own pays for that.
//!
//! What asking may cost is bounded: it ends in sleep after a moment, and as many threads do it at a
//! time as half of the processors.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a small request takes where the server's processor has to be woken first, and more than it
/// takes else. Whoever falls asleep before is woken where the server runs, which is not where the
/// program is.
const MOMENT: Duration = Duration::from_micros(250);
/// The slower way is taken once in so many waits.
const TRIAL: u32 = 32;
/// A wait that took longer counts as this long, so that one of a server that was busy with
/// something else says little.
const COUNTED_MAX: Duration = Duration::from_micros(500);
/// A wait's share in the mean, as a power of two.
const SHARE: u32 = 4;

/// On two processors one thread may ask, since the server needs the other; on one processor none.
static SEATS: LazyLock<Seats> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    Seats { all: processors / 2, taken: AtomicUsize::new(0) }
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Asks for a moment, then sleeps.
    Awake,
    Asleep,
}

/// How long waits for one node have taken lately, in nanoseconds, by their way; 0 is not known.
/// Where threads write at the same time one wait may be forgotten: it is a guess anyway.
#[derive(Debug, Default)]
pub struct Waits {
    awake: AtomicU32,
    asleep: AtomicU32,
    count: AtomicU32,
}

impl Waits {
    /// How to wait now.
    pub fn choose(&self) -> Way {
        let is_trial = self.count.fetch_add(1, Ordering::Relaxed) % TRIAL == TRIAL - 1;
        let (awake, asleep) =
            (self.awake.load(Ordering::Relaxed), self.asleep.load(Ordering::Relaxed));
        let prefers_awake = awake <= asleep.saturating_add(asleep / 2);
        if prefers_awake ^ is_trial { Way::Awake } else { Way::Asleep }
    }

    pub fn took(&self, way: Way, time: Duration) {
        let mean = match way {
            Way::Awake => &self.awake,
            Way::Asleep => &self.asleep,
        };
        let time = time.min(COUNTED_MAX).as_nanos() as u32;
        let before = mean.load(Ordering::Relaxed);
        let after = match before {
            0 => time,
            _ => before - (before >> SHARE) + (time >> SHARE),
        };
        mean.store(after.max(1), Ordering::Relaxed);
    }
}

/// Asks for a moment, if there is a seat; `None` when there was no answer.
///
/// # Errors
/// The first that `ask` has.
pub fn spin<T, E>(mut ask: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let Some(_seat) = SEATS.take() else { return Ok(None) };
    let end = Instant::now() + MOMENT;
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if Instant::now() >= end {
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

    /// Waits so often on a machine where either way takes so many microseconds; the answer is how
    /// often it was awake in the last half.
    fn wait(waits: &Waits, times: usize, awake: u64, asleep: u64) -> usize {
        let ways = (0..times).map(|_| {
            let way = waits.choose();
            let micros = if way == Way::Awake { awake } else { asleep };
            waits.took(way, Duration::from_micros(micros));
            way
        });
        ways.skip(times / 2).filter(|way| *way == Way::Awake).count()
    }

    #[test]
    fn the_quicker_way_is_taken_and_the_other_one_tried_now_and_then() {
        let waits = Waits::default();
        assert_eq!(wait(&waits, 640, 28, 75), 310);
        assert!(wait(&waits, 64_000, 120, 40) <= 1_200, "the machine is busy now");
        assert!(wait(&waits, 64_000, 28, 75) >= 30_000, "and idle again");
    }

    #[test]
    fn one_long_wait_does_not_change_the_way() {
        let waits = Waits::default();
        wait(&waits, 1_000, 28, 75);
        waits.took(Way::Awake, Duration::from_secs(10));
        assert!(wait(&waits, 640, 28, 75) >= 300);
    }

    #[test]
    fn an_answer_or_an_error_ends_it_and_silence_ends_by_itself() {
        // Without a free seat nothing is asked.
        assert!(matches!(spin(|| Ok::<_, ()>(Some(7))), Ok(Some(7) | None)));
        assert_eq!(spin(|| Ok::<Option<u8>, ()>(None)), Ok(None));
        assert!(matches!(spin(|| Err::<Option<u8>, _>(())), Err(()) | Ok(None)));
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
