//! Rescaling: sound on random problems, exact where the optimum is known.

use microlp::{ComparisonOp, OptimizationDirection, Variable};
use proptest::prelude::*;
use tidefs_control::rescaling::{
    Bounds, Bucket, Home, Host, Problem, Quality, Weights, exact, pufferscale, rescale,
};
use tidefs_model::NodeClass;

fn host(class: NodeClass, stays: bool, newcomer: bool, weight: f64) -> Host {
    Host { class, stays, newcomer, weight, bandwidth: 1e3, limit_bytes: u64::MAX }
}

/// Buckets of sizes 1 to 100 on hosts of which the first is own and stays.
fn problem(buckets: usize) -> impl Strategy<Value = Problem> {
    let class = prop_oneof![Just(NodeClass::Own), Just(NodeClass::Victim)];
    (2_usize..9)
        .prop_flat_map(move |hosts| {
            (
                prop::collection::vec((class.clone(), any::<bool>(), 1_u32..5), hosts),
                prop::collection::vec((1_u64..100, 0_u32..50, 0..hosts, 0_u8..4), 1..buckets),
            )
        })
        .prop_map(|(hosts, buckets)| {
            let host = |(at, (class, stays, weight)): (usize, (NodeClass, bool, u32))| {
                let class = if at == 0 { NodeClass::Own } else { class };
                host(class, stays || at == 0, false, weight.into())
            };
            let hosts: Vec<Host> = hosts.into_iter().enumerate().map(host).collect();
            let bucket = |(bytes, load, from, home): (u64, u32, usize, u8)| {
                let home = if home == 0 { Home::Only(NodeClass::Own) } else { Home::Any };
                Bucket { bytes, load: load.into(), from: from as u16, home }
            };
            Problem::new(buckets.into_iter().map(bucket).collect(), hosts).unwrap()
        })
}

fn is_sound(problem: &Problem, placement: &[u16]) -> bool {
    let placed = problem.buckets().iter().zip(placement);
    placement.len() == problem.buckets().len()
        && placed.into_iter().all(|(it, &to)| problem.hosts()[usize::from(to)].takes(it.home))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_bucket_ends_where_it_may_lie(problem in problem(400)) {
        for weights in [Weights::L, Weights::LT, Weights::DT, Weights::LDT] {
            let ours = rescale(&problem, weights);
            prop_assert!(is_sound(&problem, &ours));
            prop_assert_eq!(&ours, &rescale(&problem, weights));
            prop_assert!(is_sound(&problem, &pufferscale(&problem, weights)));
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
fn a_small_commission_in_figures() {
    let own = NodeClass::Own;
    let hosts = vec![host(own, true, false, 1.0), host(own, true, true, 1.0)];
    let bucket = |bytes| Bucket { bytes, load: 1.0, from: 0, home: Home::Any };
    let problem = Problem::new([30, 30, 20, 20].map(bucket).to_vec(), hosts).unwrap();
    let bounds = Bounds::new(&problem);
    // Equation 11: half of everything, at 1,000 bytes a second.
    assert_eq!((bounds.seconds, bounds.bytes_moved), (0.05, 50));
    for placement in [rescale(&problem, Weights::LDT), pufferscale(&problem, Weights::LDT)] {
        let quality = Quality::new(&problem, &placement);
        assert_eq!((quality.load_balance, quality.data_balance), (1.0, 1.0));
        assert_eq!((quality.seconds, quality.buckets_moved), (0.05, 2));
    }
}

#[test]
fn an_even_spread_is_left_alone() {
    let hosts = vec![host(NodeClass::Own, true, false, 1.0); 16];
    let bucket = |at: u64| Bucket {
        bytes: 100 + at / 16 % 3,
        load: 2.0,
        from: (at % 16) as u16,
        home: Home::Any,
    };
    let problem = Problem::new((0..1_600).map(bucket).collect(), hosts).unwrap();
    assert_eq!(rescale(&problem, Weights::LDT), problem.start());
}

#[test]
fn no_host_is_filled_above_its_memory_where_there_is_room() {
    let mut hosts = vec![host(NodeClass::Own, true, false, 1.0); 10];
    // One host has half the room that its share would take.
    hosts[3].limit_bytes = 5_000;
    let bucket = |at: u64| Bucket {
        bytes: 80 + at % 41,
        load: 1.0 + (at % 7) as f64,
        from: if at % 10 == 3 { 4 } else { (at % 10) as u16 },
        home: Home::Any,
    };
    let problem = Problem::new((0..1_000).map(bucket).collect(), hosts).unwrap();
    let placement = rescale(&problem, Weights::LDT);
    let held = |host: u16| -> u64 {
        let placed = problem.buckets().iter().zip(&placement);
        placed.filter(|(_, to)| **to == host).map(|(bucket, _)| bucket.bytes).sum()
    };
    assert!(held(3) <= 5_000, "{}", held(3));
}

#[test]
fn what_cannot_be_summed_or_placed_is_refused() {
    let own = NodeClass::Own;
    let bucket = |bytes, load, home| Bucket { bytes, load, from: 0, home };
    let victim = Home::Only(NodeClass::Victim);
    for (buckets, says) in [
        (vec![bucket(u64::MAX, 1.0, Home::Any); 2], "more bytes or more load"),
        (vec![bucket(1, f64::MAX, Home::Any); 2], "more bytes or more load"),
        (vec![bucket(1, -1.0, Home::Any)], "the load of bucket 0"),
        (vec![bucket(1, f64::NAN, Home::Any)], "the load of bucket 0"),
        (vec![bucket(1, 1.0, victim)], "no host stays that may hold bucket 0"),
        (vec![Bucket { from: 7, ..bucket(1, 1.0, Home::Any) }], "lies on host 7"),
    ] {
        let refused = Problem::new(buckets, vec![host(own, true, false, 1.0)]).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    let refused = Problem::new(vec![], vec![host(own, true, false, 0.0)]).unwrap_err();
    assert!(refused.to_string().contains("of host 0"), "{refused}");
}
