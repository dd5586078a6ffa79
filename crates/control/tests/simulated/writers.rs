//! Writers meet full nodes, also where memory is lent.

use tidefs_control::{Kind, Phase, Request};
use tidefs_model::NodeId;

use crate::cluster::MIB;
use crate::lent::{take_in, with_share};
use crate::settings;
use crate::world::{Faults, World};

/// A file that cannot be cut keeps the share off; meanwhile others go on writing.
#[test]
fn a_writer_gets_a_node_after_one_try_to_spread() {
    let mut world = World::new(with_share("nso", 1, 4, "0.5"), 1, Faults::NONE, 83);
    let lent = take_in(&mut world);
    let own = *world.cluster.members.keys().find(|id| **id != lent).expect("an own node");
    let of = |world: &World, node: NodeId| {
        let data = world.cluster.owners.iter().enumerate().skip(1_024);
        data.filter(|(_, owner)| **owner == node).map(|(at, _)| at as u16).next().expect("one")
    };
    world.cluster.write(of(&world, own), 240 * MIB).expect("there is room");
    let (mut written, before) = (240, world.summaries.len());
    for _ in 0..10 {
        world.cluster.write(of(&world, lent), 4 * MIB).expect("there is room");
        written += 4;
        world.wish_mib(written);
        world.alarm(own);
        world.run(1);
    }
    let rebalances = world.summaries[before..].iter().filter(|it| it.kind == Kind::Rebalance);
    assert!(rebalances.count() <= 1, "{:#?}", &world.summaries[before..]);
    assert!(world.own_nodes() > 1, "{}", world.decision());
}

/// Each node takes some 250 MiB, and no node may be added. Partitions are few here and hold something, so the
/// full class keeps some, and new data falls on those as well.
#[test]
fn writers_get_the_room_of_the_other_class_and_that_with_few_spreads() {
    for (policy, share) in [("static", "0"), ("static", "0.25"), ("nso", "0"), ("static", "1")] {
        let mut world = World::new(with_share(policy, 2, 2, share), 2, Faults::NONE, 97);
        take_in(&mut world);
        let before = world.summaries.len();
        world.wish_mib(620);
        world.run_until(120, |world| world.used_mib() >= 620 && world.is_idle());
        let told = || format!("{policy}, {share}: {:#?}", &world.summaries[before..]);
        assert_eq!(world.refused_writes, 0, "{}", told());
        let count =
            world.summaries[before..].iter().filter(|it| it.kind == Kind::Rebalance).count();
        assert!((1..=10).contains(&count), "{count} of {}", told());
    }
}

/// Nodes that were to leave and stay after all are not emptied first.
#[test]
fn a_writer_does_not_wait_for_the_end_of_a_step_that_takes_room_away() {
    let mut world = World::new(with_share("static", 1, 2, "0"), 2, Faults::NONE, 29);
    world.wish_mib(150);
    world.run(60);
    world.slowness = 10_000;
    world.submit(Request::Scale(1));
    world.run_until(30, World::moving);
    world.slowness = 0;
    world.wish_mib(520);
    world.run_until(120, |world| world.summaries.iter().any(crate::world::is_rolled_back));
}

/// Nor for that of one that makes it room: it began at leisure, and goes on at once.
#[test]
fn a_writer_does_not_wait_at_leisure_for_a_step_that_makes_room() {
    let mut world = World::new(with_share("static", 1, 1, "0.5"), 1, Faults::NONE, 31);
    world.wish_mib(240);
    world.run(60);
    world.slowness = 10_000;
    world.submit(Request::TakeIn);
    world.run_until(30, World::moving);
    world.slowness = 0;
    world.wish_mib(300);
    world.run_until(30, |world| world.used_mib() >= 300 && world.is_idle());
    assert_eq!(world.summaries.len(), 1, "it is not cut short: {:#?}", world.summaries);
}

/// Both nodes are nearly full, and a move that makes them alike takes a quarter of an hour.
#[test]
fn a_writer_that_needs_another_node_does_not_wait_until_nodes_are_even() {
    let mut world = World::new(settings("nso", 1, 4), 2, Faults::NONE, 37);
    let first = world.first_node();
    for (owner, bytes) in world.cluster.owners.iter().zip(&mut world.cluster.bytes).skip(1_024) {
        // Of 256 MiB each, with 400 partitions that hold data.
        *bytes = if *owner == first { 1_240 << 10 } else { 830 << 10 };
    }
    let content = world.used_mib();
    world.wish_mib(content);
    world.slowness = 10_000;
    world.run_until(30, World::moving);
    world.wish_mib(content + 90);
    world.run_until(60, |world| world.own_nodes() == 4);
    assert_eq!(world.summaries[0].kind, Kind::Rebalance);
    assert_eq!(world.summaries[0].imbalance_percent, None, "nobody has looked since");
}

