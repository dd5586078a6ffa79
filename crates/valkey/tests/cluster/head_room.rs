//! What data may not fill: names, directories and sizes find room on a node that is full of data, and
//! not for ever.

use tidefs_model::{ByteSize, Ino, ShardKey, StripeKey};
use tidefs_store::{Batch, Outcome, Store, StoreError, StripeWrite};
use tidefs_valkey::{ClusterSpec, HEAD_ROOM, Options, Valkey};

use crate::fixture::{Kind, Running, on_each_server, spec, write};

const SHARD: ShardKey = ShardKey { directory: Ino(1), index: 0 };
/// A field's value.
const VALUE_BYTES: usize = 16 << 10;

fn stripe(index: u32) -> StripeKey {
    StripeKey { ino: Ino(99), index }
}

/// One node that is full of data, and how many stripes that took.
fn full(kind: Kind, head_room: ByteSize) -> Option<(Running, Valkey, u32)> {
    let (spec, directory) = spec(kind, 1)?;
    let spec = ClusterSpec { node_memory: ByteSize::mib(32), head_room, ..spec };
    let running = Running::start(&spec, directory);
    let store = running.cluster().connect(Options::default()).unwrap();
    let bytes = vec![3; 1 << 20];
    let stripes = (0..64).find(|&index| is_full(&write(&store, stripe(index), &bytes)));
    // The last bit of room may still be there for less.
    let little = vec![4; VALUE_BYTES];
    (100..1_000).find(|&index| is_full(&write(&store, stripe(index), &little))).unwrap();
    Some((running, store, stripes.expect("32 MiB are soon full")))
}

fn is_full<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Full { .. }))
}

fn put(number: u32) -> Batch {
    Batch::new().absent(number.to_be_bytes()).put(number.to_be_bytes(), [1; VALUE_BYTES])
}

fn applied(outcome: Result<Outcome, StoreError>) -> bool {
    outcome.unwrap().applied()
}

fn metadata_finds_room_on_a_node_that_is_full_of_data(kind: Kind) {
    let Some((_running, store, _)) = full(kind, HEAD_ROOM) else { return };
    assert!(applied(store.batch(SHARD, &put(0))));
    let both = store.batches(&[(SHARD, put(1)), (SHARD, Batch::new().read("n")), (SHARD, put(2))]);
    assert!(both.unwrap().iter().all(Outcome::applied));
    let bytes = vec![5; VALUE_BYTES];
    let more = [StripeWrite { key: stripe(2_000), offset: 0, bytes: &bytes }];
    let (written, outcome) = store.write_and_batch(&more, SHARD, &put(3));
    assert!(is_full(&written) && applied(outcome), "the bytes wait and the batch does not");
    let again = store.batch(SHARD, &put(3)).unwrap();
    assert_eq!(again.refused_by, Some(0), "it was made once");
    assert!(is_full(&store.write(&more)), "data finds none");
}

fn head_room_has_an_end_and_what_frees_memory_needs_none(kind: Kind) {
    let Some((_running, store, stripes)) = full(kind, HEAD_ROOM) else { return };
    let refused = (0..4_096).find(|&number| is_full(&store.batch(SHARD, &put(number))));
    let refused = refused.expect("64 MiB of metadata went into a full node") as usize;
    // Fields are kept with little beside them, and a connection's buffers count as well.
    let taken = (refused * VALUE_BYTES) as u64;
    assert!((HEAD_ROOM.0 / 2..HEAD_ROOM.0 + (2 << 20)).contains(&taken), "{taken} bytes taken");
    let delete = Batch::new().present(0_u32.to_be_bytes()).delete(0_u32.to_be_bytes());
    assert!(applied(store.batch(SHARD, &delete.reclaims())));
    store.trim(&[(stripe(0), 100)]).unwrap();
    let all: Vec<_> = (1..stripes).map(|index| (stripe(index), 0)).collect();
    store.trim(&all).unwrap();
    assert!(applied(store.batch(SHARD, &put(refused as u32))));
}

fn without_head_room_metadata_is_refused_as_data_is(kind: Kind) {
    let Some((_running, store, _)) = full(kind, ByteSize(0)) else { return };
    assert!((0..32).any(|number| is_full(&store.batch(SHARD, &put(number)))));
}

on_each_server![
    metadata_finds_room_on_a_node_that_is_full_of_data,
    head_room_has_an_end_and_what_frees_memory_needs_none,
    without_head_room_metadata_is_refused_as_data_is,
];
