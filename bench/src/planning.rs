//! How long plans take: of the planner that weighs load, bytes and time, on emulated servers as in the
//! evaluation of Pufferscale, and of the one that the manager asks. One processor works; no node and
//! no mount is there.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

use serde::Serialize;
use tidefs_control::rescaling::Weights;
use tidefs_control::{Held, Inventory, Node, NodeState, Spreading, plan};
use tidefs_model::{NodeClass, NodeId};
use tidefs_sim::rescaling::{Change, Planner, Scenario, run};

use crate::figures::Spread;
use crate::goals::Verdict;

/// What is planned.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// Load, bytes and time of buckets that rescalings at random have spread.
    Rescaling { buckets: u16, servers: u16, change: Change },
    /// What the manager plans, for partitions that some of the nodes hold and some nodes leave.
    Spreading { partitions: u16, holding: u16, nodes: u16, leave: u16 },
}

/// At most so many milliseconds, in the median. Pufferscale's heuristic takes 612 ms at most for 8,192
/// buckets and 2,048 servers (section VII.B).
const CASES: [(Case, f64); 7] = [
    (Case::Rescaling { buckets: 8_192, servers: 128, change: Change::Commission(1_920) }, 50.0),
    (Case::Rescaling { buckets: 8_192, servers: 2_048, change: Change::Decommission(1_920) }, 50.0),
    (Case::Spreading { partitions: 8_192, holding: 1_024, nodes: 2_048, leave: 0 }, 50.0),
    (Case::Spreading { partitions: 8_192, holding: 2_048, nodes: 2_048, leave: 512 }, 50.0),
    (Case::Rescaling { buckets: 16_384, servers: 48, change: Change::Commission(16) }, 5.0),
    (Case::Spreading { partitions: 16_384, holding: 48, nodes: 64, leave: 0 }, 5.0),
    (Case::Spreading { partitions: 16_384, holding: 64, nodes: 64, leave: 16 }, 5.0),
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Case::Rescaling { buckets, servers, change: Change::Commission(count) } => {
                write!(f, "{buckets} buckets, {servers} servers and {count} more")
            }
            Case::Rescaling { buckets, servers, change: Change::Decommission(count) } => {
                write!(f, "{buckets} buckets, {servers} servers less {count}")
            }
            Case::Spreading { partitions, holding, nodes, leave: 0 } => {
                write!(f, "{partitions} partitions, from {holding} to {nodes} nodes")
            }
            Case::Spreading { partitions, nodes, leave, .. } => {
                write!(f, "{partitions} partitions, {leave} of {nodes} nodes leave")
            }
        }
    }
}

/// A case as measured.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    pub case: String,
    pub milliseconds: Spread,
    pub goal: f64,
    pub half_goal: f64,
    pub verdict: Verdict,
}

impl Planned {
    fn new(case: Case, goal: f64, milliseconds: Spread) -> Planned {
        let half_goal = 2.0 * goal;
        let verdict = match milliseconds.median {
            median if median <= goal => Verdict::Goal,
            median if median <= half_goal => Verdict::HalfGoal,
            _ => Verdict::Missed,
        };
        Planned { case: case.to_string(), milliseconds, goal, half_goal, verdict }
    }
}

/// Each case so many times; nothing for no times.
pub fn measure(plans: u32) -> Vec<Planned> {
    if plans == 0 {
        return Vec::new();
    }
    let one = |&(case, goal): &(Case, f64)| {
        let milliseconds = Spread::of(&case.milliseconds(plans)).expect("some plans");
        Planned::new(case, goal, milliseconds)
    };
    CASES.iter().map(one).collect()
}

impl Case {
    fn milliseconds(self, plans: u32) -> Vec<f64> {
        match self {
            Case::Rescaling { buckets, servers, change } => {
                let usual = Scenario::new(servers, change, buckets);
                let scenario = Scenario { warmup: 5, between: 2, runs: plans, ..usual };
                let begun = Instant::now();
                let clock = &mut || begun.elapsed();
                let measured = run(&scenario, Planner::Tidefs, Weights::LDT, clock);
                measured.expect("a sound scenario").iter().map(|plan| plan.plan_ms).collect()
            }
            Case::Spreading { partitions, holding, nodes, leave } => {
                let inventory = inventory(partitions, holding, nodes);
                let leaving: BTreeSet<_> = (0..leave).map(id).collect();
                let one = |_| {
                    let begun = Instant::now();
                    let planned = plan(&inventory, &leaving, &Spreading::default());
                    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
                    assert!(!planned.expect("a plan").is_empty(), "something has to move");
                    milliseconds
                };
                (0..plans).map(one).collect()
            }
        }
    }
}

/// Sizes between nothing and twice the average, the same in every run.
fn inventory(partitions: u16, holding: u16, nodes: u16) -> Inventory {
    let size = |number: u16| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 43;
    let held = |number: u16| Held { owner: Some(id(number % holding)), bytes: Some(size(number)) };
    let held: Vec<_> = (0..partitions).map(held).collect();
    let mean = held.iter().filter_map(|held| held.bytes).sum::<u64>() / u64::from(holding);
    let node = |number: u16| Node {
        id: id(number),
        class: NodeClass::Own,
        state: NodeState::Serving,
        capacity_bytes: 4 * mean,
        used_bytes: if number < holding { mean } else { 0 },
        partitions: 0,
        received_bytes: 0,
        sent_bytes: 0,
    };
    Inventory::new((0..nodes).map(node).collect(), &held).expect("an inventory")
}

fn id(number: u16) -> NodeId {
    let mut id = [0; 20];
    id[..2].copy_from_slice(&number.to_be_bytes());
    NodeId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_planned_and_the_median_is_judged() {
        let measured = measure(1);
        assert_eq!(measured.len(), CASES.len());
        assert!(measured.iter().all(|it| it.milliseconds.min > 0.0), "{measured:?}");
        let verdict = |median: f64| {
            let spread = Spread::of(&[median, median, 1_000.0]).expect("samples");
            Planned::new(CASES[0].0, 50.0, spread).verdict
        };
        assert_eq!(verdict(50.0), Verdict::Goal);
        assert_eq!(verdict(99.0), Verdict::HalfGoal);
        assert_eq!(verdict(101.0), Verdict::Missed);
    }
}
