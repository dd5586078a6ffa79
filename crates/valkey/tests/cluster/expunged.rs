//! Nodes that die for good: others hold their partitions, and what was lost is never read as zeros.

use std::time::{Duration, Instant};

use tidefs_model::{Granted, Ino, NodeId, PARTITIONS, Partition, Run, StripeKey};
use tidefs_store::{Batch, Cut, Store, StoreError, StripeRead, StripeWrite};
use tidefs_valkey::{Admin, Unfinished, Valkey};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};
use crate::growing::{assert_whole, carry_out, drain};
use crate::load::{is_readable, still, write_still};

/// Covers the inodes of what is written before.
const BEFORE: Granted = Granted { inos: 1 << 40, serials: 1 << 30 };
/// An inode that came later.
const LATER: Ino = Ino(1 << 41);
/// Of each stripe that stays.
const BYTES: usize = 100;

fn is_lost(result: &Result<Vec<u8>, StoreError>) -> bool {
    matches!(result, Err(StoreError::Lost { .. }))
}

/// Ends a node's process and gives what it held to the others.
fn lose(running: &Running, admin: &Admin, number: usize) -> NodeId {
    let node = running.node(number);
    node.process.stop().unwrap();
    let held = admin.expunge(&[node.id], BEFORE).unwrap();
    assert!(held[&node.id] > 1_000, "{held:?}");
    node.id
}

fn write_at(store: &Valkey, key: StripeKey, offset: u32) -> Result<(), StoreError> {
    store.write(&[StripeWrite { key, offset, bytes: b"end" }])
}

/// A stripe of `ino` whose partition was on the node.
fn stripe_on(running: &Running, ino: Ino, number: usize) -> StripeKey {
    let mut keys = (0..).map(|index| StripeKey { ino, index });
    keys.find(|key| running.owner(key.partition()) == number).unwrap()
}

fn what_was_on_a_dead_node_is_lost_and_never_zeros(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    write_still(&store);
    let admin = running.changer(&[]);
    let gone = lose(&running, &admin, 1);
    assert_eq!(admin.placement().unwrap().disputed(), []);
    assert_eq!(admin.description().nodes.len(), 2);

    let (mut kept, mut lost) = (0, 0);
    for key in still() {
        if running.owner(key.partition()) == 1 {
            assert!(is_lost(&read(&store, key, BYTES)), "{key:?}");
            // Whoever looks for holes is not told of one.
            assert_eq!(store.lengths(&[key]).unwrap(), [1 << 20]);
            lost += 1;
        } else {
            assert!(is_readable(&store, key));
            kept += 1;
        }
    }
    assert!(kept > 100 && lost > 50, "{kept} kept, {lost} lost");

    let old = still().find(|key| running.owner(key.partition()) == 1).unwrap();
    let gap = write_at(&store, old, 10);
    assert!(matches!(gap, Err(StoreError::Lost { .. })), "{gap:?}");
    // From its beginning on a stripe can be written again, and has what was written.
    write(&store, old, b"new").unwrap();
    write_at(&store, old, 3).unwrap();
    assert_eq!(read(&store, old, 6).unwrap(), b"newend");
    assert!(is_lost(&read(&store, old, 7)));
    assert!(matches!(write_at(&store, old, 7), Err(StoreError::Lost { .. })));

    let later = stripe_on(&running, LATER, 1);
    assert_eq!(read(&store, later, 4).unwrap(), [0; 4], "nothing of it was ever there");
    write_at(&store, later, 2).unwrap();
    assert_eq!(read(&store, later, 6).unwrap(), b"\0\0end\0");
    assert_eq!(store.lengths(&[later]).unwrap(), [5]);

    let shard = running.shard_on(1);
    assert!(store.batch(shard, &Batch::new().put("a", "1")).unwrap().applied());
    // Once more, as a successor of whoever was killed here would.
    assert_eq!(admin.expunge(&[gone], BEFORE).unwrap()[&gone], 0);
}

