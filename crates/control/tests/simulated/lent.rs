//! Lenders offer nodes and want them back while a workload writes.

use tidefs_control::{Answer, Kind, Outcome, OwnShare, Refused, Request, Settings};
use tidefs_model::NodeId;

use crate::cluster::MIB;
use crate::settings;
use crate::world::{Faults, World};

pub fn with_share(policy: &str, min: u16, max: u16, share: &str) -> Settings {
    let mut settings = settings(policy, min, max);
    settings.spreading.own_share = Some(share.parse::<OwnShare>().expect("a share"));
    settings
}

pub fn take_in(world: &mut World) -> NodeId {
    let before = world.cluster.victims.clone();
    let answer = world.ask(Request::TakeIn);
    assert!(
        matches!(&answer, Answer::Finished(summary) if summary.outcome == Outcome::Completed),
        "{answer:?}"
    );
    *world.cluster.victims.difference(&before).next().expect("one more")
}

fn own_percent(world: &World) -> f64 {
    let cluster = &world.cluster;
    let own = cluster.owners.iter().zip(&cluster.bytes);
    let own = own.filter(|(owner, _)| !cluster.victims.contains(owner));
    own.map(|(_, bytes)| bytes).sum::<u64>() as f64 * 100.0 / cluster.content().max(1) as f64
}

#[test]
fn a_share_is_held_while_files_are_written_and_lenders_come_and_go() {
    for share in ["0", "0.25", "0.5", "0.75", "1"] {
        let settings = with_share("static", 2, 2, share);
        let mut world = World::new(settings, 2, Faults::NONE, 5);
        let wanted = 100.0 * share.parse::<f64>().unwrap();
        let lent: Vec<_> = (0..3).map(|_| take_in(&mut world)).collect();
        for mib in [100, 250, 350] {
            world.wish_mib(mib);
            world.run(40);
            let own = own_percent(&world);
            // A partition has up to a fourhundredth of the data.
            assert!(
                (own - wanted).abs() < 2.5,
                "{own} of {wanted} % on own nodes: {}",
                world.decision()
            );
        }
        (0..3).for_each(|_| _ = take_in(&mut world));
        world.run(30);
        assert!((own_percent(&world) - wanted).abs() < 2.5, "{} of {wanted}", own_percent(&world));
        for node in lent {
            let answer = world.ask(Request::GiveBack(node));
            assert!(matches!(answer, Answer::Finished(_)), "{answer:?}");
            assert!(!world.cluster.victims.contains(&node), "it has left");
        }
        world.run(30);
        assert!((own_percent(&world) - wanted).abs() < 2.5, "{} of {wanted}", own_percent(&world));
        assert_eq!((world.own_nodes(), world.nodes()), (2, 5));
    }
}

#[test]
fn a_node_that_is_wanted_back_makes_the_others_grow_where_they_have_no_room() {
    let mut world = World::new(with_share("nso", 1, 4, "0.25"), 1, Faults::NONE, 9);
    let lent = take_in(&mut world);
    world.wish_mib(330);
    world.run_until(200, |world| world.used_mib() >= 330 && world.is_idle());
    assert_eq!(world.own_nodes(), 1);
    let held = world.cluster.used(lent);
    let Answer::Finished(summary) = world.ask(Request::GiveBack(lent)) else { panic!("refused") };
    assert!(!world.cluster.victims.contains(&lent), "in one go: {summary:?}");
    assert_eq!((summary.kind, &summary.outcome), (Kind::Commission, &Outcome::Completed));
    assert!(summary.bytes_moved <= held + held / 10, "{summary:?}, and it held {held}");
    assert!(world.own_nodes() >= 2, "{} own nodes", world.own_nodes());
    assert_eq!(world.used_mib(), 330, "nothing is lost");
}

/// Nothing is on the lent node, and a move between the own ones would take a quarter of an hour.
#[test]
fn a_lender_does_not_wait_until_the_others_are_even() {
    let mut world = World::new(with_share("static", 2, 2, "0.5"), 2, Faults::NONE, 67);
    let lent = take_in(&mut world);
    world.wish_mib(200);
    world.run(60);
    let own = *world.cluster.members.keys().find(|id| **id != lent).expect("an own node");
    world.cluster.owners.iter_mut().filter(|it| **it == lent).for_each(|it| *it = own);
    world.slowness = 10_000;
    world.run_ticks(1);
    world.submit(Request::GiveBack(lent));
    world.run_until(30, |world| !world.cluster.victims.contains(&lent));
    assert_eq!(world.own_nodes(), 2);
}

