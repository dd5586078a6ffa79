//! What a store does when it is full.

use std::thread::sleep;
use std::time::Duration;

use tidefs_model::{ShardKey, StripeKey};

use super::fixture::{apply, ino, noise, read, remove, shard, value, write};
use crate::{Batch, Store, StoreError, StripeWrite};

const STRIPE_BYTES: usize = 1 << 20;
/// More than the largest store that these cases take could hold.
const STRIPES_MAX: u32 = 512;

cases![
    a_write_that_meets_a_full_store_says_so_and_the_rest_stays_readable,
    trimming_makes_room_again,
    a_full_store_refuses_metadata_and_changes_nothing,
    a_full_store_still_reclaims_reads_and_removes,
];

fn is_full<T: std::fmt::Debug>(result: Result<T, StoreError>) -> bool {
    match result {
        Ok(_) => false,
        Err(StoreError::Full { endpoint }) => {
            assert!(!endpoint.is_empty(), "a full node has a name");
            true
        }
        Err(other) => panic!("{other} is not what a full store says"),
    }
}

/// Writes stripes until the store is full; those that were written whole.
fn fill(store: &dyn Store) -> Vec<StripeKey> {
    let ino = ino();
    let bytes = noise(6, STRIPE_BYTES);
    let keys: Vec<_> = (0..STRIPES_MAX)
        .map(|index| StripeKey { ino, index })
        .take_while(|&key| !is_full(store.write(&[StripeWrite { key, offset: 0, bytes: &bytes }])))
        .collect();
    assert!(keys.len() < STRIPES_MAX as usize, "the store is too large for these cases");
    assert!(keys.len() > 2, "the store is too small for these cases");
    keys
}

/// Puts fields, counted by their names, until the store is full; the number that was refused.
fn fill_metadata(store: &dyn Store, key: ShardKey) -> u32 {
    let put = |number: u32| {
        let field = number.to_be_bytes();
        Batch::new().put("a", "lost").put(field, [1; 16_384]).add("n", 0, 1)
    };
    let refused = (0..4_096).find(|&number| is_full(store.batch(key, &put(number))));
    refused.expect("64 MiB of metadata went into a full store")
}

/// Removes what [`fill`] wrote, and the stripe that it could not write.
fn empty(store: &dyn Store, keys: &[StripeKey]) {
    let last = keys[keys.len() - 1];
    remove(store, keys);
    remove(store, &[StripeKey { index: last.index + 1, ..last }]);
}

fn a_write_that_meets_a_full_store_says_so_and_the_rest_stays_readable(store: &dyn Store) {
    let keys = fill(store);
    let bytes = noise(6, STRIPE_BYTES);
    for &key in &keys {
        assert!(read(store, key, 0, STRIPE_BYTES) == bytes, "{key:?}");
    }
    let more = StripeWrite { key: StripeKey { ino: ino(), index: 0 }, offset: 0, bytes: &bytes };
    assert!(is_full(store.write(&[more])));
    empty(store, &keys);
    remove(store, &[more.key]);
}

fn trimming_makes_room_again(store: &dyn Store) {
    let keys = fill(store);
    let (some, rest) = keys.split_at(keys.len() / 2);
    remove(store, some);
    let key = some[0];
    // A server may return memory a little later.
    let bytes = noise(7, STRIPE_BYTES);
    let again = || store.write(&[StripeWrite { key, offset: 0, bytes: &bytes }]);
    let written = (0..100).any(|_| {
        let written = !is_full(again());
        if !written {
            sleep(Duration::from_millis(20));
        }
        written
    });
    assert!(written, "{} stripes were removed and one does not fit", some.len());
    assert!(read(store, key, 0, STRIPE_BYTES) == bytes);
    remove(store, some);
    empty(store, rest);
}

fn a_full_store_refuses_metadata_and_changes_nothing(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "kept").add("n", 0, 1));
    let keys = fill(store);
    let refused = fill_metadata(store, key);
    let outcome = apply(store, key, Batch::new().read(refused.to_be_bytes()).read("n").read("a"));
    assert_eq!(outcome.values[0], None);
    let counted = u64::from(refused) + 1;
    assert_eq!(outcome.values[1], Some(counted.to_be_bytes().to_vec()));
    let expected = if refused == 0 { "kept" } else { "lost" };
    assert_eq!(outcome.values[2], Some(expected.into()));
    store.delete_shards(&[key]).unwrap();
    empty(store, &keys);
}

fn a_full_store_still_reclaims_reads_and_removes(store: &dyn Store) {
    let (key, other) = (shard(store), shard(store));
    apply(store, key, Batch::new().put("a", [1; 1_000]).put("b", "1"));
    apply(store, other, Batch::new().put("a", "1"));
    let keys = fill(store);
    fill_metadata(store, other);
    let delete = Batch::new().present("a").delete("a").put("orphan", "1").add("n", 0, -1);
    assert!(apply(store, key, delete.reclaims().read("b")).values[0].is_some());
    assert_eq!(value(store, key, b"orphan"), Some(b"1".to_vec()));
    assert_eq!(value(store, key, b"a"), None);
    store.delete_shards(&[key, other]).unwrap();
    assert!(value(store, other, b"a").is_none());
    store.trim(&[(keys[0], 100)]).unwrap();
    assert_eq!(read(store, keys[0], 0, 100), noise(6, 100));
    empty(store, &keys);
    write(store, keys[0], 0, b"room");
    remove(store, &keys[..1]);
}
