//! How long stripes are, and how they are cut.

use tidefs_model::StripeKey;

use super::fixture::{PAGE_BYTES, length, noise, read, remove, stripe, stripes, write};
use crate::Store;

cases![
    a_length_reaches_to_the_last_byte_written,
    a_stripe_that_is_not_there_has_no_length,
    trim_cuts_and_never_makes_longer,
    what_was_cut_off_reads_as_zeros_also_when_the_stripe_grows_again,
    a_stripe_cut_to_nothing_is_gone,
    trimming_leaves_other_stripes_alone,
    many_stripes_are_trimmed_at_once,
    a_stripe_that_is_gone_can_be_written_again,
];

fn assert_length(store: &dyn Store, key: StripeKey, written: u32) {
    let found = length(store, key);
    let most = written.next_multiple_of(PAGE_BYTES as u32);
    assert!((written..=most).contains(&found), "{found} for {written} bytes of {key:?}");
}

fn a_length_reaches_to_the_last_byte_written(store: &dyn Store) {
    let keys = stripes(store, 3);
    for (at, bytes, written) in
        [(0, 1, 1), (0, 10, 10), (5, 2, 10), (9_000, 5, 9_005), (100, 5_000, 9_005)]
    {
        write(store, keys[1], at, &vec![0; bytes]);
        assert_length(store, keys[1], written);
        assert_eq!((length(store, keys[0]), length(store, keys[2])), (0, 0));
    }
    write(store, keys[2], 3, b"next");
    assert_length(store, keys[1], 9_005);
    assert_length(store, keys[2], 7);
    assert_eq!(length(store, keys[0]), 0, "a hole before others is no stripe");
    write(store, keys[1], (1 << 20) - 1, b"z");
    assert_eq!(length(store, keys[1]), 1 << 20);
}

fn a_stripe_that_is_not_there_has_no_length(store: &dyn Store) {
    let keys = stripes(store, 100);
    assert_eq!(store.lengths(&keys).unwrap(), vec![0; 100]);
}

fn trim_cuts_and_never_makes_longer(store: &dyn Store) {
    let key = stripe(store);
    write(store, key, 0, &noise(4, 20_000));
    for (to, left) in [(1 << 20, 20_000), (20_000, 20_000), (12_345, 12_345), (50_000, 12_345)] {
        store.trim(&[(key, to)]).unwrap();
        assert_length(store, key, left);
    }
    assert_eq!(read(store, key, 0, 12_345), noise(4, 20_000)[..12_345]);
    assert_eq!(read(store, key, 12_344, 10_000)[1..], vec![0; 9_999]);
    store.trim(&[(key, 1)]).unwrap();
    assert_eq!(read(store, key, 0, 3), [noise(4, 1)[0], 0, 0]);
    assert_length(store, key, 1);
}

fn what_was_cut_off_reads_as_zeros_also_when_the_stripe_grows_again(store: &dyn Store) {
    let keys = stripes(store, 2);
    for key in keys.iter().copied() {
        write(store, key, 0, &[7; 30_000]);
    }
    for key in keys {
        store.trim(&[(key, 100)]).unwrap();
        write(store, key, 29_000, b"end");
        assert_eq!(read(store, key, 0, 100), [7; 100]);
        assert_eq!(read(store, key, 100, 28_900), vec![0; 28_900], "{key:?}");
        assert_eq!(read(store, key, 29_000, 5), b"end\0\0");
    }
}

fn a_stripe_cut_to_nothing_is_gone(store: &dyn Store) {
    let key = stripe(store);
    write(store, key, 0, &noise(5, 300_000));
    store.trim(&[(key, 0)]).unwrap();
    assert_eq!(length(store, key), 0);
    assert_eq!(read(store, key, 0, 300_000), vec![0; 300_000]);
    store.trim(&[(key, 0), (key, 5)]).unwrap();
    assert_eq!(length(store, key), 0, "trimming makes no stripe");
}

fn trimming_leaves_other_stripes_alone(store: &dyn Store) {
    let keys = stripes(store, 4);
    let contents: Vec<_> = (10..14).map(|seed| noise(seed, 1 << 20)).collect();
    for (&key, bytes) in keys.iter().zip(&contents) {
        write(store, key, 0, bytes);
    }
    store.trim(&[(keys[1], 5), (keys[3], 0)]).unwrap();
    for index in [0, 2] {
        assert!(read(store, keys[index], 0, 1 << 20) == contents[index], "stripe {index}");
        assert_eq!(length(store, keys[index]), 1 << 20);
    }
    assert_eq!(read(store, keys[1], 0, 5), contents[1][..5]);
    assert_eq!(read(store, keys[1], 5, (1 << 20) - 5), vec![0; (1 << 20) - 5]);
    assert_length(store, keys[1], 5);
    assert_eq!(length(store, keys[3]), 0);
    remove(store, &keys);
}

fn many_stripes_are_trimmed_at_once(store: &dyn Store) {
    let (keys, other) = (stripes(store, 150), stripe(store));
    for &key in keys.iter().chain([&other]) {
        write(store, key, 0, &[1; 6_000]);
    }
    let trims: Vec<_> = keys.iter().map(|&key| (key, key.index % 3 * 2_000)).collect();
    store.trim(&trims).unwrap();
    for (key, left) in trims {
        assert_length(store, key, left);
        assert_eq!(read(store, key, left, 2_000), vec![0; 2_000], "{key:?}");
    }
    assert_length(store, other, 6_000);
}

fn a_stripe_that_is_gone_can_be_written_again(store: &dyn Store) {
    let keys = stripes(store, 2);
    for round in 0..3 {
        for &key in &keys {
            write(store, key, 1_000, &[round; 10]);
            assert_eq!(read(store, key, 999, 12), [&[0][..], &[round; 10], &[0]].concat());
        }
        remove(store, &keys);
        assert_eq!(store.lengths(&keys).unwrap(), [0, 0]);
    }
}
