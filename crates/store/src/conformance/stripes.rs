//! Reading and writing ranges of stripes.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tidefs_model::{Ino, StripeKey};

use super::fixture::{
    apply, ino, length, noise, read, remove, shard, shards, stripe, stripes, value, write,
};
use crate::{Batch, Pin, Store, StripeRead, StripeWrite};

const STRIPE_BYTES: usize = 1 << 20;

cases![
    bytes_never_written_read_as_zeros,
    what_was_written_is_read_back,
    a_gap_before_a_write_reads_as_zeros,
    reads_beyond_the_stored_bytes_are_filled_with_zeros,
    writes_at_the_borders_of_a_stripe,
    a_later_write_wins_where_writes_overlap,
    writing_no_bytes_does_nothing,
    a_whole_stripe_comes_back,
    many_stripes_are_written_and_read_at_once,
    one_call_may_name_a_stripe_several_times,
    bytes_and_a_batch_go_together_and_each_fails_alone,
    stripes_do_not_share_bytes,
    shards_and_stripes_of_one_number_are_apart,
    a_pinned_file_and_its_stripes_are_one_where_the_store_pins,
];

fn bytes_never_written_read_as_zeros(store: &dyn Store) {
    let key = stripe(store);
    assert_eq!(read(store, key, 0, 100), vec![0; 100]);
    assert_eq!(read(store, key, STRIPE_BYTES as u32 - 1, 1), [0]);
    assert_eq!(read(store, key, 0, STRIPE_BYTES), vec![0; STRIPE_BYTES]);
    assert_eq!(read(store, key, 7, 0), []);
    assert_eq!(length(store, key), 0, "reading makes no stripe");
}

fn what_was_written_is_read_back(store: &dyn Store) {
    let key = stripe(store);
    let bytes: Vec<u8> = (0..=255).chain(*b"\r\n$-1\r\n\0").collect();
    write(store, key, 0, &bytes);
    assert_eq!(read(store, key, 0, bytes.len()), bytes);
    assert_eq!(read(store, key, 10, 20), bytes[10..30]);
    assert_eq!(read(store, key, 255, 1), [255]);
    assert_eq!(read(store, key, 255, 0), []);
}

fn a_gap_before_a_write_reads_as_zeros(store: &dyn Store) {
    let key = stripe(store);
    write(store, key, 5_000, b"later");
    write(store, key, 10, b"early");
    write(store, key, 900_000, b"last");
    assert_eq!(read(store, key, 0, 20), b"\0\0\0\0\0\0\0\0\0\0early\0\0\0\0\0");
    assert_eq!(read(store, key, 15, 4_985), vec![0; 4_985]);
    assert_eq!(read(store, key, 4_999, 7), b"\0later\0");
    assert_eq!(read(store, key, 899_999, 6), b"\0last\0");
}

fn reads_beyond_the_stored_bytes_are_filled_with_zeros(store: &dyn Store) {
    let key = stripe(store);
    write(store, key, 0, b"abc");
    assert_eq!(read(store, key, 1, 5), b"bc\0\0\0");
    assert_eq!(read(store, key, 3, 2), [0, 0]);
    assert_eq!(read(store, key, 500_000, 3), [0, 0, 0]);
}

fn writes_at_the_borders_of_a_stripe(store: &dyn Store) {
    let keys = stripes(store, 3);
    let last = STRIPE_BYTES as u32 - 1;
    write(store, keys[1], last, b"z");
    write(store, keys[1], 0, b"a");
    assert_eq!(
        (read(store, keys[1], 0, 1), read(store, keys[1], last, 1)),
        (vec![b'a'], vec![b'z'])
    );
    assert_eq!(read(store, keys[1], 1, STRIPE_BYTES - 2), vec![0; STRIPE_BYTES - 2]);
    for key in [keys[0], keys[2]] {
        assert_eq!(read(store, key, 0, STRIPE_BYTES), vec![0; STRIPE_BYTES], "a neighbour");
    }
}

fn a_later_write_wins_where_writes_overlap(store: &dyn Store) {
    let key = stripe(store);
    let mut expected = vec![0; 20_000];
    let writes = [(0, 10_000), (5_000, 9_000), (4_999, 2), (0, 1), (13_000, 7_000), (6_000, 1)];
    for (seed, (offset, length)) in (1..).zip(writes) {
        let bytes = noise(seed, length);
        write(store, key, offset as u32, &bytes);
        expected[offset..offset + length].copy_from_slice(&bytes);
        assert_eq!(read(store, key, 0, 20_000), expected);
    }
}

fn writing_no_bytes_does_nothing(store: &dyn Store) {
    let key = stripe(store);
    write(store, key, 0, b"");
    write(store, key, 1_000, b"");
    assert_eq!(length(store, key), 0);
    write(store, key, 0, b"abc");
    write(store, key, 1, b"");
    write(store, key, 100_000, b"");
    assert_eq!(read(store, key, 0, 5), b"abc\0\0");
    assert!(length(store, key) < 100_000);
}

fn a_whole_stripe_comes_back(store: &dyn Store) {
    let key = stripe(store);
    let bytes = noise(3, STRIPE_BYTES);
    write(store, key, 0, &bytes);
    assert!(read(store, key, 0, STRIPE_BYTES) == bytes);
    let zeros = vec![0; STRIPE_BYTES];
    write(store, key, 0, &zeros);
    assert!(read(store, key, 0, STRIPE_BYTES) == zeros);
    assert_eq!(length(store, key), STRIPE_BYTES as u32, "zeros are bytes as well");
    remove(store, &[key]);
}

