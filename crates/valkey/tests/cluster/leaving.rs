//! Clients that meet nodes which stand still for a moment, or are not there any more.

use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidefs_model::ShardKey;
use tidefs_store::{Batch, Store};
use tidefs_valkey::{NodeDescription, Options, Timeouts, Valkey};

use crate::fixture::{Kind, on_each_server, read, start, write};
use crate::growing::{assert_whole, carry_out, drain};

const THREADS: usize = 6;

fn signal(node: &NodeDescription, signal: Signal) {
    let pid = node.process.pid;
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn count(store: &Valkey, shard: ShardKey) -> u64 {
    let outcome = store.batch(shard, &Batch::new().add("n", 0, 1).read("n")).unwrap();
    u64::from_be_bytes(outcome.values[0].clone().unwrap().try_into().unwrap())
}

/// It lets nobody in for longer than a connection may take to be made, but answers in the end.
fn a_node_that_stands_still_for_a_moment_fails_nobody(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let timeouts = Timeouts { connect: Duration::from_millis(50), reply: Duration::from_secs(60) };
    let options = Options { timeouts, ..Options::default() };
    let store = Arc::new(running.cluster().connect(options).unwrap());
    let (stripe, shard) = (running.stripe_on(0), running.shard_on(0));
    write(&store, stripe, b"kept").unwrap();
    signal(running.node(0), Signal::STOP);
    let callers: Vec<_> = (0..THREADS)
        .map(|number| {
            let store = Arc::clone(&store);
            thread::spawn(move || match number % 2 {
                0 => assert_eq!(read(&store, stripe, 4).unwrap(), b"kept"),
                _ => assert!(count(&store, shard) > 0),
            })
        })
        .collect();
    // One of them has the only connection; the others try to make theirs and fail again and again.
    sleep(Duration::from_millis(500));
    assert!(callers.iter().all(|caller| !caller.is_finished()), "somebody was told of it");
    signal(running.node(0), Signal::CONT);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(count(&store, shard), THREADS as u64 / 2 + 1, "each update was made once");
}

fn a_client_that_slept_while_the_only_node_was_replaced_goes_on(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let store = running.connect();
    let (stripe, shard) = (running.stripe_on(0), running.shard_on(0));
    write(&store, stripe, b"kept").unwrap();
    assert_eq!(count(&store, shard), 1);
    let admin = running.changer(&[]);
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    let first = running.node(0).id;
    assert_whole(&admin, &carry_out(&admin, &drain(&admin, first)));
    admin.remove_node(first).unwrap().expect("it was a member").stop().unwrap();
    assert_eq!(count(&store, shard), 2);
    assert_eq!(read(&store, stripe, 4).unwrap(), b"kept");
    let until = Instant::now() + Duration::from_secs(30);
    while store.overview().unwrap().nodes.len() != 1 {
        assert!(Instant::now() < until, "it goes on to know the first node");
        sleep(Duration::from_millis(50));
    }
}

on_each_server![
    a_node_that_stands_still_for_a_moment_fails_nobody,
    a_client_that_slept_while_the_only_node_was_replaced_goes_on,
];
