//! How fast partitions may move: a bound on bytes in a second, shared by all pairs of nodes, turns
//! that pairs take at a node, and rests in which a source serves its clients alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::NodeId;

/// A longer sleep would let a request to stop wait.
const NAP_MAX: Duration = Duration::from_millis(50);
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

pub struct Limit {
    pace: Pace,
    bytes_per_second: Option<u64>,
    /// When what was let through so far is due.
    due: Mutex<Instant>,
    turns: Mutex<HashMap<NodeId, Arc<Mutex<()>>>>,
}

impl Limit {
    pub fn new(pace: Pace, bytes_per_second: Option<u64>) -> Limit {
        Limit { pace, bytes_per_second, due: Mutex::new(Instant::now()), turns: Mutex::default() }
    }

    /// Has bytes moved when it is their turn: a source that waited for a target that serves another
    /// source would keep its clients waiting too. Then waits as long as the source should rest from
    /// it, and until so many bytes are due.
    pub fn moving<T, E>(
        &self,
        (from, to): (NodeId, NodeId),
        bytes: u64,
        is_stopped: impl Fn() -> bool,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
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
        self.spend(bytes, is_stopped);
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

    /// Waits until so many bytes are due.
    pub fn spend(&self, bytes: u64, is_stopped: impl Fn() -> bool) {
        let Some(rate) = self.bytes_per_second else { return };
        let due = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let seconds = bytes as f64 / rate.max(1) as f64;
            *due = (*due).max(Instant::now()) + Duration::from_secs_f64(seconds.min(3_600.0));
            *due
        };
        wait_until(due, is_stopped);
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

    fn nothing() -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn bytes_take_the_time_that_they_are_given() {
        let begun = Instant::now();
        let limit = Limit::new(Pace::Urgent, Some(1_000));
        for _ in 0..2 {
            limit.moving(PAIR, 50, || false, nothing).unwrap();
        }
        assert!(begun.elapsed() >= Duration::from_millis(100));
        // Whoever is asked to stop does not wait out what it owes.
        limit.moving(PAIR, u64::MAX, || true, nothing).unwrap();
        Limit::new(Pace::Urgent, None).moving(PAIR, u64::MAX, || false, nothing).unwrap();
    }

    #[test]
    fn a_gentle_pace_rests_as_long_as_it_works() {
        let begun = Instant::now();
        let work = || {
            sleep(Duration::from_millis(40));
            nothing()
        };
        Limit::new(Pace::Gentle, None).moving(PAIR, 1, || false, work).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(80));
    }

    #[test]
    fn a_source_gives_to_one_target_at_a_time_unless_it_is_urgent() {
        let limit = Limit::new(Pace::Gentle, None);
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
        let urgent = Limit::new(Pace::Urgent, None);
        let nested = urgent.giving(PAIR.0, || false, || urgent.giving(PAIR.0, || false, nothing));
        assert_eq!(nested, Ok(()));
    }

    #[test]
    fn pairs_take_turns_at_a_node() {
        let limit = Limit::new(Pace::Urgent, None);
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
