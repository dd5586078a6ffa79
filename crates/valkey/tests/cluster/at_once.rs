//! Many nodes join at the same moment, while somebody looks for strangers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::fixture::{Kind, on_each_server, start};
use crate::strangers::table_of;

/// As many more than there were as a policy or a person may ask for at one time, on a small machine.
const NEWCOMERS: usize = 10;

fn nodes_that_come_at_once_join_and_are_nobodys_strangers(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let admin = running.changer(&[]);
    let newcomers: Vec<_> = (0..NEWCOMERS).map(|_| running.newcomer(kind)).collect();
    let have_joined = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !have_joined.load(Ordering::Relaxed) {
                admin.turn_strangers_out();
            }
        });
        let (admin, join) = (&admin, &newcomers);
        let joins = join.iter().map(|newcomer| scope.spawn(move || admin.add_node(&newcomer.0)));
        let joins: Vec<_> = joins.collect();
        let joined: Vec<_> = joins.into_iter().map(|join| join.join().unwrap()).collect();
        have_joined.store(true, Ordering::Relaxed);
        assert!(joined.iter().all(Result::is_ok), "{joined:?}");
    });
    let ids: Vec<_> = admin.description().nodes.iter().map(|node| node.id.to_string()).collect();
    assert_eq!(ids.len(), NEWCOMERS + 1);
    let table = table_of(&running, 0);
    assert!(ids.iter().all(|id| table.contains(id)), "{table}");
}

on_each_server![nodes_that_come_at_once_join_and_are_nobodys_strangers];
