//! A node that takes a slot over keeps it, whatever it thought of the giver before.

use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

use tidefs_model::Partition;
use tidefs_valkey::{Admin, Move, MoveOptions, Owner, Step, StepKind};

use crate::fixture::{Kind, Running, on_each_server, start};
use crate::growing::assert_whole;

/// What a greeting takes at most where nothing else is done.
const GREETING: Duration = Duration::from_millis(400);

fn say(running: &Running, node: usize, words: &str) {
    assert_eq!(running.admin(node).say(words), "+OK\r\n", "{words}");
}

fn greet(running: &Running, from: usize, to: usize) {
    let node = running.node(to);
    let (ip, port) = (node.address.ip(), node.address.port());
    say(running, from, &format!("CLUSTER MEET {ip} {port} {}", node.bus_port));
    sleep(GREETING);
}

/// The first node's partition is the second one's, and the first keeps a mark at it.
fn give_and_mark(running: &Running, admin: &Admin) -> Partition {
    let (here, there) = (running.node(0).id, running.node(1).id);
    let partition = admin.placement().unwrap().partitions_of(here).next().unwrap();
    let hand = format!("CLUSTER SETSLOT {} NODE {there}", partition.number());
    // The giver knows that the slot has gone before a greeting comes that does not claim it.
    say(running, 0, &hand);
    greet(running, 1, 0);
    say(running, 1, &hand);
    assert_eq!(admin.placement().unwrap().owner(partition), &Owner::One(there));
    partition
}

fn a_late_greeting_takes_no_slot_back(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let admin = running.changer(&[]);
    let (here, there) = (running.node(0).id, running.node(1).id);
    let partition = give_and_mark(&running, &admin);
    // One comes as well when the slot has been taken back and its giver has not been told.
    let greet_between = |step: Step| {
        if step.kind == StepKind::TakenOver {
            greet(&running, 1, 0);
        }
    };
    let back = [Move { partition, from: there, to: here }];
    let (options, stop) = (MoveOptions::default(), AtomicBool::new(false));
    let report = admin.move_partitions(&back, options, &greet_between, &stop).unwrap();
    assert_whole(&admin, &report);
    assert_eq!(admin.placement().unwrap().owner(partition), &Owner::One(here));
}

/// The same where the mover was killed, and another one ends what it began.
fn nor_from_who_ends_what_was_begun(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let admin = running.changer(&[]);
    let (here, there) = (running.node(0).id, running.node(1).id);
    let partition = give_and_mark(&running, &admin);
    let number = partition.number();
    say(&running, 0, &format!("CLUSTER SETSLOT {number} IMPORTING {there}"));
    say(&running, 1, &format!("CLUSTER SETSLOT {number} MIGRATING {here}"));
    let greet_between = |step: Step| {
        if step.kind == StepKind::TakenOver {
            greet(&running, 1, 0);
        }
    };
    let finished = admin.finish(&[], &greet_between).unwrap();
    assert_eq!(finished.finished, [partition]);
    assert_eq!(admin.placement().unwrap().owner(partition), &Owner::One(here));
}

on_each_server![a_late_greeting_takes_no_slot_back, nor_from_who_ends_what_was_begun];
