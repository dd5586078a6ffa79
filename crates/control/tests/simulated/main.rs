//! The controller over a simulated cluster: a workload that grows and shrinks, nodes that do not
//! start, moves that fail half-way, controllers that are killed. After every tick the cluster is
//! sound; when the faults end, it comes to rest.

mod cluster;
mod lent;
mod world;
mod writers;

use std::time::Duration;

use tidefs_control::{Answer, Outcome, Request, Settings};
use tidefs_model::ByteSize;
use world::{Faults, World};

const NODE_MIB: u64 = 256;

fn settings(policy: &str, min: u16, max: u16) -> Settings {
    let mut settings = Settings::new(policy.parse().unwrap(), min, max, ByteSize::mib(NODE_MIB));
    settings.spreading.step_bytes = 64 << 20;
    settings
}

/// What is left of a growth are partitions that hold nothing when a step of it fails.
#[test]
fn a_growth_that_fails_in_between_ends_even_in_number() {
    let mut world = World::new(settings("static", 1, 4), 2, Faults::NONE, 89);
    for number in (1_030..).step_by(9).take(40) {
        world.cluster.write(number, cluster::MIB).expect("there is room");
    }
    world.wish_mib(40);
    world.submit(Request::Scale(3));
    let next_step = |world: &mut World| {
        let carried = world.carried;
        world.run_until(60, |world| world.carried > carried);
        world.run_until(60, |world| world.moving() || world.is_idle());
    };
    next_step(&mut world);
    assert!(world.moving(), "there was only one round");
    world.faults.step = 100;
    world.run_until(60, |world| !world.moving());
    world.faults.step = 0;
    world.run_until(120, |world| world.is_idle() && world.nodes() == 3);
    let observed = world.cluster.observe();
    let numbers: Vec<_> = observed.nodes().iter().map(|node| node.partitions).collect();
    let (least, most) = (numbers.iter().min().unwrap(), numbers.iter().max().unwrap());
    assert!(most - least <= 2 + most / 50, "{numbers:?}");
}

/// A file that cannot be cut fills a node; then it is gone, and others fill it that can be spread.
#[test]
fn what_was_in_vain_is_tried_again_when_nodes_are_less_full() {
    let mut world = World::new(settings("nso", 2, 2), 2, Faults::NONE, 79);
    let full = world.first_node();
    let here = |world: &World| -> Vec<u16> {
        let owners = world.cluster.owners.iter().enumerate().skip(1_024);
        owners.filter(|(_, owner)| **owner == full).map(|(at, _)| at as u16).collect()
    };
    let there = |world: &World| {
        (1_024..).find(|at| world.cluster.owners[usize::from(*at)] != full).expect("one")
    };
    let (one, other) = (here(&world)[0], there(&world));
    world.cluster.write(one, 220 * cluster::MIB).expect("there is room");
    world.cluster.write(other, 100 * cluster::MIB).expect("there is room");
    world.wish_mib(320);
    world.alarm(full);
    world.run_until(20, |world| !world.summaries.is_empty() && world.is_idle());
    assert!(world.summaries.iter().all(|it| it.bytes_moved == 0), "{:#?}", world.summaries);
    world.cluster.bytes.fill(0);
    for number in here(&world).into_iter().take(220) {
        world.cluster.write(number, cluster::MIB).expect("there is room");
    }
    world.wish_mib(220);
    world.run(2);
    world.alarm(full);
    world.run_until(5, |world| world.summaries.last().is_some_and(|it| it.bytes_moved > 0));
}

#[test]
fn it_grows_with_the_data_and_shrinks_to_one_node() {
    let mut world = World::new(settings("nso+asi", 1, 6), 1, Faults::NONE, 1);
    world.wish_mib(1_229);
    world.run_until(600, |world| world.used_mib() >= 1_229 && world.is_idle());
    assert!((5..=6).contains(&world.nodes()), "{} nodes", world.nodes());
    assert_eq!(world.refused_writes, 0);
    world.wish_mib(0);
    world.run_until(900, |world| world.nodes() == 1 && world.is_idle());
    let moved_more = world.summaries.iter().filter(|summary| {
        summary.bytes_moved > summary.bytes_minimum + summary.bytes_minimum / 20 + (64 << 20)
    });
    assert_eq!(moved_more.count(), 0, "{:#?}", world.summaries);
}

