//! How fast memory fills, and how long nodes take to come: what a policy that grows ahead goes by. It
//! knows no workflow; that is the forecast's.

use std::collections::VecDeque;
use std::time::Duration;

use tidefs_model::Time;

use crate::events::{Outcome, Summary};
use crate::observation::{GROWTH_PART, Observation};
use crate::phase::Phase;
use crate::record::Kind;

/// The slope is that of the last observations within this time: a program writes in bursts.
const WITHIN: Duration = Duration::from_secs(3);
/// And over this at least, where it was none before: what one write brings between two looks is no slope.
const OVER_LEAST: Duration = Duration::from_secs(1);
/// Observations that are kept at most, however often nodes are looked at.
const SEEN_MOST: usize = 64;
/// What a growth takes where none has been seen yet: nodes start within a second, and then data moves.
const LEAD_UNTOLD: Duration = Duration::from_secs(2);
/// The same without the start of the nodes.
const REST_UNTOLD: Duration = Duration::from_secs(1);
/// What took longer was slow for a reason that does not last, unless it was measured where the next node comes from.
const LEAD_MOST: Duration = Duration::from_secs(60);

/// So many bytes are expected to be in use after a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub expected_bytes: u64,
    pub after: Duration,
}

/// Of the bytes in use, since nodes came or left for the last time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slope {
    seen: VecDeque<(Time, u64)>,
    /// Of all nodes, when they were seen last.
    capacity_bytes: u64,
    /// How long the last growth took.
    lead: Option<Lead>,
    /// Of a node that is asked for now, where that was measured.
    start_takes: Option<Duration>,
    /// The rate when nodes came or left for the last time, in bytes a second.
    before: Option<f64>,
}

/// Of a growth: until its nodes ran, and what came after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lead {
    starts: Duration,
    rest: Duration,
}

impl Lead {
    fn of(summary: &Summary) -> Lead {
        let starting = summary.phases.iter().find(|(phase, _)| *phase == Phase::Starting);
        let starts = starting.map_or(Duration::ZERO, |(_, spent)| *spent);
        let rest = summary.took.saturating_sub(starts).min(LEAD_MOST);
        Lead { starts: starts.min(LEAD_MOST), rest }
    }
}

impl Slope {
    /// Takes an observation into account.
    pub fn observe(&mut self, at: Time, observed: &Observation) {
        let is_old = |(then, _): &(Time, u64)| at - *then > WITHIN;
        while self.seen.len() >= SEEN_MOST || self.seen.front().is_some_and(is_old) {
            self.seen.pop_front();
        }
        self.seen.push_back((at, observed.used_bytes()));
        self.capacity_bytes = observed.capacity_bytes();
        self.start_takes = observed.start_takes();
    }

    /// Nodes come or leave, or data moves between them.
    pub fn reconfiguration_begins(&mut self) {
        self.before = self.rate();
    }

    /// What was in use while data moved says nothing of what is written: copies are counted twice.
    pub fn reconfigured(&mut self, summary: &Summary) {
        self.seen.clear();
        let grew = summary.kind == Kind::Commission && summary.nodes_after > summary.nodes_before;
        if grew && summary.outcome == Outcome::Completed {
            self.lead = Some(Lead::of(summary));
        }
    }

    /// What will be in use when nodes have come that are asked for now; `None` where usage does not
    /// rise, or by no more than servers' buffers, or nobody has looked for long enough. `every`: between two
    /// observations, since what is not decided now is decided then.
    pub fn ahead(&self, every: Duration) -> Option<Ahead> {
        let after = self.lead() + every;
        let more = self.rate()? * after.as_secs_f64();
        let (_, now) = self.seen.back()?;
        Some(Ahead { expected_bytes: now.saturating_add(more as u64), after })
    }

    /// From the wish for nodes to their share of the data. Where they come from counts more than where the last ones did.
    fn lead(&self) -> Duration {
        match (self.start_takes, self.lead) {
            (Some(starts), lead) => starts + lead.map_or(REST_UNTOLD, |lead| lead.rest),
            (None, Some(Lead { starts, rest })) => (starts + rest).min(LEAD_MOST),
            (None, None) => LEAD_UNTOLD,
        }
    }

