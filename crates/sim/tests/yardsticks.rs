//! The yardsticks: the exact optimum against two other ways to find it, and the paper's heuristic.

use microlp::{ComparisonOp, OptimizationDirection, Variable};
use proptest::prelude::*;
use tidefs_control::rescaling::{Bucket, Home, Host, Problem, Quality, Weights};
use tidefs_model::NodeClass;
use tidefs_sim::rescaling::{exact, pufferscale};

fn host(class: NodeClass, stays: bool, newcomer: bool, weight: f64) -> Host {
    Host { class: class.into(), stays, newcomer, weight, bandwidth: 1e3, limit_bytes: u64::MAX }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_heuristic_places_buckets_where_they_may_lie(
        buckets in prop::collection::vec((1_u64..100, 0_u32..50, 0_u16..3, any::<bool>()), 1..400),
    ) {
        let mut hosts = alike(&[], false).hosts().to_vec();
        hosts[2].class = NodeClass::Victim.into();
        let bucket = |&(bytes, load, from, own): &(u64, u32, u16, bool)| {
            let home = if own { Home::Only(NodeClass::Own.into()) } else { Home::Any };
            Bucket { bytes, load: load.into(), from, home }
        };
        let problem = Problem::new(buckets.iter().map(bucket).collect(), hosts).unwrap();
        for weights in [Weights::L, Weights::LT, Weights::DT, Weights::LDT] {
            let placement = pufferscale(&problem, weights);
            prop_assert_eq!(placement.len(), problem.buckets().len());
            for (bucket, to) in problem.buckets().iter().zip(placement) {
                prop_assert!(problem.hosts()[usize::from(to)].takes(bucket.home));
            }
        }
    }

    /// The optimum against one that is found by trying everything.
    #[test]
    fn the_optimum_is_that_of_brute_force(
        buckets in prop::collection::vec((1_u64..60, 1_u32..60, 0_u16..3), 1..7),
        leaves in any::<bool>(),
    ) {
        let problem = alike(&buckets, leaves);
        prop_assert_eq!(optimum(&problem), brute_force(&problem));
    }
}

/// Three hosts that held buckets, of which the last may leave, and one newcomer.
fn alike(buckets: &[(u64, u32, u16)], leaves: bool) -> Problem {
    let own = NodeClass::Own;
    let hosts = vec![
        host(own, true, false, 1.0),
        host(own, true, false, 1.0),
        host(own, !leaves, false, 1.0),
        host(own, true, true, 1.0),
    ];
    let bucket = |&(bytes, load, from): &(u64, u32, u16)| Bucket {
        bytes,
        load: load.into(),
        from,
        home: Home::Any,
    };
    Problem::new(buckets.iter().map(bucket).collect(), hosts).unwrap()
}

fn optimum(problem: &Problem) -> (u64, u64, Option<u64>) {
    let best = exact(problem);
    (best.load.round() as u64, best.bytes, best.moved)
}

/// Largest load, largest bytes, and the most that a host sends or receives.
fn measured(problem: &Problem, placement: &[u16]) -> (u64, u64, u64) {
    let mut sums = vec![(0, 0, 0, 0); problem.hosts().len()];
    for (bucket, &to) in problem.buckets().iter().zip(placement) {
        let (from, to) = (usize::from(bucket.from), usize::from(to));
        sums[to].0 += bucket.load as u64;
        sums[to].1 += bucket.bytes;
        if from != to {
            sums[to].2 += bucket.bytes;
            sums[from].3 += bucket.bytes;
        }
    }
    let most = |of: fn(&(u64, u64, u64, u64)) -> u64| sums.iter().map(of).max().unwrap();
    (most(|it| it.0), most(|it| it.1), most(|it| it.2.max(it.3)))
}

fn brute_force(problem: &Problem) -> (u64, u64, Option<u64>) {
    let stay: Vec<u16> = (0..4).filter(|&host| problem.hosts()[usize::from(host)].stays).collect();
    let buckets = problem.buckets().len() as u32;
    let all = (0..stay.len().pow(buckets)).map(|mut number| {
        let digit = |_| {
            let host = stay[number % stay.len()];
            number /= stay.len();
            host
        };
        let placement: Vec<u16> = (0..buckets).map(digit).collect();
        measured(problem, &placement)
    });
    let all: Vec<_> = all.collect();
    let load = all.iter().map(|it| it.0).min().unwrap();
    let bytes = all.iter().map(|it| it.1).min().unwrap();
    // A tenth above, without rounding.
    let within = all.iter().filter(|it| it.0 * 10 <= load * 11 && it.1 * 10 <= bytes * 11);
    (load, bytes, within.map(|it| it.2).min())
}

