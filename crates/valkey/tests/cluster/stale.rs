//! Nodes and clients that have not heard the news yet.

use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidefs_model::{NodeId, StripeKey};
use tidefs_store::{Batch, Store};
use tidefs_valkey::{Move, MoveOptions, Step, StepKind};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};
use crate::growing::{assert_whole, carry_out, shares};
use crate::load::Load;

/// The epoch of a node as another one has it.
fn epoch_at(running: &Running, at: usize, of: NodeId) -> u64 {
    let table = running.admin(at).say("CLUSTER NODES");
    let line = table.lines().find(|line| line.starts_with(&of.to_string())).unwrap().to_owned();
    line.split(' ').nth(6).unwrap().parse().unwrap()
}

/// The highest epoch that a node has heard of.
fn current_epoch(running: &Running, at: usize) -> u64 {
    let info = running.admin(at).say("CLUSTER INFO");
    let line = info.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:")).unwrap();
    line.parse().unwrap()
}

/// Has a node tell another of itself.
fn greet(running: &Running, from: usize, to: usize) {
    let to = running.node(to);
    let (port, bus_port) = (to.address.port(), to.bus_port);
    let said = running.admin(from).say(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
    assert_eq!(said, "+OK\r\n");
}

/// A node raises its epoch and tells one other of it. Servers raise theirs on their own when two
/// happen to be alike; newer ones tell everybody.
fn raise(running: &Running, node: usize, confidant: usize) -> u64 {
    let id = running.node(node).id;
    running.admin(node).say("CLUSTER BUMPEPOCH");
    greet(running, node, confidant);
    let raised = epoch_at(running, node, id);
    let until = Instant::now() + Duration::from_secs(30);
    while epoch_at(running, confidant, id) != raised {
        assert!(Instant::now() < until, "the epoch is not told");
        sleep(Duration::from_millis(1));
    }
    raised
}

/// Two nodes outdo each other, until the first is so far ahead that a third one's next epoch is
/// less; `false` when that one heard of it.
fn get_ahead_in_secret(running: &Running) -> bool {
    raise(running, 0, 1);
    raise(running, 1, 0);
    let ahead = raise(running, 0, 1);
    current_epoch(running, 2) + 1 < ahead
}

fn an_epoch_that_was_not_told_costs_no_keys(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    let admin = running.changer(&[]);
    let keys: Vec<_> = (0..2_000)
        .map(|index| StripeKey { ino: tidefs_model::Ino(5), index })
        .filter(|key| running.owner(key.partition()) == 0)
        .take(20)
        .collect();
    for &key in &keys {
        write(&store, key, b"kept").unwrap();
    }
    let (from, to) = (running.node(0).id, running.node(2).id);
    // The news spreads at random, so the third may hear it too soon.
    let secret = (0..60).any(|_| get_ahead_in_secret(&running));
    assert!(secret || kind == Kind::Valkey, "the epoch was never a secret");
    let moves: Vec<_> =
        keys.iter().map(|key| Move { partition: key.partition(), from, to }).collect();
    // The target claims what it was given before the third has been told by anybody else.
    let claim = |step: Step| {
        if step.kind == StepKind::TakenOver {
            greet(&running, 2, 1);
            sleep(Duration::from_millis(400));
        }
    };
    let stop = AtomicBool::new(false);
    let report = admin.move_partitions(&moves, MoveOptions::default(), &claim, &stop).unwrap();
    assert_whole(&admin, &report);
    // A correction, if there were one, would come by itself.
    sleep(Duration::from_millis(1_000));
    for &key in &keys {
        assert_eq!(read(&store, key, 4).unwrap(), b"kept", "{key:?}");
    }
    assert_whole(&admin, &report);
}

fn a_node_that_left_is_missed_by_nobody(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let admin = running.changer(&[]);
    let (stripe, shard) = (running.stripe_on(0), running.shard_on(0));
    let stores: Vec<_> = (0..3).map(|_| running.connect()).collect();
    let count = |store: &tidefs_valkey::Valkey| {
        let outcome = store.batch(shard, &Batch::new().add("n", 0, 1).read("n")).unwrap();
        u64::from_be_bytes(outcome.values[0].clone().unwrap().try_into().unwrap())
    };
    write(&stores[0], stripe, b"kept").unwrap();
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    let (home, guest) = (running.node(0).id, newcomer.0.id);
    let moves = |from, to| {
        [stripe.partition(), shard.partition()].map(|partition| Move { partition, from, to })
    };
    assert_whole(&admin, &carry_out(&admin, &moves(home, guest)));
    for (store, number) in stores.iter().zip(1..) {
        assert_eq!(count(store), number);
        assert_eq!(read(store, stripe, 4).unwrap(), b"kept");
        let overview = store.overview().unwrap();
        assert_eq!(overview.nodes.len(), 3);
        let seen = overview.nodes.iter().find(|node| node.id == guest.to_string()).unwrap();
        assert_eq!(seen.endpoint, newcomer.0.socket.display().to_string(), "not its socket");
        assert!(seen.available && seen.partitions == 2, "{seen:?}");
    }
    assert_whole(&admin, &carry_out(&admin, &moves(guest, home)));
    // Each has a map that is a moment old, and connections to a node that is about to end.
    admin.remove_node(guest).unwrap().expect("it was a member").stop().unwrap();
    assert_eq!(count(&stores[0]), 4, "an update");
    write(&stores[1], stripe, b"new!").unwrap();
    assert_eq!(read(&stores[2], stripe, 4).unwrap(), b"new!");
    assert_eq!((count(&stores[1]), count(&stores[2])), (5, 6));
    for store in &stores {
        assert_eq!(store.overview().unwrap().nodes.len(), 2);
    }
}

fn nodes_that_lost_each_other_move_partitions_all_the_same(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let load = Load::start(running.connect());
    let admin = running.changer(&[]);
    // A node that may keep nothing for its links drops them.
    let links = |bytes| {
        let set = format!("CONFIG SET cluster-link-sendbuf-limit {bytes}");
        assert_eq!(running.admin(2).say(&set), "+OK\r\n");
    };
    links(1);
    let until = Instant::now() + Duration::from_secs(30);
    // Older servers make them again a moment later.
    while kind == Kind::Valkey && !running.admin(2).say("CLUSTER NODES").contains("disconnected") {
        assert!(Instant::now() < until, "the links do not break");
        sleep(Duration::from_millis(10));
    }
    links(0);
    let report = carry_out(&admin, &shares(&admin, running.node(2).id, 8));
    assert_whole(&admin, &report);
    assert!(report.partitions > 1_000, "{report:?}");
    for number in 0..3 {
        let said = running.admin(number).say("CONFIG GET cluster-node-timeout");
        assert!(said.contains("315360000000"), "{said}");
    }
    load.end();
}

on_each_server![
    an_epoch_that_was_not_told_costs_no_keys,
    a_node_that_left_is_missed_by_nobody,
    nodes_that_lost_each_other_move_partitions_all_the_same,
];
