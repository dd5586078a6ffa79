//! Nodes come and go, and partitions move, while clients write and read without a pause.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidefs_model::{ByteSize, NodeId, PARTITIONS, Partition, StripeKey};
use tidefs_store::{Batch, Store, StoreError};
use tidefs_valkey::{Admin, AdminError, Move, MoveOptions, MoveReport, Owner, StepKind};

use crate::fixture::{Kind, on_each_server, spec, start, write};
use crate::load::Load;

/// Every `share`th partition of each node but the target.
pub fn shares(admin: &Admin, to: NodeId, share: usize) -> Vec<Move> {
    let placement = admin.placement().unwrap();
    let from = admin.description().nodes.into_iter().map(|node| node.id).filter(|&id| id != to);
    from.flat_map(|from| {
        let partitions: Vec<_> = placement.partitions_of(from).step_by(share).collect();
        partitions.into_iter().map(move |partition| Move { partition, from, to })
    })
    .collect()
}

/// All of a node's partitions, to the others in turn.
pub fn drain(admin: &Admin, from: NodeId) -> Vec<Move> {
    let others: Vec<_> =
        admin.description().nodes.iter().map(|node| node.id).filter(|&id| id != from).collect();
    let placement = admin.placement().unwrap();
    let others = others.iter().cycle();
    let moves = placement.partitions_of(from).zip(others);
    moves.map(|(partition, &to)| Move { partition, from, to }).collect()
}

pub fn carry_out(admin: &Admin, moves: &[Move]) -> MoveReport {
    let report =
        admin.move_partitions(moves, MoveOptions::default(), &|_| {}, &AtomicBool::new(false));
    report.unwrap()
}

/// All moves went well, and each partition has exactly one owner.
pub fn assert_whole(admin: &Admin, report: &MoveReport) {
    assert!(report.failures.is_empty() && report.broken.is_none(), "{report:?}");
    assert_eq!(admin.placement().unwrap().disputed(), []);
    assert_eq!(admin.unfinished().unwrap(), []);
}

fn two_nodes_become_three_and_two_again_under_load(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let load = Load::start(running.connect());
    let admin = running.changer(&[]);
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    admin.add_node(&newcomer.0).unwrap();
    let id = newcomer.0.id;
    let grow = shares(&admin, id, 3);
    assert!((5_400..5_500).contains(&grow.len()), "{}", grow.len());
    let report = carry_out(&admin, &grow);
    assert_whole(&admin, &report);
    assert_eq!(report.partitions, grow.len());
    assert!(report.bytes > 1 << 20, "{report:?}");
    assert_eq!(admin.placement().unwrap().partitions_of(id).count(), grow.len());
    assert_eq!(carry_out(&admin, &grow).partitions, 0, "moving again moves nothing");
    match admin.remove_node(id) {
        Err(AdminError::StillHolds { node, partitions }) if node == id => {
            assert_eq!(partitions, grow.len());
        }
        other => panic!("{other:?}"),
    }
    let report = carry_out(&admin, &drain(&admin, id));
    assert_whole(&admin, &report);
    let observed = admin.observe();
    let drained = observed.iter().find(|seen| seen.node == id).unwrap().readings.unwrap();
    assert_eq!(drained.keys, 0);
    admin.remove_node(id).unwrap().expect("it was a member").stop().unwrap();
    assert!(admin.remove_node(id).unwrap().is_none(), "removing again");
    assert_eq!(admin.description().nodes.len(), 2);
    for number in 0..2 {
        let table = running.admin(number).say("CLUSTER NODES");
        assert!(!table.contains(&id.to_string()), "{table}");
    }
    load.end();
}