/// The same with a mixed-integer solver, which shares no code with either.
#[test]
fn the_optimum_is_that_of_a_mixed_integer_solver() {
    for (seed, leaves) in [(3_u64, true), (5, false), (7, true), (11, false)] {
        let drawn = |at: u64| (seed * 7_919 + at * at * 104_729 + at * 31) % 50;
        let buckets: Vec<_> = (0..8)
            .map(|at| (10 + drawn(at), 10 + drawn(at + 100) as u32, (drawn(at + 200) % 3) as u16))
            .collect();
        let problem = alike(&buckets, leaves);
        let (load, bytes, moved) = optimum(&problem);
        let of_load = |bucket: &Bucket| bucket.load;
        let of_bytes = |bucket: &Bucket| bucket.bytes as f64;
        let none = (f64::INFINITY, f64::INFINITY);
        assert_eq!(Some(load), solved(&problem, Minimise::Sum(of_load), none));
        assert_eq!(Some(bytes), solved(&problem, Minimise::Sum(of_bytes), none));
        let limits = (load as f64 * 1.1 + 1e-6, bytes as f64 * 1.1 + 1e-6);
        assert_eq!(moved, solved(&problem, Minimise::Moved, limits), "{buckets:?}");
    }
}

enum Minimise {
    Sum(fn(&Bucket) -> f64),
    Moved,
}

/// Equations 2 to 7 as a mixed-integer program; `None` where it has no solution.
fn solved(problem: &Problem, what: Minimise, limits: (f64, f64)) -> Option<u64> {
    let mut program = microlp::Problem::new(OptimizationDirection::Minimize);
    let most = program.add_var(1.0, (0.0, f64::INFINITY));
    let (hosts, buckets) = (problem.hosts(), problem.buckets());
    let lies: Vec<Vec<Variable>> = hosts
        .iter()
        .map(|_| buckets.iter().map(|_| program.add_binary_var(0.0)).collect())
        .collect();
    for at in 0..buckets.len() {
        let once: Vec<_> = lies.iter().map(|host| (host[at], 1.0)).collect();
        program.add_constraint(once, ComparisonOp::Eq, 1.0);
    }
    for (host, lies) in lies.iter().enumerate() {
        if !hosts[host].stays {
            let all: Vec<_> = lies.iter().map(|&lies| (lies, 1.0)).collect();
            program.add_constraint(all, ComparisonOp::Eq, 0.0);
        }
        let sum = |of: &dyn Fn(&Bucket) -> f64| -> Vec<(Variable, f64)> {
            lies.iter().zip(buckets).map(|(&lies, bucket)| (lies, of(bucket))).collect()
        };
        let below = |mut sum: Vec<(Variable, f64)>| {
            sum.push((most, -1.0));
            sum
        };
        if limits.0.is_finite() {
            program.add_constraint(sum(&|it| it.load), ComparisonOp::Le, limits.0);
            program.add_constraint(sum(&|it| it.bytes as f64), ComparisonOp::Le, limits.1);
        }
        match what {
            Minimise::Sum(of) => {
                program.add_constraint(below(sum(&of)), ComparisonOp::Le, 0.0);
            }
            Minimise::Moved => {
                let here = |it: &Bucket| usize::from(it.from) == host;
                let comes = sum(&|it| if here(it) { 0.0 } else { it.bytes as f64 });
                program.add_constraint(below(comes), ComparisonOp::Le, 0.0);
                let home: f64 =
                    buckets.iter().filter(|it| here(it)).map(|it| it.bytes as f64).sum();
                let goes = sum(&|it| if here(it) { -(it.bytes as f64) } else { 0.0 });
                program.add_constraint(below(goes), ComparisonOp::Le, -home);
            }
        }
    }
    match program.solve() {
        Ok(microlp::SolveOutcome::Solution(solution)) => Some(solution.objective().round() as u64),
        Ok(interrupted) => panic!("no limit was set: {interrupted:?}"),
        Err(_) => None,
    }
}

#[test]
fn a_small_commission_by_the_heuristic_in_figures() {
    let own = NodeClass::Own;
    let hosts = vec![host(own, true, false, 1.0), host(own, true, true, 1.0)];
    let bucket = |bytes| Bucket { bytes, load: 1.0, from: 0, home: Home::Any };
    let problem = Problem::new([30, 30, 20, 20].map(bucket).to_vec(), hosts).unwrap();
    let quality = Quality::new(&problem, &pufferscale(&problem, Weights::LDT));
    assert_eq!((quality.load_balance, quality.data_balance), (1.0, 1.0));
    assert_eq!((quality.seconds, quality.buckets_moved), (0.05, 2));
}
