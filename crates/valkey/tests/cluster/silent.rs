//! A node that says nothing for a while, beside others that answer: who asks several nodes at once keeps no connection of
//! those that answer while he waits for it.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Store};
use tidefs_valkey::{Options, Timeouts};

use crate::fixture::{Kind, Running, on_each_server, start};

/// Much longer than the test takes where nobody waits.
const REPLY: Duration = Duration::from_secs(20);
const CONNECTIONS: usize = 2;

/// Goes on at the end, whatever becomes of the test.
struct Silent(Pid);

impl Silent {
    fn node(running: &Running, number: usize) -> Silent {
        let pid = Pid::from_raw(running.node(number).process.pid.try_into().unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Silent(pid)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

fn whoever_waits_for_a_silent_node_keeps_nobody_from_others(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let timeouts = Timeouts { reply: REPLY, ..Timeouts::default() };
    let options = Options { timeouts, connections_per_node: CONNECTIONS, ..Options::default() };
    let store = running.connect_with(options);
    let shards = || (0..).map(|index| ShardKey { directory: Ino(9), index });
    let on = |number| shards().find(|it| running.owner(it.partition()) == number).unwrap();
    let read = Batch::new().read("n");
    // Either one may be the one that is asked last.
    for (silent, answering) in [(on(0), on(1)), (on(1), on(0))] {
        let both = || store.batches(&[(silent, read.clone()), (answering, read.clone())]);
        // Until there are as many connections as there may be.
        let often = || (0..200).for_each(|_| drop(both()));
        scope(|scope| (0..2 * CONNECTIONS).for_each(|_| drop(scope.spawn(often))));
        let node = Silent::node(&running, running.owner(silent.partition()));
        let begun = Instant::now();
        scope(|scope| {
            // Twice as many as there are connections: half of them wait for one.
            let wait: Vec<_> = (0..2 * CONNECTIONS).map(|_| scope.spawn(both)).collect();
            // Some of these are asked when all of them wait.
            for _ in 0..20 {
                sleep(Duration::from_millis(50));
                store.batch(answering, &read).expect("this node answers");
            }
            let all_wait = wait.iter().all(|it| !it.is_finished());
            let after = begun.elapsed();
            drop(node);
            assert!(all_wait, "it was held up until they had failed, {after:?} later");
            wait.into_iter().for_each(|it| drop(it.join().unwrap().expect("it goes on")));
        });
    }
}

fn whoever_waits_for_one_of_several_nodes_asks_the_others_meanwhile(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let shards = || (0..).map(|index| ShardKey { directory: Ino(9), index });
    let on = |number| shards().find(|it| running.owner(it.partition()) == number).unwrap();
    let (read, count) = (Batch::new().read("n"), Batch::new().add("n", 0, 1));
    let sees = running.connect_with(Options::default());
    let has = |shard| sees.batch(shard, &read).unwrap().take(0).is_some();
    // Either one may be the one that is asked first.
    for (silent, answering) in [(on(0), on(1)), (on(1), on(0))] {
        let timeouts = Timeouts { reply: REPLY, ..Timeouts::default() };
        let options = Options { timeouts, connections_per_node: 1, ..Options::default() };
        let store = running.connect_with(options);
        assert!(!has(answering));
        store.batch(silent, &read).expect("it answers");
        let node = Silent::node(&running, running.owner(silent.partition()));
        scope(|scope| {
            let first = scope.spawn(|| store.batch(silent, &read));
            sleep(Duration::from_millis(200));
            let both = scope
                .spawn(|| store.batches(&[(silent, read.clone()), (answering, count.clone())]));
            let is_asked = (0..100).any(|_| {
                sleep(Duration::from_millis(50));
                has(answering)
            });
            let waits = !both.is_finished();
            drop(node);
            assert!(is_asked && waits, "it waited for the silent node first");
            drop((first.join().unwrap().unwrap(), both.join().unwrap().unwrap()));
        });
        sees.batch(answering, &Batch::new().delete("n")).unwrap();
    }
}

on_each_server![
    whoever_waits_for_a_silent_node_keeps_nobody_from_others,
    whoever_waits_for_one_of_several_nodes_asks_the_others_meanwhile,
];
