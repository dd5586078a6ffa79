//! How a writer that met a full node waits for room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidefs_control::Growth;
use tidefs_manager::AskError;
use tidefs_model::NodeId;
use tidefs_store::Room;
use tidefs_valkey::Valkey;

use super::managed::Supervision;
use crate::control::{self, Answer, Request};
use crate::state::Paths;

/// Where nobody can say whether there will be room, writers hope for so long: a manager is started
/// again within seconds.
const UNTOLD_MOST: Duration = Duration::from_secs(120);
/// Who waits asks at least this often.
const ASKED_WITHIN: Duration = Duration::from_secs(20);
/// A refusal holds for so long for all who wait: one after the other tries and asks.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Between two lines of the log that say why there is no room.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// Between two looks at where partitions lie.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The owner of the nodes asks its manager, which takes a look at the nodes.
const ANSWER_WAIT: Duration = Duration::from_secs(6);

/// A writer that still waits has said so again in this time.
const URGENT_FOR: Duration = Duration::from_millis(1_500);

/// Whether there is any use in waiting for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hope {
    /// Room is being made, or will be.
    Sure,
    /// Nobody can say now.
    Untold,
    /// There will be none; the text says why.
    None(String),
}

impl Hope {
    /// What follows from a manager's answer.
    pub fn of(answer: Result<Growth, AskError>) -> Hope {
        match answer {
            Ok(Growth::Underway | Growth::TriedAgain { .. }) => Hope::Sure,
            Ok(Growth::Possible) => Hope::Untold,
            Ok(Growth::AtMaximum { nodes }) => Hope::None(format!(
                "there are {nodes} nodes, as many as there may be; more of them (--nodes) or larger ones \
                     (--node-memory) would have room"
            )),
            Ok(Growth::NotByItself) => {
                Hope::None("the policy adds no nodes; `tidefs scale` does".to_owned())
            }
            Ok(Growth::Failing { failures, why }) => {
                Hope::None(format!("making room has failed {failures} times in a row: {why}"))
            }
            // It is started again, or has too much to do to say.
            Err(AskError::Busy | AskError::UnderWay | AskError::Stopped) => Hope::Untold,
        }
    }
}

/// For how long writers have hoped without being told anything.
#[derive(Debug, Default)]
struct Hopes {
    /// Since when nobody could say, and when that was asked last.
    untold: Option<(Instant, Instant)>,
    refused: Option<Instant>,
    told: Option<Instant>,
}

impl Hopes {
    /// `Err` has the reason why there is no hope.
    fn weigh(&mut self, hope: Hope, now: Instant) -> Result<(), String> {
        let before = self.untold.take();
        match hope {
            Hope::Sure => Ok(()),
            Hope::None(why) => Err(why),
            Hope::Untold => {
                let same = before.filter(|(_, last)| now - *last <= ASKED_WITHIN);
                let since = same.map_or(now, |(since, _)| since);
                self.untold = Some((since, now));
                let seconds = (now - since).as_secs();
                let why = || format!("for {seconds} s nobody could say whether nodes are added");
                if now - since < UNTOLD_MOST { Ok(()) } else { Err(why()) }
            }
        }
    }

    fn is_refused(&self, now: Instant) -> bool {
        self.refused.is_some_and(|at| now - at < REFUSED_FOR)
    }

    /// Whether it is time for another line in the log.
    fn is_to_be_told(&mut self, now: Instant) -> bool {
        let is_due = self.told.is_none_or(|last| now - last >= TOLD_EVERY);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }
}

/// Where nobody makes room.
pub struct NoRoom;

impl Room for NoRoom {
    fn hope(&self, _endpoint: &str) -> bool {
        false
    }
}

/// When a writer last waited for room, and who wants memory back; moves do not rest then.
#[derive(Clone, Debug, Default)]
pub struct Urgency(Arc<Mutex<Urgent>>);

#[derive(Debug, Default)]
struct Urgent {
    waited: Option<Instant>,
    /// Lenders that want their memory back.
    lenders: u32,
}

impl Urgency {
    fn lock(&self) -> MutexGuard<'_, Urgent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lender waits while `act` is under way.
    pub fn during<T>(&self, act: impl FnOnce() -> T) -> T {
        self.lock().lenders += 1;
        let done = act();
        self.lock().lenders -= 1;
        done
    }

    pub fn mark(&self) {
        self.lock().waited = Some(Instant::now());
    }

    pub fn is_a_lenders(&self) -> bool {
        self.lock().lenders > 0
    }

    pub fn is_there(&self) -> bool {
        let urgent = self.lock();
        urgent.lenders > 0 || urgent.waited.is_some_and(|last| last.elapsed() < URGENT_FOR)
    }
}

/// Asks whoever makes room on a cluster.
pub struct ClusterRoom<A> {
    ask: A,
    store: Arc<Valkey>,
    hopes: Mutex<Hopes>,
    looked: Mutex<Option<Instant>>,
}

