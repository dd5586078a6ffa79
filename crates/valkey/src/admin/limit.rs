//! How fast partitions may move: a bound on bytes in a second, shared by all pairs of nodes, turns
//! that pairs take at a node, and rests in which a source serves its clients alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::NodeId;

/// A longer sleep would let a request to stop wait.
const NAP_MAX: Duration = Duration::from_millis(50);
/// A byte a second is no time that a clock can tell.
const DEBT_MAX_SECONDS: f64 = 3_600.0;
/// Work that took longer was slow for another reason.
const REST_MAX: Duration = Duration::from_millis(500);

/// A source rests from giving whole slots away for one part in so many of the time that it took.
const REST_FROM_GIVING: u32 = 4;

/// How much of a source's time moving may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// A source rests between two pieces of work, so that its clients have at least half of it.
    #[default]
    Gentle,
    /// Without a rest: somebody waits for room.
    Urgent,
}

/// When what was let through so far is paid for, and the next may go. Outlives the moves of one call,
/// because the next call's follow at once.
pub type Paid = Mutex<Instant>;

pub struct Limit {
    pace: Pace,
    bytes_per_second: Option<u64>,
    paid: Arc<Paid>,
    turns: Mutex<HashMap<NodeId, Arc<Mutex<()>>>>,
}

impl Limit {
    pub fn new(pace: Pace, bytes_per_second: Option<u64>, paid: &Arc<Paid>) -> Limit {
        Limit { pace, bytes_per_second, paid: Arc::clone(paid), turns: Mutex::default() }
    }

    /// So many bytes of `most` may go together: what a second is worth, so that none of them stands
    /// for more of a burst than that.
    pub fn piece(&self, most: u64) -> u64 {
        self.bytes_per_second.map_or(most, |rate| most.min(rate))
    }

    /// Has bytes moved when they may go and it is their turn: a source that waited for a target that
    /// serves another source would keep its clients waiting too. Then waits as long as the source
    /// should rest from it.
    pub fn moving<T, E>(
        &self,
        (from, to): (NodeId, NodeId),
        bytes: u64,
        is_stopped: impl Fn() -> bool,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.wait_for(bytes, &is_stopped);
        // Sources before targets, and no node is both: nobody waits in a circle.
        let (source, target) = (self.turn(from), self.turn(to));
        let source = source.lock().unwrap_or_else(PoisonError::into_inner);
        let target = target.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let done = work()?;
        let worked = begun.elapsed();
        drop(target);
        if self.pace == Pace::Gentle {
            wait_until(Instant::now() + worked.min(REST_MAX), &is_stopped);
        }
        drop(source);
        Ok(done)
    }

    /// Has a source give whole slots away when it is its turn, and rest for a part of the time that
    /// it took: a child process does most of it, so less than the rest from moves key by key will do.
    pub fn giving<T, E>(
        &self,
        from: NodeId,
        is_stopped: impl Fn() -> bool,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if self.pace == Pace::Urgent {
            return work();
        }
        let turn = self.turn(from);
        let source = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let done = work()?;
        wait_until(Instant::now() + begun.elapsed().min(REST_MAX) / REST_FROM_GIVING, &is_stopped);
        drop(source);
        Ok(done)
    }

    fn turn(&self, node: NodeId) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(node).or_default())
    }

    /// Waits until so many bytes may go, or it is stopped.
    pub fn wait_for(&self, bytes: u64, is_stopped: impl Fn() -> bool) {
        if !is_stopped() {
            wait_until(self.turn_of(bytes, Instant::now()), is_stopped);
        }
    }

    /// When bytes may go that are asked for at `now`: after what went before has been paid for. They
    /// are paid for afterwards, so that the first go at once.
    fn turn_of(&self, bytes: u64, now: Instant) -> Instant {
        let Some(rate) = self.bytes_per_second else { return now };
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*paid).max(now);
        let seconds = bytes as f64 / rate.max(1) as f64;
        *paid = turn + Duration::from_secs_f64(seconds.min(DEBT_MAX_SECONDS));
        turn
    }
}

fn wait_until(due: Instant, is_stopped: impl Fn() -> bool) {
    while !is_stopped() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        sleep(left.min(NAP_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: (NodeId, NodeId) = (NodeId([1; 20]), NodeId([2; 20]));

    fn limited(pace: Pace, rate: Option<u64>) -> Limit {
        Limit::new(pace, rate, &Arc::new(Mutex::new(Instant::now())))
    }

    fn nothing() -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn no_more_than_a_seconds_worth_goes_in_the_first_second() {
        let limit = limited(Pace::Urgent, Some(1_000));
        let now = Instant::now();
        assert_eq!(limit.piece(64 << 20), 1_000);
        assert_eq!(limit.piece(10), 10);
        // Eight pairs of nodes ask at the same time, each for a piece.
        let turns: Vec<_> = (0..8).map(|_| limit.turn_of(1_000, now) - now).collect();
        assert_eq!(turns, (0..8).map(Duration::from_secs).collect::<Vec<_>>());
        // What nobody asked for is not saved up.
        let later = now + Duration::from_secs(100);
        assert_eq!(limit.turn_of(500, later), later);
        assert_eq!(limit.turn_of(500, later), later + Duration::from_millis(500));
        let free = limited(Pace::Urgent, None);
        assert_eq!((free.piece(7), free.turn_of(u64::MAX, now)), (7, now));
        assert_eq!(free.turn_of(u64::MAX, now), now);
    }

    #[test]
    fn whoever_is_stopped_waits_no_longer() {
        let limit = limited(Pace::Urgent, Some(1));
        limit.moving(PAIR, u64::MAX, || false, nothing).unwrap();
        let asked = std::cell::Cell::new(0);
        let is_stopped = || asked.replace(asked.get() + 1) == 2;
        // It owes an hour, and asks again and again whether it should go on waiting.
        limit.moving(PAIR, 1, is_stopped, nothing).unwrap();
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn a_gentle_pace_rests_as_long_as_it_works() {
        let begun = Instant::now();
        let work = || {
            sleep(Duration::from_millis(40));
            nothing()
        };
        limited(Pace::Gentle, None).moving(PAIR, 1, || false, work).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(80));
    }

    #[test]
    fn a_source_gives_to_one_target_at_a_time_unless_it_is_urgent() {
        let limit = limited(Pace::Gentle, None);
        let busy = Mutex::new(());
        let give = |limit: &Limit| {
            limit.giving(
                PAIR.0,
                || false,
                || busy.try_lock().map(|_| sleep(Duration::from_millis(5))).map_err(|_| ()),
            )
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| give(&limit).unwrap());
            }
        });
        let urgent = limited(Pace::Urgent, None);
        let nested = urgent.giving(PAIR.0, || false, || urgent.giving(PAIR.0, || false, nothing));
        assert_eq!(nested, Ok(()));
    }

    #[test]
    fn pairs_take_turns_at_a_node() {
        let limit = limited(Pace::Urgent, None);
        let busy = Mutex::new(());
        std::thread::scope(|scope| {
            for source in 1..=4 {
                let (limit, busy) = (&limit, &busy);
                let pair = (NodeId([source; 20]), NodeId([9; 20]));
                scope.spawn(move || {
                    let work = || busy.try_lock().map(|_| sleep(Duration::from_millis(5)));
                    limit.moving(pair, 1, || false, || work().map_err(|_| ())).unwrap();
                });
            }
        });
    }
}