/// The offer is tried again and again, for seconds, while a lender counts them.
#[test]
fn a_lender_does_not_wait_for_an_offer_that_was_withdrawn() {
    let mut world = World::new(with_share("static", 2, 2, "0.5"), 2, Faults::NONE, 71);
    let lent = take_in(&mut world);
    world.wish_mib(100);
    world.run(60);
    world.faults.start = 100;
    world.submit(Request::TakeIn);
    // The first try has failed, and the next is not due.
    world.run(4);
    assert!(!world.is_idle());
    world.submit(Request::GiveBack(lent));
    world.run_until(2, |world| world.moving() || !world.cluster.victims.contains(&lent));
}

/// Names lie on own nodes only, so the fullest is far above the mean whatever is spread.
#[test]
fn what_stays_uneven_is_let_be_and_nodes_leave_all_the_same() {
    let mut world = World::new(settings("nso+asi", 1, 4), 2, Faults::NONE, 73);
    (0..2).for_each(|_| _ = take_in(&mut world));
    for number in 0..195 {
        world.cluster.write(number * 5, MIB).expect("there is room");
    }
    world.wish_mib(195);
    world.run(240);
    assert_eq!(world.own_nodes(), 1, "{}", world.decision());
    let rebalances = world.summaries.iter().filter(|it| it.kind == Kind::Rebalance).count();
    assert!(rebalances <= 4, "{rebalances} rebalances: {:#?}", world.summaries);
}

/// As many nodes as are allowed would not be enough.
#[test]
fn no_node_is_added_for_a_lender_that_cannot_be_served_with_it() {
    let mut world = World::new(with_share("nso", 1, 2, "0.25"), 1, Faults::NONE, 61);
    let lent = [take_in(&mut world), take_in(&mut world), take_in(&mut world)];
    world.wish_mib(600);
    world.run_until(200, |world| world.used_mib() >= 600 && world.is_idle());
    assert_eq!(world.own_nodes(), 1);
    world.run_ticks(1);
    let (starts, ended) = (world.starts, world.summaries.len());
    lent.iter().for_each(|&node| world.submit(Request::GiveBack(node)));
    world.run_until(30, |world| world.summaries.len() > ended && world.is_idle());
    assert!(world.cluster.victims.contains(&lent[2]), "there is no room for what it holds");
    let refused = world.ask(Request::GiveBack(lent[2]));
    assert!(matches!(refused, Answer::Refused(Refused::DoesNotFit { .. })), "{refused:?}");
    assert!(world.starts - starts <= 1, "{} nodes were started", world.starts - starts);
}

#[test]
fn a_node_that_may_hold_less_gives_away_what_is_too_much() {
    let mut world = World::new(with_share("static", 2, 2, "0.25"), 2, Faults::NONE, 13);
    let (first, second) = (take_in(&mut world), take_in(&mut world));
    world.wish_mib(200);
    world.run(60);
    let held = world.cluster.used(first);
    assert!(held > 60 << 20, "{held}");
    // The simulated cluster refuses what is too much, and has too much until it has gone.
    world.cluster.members.insert(first, 40 << 20);
    world.lenient = true;
    world.run_until(30, |world| world.cluster.used(first) <= 40 << 20 && world.is_idle());
    world.lenient = false;
    assert!(world.cluster.used(second) > 90 << 20, "its own class takes it");
    assert!((own_percent(&world) - 25.0).abs() < 2.5, "{}", own_percent(&world));
}

#[test]
fn a_lender_waits_for_one_step_and_for_no_look_that_comes_by_itself() {
    let mut world = World::new(with_share("static", 2, 2, "0"), 2, Faults::NONE, 19);
    let lent = take_in(&mut world);
    world.wish_mib(200);
    world.run(60);
    assert!(world.cluster.used(lent) > 2 * world.step_bytes(), "several steps usually");
    let second = take_in(&mut world);
    assert!(!world.waits_for_a_look());
    world.submit(Request::GiveBack(second));
    assert!(world.waits_for_a_look(), "what is known is from before it came");
    world.run_until(30, |world| !world.cluster.victims.contains(&second));
    world.run(30);
    let before = world.carried;
    assert!(matches!(world.ask(Request::GiveBack(lent)), Answer::Finished(_)));
    assert_eq!(world.carried - before, 1);
}

/// What is taken off one node does not go to another that leaves next.
#[test]
fn lenders_that_come_together_are_served_together() {
    let mut world = World::new(with_share("static", 2, 2, "0"), 2, Faults::NONE, 43);
    let lent: Vec<_> = (0..4).map(|_| take_in(&mut world)).collect();
    world.wish_mib(150);
    world.run(60);
    world.run_ticks(1);
    let before = world.summaries.len();
    lent[..3].iter().for_each(|&node| world.submit(Request::GiveBack(node)));
    world.run_until(30, |world| world.cluster.victims.len() == 1 && world.is_idle());
    let [summary] = &world.summaries[before..] else { panic!("{:#?}", world.summaries) };
    assert!(summary.bytes_moved < 120 << 20, "three of four quarters are 113 MiB: {summary:?}");
}

