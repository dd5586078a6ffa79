//! The conformance suite of all stores, through the seals.

use std::sync::Arc;

use tidefs_model::{ByteSize, StripeSize};
use tidefs_sealed::{Cipher, Sealed};
use tidefs_store::conformance::{check_all, check_full, check_keys, random_stripes};
use tidefs_store::{Embedded, Store};

use crate::support::{client, client_with, heap};

const ROOMY: ByteSize = ByteSize::mib(128);
const SMALL: ByteSize = ByteSize::mib(8);

fn sealed(capacity: ByteSize, alone: bool) -> Sealed<Embedded> {
    client(&Arc::new(heap(capacity)), 1, alone)
}

#[test]
fn a_client_that_is_alone_keeps_every_promise() {
    check_all(&|| Arc::new(sealed(ROOMY, true)));
    let one: Arc<dyn Store> = Arc::new(sealed(ROOMY, true));
    check_all(&|| Arc::clone(&one));
}

#[test]
fn one_of_several_clients_keeps_every_promise() {
    check_all(&|| Arc::new(sealed(ROOMY, false)));
    let one: Arc<dyn Store> = Arc::new(sealed(ROOMY, false));
    check_all(&|| Arc::clone(&one));
}

#[test]
fn a_full_store_keeps_every_promise() {
    for alone in [true, false] {
        check_full(&|| Arc::new(sealed(SMALL, alone)));
    }
}

#[test]
fn keys_of_stripes_are_listed_and_shards_of_seals_are_not() {
    check_keys(&|| Arc::new(sealed(ROOMY, true)));
}

#[test]
fn either_cipher_keeps_every_promise() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        check_all(&|| Arc::new(client_with(&Arc::new(heap(ROOMY)), 1, true, cipher)));
    }
}

#[test]
fn a_store_that_is_not_sealed_is_as_it_was() {
    check_all(&|| Arc::new(Sealed::plain(Arc::new(heap(ROOMY)))));
    check_full(&|| Arc::new(Sealed::plain(Arc::new(heap(SMALL)))));
    let tmpfs = || Embedded::in_tmpfs(ROOMY, StripeSize::DEFAULT);
    let without = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
    if !without.split(',').any(|name| name == "tmpfs") {
        check_all(&|| Arc::new(Sealed::plain(Arc::new(tmpfs().expect("root makes a tmpfs")))));
        check_all(&|| Arc::new(client(&Arc::new(tmpfs().expect("root makes a tmpfs")), 1, true)));
    }
}

#[test]
fn many_random_calls_do_what_the_oracle_says() {
    for seed in 1..=3 {
        random_stripes(&sealed(ROOMY, true), seed, 60);
        random_stripes(&sealed(ROOMY, false), seed, 60);
    }
}

#[test]
fn everything_taken_is_given_back() {
    for alone in [true, false] {
        let store = Arc::new(heap(ROOMY));
        let sealed = client(&store, 1, alone);
        let before = store.overview().unwrap().nodes.remove(0);
        random_stripes(&sealed, 1, 10);
        assert_eq!(store.overview().unwrap().nodes, [before]);
    }
}