fn what_was_cut_after_a_loss_is_a_hole_until_the_next_one(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    write_still(&store);
    let admin = running.changer(&[]);
    lose(&running, &admin, 1);
    let mut lost = still().filter(|key| is_lost(&read(&store, *key, BYTES)));
    let (hole, gap, rest) = (lost.next().unwrap(), lost.next().unwrap(), lost.next().unwrap());
    let cut = |from| Cut { as_of: BEFORE.inos, from };
    let read_cut = |key, cut| {
        let mut bytes = vec![1; BYTES];
        let mut reads = [StripeRead { key, offset: 0, buffer: &mut bytes }];
        store.read_cut(&mut reads, cut).map(|()| bytes)
    };
    assert_eq!(read_cut(hole, cut(0)).unwrap(), [0; BYTES]);
    // It was cut before the node died, or nobody knows after which loss.
    for as_of in [0, BEFORE.inos - 1] {
        assert!(is_lost(&read_cut(hole, Cut { as_of, from: 0 })), "{as_of}");
    }
    let write_cut =
        |key, offset, cut| store.write_cut(&[StripeWrite { key, offset, bytes: b"end" }], cut);
    write_cut(gap, 10, cut(0)).unwrap();
    assert_eq!(read(&store, gap, 13).unwrap(), b"\0\0\0\0\0\0\0\0\0\0end");
    // What lies before the cut is lost as ever, and is there when it was written again.
    let over = write_cut(rest, 10, cut(4));
    assert!(matches!(over, Err(StoreError::Lost { .. })), "{over:?}");
    write(&store, rest, b"anew").unwrap();
    write_cut(rest, 10, cut(4)).unwrap();
    assert_eq!(read(&store, rest, 13).unwrap(), b"anew\0\0\0\0\0\0end");

    let node = running.node(0);
    node.process.stop().unwrap();
    let next = Granted { inos: BEFORE.inos + 1, ..BEFORE };
    admin.expunge(&[node.id], next).unwrap();
    let on_it = |key: &StripeKey| running.owner(key.partition()) == 0;
    let gone = still().find(on_it).unwrap();
    assert!(is_lost(&read_cut(gone, cut(0))), "it was lost after the cut");
    assert!(matches!(write_cut(gone, 10, cut(0)), Err(StoreError::Lost { .. })));
}

fn a_loss_that_is_told_late_takes_nothing_from_a_later_one(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    write_still(&store);
    let admin = running.changer(&[]);
    let dead = lose(&running, &admin, 1);
    let old = still().find(|key| running.owner(key.partition()) == 1).unwrap();
    assert!(is_lost(&read(&store, old, BYTES)));
    // What was under way there was found before, when fewer numbers had been granted.
    let left = Unfinished { from: running.node(0).id, to: dead, partition: old.partition() };
    for earlier in [Granted::default(), Granted { serials: u64::MAX, ..Granted::default() }] {
        admin.give_up(&[left], earlier).unwrap();
        assert!(is_lost(&read(&store, old, BYTES)), "{earlier:?}");
    }
}

fn nodes_that_are_full_take_over_what_a_dead_one_held(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    write_still(&store);
    // What is used by now is all that it may use.
    let mut full = running.admin(0);
    assert_eq!(full.say("CONFIG SET maxmemory 1mb"), "+OK\r\n");
    assert!(full.say("SET no-room {for}-it").contains("OOM"), "the node has room");
    let gone = lose(&running, &running.changer(&[]), 1);
    assert_eq!(running.changer(&[]).placement().unwrap().disputed(), []);
    assert_eq!(full.say("CONFIG SET maxmemory 1gb"), "+OK\r\n");
    for key in still() {
        let lost = running.owner(key.partition()) == 1;
        assert_eq!(is_lost(&read(&store, key, BYTES)), lost, "{key:?}");
    }
    assert_eq!(running.changer(&[]).expunge(&[gone], BEFORE).unwrap()[&gone], 0);
}

fn a_loss_goes_where_its_partition_goes(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    write_still(&store);
    let admin = running.changer(&[]);
    lose(&running, &admin, 1);
    let moves = drain(&admin, running.node(0).id);
    assert_whole(&admin, &carry_out(&admin, &moves));
    admin.remove_node(running.node(0).id).unwrap().expect("a member").stop().unwrap();
    for key in still() {
        let lost = running.owner(key.partition()) == 1;
        assert_eq!(is_lost(&read(&store, key, BYTES)), lost, "{key:?}");
    }
}