/// There is room for what one of them holds.
#[test]
fn of_lenders_that_cannot_all_be_served_the_first_is() {
    let mut world = World::new(with_share("static", 1, 1, "0.3"), 1, Faults::NONE, 47);
    let lent = [take_in(&mut world), take_in(&mut world)];
    world.wish_mib(300);
    world.run(60);
    world.run_ticks(1);
    lent.iter().for_each(|&node| world.submit(Request::GiveBack(node)));
    world.run_until(30, |world| !world.cluster.victims.contains(&lent[0]));
    assert!(world.cluster.victims.contains(&lent[1]), "there is no room for what it holds");
}

#[test]
fn a_lender_does_not_wait_for_the_end_of_a_step_that_only_makes_nodes_even() {
    let mut world = World::new(with_share("static", 2, 2, "0"), 2, Faults::NONE, 23);
    let lent = take_in(&mut world);
    world.wish_mib(200);
    world.run(60);
    // A step would take a quarter of an hour, as with a limit on the bytes a second.
    world.slowness = 10_000;
    world.submit(Request::TakeIn);
    world.run_until(30, World::moving);
    world.submit(Request::GiveBack(lent));
    world.slowness = 0;
    world.run_until(30, |world| !world.cluster.victims.contains(&lent));
}

#[test]
fn a_lender_does_not_wait_for_a_shrink_that_nobody_asked_for() {
    for killed in [false, true] {
        let mut world = World::new(with_share("nso+asi", 1, 4, "0"), 4, Faults::NONE, 41);
        let (lent, _) = (take_in(&mut world), take_in(&mut world));
        world.wish_mib(150);
        world.run(30);
        // Own nodes hold some of it, so that one that leaves has something to move.
        let first = world.first_node();
        world.cluster.owners[1_024..1_060].fill(first);
        world.slowness = 10_000;
        world.run_until(100, World::shrinking);
        if killed {
            world.kill();
            world.run_until(100, World::shrinking);
        }
        world.submit(Request::GiveBack(lent));
        world.slowness = 0;
        world.run_until(30, |world| !world.cluster.victims.contains(&lent));
        let ended = world.summaries.iter().find(|it| crate::world::is_rolled_back(it));
        let ended = ended.expect("the shrink gave way");
        assert_eq!(ended.nodes_after, ended.nodes_before);
        assert!(world.own_nodes() > 1);
    }
}

/// It asks while a controller that was killed has a successor that knows of nothing yet.
#[test]
fn a_lender_does_not_wait_for_what_a_successor_goes_on_with() {
    let mut world = World::new(with_share("nso+asi", 1, 4, "0"), 4, Faults::NONE, 41);
    let (lent, _) = (take_in(&mut world), take_in(&mut world));
    world.wish_mib(150);
    world.run(30);
    let first = world.first_node();
    world.cluster.owners[1_024..1_060].fill(first);
    world.slowness = 10_000;
    world.run_until(100, World::shrinking);
    // The move under way comes half the way, if at all.
    world.faults.step = 100;
    world.kill();
    world.faults.step = 0;
    world.submit(Request::GiveBack(lent));
    ends_for_the_lender(&mut world, lent);
}

/// A shrink that was asked for by hand gives no way; what it becomes when a writer needs the room does.
#[test]
fn a_lender_does_not_wait_for_what_is_spread_back_after_it_asked() {
    let mut world = World::new(with_share("static", 1, 2, "0.5"), 2, Faults::NONE, 53);
    let (lent, _) = (take_in(&mut world), take_in(&mut world));
    world.wish_mib(200);
    world.run(40);
    world.slowness = 10_000;
    world.submit(Request::Scale(1));
    world.run_until(30, World::shrinking);
    world.submit(Request::GiveBack(lent));
    world.run(2);
    assert!(world.shrinking(), "somebody asked for it");
    let own = world.first_node();
    world.alarm(own);
    ends_for_the_lender(&mut world, lent);
}

/// What is under way is given up although its moves are slow, and the node is given back.
fn ends_for_the_lender(world: &mut World, lent: NodeId) {
    world.run_until(30, |world| world.summaries.iter().any(crate::world::is_rolled_back));
    world.slowness = 0;
    world.run_until(30, |world| !world.cluster.victims.contains(&lent));
}

