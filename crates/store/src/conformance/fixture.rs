//! Fresh keys, and the calls of a store as a case wants to write them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tidefs_model::{Ino, ShardKey, StripeKey};

use crate::{Batch, Bytes, Cursor, Outcome, Store, StripeRead, StripeWrite};

/// Where the suite's inode numbers start: far beyond those of a file system in the same store.
const FIRST_INO: u64 = 1 << 48;

/// What a buffer holds before it is read into, so that bytes left alone are noticed.
const UNTOUCHED: u8 = 0xee;

/// What the suite takes for a page of memory, to which a length may be rounded up.
pub const PAGE_BYTES: usize = 4_096;

pub fn ino() -> Ino {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST_INO);
    Ino(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Shards of one directory, emptied of what an earlier run may have left.
pub fn shards(store: &dyn Store, count: u16) -> Vec<ShardKey> {
    let directory = ino();
    let keys: Vec<_> = (0..count).map(|index| ShardKey { directory, index }).collect();
    store.delete_shards(&keys).unwrap();
    keys
}

pub fn shard(store: &dyn Store) -> ShardKey {
    shards(store, 1)[0]
}

/// Stripes of one inode, gone if an earlier run left them.
pub fn stripes(store: &dyn Store, count: u32) -> Vec<StripeKey> {
    let ino = ino();
    let keys: Vec<_> = (0..count).map(|index| StripeKey { ino, index }).collect();
    remove(store, &keys);
    keys
}

pub fn stripe(store: &dyn Store) -> StripeKey {
    stripes(store, 1)[0]
}

pub fn remove(store: &dyn Store, keys: &[StripeKey]) {
    let trims: Vec<_> = keys.iter().map(|&key| (key, 0)).collect();
    store.trim(&trims).unwrap();
}

/// Applies a batch that must not be refused.
pub fn apply(store: &dyn Store, shard: ShardKey, batch: Batch) -> Outcome {
    let outcome = store.batch(shard, &batch).unwrap();
    assert_eq!(outcome.refused_by, None, "{batch:?} was refused");
    outcome
}

/// Index of the check that refuses a batch.
pub fn refusal(store: &dyn Store, shard: ShardKey, batch: Batch) -> Option<usize> {
    store.batch(shard, &batch).unwrap().refused_by
}

pub fn value(store: &dyn Store, shard: ShardKey, field: &[u8]) -> Option<Bytes> {
    apply(store, shard, Batch::new().read(field)).take(0)
}

/// Lists a shard to its end.
pub fn fields(store: &dyn Store, shard: ShardKey) -> BTreeMap<Bytes, Bytes> {
    let mut listed = BTreeMap::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let mut pages = store.list(&[(shard, from)]).unwrap();
        let page = pages.remove(0);
        assert!(pages.is_empty(), "one page a shard");
        listed.extend(page.fields);
        cursor = page.next;
    }
    listed
}

pub fn read(store: &dyn Store, key: StripeKey, offset: u32, length: usize) -> Vec<u8> {
    let mut buffer = vec![UNTOUCHED; length];
    store.read(&mut [StripeRead { key, offset, buffer: &mut buffer }]).unwrap();
    buffer
}

pub fn write(store: &dyn Store, key: StripeKey, offset: u32, bytes: &[u8]) {
    store.write(&[StripeWrite { key, offset, bytes }]).unwrap();
}

pub fn length(store: &dyn Store, key: StripeKey) -> u32 {
    let lengths = store.lengths(&[key]).unwrap();
    assert_eq!(lengths.len(), 1, "one length a stripe");
    lengths[0]
}

/// Bytes that look random, the same for the same seed; every value occurs among a few thousand.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Names and values that text-minded stores stumble over.
pub const AWKWARD: [&[u8]; 9] = [
    b"",
    b"\0",
    b"\0\0",
    b"\r\n",
    b"$3\r\n",
    b"a b\tc\"'\\",
    b"\xff\xfe\x80",
    "träge Flut".as_bytes(),
    b"0",
];
