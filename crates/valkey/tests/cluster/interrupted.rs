//! Movers that are killed at every step, and nodes that die in the middle of a move.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tidefs_model::{ByteSize, Granted, NodeId, Partition, ShardKey, StripeKey};
use tidefs_store::{Batch, Store, StoreError};
use tidefs_valkey::{
    Admin, Guard, Move, MoveOptions, Owner, Pace, Step, StepKind, Successor, Timeouts,
};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};
use crate::growing::{assert_whole, carry_out, drain};
use crate::load::{Load, is_readable, still, write_still};

/// Small batches, so that there are many steps.
const OPTIONS: MoveOptions =
    MoveOptions { pace: Pace::Urgent, bytes_per_second: None, batch: ByteSize(128 << 10) };

/// Partitions that hold something, from one node to another, and some that hold nothing.
fn moves(admin: &Admin, from: NodeId, to: NodeId) -> Vec<Move> {
    let placement = admin.placement().unwrap();
    let filled = still().map(StripeKey::partition);
    let shards =
        (0..8).map(|index| ShardKey { directory: tidefs_model::Ino(2_000), index }.partition());
    let empty = (0..40).map(|number| Partition::new(3 * number));
    let mut partitions: Vec<_> = filled.take(100).chain(shards).chain(empty).collect();
    partitions.sort_unstable();
    partitions.dedup();
    let held = partitions.into_iter().filter(|&each| *placement.owner(each) == Owner::One(from));
    held.map(|partition| Move { partition, from, to }).collect()
}

/// Moves until a step, and dies there as a killed process would: without another word to any node.
/// Answers whether it came that far.
fn die_at(admin: &Admin, moves: &[Move], step: usize) -> bool {
    let steps = AtomicUsize::new(0);
    let die = |_: Step| {
        if steps.fetch_add(1, Ordering::Relaxed) == step {
            // A panic that is not told, for it is meant.
            resume_unwind(Box::new("killed"));
        }
    };
    let stop = AtomicBool::new(false);
    catch_unwind(AssertUnwindSafe(|| admin.move_partitions(moves, OPTIONS, &die, &stop))).is_err()
}

/// What a killed mover had sent, and no node has read yet.
fn what_a_mover_that_was_killed_had_sent_is_not_carried_out(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let succeed = |number: &str| {
        let pass = running.pass(&running.cluster().secrets().admin);
        let (description, successor) = (running.cluster().description(), Successor::new(number));
        Admin::succeed(description, pass, Timeouts::default(), successor, Guard::default()).unwrap()
    };
    let (mut before, mut other) = (running.admin(1), running.admin(1));
    before.say("CLIENT SETNAME tidefs-manager-1");
    other.say("CLIENT SETNAME tidefs");
    let mut own = running.admin(1);
    own.say("CLIENT SETNAME tidefs-manager-2");
    // Whoever comes tells no node anything before that.
    let admin = succeed("2");
    admin.observe();
    let ended = catch_unwind(AssertUnwindSafe(|| before.say("PING")));
    assert!(ended.is_err() || ended.is_ok_and(|said| said.is_empty()), "it is heard still");
    assert!(other.say("PING").contains("PONG"), "another one's");
    assert!(own.say("PING").contains("PONG"), "its own");
    let listed = other.say("CLIENT LIST");
    assert!(listed.contains("name=tidefs-manager-2"), "{listed}");
    succeed("3").observe();
    assert!(!other.say("CLIENT LIST").contains("name=tidefs-manager-2"));
}

fn a_mover_killed_at_any_step_is_succeeded(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let load = Load::start(running.connect());
    let ids = running.nodes().iter().map(|node| node.id).collect::<Vec<_>>();
    let mut ended = 0;
    for (round, step) in (0..10).chain([15, 25, 40]).enumerate() {
        let (from, to) = (ids[round % 3], ids[(round + 1) % 3]);
        let victim = running.changer(&[]);
        let moves = moves(&victim, from, to);
        assert!(moves.len() > 20, "{} to move", moves.len());
        let was_killed = die_at(&victim, &moves, step);
        drop(victim);
        let successor = running.changer(&[]);
        let open = successor.unfinished().unwrap();
        let finished = successor.finish(&[], &|_| {}).unwrap();
        assert_eq!(finished.left, []);
        assert!(was_killed || open.is_empty());
        // A server that moves slots by itself may be done before it is asked.
        let found = finished.finished.len() + finished.undone.len();
        assert!(kind == Kind::Valkey || found >= open.len(), "{found} of {}", open.len());
        ended += found;
        let report = carry_out(&successor, &moves);
        assert_whole(&successor, &report);
        let placement = successor.placement().unwrap();
        assert!(moves.iter().all(|each| *placement.owner(each.partition) == Owner::One(to)));
    }
    assert!(kind == Kind::Valkey || ended > 50, "{ended} partitions were found on their way");
    load.end();
}