impl<A: Fn(Option<NodeId>) -> Hope + Send + Sync + 'static> ClusterRoom<A> {
    fn new(store: Arc<Valkey>, ask: A) -> ClusterRoom<A> {
        ClusterRoom { ask, store, hopes: Mutex::default(), looked: Mutex::default() }
    }
}

impl<A: Fn(Option<NodeId>) -> Hope + Send + Sync + 'static> Room for ClusterRoom<A> {
    fn hope(&self, endpoint: &str) -> bool {
        let hopes = || self.hopes.lock().unwrap_or_else(PoisonError::into_inner);
        if hopes().is_refused(Instant::now()) {
            return false;
        }
        let hope = (self.ask)(self.store.node_called(endpoint));
        let (mut hopes, now) = (hopes(), Instant::now());
        let Err(why) = hopes.weigh(hope, now) else { return true };
        hopes.refused = Some(now);
        if hopes.is_to_be_told(now) {
            tracing::warn!(endpoint, "a full node gets no room, and writers are refused: {why}");
        }
        false
    }

    fn shape(&self) -> u64 {
        // Whoever finds another one looking does not wait for that.
        let Ok(mut looked) = self.looked.try_lock() else { return self.store.changes() };
        if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            *looked = Some(Instant::now());
            if let Err(error) = self.store.refresh() {
                tracing::debug!("the nodes do not say who holds what: {error}");
            }
        }
        self.store.changes()
    }
}

/// In the process that owns the nodes.
pub fn managed(manager: Arc<Supervision>, store: Arc<Valkey>) -> Arc<dyn Room> {
    Arc::new(ClusterRoom::new(store, move |node| manager.hope_for_room(node)))
}

/// In a process that serves another mount: asks the one that has the manager. What keeps that from
/// answering passes, or it ends, and the nodes with it.
pub fn asking(paths: Paths, store: Arc<Valkey>) -> Arc<dyn Room> {
    let ask = move |node: Option<NodeId>| {
        let request = Request::Full { node: node.map(|id| id.to_string()) };
        match control::ask_within(&paths, &request, ANSWER_WAIT) {
            Ok(Answer::Room { hope }) => hope,
            Ok(_) | Err(_) => Hope::Untold,
        }
    };
    Arc::new(ClusterRoom::new(store, ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_growth_ends_hope() {
        let failing = Growth::Failing { failures: 9, why: "no server program".to_owned() };
        let none = |growth| match Hope::of(Ok(growth)) {
            Hope::None(why) => why,
            hope => panic!("{hope:?}"),
        };
        assert!(none(Growth::AtMaximum { nodes: 3 }).contains("3 nodes"));
        assert!(none(Growth::NotByItself).contains("tidefs scale"));
        assert!(none(failing).contains("9 times in a row: no server program"));
        let again = Growth::TriedAgain { left: Duration::from_secs(60), failures: 7 };
        assert_eq!([Hope::of(Ok(Growth::Underway)), Hope::of(Ok(again))], [Hope::Sure, Hope::Sure]);
        for error in [AskError::Busy, AskError::UnderWay, AskError::Stopped] {
            assert_eq!(Hope::of(Err(error)), Hope::Untold);
        }
    }

    #[test]
    fn hope_lasts_while_nodes_are_added_and_not_for_ever_where_nobody_says_so() {
        let (mut hopes, begun) = (Hopes::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        for second in 0..10_000 {
            assert_eq!(hopes.weigh(Hope::Sure, at(second)), Ok(()));
        }
        let mut weigh = |seconds| hopes.weigh(Hope::Untold, at(seconds));
        assert!((10_000..10_120).all(|second| weigh(second).is_ok()));
        assert!(weigh(10_120).unwrap_err().contains("for 120 s nobody could say"));
        assert_eq!(weigh(10_150), Ok(()), "somebody else's wait, much later");
        assert!((10_151..10_200).all(|second| weigh(second).is_ok()));
        assert_eq!(hopes.weigh(Hope::Sure, at(10_200)), Ok(()));
        let mut weigh = |seconds| hopes.weigh(Hope::Untold, at(seconds));
        assert!((10_201..10_300).all(|second| weigh(second).is_ok()), "it begins anew");
        let why = hopes.weigh(Hope::None("full".to_owned()), at(10_301));
        assert_eq!(why, Err("full".to_owned()));
    }

    #[test]
    fn a_refusal_is_everybodys_for_a_moment() {
        let begun = Instant::now();
        let hopes = Hopes { refused: Some(begun), ..Hopes::default() };
        assert!(hopes.is_refused(begun) && !hopes.is_refused(begun + REFUSED_FOR));
        assert!(!Hopes::default().is_refused(begun));
    }

    #[test]
    fn the_log_is_told_now_and_then() {
        let (mut hopes, begun) = (Hopes::default(), Instant::now());
        let mut told = |seconds| hopes.is_to_be_told(begun + Duration::from_secs(seconds));
        assert_eq!(
            [told(0), told(1), told(9), told(10), told(11)],
            [true, false, false, true, false]
        );
    }
}