#[test]
fn what_cannot_be_given_back_is_refused_with_the_reason() {
    let mut world = World::new(with_share("static", 1, 1, "0"), 1, Faults::NONE, 11);
    let own = world.first_node();
    let refused = world.ask(Request::GiveBack(own));
    assert!(matches!(refused, Answer::Refused(Refused::NotLent { .. })), "{refused:?}");
    let lent = take_in(&mut world);
    world.wish_mib(400);
    world.run_until(200, |world| world.used_mib() >= 400 && world.is_idle());
    let refused = world.ask(Request::GiveBack(lent));
    let Answer::Refused(refused) = refused else { panic!("{refused:?}") };
    assert!(refused.to_string().contains("missing"), "{refused}");
    assert!(world.cluster.victims.contains(&lent), "everything stays as it was");
    let nobody = world.ask(Request::GiveBack(NodeId([9; 20])));
    assert!(matches!(nobody, Answer::Refused(Refused::UnknownNode { .. })), "{nobody:?}");
}

/// A lender that cannot be emptied asks again and again; what a writer waits for is done meanwhile.
#[test]
fn a_lender_that_cannot_be_emptied_does_not_keep_others_from_growing() {
    let mut world = World::new(with_share("nso", 1, 2, "0.5"), 1, Faults::NONE, 17);
    let lent = take_in(&mut world);
    world.wish_mib(600);
    world.run_until(200, |world| world.own_nodes() == 2 && world.moving());
    while !world.is_idle() {
        world.submit(Request::GiveBack(lent));
        world.run_ticks(1);
    }
    let grown =
        world.summaries.iter().rfind(|it| it.kind == Kind::Commission).expect("it has grown");
    assert!(grown.bytes_moved > 100 << 20, "cut short: {grown:?}");
}

/// Nor from making the share right: where there is no room, its end is of no use to the lender.
#[test]
fn a_lender_that_cannot_be_served_ends_nothing_early() {
    let mut world = World::new(with_share("static", 1, 1, "0.5"), 1, Faults::NONE, 59);
    let lent = take_in(&mut world);
    world.wish_mib(400);
    world.run_until(200, |world| world.used_mib() >= 400 && world.is_idle());
    let own = *world.cluster.members.keys().find(|id| **id != lent).expect("an own node");
    for owner in world.cluster.owners.iter_mut().skip(1_024).filter(|it| **it == lent).take(20) {
        *owner = own;
    }
    world.lenient = true;
    world.slowness = 10_000;
    world.run_until(60, World::moving);
    let before = world.summaries.len();
    world.submit(Request::GiveBack(lent));
    world.run(5);
    assert!(world.moving() && world.summaries.len() == before, "{}", world.decision());
}

/// Shares that come to less than a partition of a victim, or of an own node, and files that are too
/// large for the share.
#[test]
fn any_share_comes_to_rest() {
    let shares =
        ["0", "0.0001", "0.002", "0.013", "0.3333", "0.77", "0.99", "0.9975", "0.9999", "1"];
    for (seed, share) in shares.iter().enumerate() {
        for mib in [0, 25, 120] {
            let (own, lent) = (1 + seed as u16 % 3, 1 + (seed + mib as usize) % 4);
            let settings = with_share("static", own, own, share);
            let mut world = World::new(settings, own, Faults::NONE, seed as u64);
            (0..lent).for_each(|_| _ = take_in(&mut world));
            world.wish_mib(mib);
            world.run(100);
            let before = world.summaries.len();
            world.run(60);
            let more = &world.summaries[before..];
            assert!(more.is_empty(), "{share} of {mib} MiB, {own} own, {lent} lent: {more:#?}");
        }
    }
}

#[test]
fn lenders_come_and_go_among_faults_and_kills() {
    for seed in 0..3 {
        let faults = Faults { start: 30, step: 10, journal: 5, survey: 5, kill: 30 };
        let mut world = World::new(with_share("nso+asi", 1, 5, "0.5"), 2, faults, seed);
        for _ in 0..12 {
            let wished = world.random(500);
            world.wish_mib(wished);
            world.submit(Request::TakeIn);
            world.run(60);
            let lent = world.cluster.victims.iter().next().copied();
            if let Some(lent) = lent.filter(|_| world.random(2) == 0) {
                world.submit(Request::GiveBack(lent));
            }
            world.run(60);
        }
        world.faults = Faults::NONE;
        world.wish_mib(300);
        world.run_until(1_500, |world| world.own_nodes() == 1 && world.is_idle());
        assert!(world.kills > 10, "seed {seed}: {} kills", world.kills);
    }
}