#[test]
fn thousands_of_ticks_with_faults_leave_every_partition_with_one_owner() {
    for seed in 0..3 {
        let faults = Faults { start: 30, step: 10, journal: 5, survey: 5, kill: 30 };
        let mut settings = settings("nso+asi", 1, 8);
        settings.policy.scale_in.as_mut().unwrap().quiet = Duration::from_secs(10);
        let mut world = World::new(settings, 2, faults, seed);
        for _ in 0..10 {
            let wished = world.random(8 * NODE_MIB);
            world.wish_mib(wished);
            world.run(150);
        }
        world.faults = Faults::NONE;
        world.wish_mib(300);
        world.run_until(1_500, |world| world.nodes() == 2 && world.is_idle());
        let (kills, ends) = (world.kills, world.summaries.len());
        assert!(kills > 10 && ends > 10, "seed {seed}: {kills} kills, {ends} reconfigurations");
        world.assert_even();
    }
}

#[test]
fn static_clusters_change_by_hand_only() {
    let mut world = World::new(settings("static", 1, 4), 2, Faults::NONE, 7);
    world.wish_mib(200);
    world.run(200);
    assert!(world.summaries.is_empty());
    let answer = world.ask(Request::Scale(4));
    assert!(matches!(answer, Answer::Finished(_)), "{answer:?}");
    assert_eq!(world.nodes(), 4);
    world.assert_even();
    let first = world.first_node();
    let answer = world.ask(Request::Drain(first));
    assert!(matches!(answer, Answer::Finished(_)), "{answer:?}");
    assert_eq!(world.nodes(), 3);
    assert_ne!(world.first_node(), first);
    assert_eq!(world.ask(Request::Scale(3)), Answer::NothingToDo);
    let answer = world.ask(Request::Scale(9));
    assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
}

#[test]
fn nodes_that_do_not_start_are_tried_again_ever_more_slowly() {
    let faults = Faults { start: 100, ..Faults::NONE };
    let mut world = World::new(settings("nso", 1, 2), 1, faults, 3);
    world.wish_mib(400);
    world.run(600);
    let starts = world.starts;
    assert!((10..=120).contains(&starts), "{starts} tries in ten minutes");
    assert_eq!(world.nodes(), 1);
    let says = world.decision();
    world.faults = Faults::NONE;
    world.run_until(200, |world| world.nodes() == 2 && world.is_idle());
    assert!(says.contains("failures") || says.contains("grow"), "{says}");
}

#[test]
fn a_reconfiguration_whose_moves_failed_is_not_called_completed() {
    let mut completed = 0;
    for seed in 0..20 {
        let faults = Faults { step: 60, ..Faults::NONE };
        let mut world = World::new(settings("static", 1, 4), 1, faults, seed);
        world.wish_mib(200);
        world.run(30);
        let Answer::Finished(summary) = world.ask(Request::Scale(4)) else { panic!("no end") };
        if summary.outcome == Outcome::Completed {
            completed += 1;
            world.assert_even();
        }
    }
    assert!(completed > 0, "none came through");
}

#[test]
fn a_writer_in_need_turns_a_shrink_round() {
    let mut settings = settings("nso+asi", 1, 4);
    settings.policy.scale_in.as_mut().unwrap().quiet = Duration::from_secs(5);
    settings.spreading.step_bytes = 1 << 20;
    let mut world = World::new(settings, 4, Faults::NONE, 5);
    world.wish_mib(300);
    world.run_until(100, |world| world.moving());
    world.wish_mib(900);
    world.run_until(600, |world| world.used_mib() >= 900 && world.is_idle());
    assert!(world.nodes() == 4, "{} nodes", world.nodes());
    let rolled_back =
        world.summaries.iter().filter(|summary| world::is_rolled_back(summary)).count();
    assert!(rolled_back >= 1, "{:#?}", world.summaries);
}

#[test]
fn what_is_written_meanwhile_is_not_moved_there_and_back() {
    for seed in 0..6 {
        let mut world = World::new(settings("nso", 1, 8), 1, Faults::NONE, seed);
        world.slowness = 20;
        world.wish_mib(1_700);
        world.run_until(900, |world| world.used_mib() >= 1_700 && world.is_idle());
        assert!(world.summaries.len() >= 6, "seed {seed}: {:#?}", world.summaries);
        for summary in &world.summaries {
            let over = summary.bytes_moved as f64 / summary.bytes_minimum as f64;
            assert!(over <= 1.05, "seed {seed}: {over} times the least: {summary:#?}");
        }
        let off: f64 = world.summaries.iter().filter_map(|it| it.imbalance_percent).sum();
        let mean = off / world.summaries.len() as f64;
        assert!(mean <= 2.0, "seed {seed}: {mean} %: {:#?}", world.summaries);
    }
}
