//! Rescaling: sound on random problems, and right where the answer is plain.

use proptest::prelude::*;
use tidefs_control::rescaling::{Bounds, Bucket, Home, Host, Problem, Quality, Weights, rescale};
use tidefs_model::NodeClass;

fn host(class: NodeClass, stays: bool, newcomer: bool, weight: f64) -> Host {
    Host { class: class.into(), stays, newcomer, weight, bandwidth: 1e3, limit_bytes: u64::MAX }
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
                let home = if home == 0 { Home::Only(NodeClass::Own.into()) } else { Home::Any };
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
        }
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
    let quality = Quality::new(&problem, &rescale(&problem, Weights::LDT));
    assert_eq!((quality.load_balance, quality.data_balance), (1.0, 1.0));
    assert_eq!((quality.seconds, quality.buckets_moved), (0.05, 2));
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
    let victim = Home::Only(NodeClass::Victim.into());
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
