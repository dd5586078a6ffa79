//! How good plans are: load and bytes of the fullest server over their lower bounds in the four
//! scenarios of Pufferscale's evaluation, the time beside the strategy that ignores load, and small
//! cases beside the exact optimum.
//!
//! Nothing here depends on the machine, so all of it runs at the same time; how long plans take is measured
//! before.

use std::time::Duration;

use serde::Serialize;
use tidefs_control::rescaling::Weights;
use tidefs_sim::rescaling::{
    Change, Measured, Planner, Results, Scenario, compare_with_exact, run,
};

use crate::goals::{Bound, Verdict};

const BUCKETS: u16 = 8_192;
/// Servers, what changes, and by what load and bytes may be above their bounds: Pufferscale's own 2 %
/// at 128 servers and 40 % at 2,048 (section VII.B), and 2 % in the scenarios between.
const SCENARIOS: [(u16, Change, f64); 4] = [
    (128, Change::Commission(1_920), 1.4),
    (2_048, Change::Decommission(1_920), 1.02),
    (256, Change::Commission(64), 1.02),
    (320, Change::Decommission(64), 1.02),
];
/// The median time over that of the strategy that ignores load.
const TIME: f64 = 1.05;
/// How far above the optimum a small plan may be in each aim, and in what part of the cases all are.
const NEAR: f64 = 0.1;
const NEAR_PART: f64 = 0.95;
const SEED: u64 = 1;

/// A figure and its goal.
#[derive(Clone, Debug, Serialize)]
pub struct Rated {
    pub case: String,
    pub judged: f64,
    pub bound: Bound,
    pub goal: f64,
    pub half_goal: f64,
    pub verdict: Verdict,
}

impl Rated {
    fn new(case: String, judged: f64, bound: Bound, goal: f64) -> Rated {
        let (half_goal, met) = match bound {
            Bound::AtLeast => (goal / 2.0, [judged >= goal, judged >= goal / 2.0]),
            Bound::AtMost => {
                let half = 1.0 + 2.0 * (goal - 1.0);
                (half, [judged <= goal, judged <= half])
            }
        };
        let verdict = match met {
            [true, _] => Verdict::Goal,
            [false, true] => Verdict::HalfGoal,
            [false, false] => Verdict::Missed,
        };
        Rated { case, judged, bound, goal, half_goal, verdict }
    }
}

/// So many rescalings of each scenario, and as many small cases each that grow and that shrink;
/// nothing for none.
pub fn measure(plans: u32) -> Vec<Rated> {
    if plans == 0 {
        return Vec::new();
    }
    let one = move |(servers, change, balance): (u16, Change, f64)| {
        let scenario = Scenario { runs: plans, ..Scenario::new(servers, change, BUCKETS) };
        rated(&scenario, balance)
    };
    std::thread::scope(|scope| {
        let small = scope.spawn(move || near_the_optimum(plans));
        let scenarios = SCENARIOS.map(|it| scope.spawn(move || one(it)));
        let scenarios = scenarios.map(|it| it.join().expect("a scenario is rated"));
        let mut all: Vec<Rated> = scenarios.into_iter().flatten().collect();
        all.push(small.join().expect("small cases are compared"));
        all
    })
}

fn rated(scenario: &Scenario, balance: f64) -> [Rated; 3] {
    let results = |weights| {
        let clock = &mut || Duration::ZERO;
        let measured: Vec<Measured> =
            run(scenario, Planner::Tidefs, weights, clock).expect("a sound scenario");
        Results::new(&measured)
    };
    let (all, without_load) = (results(Weights::LDT), results(Weights::DT));
    let sign = match scenario.change {
        Change::Commission(count) => format!("+ {count}"),
        Change::Decommission(count) => format!("- {count}"),
    };
    let case = |what: &str| format!("{} {sign} servers: {what}", scenario.servers);
    let at_most = |what, judged, goal| Rated::new(case(what), judged, Bound::AtMost, goal);
    [
        at_most("load over its bound, most", all.load_balance.max, balance),
        at_most("bytes over their bound, most", all.data_balance.max, balance),
        at_most(
            "time, over that without load",
            all.duration_ratio.p50 / without_load.duration_ratio.p50,
            TIME,
        ),
    ]
}

fn near_the_optimum(plans: u32) -> Rated {
    let near = |grows| {
        let (cases, _) = compare_with_exact(Planner::Tidefs, grows, plans as usize, SEED);
        cases.iter().filter(|case| case.is_within(NEAR)).count()
    };
    let case = "16 buckets: all aims within 10 % of optimum".to_owned();
    let part = (near(true) + near(false)) as f64 / f64::from(2 * plans);
    Rated::new(case, part, Bound::AtLeast, NEAR_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_three_figures_and_each_its_verdict() {
        let scenario = Scenario {
            warmup: 2,
            between: 1,
            runs: 2,
            ..Scenario::new(8, Change::Commission(4), 512)
        };
        for (balance, verdict) in [(1.5, Verdict::Goal), (0.9, Verdict::Missed)] {
            let rated = rated(&scenario, balance);
            assert!(rated[0].case.starts_with("8 + 4 servers: load"), "{rated:?}");
            assert!(rated.iter().all(|it| it.judged > 0.9), "{rated:?}");
            assert_eq!([rated[0].verdict, rated[1].verdict], [verdict; 2], "{rated:?}");
        }
    }

    #[test]
    fn goals_are_judged_by_their_side() {
        let of = |judged, bound, goal| Rated::new(String::new(), judged, bound, goal).verdict;
        assert_eq!(of(1.02, Bound::AtMost, 1.02), Verdict::Goal);
        assert_eq!(of(1.03, Bound::AtMost, 1.02), Verdict::HalfGoal);
        assert_eq!(of(1.05, Bound::AtMost, 1.02), Verdict::Missed);
        assert_eq!(of(0.95, Bound::AtLeast, 0.95), Verdict::Goal);
        assert_eq!(of(0.94, Bound::AtLeast, 0.95), Verdict::HalfGoal);
        assert_eq!(of(0.4, Bound::AtLeast, 0.95), Verdict::Missed);
    }

    #[test]
    fn small_cases_are_counted() {
        let rated = near_the_optimum(1);
        assert!([0.0, 0.5, 1.0].contains(&rated.judged), "{rated:?}");
    }
}
