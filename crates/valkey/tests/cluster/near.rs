//! Which partitions are near: those of one own node of this host, also after they have moved.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidefs_model::{ByteSize, Ino, NodeClass, NodeId, Partition, Run, StripeKey};
use tidefs_store::{Store, StoreError};
use tidefs_valkey::{Admin, ClusterSpec, Move, Options, Valkey};

use crate::fixture::{Kind, Running, on_each_server, spec, start, write};
use crate::growing::{assert_whole, carry_out, drain, shares};

/// Runs for as many chances, spread over all of them.
fn runs(store: &Valkey, asker: u64) -> Vec<Run> {
    let chances = (0..1_000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    chances.map(|chance| store.near(asker, chance).expect("a node is near")).collect()
}

/// The node that holds all of the runs.
fn holder(store: &Valkey, runs: &[Run]) -> NodeId {
    let partitions = runs.iter().flat_map(|run| run.partitions());
    let holders: BTreeSet<_> = partitions.map(|partition| store.holder(partition)).collect();
    assert_eq!(holders.len(), 1, "{holders:?}");
    holders.into_iter().next().flatten().expect("somebody holds it")
}

/// How many partitions there are in any of the runs.
fn covered(runs: &[Run]) -> usize {
    runs.iter().flat_map(|run| run.partitions()).collect::<BTreeSet<_>>().len()
}

fn data_of(admin: &Admin, node: NodeId) -> Vec<Partition> {
    let placement = admin.placement().unwrap();
    placement.partitions_of(node).filter(|partition| !partition.is_metadata()).collect()
}

fn one_node_is_near_and_its_runs_are_long_and_many(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    let found = runs(&store, 7);
    let node = holder(&store, &found);
    assert_eq!(holder(&running.connect(), &runs(&running.connect(), 7)), node, "another client");
    let admin = running.changer(&[]);
    assert!(found.iter().all(|run| run.length() == 64), "{found:?}");
    let data = data_of(&admin, node).len();
    assert!(covered(&found) + 2 * 64 > data, "{} of {data}", covered(&found));
    let askers = (0..200_u64).map(|asker| holder(&store, &runs(&store, asker * asker)[..3]));
    assert_eq!(askers.collect::<BTreeSet<_>>().len(), 3, "mounts use different nodes");
}

fn what_moves_away_is_no_longer_near(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let admin = running.changer(&[]);
    let from = holder(&store, &runs(&store, 7));
    let to = running.nodes().iter().map(|node| node.id).find(|&id| id != from).unwrap();
    let moved = |partition: Partition| Move { partition, from, to };
    // Three of four in the first half: the rest of it is scattered.
    let data = data_of(&admin, from);
    let (first, second) = data.split_at(data.len() / 2);
    let scatter = first.iter().enumerate().filter(|(at, _)| at % 4 > 0);
    let moves: Vec<_> = scatter.map(|(_, &partition)| moved(partition)).collect();
    assert_whole(&admin, &carry_out(&admin, &moves));
    store.refresh().unwrap();
    let found = runs(&store, 7);
    assert_eq!(holder(&store, &found), from);
    let long = found.iter().filter(|run| run.length() == 64).count();
    assert!(long > 900, "{long} of 1000 are long: those between what is scattered");
    let moves: Vec<_> = second.iter().map(|&partition| moved(partition)).collect();
    assert_whole(&admin, &carry_out(&admin, &moves));
    store.refresh().unwrap();
    let found = runs(&store, 7);
    assert_eq!(holder(&store, &found), from);
    assert!(found.iter().all(|run| run.length() == 1), "nothing else is left");
    assert!(covered(&found) > data.len() / 8 * 3 / 4, "most of what is left");
    assert_whole(&admin, &carry_out(&admin, &drain(&admin, from)));
    store.refresh().unwrap();
    assert_eq!(holder(&store, &runs(&store, 7)), to, "nothing is left at all");
}

fn a_lent_node_is_never_near(kind: Kind) {
    let Some(running) = start(kind, 1) else { return };
    let own = running.node(0).id;
    let mut victim = running.newcomer(kind);
    victim.0.class = NodeClass::Victim;
    let admin = running.changer(&[&victim]);
    admin.add_node(&victim.0).unwrap();
    let moves = shares(&admin, victim.0.id, 2);
    let data = moves.into_iter().filter(|planned| !planned.partition.is_metadata());
    assert_whole(&admin, &carry_out(&admin, &data.collect::<Vec<_>>()));
    let mut told = running.cluster().description().clone();
    told.nodes.push(victim.0.clone());
    let secret = running.cluster().secrets().data.clone();
    let told = Valkey::connect(&told, secret, Options::default()).unwrap();
    let not_told = running.connect();
    for store in [&told, &not_told] {
        for asker in 0..50 {
            assert_eq!(holder(store, &runs(store, asker)[..50]), own);
        }
    }
}

/// What a client remembers has nothing to do with the kind of server.
#[test]
fn a_full_node_is_not_near_until_later() {
    let Some((small, directory)) = spec(Kind::Valkey, 2) else { return };
    let small = ClusterSpec { node_memory: ByteSize::mib(48), ..small };
    let running = Running::start(&small, directory);
    let store = running.connect();
    let bytes = vec![7; 1 << 20];
    let first = Some(holder(&store, &runs(&store, 7)));
    let mut serials = 0..1_000;
    let full = serials.find_map(|serial| {
        let run = store.near(7, serial << 54).expect("there is room");
        let key = StripeKey { ino: Ino::local(run, serial).unwrap(), index: 0 };
        write(&store, key, &bytes).err()
    });
    assert!(matches!(full, Some(StoreError::Full { .. })), "{full:?}");
    let holder = |run: Run| store.holder(run.partitions().next().unwrap());
    let other = store.near(7, 0).and_then(holder);
    assert!(other.is_some() && other != first, "another one is as near");
    let end = Instant::now() + Duration::from_secs(40);
    while store.near(7, 0).and_then(holder) != first {
        assert!(Instant::now() < end, "it is not tried again");
        std::thread::sleep(Duration::from_millis(100));
    }
}

on_each_server!(
    one_node_is_near_and_its_runs_are_long_and_many,
    what_moves_away_is_no_longer_near,
    a_lent_node_is_never_near,
);
