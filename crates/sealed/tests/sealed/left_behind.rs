//! Calls that fail half-way: whatever became of them, what is read is what was there before or what
//! was being written, block by block, and the stripe can be changed by others.

use std::sync::Arc;

use tidefs_model::ByteSize;
use tidefs_store::{Embedded, Fault, Faulty, Operation, Store, StoreError};

use crate::support::{BLOCK, client, heap, noise, read, stripe, write};

const OPERATIONS: [Operation; 4] =
    [Operation::Batch, Operation::Read, Operation::Write, Operation::Trim];

fn gone() -> StoreError {
    StoreError::Indeterminate { endpoint: "a node".into() }
}

/// A change of a stripe of two blocks, of which the second is partial.
type Work = fn(&dyn Store) -> Result<(), StoreError>;

fn laid(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = before();
    all.resize(all.len().max(at + bytes.len()), 0);
    all[at..at + bytes.len()].copy_from_slice(bytes);
    all
}

fn before() -> Vec<u8> {
    noise(1, BLOCK + 500)
}

fn put(store: &dyn Store, offset: usize, bytes: &[u8]) -> Result<(), StoreError> {
    store.write(&[tidefs_store::StripeWrite { key: stripe(0), offset: offset as u32, bytes }])
}

fn works() -> Vec<(&'static str, Work, Vec<u8>)> {
    vec![
        ("all", |store| put(store, 0, &noise(2, BLOCK + 500)), noise(2, BLOCK + 500)),
        ("a part", |store| put(store, 100, &noise(3, 50)), laid(100, &noise(3, 50))),
        (
            "over a border",
            |store| put(store, BLOCK - 9, &noise(4, 20)),
            laid(BLOCK - 9, &noise(4, 20)),
        ),
        (
            "more",
            |store| put(store, BLOCK + 500, &noise(5, 100)),
            laid(BLOCK + 500, &noise(5, 100)),
        ),
        ("a new block", |store| put(store, 2 * BLOCK, &noise(6, 9)), laid(2 * BLOCK, &noise(6, 9))),
        ("cut", |store| store.trim(&[(stripe(0), 300)]), before()[..300].to_vec()),
    ]
}

/// Each block is as it was or as it was to be.
fn is_one_or_other(found: &[u8], before: &[u8], after: &[u8], what: &str) {
    let (mut old, mut new) = (before.to_vec(), after.to_vec());
    old.resize(found.len(), 0);
    new.resize(found.len(), 0);
    let blocks = found.chunks(BLOCK).zip(old.chunks(BLOCK)).zip(new.chunks(BLOCK));
    for (number, ((found, old), new)) in blocks.enumerate() {
        assert!(found == old || found == new, "{what}: block {number}");
    }
}

/// Fails one call of the store, once or for good. `false`: the work was over before.
fn attempt(
    work: &(&str, Work, Vec<u8>),
    operation: Operation,
    turn: u64,
    after: bool,
    alone: bool,
) -> bool {
    let store = Arc::new(Faulty::<Embedded>::new(heap(ByteSize::mib(16)), Vec::new()));
    let first = client(&store, 1, alone);
    write(&first, stripe(0), 0, &before()).unwrap();
    let nth = store.count(operation) + turn;
    let fault = Fault::nth(operation, nth, gone());
    store.add(if after { fault.after() } else { fault });
    let done = (work.1)(&first);
    let came = store.count(operation) >= nth;
    store.heal();
    let what = format!("{}, {operation:?} {turn}, after: {after}, alone: {alone}", work.0);
    let length = 3 * BLOCK;
    for reader in [&first, &client(&store, 2, alone)] {
        let found = read(reader, stripe(0), 0, length).unwrap_or_else(|it| panic!("{what}: {it}"));
        is_one_or_other(&found, &before(), &work.2, &what);
        if done.is_ok() {
            let mut wanted = work.2.clone();
            wanted.resize(length, 0);
            assert!(found == wanted, "{what}: reported as done");
        }
    }
    // Life goes on, for the same client and for another one.
    for (number, client) in [&first, &client(&store, 3, alone)].into_iter().enumerate() {
        let bytes = noise(20 + number as u64, 700);
        write(client, stripe(0), BLOCK - 300, &bytes).unwrap_or_else(|it| panic!("{what}: {it}"));
        assert!(read(client, stripe(0), BLOCK - 300, 700).unwrap() == bytes, "{what}");
    }
    came
}

#[test]
fn a_call_that_fails_anywhere_leaves_one_of_both() {
    for work in works() {
        for operation in OPERATIONS {
            for (after, alone) in [(false, false), (false, true), (true, false), (true, true)] {
                let mut turn = 1;
                while attempt(&work, operation, turn, after, alone) {
                    turn += 1;
                    assert!(turn < 50, "no end");
                }
            }
        }
    }
}

/// The client ends between announcing and settling; the next one is alone.
#[test]
fn what_a_client_left_when_it_ended_is_found_out_by_the_next() {
    for (arrived, truth) in [(false, noise(1, 5_000)), (true, noise(2, 5_000))] {
        let store = Arc::new(Faulty::<Embedded>::new(heap(ByteSize::mib(16)), Vec::new()));
        let dying = client(&store, 1, true);
        write(&dying, stripe(0), 0, &noise(1, 5_000)).unwrap();
        let write_fault = Fault::nth(Operation::Write, store.count(Operation::Write) + 1, gone());
        store.add(if arrived { write_fault.after() } else { write_fault });
        // From the announcement on no batch reaches the store.
        let later = store.count(Operation::Batch) + 2;
        (later..later + 20).for_each(|nth| store.add(Fault::nth(Operation::Batch, nth, gone())));
        assert!(write(&dying, stripe(0), 0, &noise(2, 5_000)).is_err());
        drop(dying);
        store.heal();
        let next = client(&store, 2, true);
        assert!(read(&next, stripe(0), 0, 5_000).unwrap() == truth, "arrived: {arrived}");
        write(&next, stripe(0), 10, b"next").unwrap();
        let mut truth = truth;
        truth[10..14].copy_from_slice(b"next");
        assert!(read(&next, stripe(0), 0, 5_000).unwrap() == truth, "arrived: {arrived}");
    }
}
