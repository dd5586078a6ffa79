//! How often the store is asked, which is what sealing costs beside the processor's time.

use std::sync::Arc;

use tidefs_model::ByteSize;
use tidefs_sealed::Sealed;
use tidefs_store::{Embedded, Faulty, Operation, Store};

use crate::support::{BLOCK, client, heap, noise, read, stripe, write};

type Counting = Faulty<Embedded>;

fn calls(store: &Counting) -> u64 {
    let operations = [Operation::Batch, Operation::Read, Operation::Write, Operation::Trim];
    operations.into_iter().map(|operation| store.count(operation)).sum()
}

/// Calls of the store that some work takes.
fn cost(store: &Counting, work: impl FnOnce()) -> u64 {
    let before = calls(store);
    work();
    calls(store) - before
}

fn costs(alone: bool) -> Vec<(&'static str, u64)> {
    let store = Arc::new(Counting::new(heap(ByteSize::mib(16)), Vec::new()));
    let sealed: Sealed<Counting> = client(&store, 1, alone);
    sealed.note_new(stripe(0).ino);
    let put = |at: usize, length| write(&sealed, stripe(0), at, &noise(1, length)).unwrap();
    let get =
        |client: &Sealed<Counting>, index| drop(read(client, stripe(index), 0, BLOCK).unwrap());
    let other = client(&store, 2, alone);
    vec![
        ("a new stripe", cost(&store, || put(0, BLOCK))),
        ("a new block", cost(&store, || put(BLOCK, BLOCK))),
        ("over a whole block", cost(&store, || put(0, BLOCK))),
        ("over a part", cost(&store, || put(10, 100))),
        ("a read", cost(&store, || get(&sealed, 0))),
        ("a first read", cost(&store, || get(&other, 0))),
        ("a second read", cost(&store, || get(&other, 0))),
        ("a hole", cost(&store, || get(&sealed, 7))),
        ("a cut", cost(&store, || sealed.trim(&[(stripe(0), 5)]).unwrap())),
        ("a removal", cost(&store, || sealed.trim(&[(stripe(0), 0)]).unwrap())),
    ]
}

/// Without seals each of them is one.
#[test]
fn sealing_takes_as_few_rounds_as_it_can() {
    let alone = [2, 2, 3, 4, 1, 2, 1, 0, 2, 2];
    let company = [5, 4, 4, 5, 2, 2, 2, 2, 4, 3];
    for (is_alone, wanted) in [(true, alone), (false, company)] {
        for ((what, found), wanted) in costs(is_alone).into_iter().zip(wanted) {
            assert_eq!(found, wanted, "{what}, alone: {is_alone}");
        }
    }
}
