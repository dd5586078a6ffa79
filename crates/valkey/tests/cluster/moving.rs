//! Partitions that move by hand while a client has the old map.

use std::time::Duration;

use tidefs_model::{Ino, Partition, ShardKey};
use tidefs_store::{Batch, Cursor, Store};

use crate::fixture::{Kind, Running, on_each_server, read, start, write};

/// Names of the keys of a slot, as a node has them.
fn keys_of(running: &Running, node: usize, partition: Partition) -> Vec<Vec<u8>> {
    let mut admin = running.admin(node);
    let slot = partition.number().to_string();
    let reply = admin.ask_raw(&[b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), b"10000"]);
    let mut keys = Vec::new();
    let mut rest = &reply[reply.iter().position(|&byte| byte == b'\n').unwrap() + 1..];
    while rest.first() == Some(&b'$') {
        let end = rest.iter().position(|&byte| byte == b'\r').unwrap();
        let length: usize = std::str::from_utf8(&rest[1..end]).unwrap().parse().unwrap();
        keys.push(rest[end + 2..end + 2 + length].to_vec());
        rest = &rest[end + 4 + length..];
    }
    keys
}

/// Opens the way for a slot between two nodes.
fn open(running: &Running, partition: Partition, from: usize, to: usize) {
    let slot = partition.number();
    let (source, target) = (running.node(from).id, running.node(to).id);
    let said = running.admin(to).say(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
    assert_eq!(said, "+OK\r\n");
    let said = running.admin(from).say(&format!("CLUSTER SETSLOT {slot} MIGRATING {target}"));
    assert_eq!(said, "+OK\r\n");
}

fn carry(running: &Running, keys: &[Vec<u8>], from: usize, to: usize) {
    let port = running.node(to).address.port().to_string();
    let secret = running.cluster().secrets().admin.shown_to(running.node(to).id);
    for key in keys {
        let words: [&[u8]; 9] = [
            b"MIGRATE",
            b"127.0.0.1",
            port.as_bytes(),
            key,
            b"0",
            b"5000",
            b"AUTH2",
            b"tidefs-admin",
            secret.reveal().as_bytes(),
        ];
        assert_eq!(running.admin(from).ask(&words), "+OK\r\n");
    }
}

fn close(running: &Running, partition: Partition, to: usize) {
    let slot = partition.number();
    let target = running.node(to).id;
    for number in [to].into_iter().chain((0..running.nodes().len()).filter(|&n| n != to)) {
        let said = running.admin(number).say(&format!("CLUSTER SETSLOT {slot} NODE {target}"));
        assert_eq!(said, "+OK\r\n");
    }
}

fn partitions_that_move_are_followed(kind: Kind) {
    let Some(running) = start(kind, 3) else { return };
    let store = running.connect();
    let (stripe, shard) = (running.stripe_on(0), running.shard_on(0));
    let bytes = vec![3; 1 << 20];
    write(&store, stripe, &bytes).unwrap();
    let count = |store: &tidefs_valkey::Valkey| {
        let outcome = store.batch(shard, &Batch::new().add("n", 0, 1).read("n")).unwrap();
        u64::from_be_bytes(outcome.values[0].clone().unwrap().try_into().unwrap())
    };
    assert_eq!(count(&store), 1);
    for partition in [stripe.partition(), shard.partition()] {
        let keys = keys_of(&running, 0, partition);
        assert_eq!(keys.len(), 1);
        open(&running, partition, 0, 2);
        // On its way: a key that is still here is served here, one that is not is asked for there.
        assert_eq!(read(&store, stripe, 1 << 20).unwrap(), bytes);
        carry(&running, &keys, 0, 2);
        assert_eq!(read(&store, stripe, 1 << 20).unwrap(), bytes);
        write(&store, stripe, &bytes).unwrap();
        close(&running, partition, 2);
        assert_eq!(read(&store, stripe, 1 << 20).unwrap(), bytes);
    }
    assert_eq!(count(&store), 2);
    let partitions =
        store.overview().unwrap().nodes.iter().map(|node| node.partitions).sum::<u16>();
    assert_eq!(partitions, tidefs_model::PARTITIONS);
    assert_eq!(keys_of(&running, 0, stripe.partition()), Vec::<Vec<u8>>::new());
    assert_eq!(count(&running.connect()), 3);
}

fn a_shard_is_made_where_its_partition_goes(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let shard = running.shard_on(0);
    open(&running, shard.partition(), 0, 1);
    let outcome = store.batch(shard, &Batch::new().absent("a").put("a", "1").read("a")).unwrap();
    assert!(outcome.applied() && outcome.shard_was_empty);
    assert_eq!(keys_of(&running, 0, shard.partition()).len(), 0);
    assert_eq!(keys_of(&running, 1, shard.partition()).len(), 1);
    close(&running, shard.partition(), 1);
    let again = store.batch(shard, &Batch::new().absent("a").put("a", "1")).unwrap();
    assert_eq!(again.refused_by, Some(0));
}

fn a_listing_whose_shard_moves_misses_nothing(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let shard = running.shard_on(0);
    let names: Vec<_> = (0..5_000).map(|number| format!("field {number}").into_bytes()).collect();
    for names in names.chunks(500) {
        let put = names.iter().fold(Batch::new(), |batch, name| batch.put(name.clone(), "value"));
        assert!(store.batch(shard, &put).unwrap().applied());
    }
    let page = store.list(&[(shard, Cursor::default())]).unwrap().remove(0);
    let mut seen: std::collections::BTreeSet<_> =
        page.fields.into_iter().map(|(name, _)| name).collect();
    let keys = keys_of(&running, 0, shard.partition());
    open(&running, shard.partition(), 0, 1);
    carry(&running, &keys, 0, 1);
    close(&running, shard.partition(), 1);
    let mut cursor = page.next;
    assert!(cursor.is_some(), "5000 fields are more than a page");
    while let Some(from) = cursor {
        let page = store.list(&[(shard, from)]).unwrap().remove(0);
        seen.extend(page.fields.into_iter().map(|(name, _)| name));
        cursor = page.next;
    }
    let missed = names.iter().filter(|name| !seen.contains(*name)).count();
    assert_eq!(missed, 0);
}

fn threads_lose_no_update_while_partitions_move(kind: Kind) {
    let Some(running) = start(kind, 2) else { return };
    let store = running.connect();
    let shards: Vec<_> = (0..8)
        .map(|directory| ShardKey { directory: Ino(1_000 + directory), index: 0 })
        .filter(|shard| running.owner(shard.partition()) == 0)
        .collect();
    assert!(!shards.is_empty());
    let done = std::sync::atomic::AtomicBool::new(false);
    let added: u64 = std::thread::scope(|scope| {
        let add = || {
            let mut added = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for &shard in &shards {
                    assert!(store.batch(shard, &Batch::new().add("n", 0, 1)).unwrap().applied());
                    added += 1;
                }
            }
            added
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
        std::thread::sleep(Duration::from_millis(50));
        for shard in &shards {
            let partition = shard.partition();
            open(&running, partition, 0, 1);
            std::thread::sleep(Duration::from_millis(5));
            carry(&running, &keys_of(&running, 0, partition), 0, 1);
            std::thread::sleep(Duration::from_millis(5));
            close(&running, partition, 1);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let number = |shard: &ShardKey| {
        let value = store.batch(*shard, &Batch::new().read("n")).unwrap().take(0).unwrap();
        u64::from_be_bytes(value.try_into().unwrap())
    };
    assert_eq!(shards.iter().map(number).sum::<u64>(), added);
}

on_each_server![
    partitions_that_move_are_followed,
    a_shard_is_made_where_its_partition_goes,
    a_listing_whose_shard_moves_misses_nothing,
    threads_lose_no_update_while_partitions_move,
];
