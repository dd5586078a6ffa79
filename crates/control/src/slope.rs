//! How fast memory fills, and how long nodes take to come: what a policy that grows ahead goes by. It
//! knows no workflow; that is the forecast's.

use std::collections::VecDeque;
use std::time::Duration;

use tidefs_model::Time;

use crate::events::{Outcome, Summary};
use crate::observation::Observation;
use crate::record::Kind;

/// The slope is that of the last observations within this time: a program writes in bursts.
const WITHIN: Duration = Duration::from_secs(3);
/// Observations that are kept at most, however often nodes are looked at.
const SEEN_MOST: usize = 64;
/// What a growth takes where none has been seen yet: nodes start within a second, and then data moves.
const LEAD_UNTOLD: Duration = Duration::from_secs(2);
/// A growth that took longer was slow for a reason that does not last.
const LEAD_MOST: Duration = Duration::from_secs(60);

/// So many bytes are expected to be in use after a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub expected_bytes: u64,
    pub after: Duration,
}

/// Of the bytes in use, since nodes came or left for the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slope {
    seen: VecDeque<(Time, u64)>,
    /// How long the last growth took.
    lead: Option<Duration>,
}

impl Slope {
    /// Takes an observation into account.
    pub fn observe(&mut self, at: Time, observed: &Observation) {
        let is_old = |(then, _): &(Time, u64)| at - *then > WITHIN;
        while self.seen.len() >= SEEN_MOST || self.seen.front().is_some_and(is_old) {
            self.seen.pop_front();
        }
        self.seen.push_back((at, observed.used_bytes()));
    }

    /// What was in use while data moved says nothing of what is written: copies are counted twice.
    pub fn reconfigured(&mut self, summary: &Summary) {
        self.seen.clear();
        let grew = summary.kind == Kind::Commission && summary.nodes_after > summary.nodes_before;
        if grew && summary.outcome == Outcome::Completed {
            self.lead = Some(summary.took.min(LEAD_MOST));
        }
    }

    /// What will be in use when nodes have come that are asked for now; `None` where usage does not
    /// rise. `every`: between two observations, since what is not decided now is decided then.
    pub fn ahead(&self, every: Duration) -> Option<Ahead> {
        let (&(first, before), &(last, now)) = (self.seen.front()?, self.seen.back()?);
        let seconds = (last - first).as_secs_f64();
        let after = self.lead.unwrap_or(LEAD_UNTOLD) + every;
        let rise = now.checked_sub(before).filter(|rise| *rise > 0 && seconds > 0.0)?;
        let more = rise as f64 / seconds * after.as_secs_f64();
        Some(Ahead { expected_bytes: now.saturating_add(more as u64), after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Node, NodeState};
    use tidefs_model::{NodeClass, NodeId};

    const MIB: u64 = 1 << 20;
    const EVERY: Duration = Duration::from_secs(1);

    fn at(seconds: i64) -> Time {
        Time::from_unix(seconds, 0)
    }

    fn used(mib: u64) -> Observation {
        Observation::new(vec![Node {
            id: NodeId([1; 20]),
            class: NodeClass::Own,
            state: NodeState::Serving,
            capacity_bytes: 1 << 30,
            used_bytes: mib * MIB,
            partitions: 1,
            received_bytes: 0,
            sent_bytes: 0,
        }])
    }

    fn growth(took: Duration, outcome: Outcome) -> Summary {
        Summary {
            kind: Kind::Commission,
            reason: String::new(),
            started_at: at(0),
            took,
            nodes_before: 2,
            nodes_after: 4,
            partitions_moved: 1,
            bytes_moved: 1,
            bytes_minimum: 1,
            imbalance_percent: None,
            phases: Vec::new(),
            resumed: false,
            outcome,
        }
    }

    #[test]
    fn what_rises_goes_on_for_as_long_as_a_growth_takes() {
        let mut slope = Slope::default();
        let ahead = |slope: &Slope| {
            slope.ahead(EVERY).map(|it| (it.expected_bytes / MIB, it.after.as_secs()))
        };
        slope.observe(at(0), &used(100));
        assert_eq!(ahead(&slope), None, "seen once");
        slope.observe(at(1), &used(140));
        assert_eq!(ahead(&slope), Some((260, 3)), "40 MiB a second, in two seconds and one more");
        slope.reconfigured(&growth(Duration::from_secs(9), Outcome::Completed));
        assert_eq!(ahead(&slope), None, "copies were counted");
        slope.observe(at(20), &used(200));
        slope.observe(at(21), &used(210));
        assert_eq!(ahead(&slope), Some((310, 10)));
        slope.observe(at(22), &used(190));
        assert_eq!(ahead(&slope), None, "less than before");
        let why = "no port is free".to_owned();
        slope.reconfigured(&growth(Duration::from_secs(50), Outcome::Failed { why }));
        assert_eq!(slope.lead, Some(Duration::from_secs(9)));
    }

    #[test]
    fn only_the_last_seconds_count() {
        let mut slope = Slope::default();
        for (second, mib) in [(0, 0), (1, 500), (8, 500), (9, 510)] {
            slope.observe(at(second), &used(mib));
        }
        assert_eq!(slope.ahead(EVERY).map(|it| it.expected_bytes / MIB), Some(540));
        for millisecond in 0..1_000 {
            slope.observe(at(10) + Duration::from_millis(millisecond), &used(600));
        }
        assert!(slope.seen.len() <= SEEN_MOST);
    }
}