fn what_is_observed_is_so(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let admin = running.changer(&[]);
    let before = admin.observe();
    let mut written: BTreeMap<Partition, u64> = BTreeMap::new();
    for index in 0..300_u32 {
        let key = StripeKey { ino: tidefs_model::Ino(5), index };
        let bytes = vec![7; 10_000 + 100 * index as usize];
        write(&store, key, &bytes).unwrap();
        *written.entry(key.partition()).or_default() += bytes.len() as u64;
    }
    let shard = running.shard_on(0);
    let fields = (0..2_000).map(|number| format!("{number:05}"));
    let batch = fields.fold(Batch::new(), |batch, field| batch.put(field.into_bytes(), [1; 200]));
    assert!(store.batch(shard, &batch).unwrap().applied());
    *written.entry(shard.partition()).or_default() += 2_000 * 205;
    let sizes = admin.partition_sizes();
    let close = |bytes: u64, payload: u64| (payload..payload * 2).contains(&bytes);
    for number in 0..PARTITIONS {
        let partition = Partition::new(number);
        let payload = written.get(&partition).copied().unwrap_or(0);
        let bytes = sizes.bytes(partition).unwrap();
        assert!(payload == 0 && bytes == 0 || close(bytes, payload), "{number} {payload} {bytes}");
    }
    let measured = |sizes: &tidefs_valkey::PartitionSizes| -> u64 {
        (0..PARTITIONS).filter_map(|number| sizes.bytes(Partition::new(number))).sum()
    };
    let all = measured(&sizes);
    let used = |observed: &[tidefs_valkey::Observation]| -> u64 {
        observed.iter().map(|seen| seen.readings.unwrap().used.0).sum()
    };
    let after = admin.observe();
    let grown = used(&after) - used(&before);
    // What connections and tables take is not the partitions'.
    assert!(all.abs_diff(grown) < grown / 10 + (2 << 20), "{all} of {grown}");
    for (node, number) in after.iter().zip(0..) {
        let readings = node.readings.unwrap();
        assert_eq!(node.node, running.node(number).id);
        assert_eq!(readings.capacity, crate::fixture::NODE_MEMORY);
        assert!(readings.received_bytes > 1 << 20 && readings.sent_bytes > 0, "{readings:?}");
    }
    assert_eq!(after.iter().map(|seen| seen.readings.unwrap().keys).sum::<u64>(), 301);
    running.node(1).process.stop().unwrap();
    assert!(admin.observe()[1].readings.is_none());
    let rest = admin.partition_sizes();
    assert!(measured(&rest) > 0 && measured(&rest) < all);
    let known = |number: u16| rest.bytes(Partition::new(number)).is_some();
    let owned = |number: u16| running.owner(Partition::new(number)) == 0;
    assert!((0..PARTITIONS).all(|number| known(number) == owned(number)));
    let gone = admin.placement().unwrap();
    assert_eq!(gone.disputed(), [], "the other's word is taken");
    assert_eq!(gone.partitions_of(running.node(1).id).count(), usize::from(PARTITIONS / 2));
}

