//! The stores that live in this process keep every promise of a store.

mod canary;

use std::sync::Arc;

use tidefs_model::{ByteSize, StripeSize};
use tidefs_store::conformance::{
    check_all, check_full, check_keys, random_batches, random_stripes,
};
use tidefs_store::{Embedded, Faulty, Store};

const ROOMY: ByteSize = ByteSize::mib(128);
const SMALL: ByteSize = ByteSize::mib(8);

fn in_heap(capacity: ByteSize) -> Embedded {
    Embedded::in_heap(capacity, StripeSize::DEFAULT)
}

/// # Panics
/// Where this process may not mount.
fn in_tmpfs(capacity: ByteSize) -> Embedded {
    Embedded::in_tmpfs(capacity, StripeSize::DEFAULT)
        .expect("making a tmpfs needs root; TIDEFS_TEST_WITHOUT=tmpfs leaves these tests out")
}

/// The caller of the tests names what this machine cannot do.
fn without_tmpfs() -> bool {
    let without = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
    let named = without.split(',').any(|name| name == "tmpfs");
    if named {
        eprintln!("left out, as TIDEFS_TEST_WITHOUT says: tmpfs");
    }
    named
}

#[test]
fn the_heap_keeps_every_promise() {
    check_all(&|| Arc::new(in_heap(ROOMY)));
}

#[test]
fn one_heap_keeps_every_promise_in_a_row() {
    let store: Arc<dyn Store> = Arc::new(in_heap(ROOMY));
    check_all(&|| Arc::clone(&store));
}

#[test]
fn a_full_heap_keeps_every_promise() {
    check_full(&|| Arc::new(in_heap(SMALL)));
}

#[test]
fn the_tmpfs_keeps_every_promise() {
    if !without_tmpfs() {
        check_all(&|| Arc::new(in_tmpfs(ROOMY)));
    }
}

#[test]
fn one_tmpfs_keeps_every_promise_in_a_row() {
    if !without_tmpfs() {
        let store: Arc<dyn Store> = Arc::new(in_tmpfs(ROOMY));
        check_all(&|| Arc::clone(&store));
    }
}

#[test]
fn keys_are_listed_by_every_home() {
    check_keys(&|| Arc::new(in_heap(ROOMY)));
    check_keys(&|| Arc::new(Faulty::new(in_heap(ROOMY), vec![])));
    if !without_tmpfs() {
        check_keys(&|| Arc::new(in_tmpfs(ROOMY)));
    }
}

#[test]
fn a_full_tmpfs_keeps_every_promise() {
    if !without_tmpfs() {
        check_full(&|| Arc::new(in_tmpfs(SMALL)));
    }
}

#[test]
fn a_faulty_store_without_faults_keeps_every_promise() {
    check_all(&|| Arc::new(Faulty::new(in_heap(ROOMY), vec![])));
    check_full(&|| Arc::new(Faulty::new(in_heap(SMALL), vec![])));
}

#[test]
fn many_random_calls_do_what_the_oracle_says() {
    for seed in 1..=4 {
        random_batches(&in_heap(ROOMY), seed, 2_000);
        random_stripes(&in_heap(ROOMY), seed, 100);
        if !without_tmpfs() {
            random_stripes(&in_tmpfs(ROOMY), seed, 100);
        }
    }
}

#[test]
fn everything_taken_is_given_back() {
    let homes: [&dyn Fn(ByteSize) -> Embedded; 2] = [&in_heap, &in_tmpfs];
    for make in &homes[..if without_tmpfs() { 1 } else { 2 }] {
        let store = Arc::new(make(ROOMY));
        check_all(&|| Arc::clone(&store) as Arc<dyn Store>);
        random_stripes(&*store, 0, 10);
        let before = store.overview().unwrap().nodes.remove(0);
        random_batches(&*store, 1, 50);
        random_stripes(&*store, 1, 10);
        assert_eq!(store.overview().unwrap().nodes, [before]);
    }
}