/// What is spread back over a node that ends soon is lost with it.
#[test]
fn a_writer_never_turns_round_what_a_lender_waits_for() {
    for (ticks, killed) in (0..30).flat_map(|ticks| [(ticks, false), (ticks, true)]) {
        let mut world = World::new(with_share("static", 2, 2, "0"), 2, Faults::NONE, ticks);
        let (lent, _) = (take_in(&mut world), take_in(&mut world));
        world.wish_mib(200);
        world.run(40);
        world.slowness = 3;
        world.submit(Request::GiveBack(lent));
        world.run_ticks(ticks);
        if killed {
            world.kill();
        }
        for _ in 0..10 {
            let own = world.first_node();
            world.alarm(own);
            world.run_ticks(1);
        }
        // The request died with the controller, and the lender asks again as long as it waits.
        if killed {
            world.submit(Request::GiveBack(lent));
        }
        world.run_until(30, |world| !world.cluster.victims.contains(&lent));
        let turned = world.summaries.iter().find(|it| crate::world::is_rolled_back(it));
        assert_eq!(turned, None, "after {ticks} ticks, killed: {killed}");
    }
}

/// Newcomers are filled by writers while they receive, and nothing has to be put right for that.
#[test]
fn what_finds_no_room_is_planned_anew_at_once() {
    let mut crowded = 0;
    for seed in 0..12 {
        let mut world = World::new(settings("nso", 2, 8), 2, Faults::NONE, seed);
        world.slowness = 30;
        world.wish_mib(1_700);
        world.run_until(900, |world| world.used_mib() >= 1_700 && world.is_idle());
        crowded += world.crowded;
        let recovers = |(phase, _): &(Phase, _)| *phase == Phase::Recovering;
        let recovered = world.summaries.iter().find(|it| it.phases.iter().any(recovers));
        assert_eq!(recovered, None, "seed {seed}");
        assert_eq!(world.refused_writes, 0, "seed {seed}");
        world.assert_even();
    }
    assert!(crowded > 0, "every target had room");
}

/// Where writers fill the targets as fast as these receive, that is not for ever.
#[test]
fn rounds_that_find_no_room_come_to_an_end() {
    let mut world = World::new(settings("static", 2, 4), 2, Faults::NONE, 43);
    world.wish_mib(400);
    world.run(60);
    world.room_for = Some(1);
    world.submit(Request::Scale(4));
    world.run_until(60, |world| !world.summaries.is_empty());
    assert!((5..=8).contains(&world.crowded), "{} rounds without room", world.crowded);
    world.room_for = None;
    world.run_until(120, |world| world.summaries.len() > 1 && world.is_idle());
    world.assert_even();
}

/// A step takes a quarter of an hour here, and the writer says only once that it waits.
#[test]
fn a_growth_whose_nodes_were_filled_makes_way_for_the_next() {
    let mut settings = settings("nso", 2, 8);
    settings.policy.scale_out.as_mut().expect("it grows").threshold_percent = 100;
    let mut world = World::new(settings, 2, Faults::NONE, 41);
    let first: Vec<_> = world.cluster.members.keys().copied().collect();
    world.wish_mib(600);
    world.run_until(60, |world| world.carried == 1);
    world.slowness = 10_000;
    world.run_until(60, |world| world.carried == 2 && world.moving());
    world.slowness = 0;
    for number in (1_024..1_424).cycle().take(4_000) {
        let _ = world.cluster.write(number, MIB / 2);
    }
    let content = world.used_mib();
    world.wish_mib(content);
    world.run(2);
    let newcomer = world.cluster.members.keys().copied().find(|id| !first.contains(id));
    world.alarm(newcomer.expect("one that came"));
    world.run_until(60, |world| world.own_nodes() == 6);
    assert_eq!(world.summaries[0].nodes_after, 4);
}

/// The same workload, with nodes that come when the threshold is reached and with nodes that come before.
#[test]
fn writers_hardly_meet_full_nodes_where_nodes_come_ahead() {
    for seed in 0..4 {
        let met_full = |ahead: bool| {
            let mut settings = settings("nso", 2, 8);
            settings.policy.scale_out.as_mut().expect("it grows").ahead = ahead;
            let mut world = World::new(settings, 2, Faults::NONE, seed);
            world.wish_mib(1_500);
            world.run_until(900, |world| world.used_mib() >= 1_500 && world.is_idle());
            world.assert_even();
            assert_eq!(world.nodes(), 8, "seed {seed}, ahead: {ahead}");
            world.met_full
        };
        let (late, early) = (met_full(false), met_full(true));
        assert!(early * 10 <= late, "seed {seed}: {early} times in place of {late}");
    }
}

/// What does not rise needs no more nodes, however full the nodes are.
#[test]
fn no_node_comes_ahead_of_what_is_not_written() {
    let mut settings = settings("nso", 2, 8);
    settings.policy.scale_out.as_mut().expect("it grows").ahead = true;
    let mut world = World::new(settings, 2, Faults::NONE, 3);
    for number in (1_024..1_424).step_by(2) {
        world.cluster.write(number, MIB).expect("there is room");
        world.cluster.write(number + 1, MIB).expect("there is room");
    }
    world.wish_mib(400);
    world.run(60);
    assert_eq!((world.nodes(), world.used_mib()), (2, 400), "{}", world.decision());
}