/// It has never heard what that one held.
fn a_node_that_comes_after_a_death_takes_its_part_of_what_the_dead_one_held(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    write_still(&store);
    let admin = running.changer(&[]);
    let dead = running.node(1);
    dead.process.stop().unwrap();
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    let held = admin.expunge(&[dead.id], BEFORE).unwrap();
    assert!(held[&dead.id] > 1_000, "{held:?}");
    let placement = admin.placement().unwrap();
    assert_eq!(placement.disputed(), []);
    assert!(placement.partitions_of(newcomer.0.id).count() > 1_000);
    for key in still() {
        let lost = running.owner(key.partition()) == 1;
        assert_eq!(is_lost(&read(&store, key, BYTES)), lost, "{key:?}");
    }
}

fn what_a_local_file_lost_is_told_from_what_a_later_one_never_had(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let on_node = |partition| running.owner(partition) == 1;
    let partitions = (0..PARTITIONS).map(Partition::new);
    let run = partitions.filter(|&it| on_node(it)).find_map(|it| Run::around(it, on_node));
    let file = |serial| Ino::local(run.unwrap(), serial).unwrap();
    let stripe = |ino| StripeKey { ino, index: 3 };
    let (old, later) = (stripe(file(5)), stripe(file(BEFORE.serials)));
    write(&store, old, b"bytes").unwrap();
    let node = running.node(1);
    node.process.stop().unwrap();
    running.changer(&[]).expunge(&[node.id], BEFORE).unwrap();
    assert!(is_lost(&read(&store, old, 5)));
    assert_eq!(read(&store, later, 5).unwrap(), [0; 5]);
    write(&store, later, b"bytes").unwrap();
    assert_eq!(read(&store, later, 5).unwrap(), b"bytes");
}

fn a_node_that_half_joined_is_brought_in(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let newcomer = running.newcomer(kind);
    let secret = running.cluster().secrets().admin.shown_to(newcomer.0.id);
    let mut itself =
        crate::fixture::Admin::log_in(&newcomer.0.socket, "tidefs-admin", secret.reveal());
    assert_eq!(itself.say("CONFIG SET cluster-node-timeout 1000"), "+OK\r\n");
    let other = running.node(0);
    let (address, bus_port) = (other.address, other.bus_port);
    let meet = format!("CLUSTER MEET {} {} {bus_port}", address.ip(), address.port());
    assert_eq!(itself.say(&meet), "+OK\r\n");
    let id = newcomer.0.id.to_string();
    let end = Instant::now() + Duration::from_secs(30);
    while !running.admin(0).say("CLUSTER NODES").contains(&id) {
        assert!(Instant::now() < end, "node 0 does not hear of the newcomer");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whoever let it join was killed here.
    let admin = running.changer(&[&newcomer]);
    admin.finish(&[], &|_| {}).unwrap();
    let nodes = itself.say("CLUSTER NODES");
    let myself = nodes.lines().find(|line| line.contains("myself")).unwrap();
    assert!(myself.contains("master"), "{myself}");
    let timeout = itself.say("CONFIG GET cluster-node-timeout");
    assert!(!timeout.contains("\r\n1000\r\n"), "{timeout}");
    let moves = drain(&admin, running.node(0).id);
    assert_whole(&admin, &carry_out(&admin, &moves));
    assert!(admin.placement().unwrap().partitions_of(newcomer.0.id).count() > 1_000);
}

on_each_server![
    what_was_cut_after_a_loss_is_a_hole_until_the_next_one,
    what_was_on_a_dead_node_is_lost_and_never_zeros,
    a_loss_that_is_told_late_takes_nothing_from_a_later_one,
    nodes_that_are_full_take_over_what_a_dead_one_held,
    a_loss_goes_where_its_partition_goes,
    a_node_that_comes_after_a_death_takes_its_part_of_what_the_dead_one_held,
    what_a_local_file_lost_is_told_from_what_a_later_one_never_had,
    a_node_that_half_joined_is_brought_in,
];