fn a_target_without_room_is_not_begun_with(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let keys: Vec<_> = (0..64)
        .map(|index| StripeKey { ino: tidefs_model::Ino(5), index })
        .filter(|key| running.owner(key.partition()) == 0)
        .collect();
    for &key in &keys {
        write(&store, key, &vec![3; 1 << 20]).unwrap();
    }
    let admin = running.changer(&[]);
    let used = admin.observe()[1].readings.unwrap().used.0;
    let capacity = (used + (6 << 20)).to_string();
    assert_eq!(running.admin(1).say(&format!("CONFIG SET maxmemory {capacity}")), "+OK\r\n");
    let (from, to) = (running.node(0).id, running.node(1).id);
    let moves: Vec<_> =
        keys.iter().map(|key| Move { partition: key.partition(), from, to }).collect();
    let options = MoveOptions { batch: ByteSize::mib(2), ..MoveOptions::default() };
    let report = admin.move_partitions(&moves, options, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(report.partitions < moves.len());
    assert!(
        matches!(report.failures[..], [ref failure]
        if matches!(failure.error, AdminError::NoRoom { node, .. } if node == to)),
        "{report:?}"
    );
    assert_eq!(admin.placement().unwrap().disputed(), []);
    assert_eq!(admin.unfinished().unwrap(), []);
    for &key in &keys {
        assert!(crate::fixture::read(&store, key, 1 << 20).unwrap() == vec![3; 1 << 20]);
    }
}

fn a_request_to_stop_leaves_nothing_half_done(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let load = Load::start(running.connect());
    let admin = running.changer(&[]);
    let (from, to) = (running.node(0).id, running.node(1).id);
    let moves = drain(&admin, from);
    let stop = AtomicBool::new(false);
    let options = MoveOptions { batch: ByteSize(1 << 20), ..MoveOptions::default() };
    let stop_soon = |step: tidefs_valkey::Step| {
        if step.kind == StepKind::Carried {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = admin.move_partitions(&moves, options, &stop_soon, &stop).unwrap();
    assert!(report.stopped && report.partitions > 0 && report.partitions < moves.len());
    assert!(report.broken.is_none(), "{report:?}");
    assert_whole(&admin, &report);
    let placement = admin.placement().unwrap();
    let arrived = moves.iter().filter(|each| *placement.owner(each.partition) == Owner::One(to));
    assert_eq!(arrived.count(), report.partitions);
    load.end();
}

/// Several targets take turns at a source; who waited for its turn when all were stopped does not begin.
fn a_request_to_stop_is_heard_by_those_that_wait_for_their_turn(kind: Kind) {
    let Some(running) = start(kind, 4) else { return };
    let admin = running.changer(&[]);
    if !admin.server().abilities.atomic_slot_migration {
        return;
    }
    let from = running.node(0).id;
    let targets = [1, 2, 3].map(|number| running.node(number).id);
    let each = drain(&admin, from).into_iter().zip(targets.into_iter().cycle());
    let moves: Vec<_> = each.map(|(step, to)| Move { to, ..step }).collect();
    let stop = AtomicBool::new(false);
    let carried = AtomicUsize::new(0);
    let stop_soon = |step: tidefs_valkey::Step| {
        if step.kind == StepKind::Carried {
            carried.fetch_add(1, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = admin.move_partitions(&moves, MoveOptions::default(), &stop_soon, &stop).unwrap();
    assert!(report.stopped && report.broken.is_none() && report.failures.is_empty(), "{report:?}");
    assert_eq!(carried.load(Ordering::Relaxed), 1, "{report:?}");
}

/// Four nodes give to each other in a ring, so that each both gives and takes.
fn many_nodes_give_and_take(kind: Kind) {
    let Some(running) = start(kind, 4) else { return };
    let load = Load::start(running.connect());
    let admin = running.changer(&[]);
    let ids: Vec<_> = running.nodes().iter().map(|node| node.id).collect();
    let placement = admin.placement().unwrap();
    let moves = ids.iter().enumerate().flat_map(|(number, &from)| {
        let to = [ids[(number + 1) % 4], ids[(number + 2) % 4]];
        let shares = placement.partitions_of(from).step_by(4).zip(to.into_iter().cycle());
        shares.map(move |(partition, to)| Move { partition, from, to }).collect::<Vec<_>>()
    });
    let moves: Vec<_> = moves.collect();
    let report = carry_out(&admin, &moves);
    assert_whole(&admin, &report);
    assert_eq!(report.partitions, moves.len());
    let placement = admin.placement().unwrap();
    assert!(moves.iter().all(|each| *placement.owner(each.partition) == Owner::One(each.to)));
    load.end();
}

fn a_full_node_gives_partitions_away(kind: Kind) {
    let Some((mut spec, directory)) = spec(kind, 1) else { return };
    spec.node_memory = ByteSize::mib(48);
    let running = crate::fixture::Running::start(&spec, directory);
    let store = running.connect();
    let key = |index| StripeKey { ino: tidefs_model::Ino(5), index };
    let bytes = vec![9; 200 << 10];
    let full = (0..2_000).find(|&index| match write(&store, key(index), &bytes) {
        Ok(()) => false,
        Err(StoreError::Full { .. }) => true,
        Err(error) => panic!("{error}"),
    });
    let full = full.expect("48 MiB are soon full");
    let admin = running.changer(&[]);
    let newcomer = running.newcomer(kind);
    admin.add_node(&newcomer.0).unwrap();
    let report = carry_out(&admin, &shares(&admin, newcomer.0.id, 2));
    assert_whole(&admin, &report);
    assert!(report.bytes > 10 << 20, "{report:?}");
    for index in 0..full {
        assert!(crate::fixture::read(&store, key(index), bytes.len()).unwrap() == bytes);
    }
    // There is room again, on both.
    for index in full..full + 20 {
        write(&store, key(index), &bytes).unwrap();
    }
}

on_each_server![
    a_full_node_gives_partitions_away,
    many_nodes_give_and_take,
    two_nodes_become_three_and_two_again_under_load,
    what_is_observed_is_so,
    a_target_without_room_is_not_begun_with,
    a_request_to_stop_leaves_nothing_half_done,
    a_request_to_stop_is_heard_by_those_that_wait_for_their_turn,
];