fn a_way_that_nobody_was_sent_is_closed_again(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let key = running.stripe_on(0);
    write(&store, key, b"here").unwrap();
    let slot = key.partition().number();
    let source = running.node(0).id;
    let said = running.admin(1).say(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
    assert_eq!(said, "+OK\r\n");
    let admin = running.changer(&[]);
    assert_eq!(admin.unfinished().unwrap().len(), 1);
    let refused =
        admin.move_partitions(&drain(&admin, source), OPTIONS, &|_| {}, &AtomicBool::new(false));
    assert!(refused.is_err(), "{refused:?}");
    let finished = admin.finish(&[], &|_| {}).unwrap();
    assert_eq!(finished.undone, [key.partition()]);
    assert_eq!(admin.unfinished().unwrap(), []);
    assert_eq!(*admin.placement().unwrap().owner(key.partition()), Owner::One(source));
    assert_eq!(read(&store, key, 4).unwrap(), b"here");
}

/// Covers all inodes of these tests.
const GRANTED: Granted = Granted { inos: 1 << 40, serials: 0 };

/// Moves to a newcomer that is killed at the given step.
fn lose_target(running: &Running, kind: Kind, at: impl Fn(Step) -> bool + Sync) -> (Admin, NodeId) {
    let admin = running.changer(&[]);
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    let (from, to) = (running.node(0).id, newcomer.0.id);
    let pid = Pid::from_raw(newcomer.0.process.pid.try_into().unwrap()).unwrap();
    let killed = AtomicBool::new(false);
    let kill = |step: Step| {
        if at(step) && !killed.swap(true, Ordering::Relaxed) {
            kill_process(pid, Signal::KILL).unwrap();
        }
    };
    let partitions: Vec<_> = admin.placement().unwrap().partitions_of(from).collect();
    let moves = partitions.into_iter().map(|partition| Move { partition, from, to });
    let moves: Vec<_> = moves.collect();
    let stop = AtomicBool::new(false);
    let report = admin.move_partitions(&moves, OPTIONS, &kill, &stop).unwrap();
    assert!(matches!(report.failures[..], [ref failure] if failure.to == to), "{report:?}");
    assert!(killed.load(Ordering::Relaxed) && report.partitions < moves.len(), "{report:?}");
    (admin, to)
}

fn a_target_that_dies_takes_only_what_it_was_given(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect_hasty();
    write_still(&store);
    let carried = AtomicUsize::new(0);
    let sixth =
        |step: Step| step.kind == StepKind::Carried && carried.fetch_add(1, Ordering::Relaxed) == 5;
    let (admin, gone) = lose_target(&running, kind, sixth);
    let finished = admin.finish(&[], &|_| {}).unwrap();
    let placement = admin.placement().unwrap();
    assert_eq!(placement.disputed(), []);
    let open: Vec<_> = finished.left.iter().map(|left| left.partition).collect();
    let given = |key: &StripeKey| *placement.owner(key.partition()) == Owner::One(gone);
    let (mut kept, mut lost) = (0, 0);
    for key in still().filter(|key| !given(key)) {
        if is_readable(&store, key) {
            kept += 1;
        } else {
            // On its way: what went over is out of reach, and never taken for empty.
            assert!(open.contains(&key.partition()), "{key:?} is lost without need");
            lost += 1;
        }
    }
    assert!(kept > 200 && lost < 20, "{kept} kept, {lost} lost on their way");
    assert!(still().filter(given).all(|key| !is_readable(&store, key)));
    admin.give_up(&finished.left, GRANTED).unwrap();
    assert_eq!(admin.unfinished().unwrap(), []);
    let away: Vec<_> = still().filter(|key| open.contains(&key.partition())).collect();
    for &key in &away {
        let found = read(&store, key, 3);
        let lost = matches!(found, Err(StoreError::Lost { .. }));
        assert!(lost || is_readable(&store, key), "{found:?} instead of what went over");
    }
    for key in still().filter(|key| !given(key)) {
        write(&store, key, b"new").unwrap();
    }
    let source = running.node(0).id;
    assert!(open.iter().all(|&each| *placement.owner(each) == Owner::One(source)));
}

fn a_target_that_dies_at_once_takes_nothing(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect_hasty();
    write_still(&store);
    let (admin, gone) = lose_target(&running, kind, |step| step.kind == StepKind::Opened);
    let finished = admin.finish(&[], &|_| {}).unwrap();
    admin.give_up(&finished.left, GRANTED).unwrap();
    assert!(still().all(|key| is_readable(&store, key)));
    let shard = running.shard_on(0);
    assert!(store.batch(shard, &Batch::new().put("a", "1")).unwrap().applied());
    let placement = admin.placement().unwrap();
    assert_eq!((placement.disputed(), placement.partitions_of(gone).count()), (vec![], 0));
    admin.remove_node(gone).unwrap().expect("it was a member").stop().unwrap();
    assert!(still().all(|key| is_readable(&store, key)));
}

fn a_target_that_others_fill_keeps_what_it_was_promised(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    write_still(&store);
    let admin = running.changer(&[]);
    let (from, to) = (running.node(0).id, running.node(1).id);
    let used = admin.observe()[1].readings.unwrap().used.0;
    let full = used - (64 << 10);
    let fill = |step: Step| {
        if step.kind == StepKind::Opened {
            let said = running.admin(1).say(&format!("CONFIG SET maxmemory {full}"));
            assert_eq!(said, "+OK\r\n");
        }
    };
    let stop = AtomicBool::new(false);
    let mut moves = drain(&admin, from);
    moves.retain(|each| !each.partition.is_metadata());
    let report = admin.move_partitions(&moves, MoveOptions::default(), &fill, &stop).unwrap();
    assert!(matches!(report.failures[..], [ref failure] if failure.error.is_full()), "{report:?}");
    assert!(report.failures[0].to == to && report.partitions < moves.len());
    // What was opened before there was no room is finished where it cannot be undone.
    assert!(kind == Kind::Valkey || report.bytes > 50_000, "{report:?}");
    assert_eq!(admin.observe()[1].readings.unwrap().capacity.0, full, "its bound is put back");
    assert_eq!(admin.placement().unwrap().disputed(), []);
    assert_eq!(admin.unfinished().unwrap(), []);
    assert!(still().all(|key| is_readable(&store, key)));
    // A successor gives the node what it was started with.
    admin.finish(&[], &|_| {}).unwrap();
    assert_eq!(admin.observe()[1].readings.unwrap().capacity, crate::fixture::NODE_MEMORY);
}

fn a_target_that_stands_still_costs_nothing(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    write_still(&store);
    let wait = Duration::from_secs(2);
    let timeouts = Timeouts { connect: wait, reply: wait };
    let secret = running.cluster().secrets().admin.clone();
    let admin = Admin::connect(running.cluster().description(), secret, timeouts).unwrap();
    let (from, to) = (running.node(0).id, running.node(1).id);
    let pid = Pid::from_raw(running.node(1).process.pid.try_into().unwrap()).unwrap();
    let pause = |step: Step| {
        if step.kind == StepKind::Opened {
            kill_process(pid, Signal::STOP).unwrap();
        }
    };
    let keys: Vec<_> = still().filter(|key| running.owner(key.partition()) == 0).take(50).collect();
    let moves = keys.iter().map(|key| Move { partition: key.partition(), from, to });
    let moves: Vec<_> = moves.collect();
    let stop = AtomicBool::new(false);
    let report = admin.move_partitions(&moves, MoveOptions::default(), &pause, &stop).unwrap();
    // The source has all keys still, so it serves them, and they change.
    for &key in &keys {
        write(&store, key, b"changed meanwhile").unwrap();
    }
    kill_process(pid, Signal::CONT).unwrap();
    assert!(matches!(report.failures[..], [ref failure] if failure.to == to), "{report:?}");
    let patient = running.changer(&[]);
    assert_eq!(patient.finish(&[], &|_| {}).unwrap().left, []);
    assert_eq!(patient.unfinished().unwrap(), []);
    assert_whole(&patient, &carry_out(&patient, &moves));
    for &key in &keys {
        assert_eq!(read(&store, key, 17).unwrap(), b"changed meanwhile");
    }
}

on_each_server![
    what_a_mover_that_was_killed_had_sent_is_not_carried_out,
    a_target_that_stands_still_costs_nothing,
    a_target_that_others_fill_keeps_what_it_was_promised,
    a_mover_killed_at_any_step_is_succeeded,
    a_way_that_nobody_was_sent_is_closed_again,
    a_target_that_dies_takes_only_what_it_was_given,
    a_target_that_dies_at_once_takes_nothing,
];