fn many_stripes_are_written_and_read_at_once(store: &dyn Store) {
    let keys = stripes(store, 200);
    let contents: Vec<_> = (0..200).map(|seed| noise(seed, 50 * seed as usize + 1)).collect();
    let pairs = || keys.iter().zip(&contents);
    let writes: Vec<_> =
        pairs().map(|(&key, bytes)| StripeWrite { key, offset: 3, bytes }).collect();
    store.write(&writes).unwrap();
    let mut buffers: Vec<_> = contents.iter().map(|bytes| vec![9; bytes.len() + 4]).collect();
    let mut reads: Vec<_> = keys
        .iter()
        .zip(&mut buffers)
        .map(|(&key, buffer)| StripeRead { key, offset: 0, buffer })
        .collect();
    store.read(&mut reads).unwrap();
    for (index, (buffer, bytes)) in buffers.iter().zip(&contents).enumerate() {
        assert_eq!(*buffer, [&[0; 3], &bytes[..], &[0]].concat(), "stripe {index}");
    }
    let lengths = store.lengths(&keys).unwrap();
    assert!(
        lengths.iter().zip(&contents).all(|(&length, bytes)| length as usize >= bytes.len() + 3)
    );
    remove(store, &keys);
    assert_eq!(store.lengths(&keys).unwrap(), vec![0; 200]);
}

fn one_call_may_name_a_stripe_several_times(store: &dyn Store) {
    let key = stripe(store);
    let parts = [(0, "one"), (3, "two"), (100, "three")];
    let writes = parts.map(|(offset, text)| StripeWrite { key, offset, bytes: text.as_bytes() });
    store.write(&writes).unwrap();
    let (mut first, mut second) = ([9; 6], [9; 8]);
    store
        .read(&mut [
            StripeRead { key, offset: 98, buffer: &mut second },
            StripeRead { key, offset: 0, buffer: &mut first },
        ])
        .unwrap();
    assert_eq!((&first, &second), (b"onetwo", b"\0\0three\0"));
}

fn bytes_and_a_batch_go_together_and_each_fails_alone(store: &dyn Store) {
    let (key, shard) = (stripe(store), shard(store));
    let bytes = [7; 5_000];
    let write_at = |offset| [StripeWrite { key, offset, bytes: &bytes }];
    let count = Batch::new().add("n", 0, 1).read("n");
    let counted = |times: u64| vec![Some(times.to_be_bytes().to_vec())];
    let (written, outcome) = store.write_and_batch(&write_at(0), shard, &count);
    assert_eq!((written, outcome.expect("applied").values), (Ok(()), counted(1)));
    let refused = count.clone().absent("n");
    let (written, outcome) = store.write_and_batch(&write_at(5_000), shard, &refused);
    assert_eq!((written, outcome.expect("answered").refused_by), (Ok(()), Some(0)));
    let (written, outcome) = store.write_and_batch(&write_at(u32::MAX), shard, &count);
    assert!(written.is_err(), "beyond the stripe");
    assert_eq!(outcome.expect("applied").values, counted(2));
    let huge = Batch::new().patch("n", u32::MAX, b"n");
    let (written, outcome) = store.write_and_batch(&write_at(10_000), shard, &huge);
    assert_eq!(written, Ok(()));
    assert!(outcome.is_err(), "a record that is too large");
    assert_eq!(read(store, key, 0, 15_001), [vec![7; 15_000], vec![0]].concat());
}

fn stripes_do_not_share_bytes(store: &dyn Store) {
    let (one, other) = (ino(), ino());
    let last = Ino(u64::MAX);
    let keys = [(one, 0), (one, 1), (one, 256), (one, u32::MAX), (other, 0), (last, 0), (last, 7)];
    let keys = keys.map(|(ino, index)| StripeKey { ino, index });
    remove(store, &keys);
    for (number, &key) in (1..).zip(&keys) {
        write(store, key, 9, &[number]);
    }
    for (number, &key) in (1..).zip(&keys) {
        assert_eq!(read(store, key, 8, 3), [0, number, 0], "{key:?}");
    }
    remove(store, &keys);
}

fn shards_and_stripes_of_one_number_are_apart(store: &dyn Store) {
    let key = shards(store, 1)[0];
    let stripe = StripeKey { ino: key.directory, index: key.index.into() };
    remove(store, &[stripe]);
    apply(store, key, Batch::new().put("a", "metadata"));
    write(store, stripe, 0, b"data");
    assert_eq!(value(store, key, b"a"), Some(b"metadata".to_vec()));
    store.delete_shards(&[key]).unwrap();
    assert_eq!(read(store, stripe, 0, 4), b"data");
    remove(store, &[stripe]);
    assert!(apply(store, shard(store), Batch::new()).shard_was_empty);
}

/// A store that offers no pin has nothing to show here.
fn a_pinned_file_and_its_stripes_are_one_where_the_store_pins(store: &dyn Store) {
    let keys = stripes(store, 2);
    write(store, keys[0], 100, b"stripe");
    let Some(Pin { file, is_first }) = store.pin(keys[0].ino) else { return };
    assert!(is_first);
    let mut bytes = [0; 6];
    file.read_exact_at(&mut bytes, 100).unwrap();
    assert_eq!(&bytes, b"stripe");
    file.write_all_at(b"file", STRIPE_BYTES as u64 + 5).unwrap();
    assert_eq!(read(store, keys[1], 5, 5), b"file\0");
    store.trim(&[(keys[1], 7)]).unwrap();
    assert_eq!(file.metadata().unwrap().len(), STRIPE_BYTES as u64 + 7);
    let again = store.pin(keys[0].ino).expect("it is pinned");
    assert!(!again.is_first && Arc::ptr_eq(&file, &again.file));
    store.unpin(keys[0].ino);
    drop((file, again));
    store.unpin(keys[0].ino);
    assert_eq!(read(store, keys[1], 5, 5), b"fi\0\0\0");
    remove(store, &keys);
}