    /// In bytes a second. Right after a reconfiguration it is what it was before, as far as usage still
    /// rises so fast: whoever writes quickly fills small nodes within a second.
    fn rate(&self) -> Option<f64> {
        let (&(first, before), &(last, now)) = (self.seen.front()?, self.seen.back()?);
        let rises = |rise: &u64| *rise > self.capacity_bytes / GROWTH_PART;
        let rise = now.checked_sub(before).filter(rises)?;
        let over = Some(last - first).filter(|over| !over.is_zero())?;
        let rate = rise as f64 / over.as_secs_f64();
        if over >= OVER_LEAST { Some(rate) } else { self.before.map(|before| rate.min(before)) }
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
        slope.observe(at(21), &used(220));
        assert_eq!(ahead(&slope), Some((420, 10)));
        slope.observe(at(22), &used(190));
        assert_eq!(ahead(&slope), None, "less than before");
        let why = "no port is free".to_owned();
        slope.reconfigured(&growth(Duration::from_secs(50), Outcome::Failed { why }));
        assert_eq!(slope.lead(), Duration::from_secs(9));
    }

    #[test]
    fn a_node_is_waited_for_as_long_as_nodes_from_there_were() {
        let mut slope = Slope::default();
        let takes = |seconds| Some(Duration::from_secs(seconds));
        let after = |slope: &Slope| slope.ahead(EVERY).unwrap().after.as_secs();
        slope.observe(at(0), &used(100).with_start_takes(takes(40)));
        slope.observe(at(1), &used(140).with_start_takes(takes(40)));
        assert_eq!(after(&slope), 40 + 1 + 1, "before any growth");
        let phases =
            vec![(Phase::Starting, Duration::from_secs(90)), (Phase::Moving, at(5) - at(0))];
        let took = Duration::from_secs(95);
        slope.reconfigured(&Summary { phases, ..growth(took, Outcome::Completed) });
        slope.observe(at(100), &used(200).with_start_takes(takes(70)));
        slope.observe(at(101), &used(240).with_start_takes(takes(70)));
        assert_eq!(after(&slope), 70 + 5 + 1, "longer than the usual most: it was measured");
        slope.observe(at(102), &used(280));
        assert_eq!(after(&slope), 60 + 1, "nobody has measured");
        slope.observe(at(103), &used(320).with_start_takes(takes(0)));
        assert_eq!(after(&slope), 5 + 1, "one is there");
    }

    /// As soon as nodes have come something is written at once; and servers' buffers grow by a little all the time.
    #[test]
    fn what_is_written_between_two_looks_is_no_slope() {
        let mut slope = Slope::default();
        let millis = |millis: u64| at(0) + Duration::from_millis(millis);
        slope.observe(millis(0), &used(100));
        let burst = [200, 400, 600, 800].map(|then| {
            slope.observe(millis(then), &used(160));
            slope.ahead(EVERY)
        });
        assert_eq!(burst, [None; 4], "it was over after the first");
        slope.observe(millis(1_000), &used(160));
        assert_eq!(slope.ahead(EVERY).map(|it| it.expected_bytes / MIB), Some(160 + 3 * 60));
        for second in 2..9 {
            slope.observe(at(second), &used(160 + second as u64));
        }
        assert_eq!(slope.ahead(EVERY), None, "a MiB a second of a GiB");
    }

    #[test]
    fn what_rose_before_nodes_came_is_known_to_rise_as_soon_as_it_does_again() {
        let mut slope = Slope::default();
        slope.observe(at(0), &used(100));
        slope.observe(at(1), &used(200));
        slope.reconfiguration_begins();
        slope.observe(at(2), &used(900));
        slope.reconfigured(&growth(Duration::from_secs(1), Outcome::Completed));
        let mut then = |millis: u64, mib| {
            slope.observe(at(3) + Duration::from_millis(millis), &used(mib));
            slope.ahead(EVERY).map(|it| it.expected_bytes / MIB)
        };
        assert_eq!(then(0, 400), None, "seen once");
        assert_eq!(then(200, 405), None, "servers' buffers");
        assert_eq!(then(400, 500), Some(500 + 2 * 100), "no faster than before");
        assert_eq!(then(500, 420), Some(420 + 2 * 40), "nor faster than now");
        slope.reconfigured(&growth(Duration::from_secs(1), Outcome::Completed));
        slope.reconfiguration_begins();
        slope.observe(at(9), &used(100));
        slope.observe(at(9) + Duration::from_millis(200), &used(200));
        assert_eq!(slope.ahead(EVERY), None, "nothing rose when the last one began");
    }

    #[test]
    fn only_the_last_seconds_count() {
        let mut slope = Slope::default();
        for (second, mib) in [(0, 0), (1, 500), (8, 500), (9, 520)] {
            slope.observe(at(second), &used(mib));
        }
        assert_eq!(slope.ahead(EVERY).map(|it| it.expected_bytes / MIB), Some(580));
        for millisecond in 0..1_000 {
            slope.observe(at(10) + Duration::from_millis(millisecond), &used(600));
        }
        assert!(slope.seen.len() <= SEEN_MOST);
    }
}
