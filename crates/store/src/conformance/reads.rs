//! What a batch answers.

use super::fixture::{apply, fields, shard};
use crate::{Batch, Store};

cases![
    reads_are_answered_in_order_after_the_updates,
    a_linked_read_takes_one_step_along_a_reference,
    a_linked_read_is_missing_where_any_of_it_is,
    a_linked_read_sees_the_updates,
    a_batch_says_whether_the_shard_was_empty,
    reading_makes_nothing,
];

fn reads_are_answered_in_order_after_the_updates(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "old").put("gone", "1").put("empty", ""));
    let batch = Batch::new().put("a", "new").delete("gone").patch("b", 1, "b");
    let reads = ["empty", "b", "gone", "a", "none", "a"];
    let outcome = apply(store, key, reads.iter().fold(batch, |batch, &field| batch.read(field)));
    let expected =
        [Some(&b""[..]), Some(b"\0b"), None, Some(b"new"), None, Some(b"new")].map(to_owned);
    assert_eq!(outcome.values, expected);
    assert_eq!(apply(store, key, Batch::new().put("a", "1")).values, []);
}

fn a_linked_read_takes_one_step_along_a_reference(store: &dyn Store) {
    let key = shard(store);
    let link = *b"\0\r\n\xff";
    let mut target = b"i".to_vec();
    target.extend(link);
    let mut entry = b"kind".to_vec();
    entry.extend(link);
    entry.extend(b"rest");
    let batch = Batch::new().put("e", entry).put(target, "inode").put("kind", "k").put("i", "i");
    let outcome = apply(
        store,
        key,
        batch
            .read_linked("e", 4, 4, "i")
            .read_linked("e", 0, 4, "")
            .read_linked("e", 3, 0, "i")
            .read_linked("e", 8, 4, "i")
            .read("e"),
    );
    let expected = [Some(&b"inode"[..]), Some(b"k"), Some(b"i"), None].map(to_owned);
    assert_eq!(outcome.values[..4], expected);
    assert!(outcome.values[4].is_some());
}

fn a_linked_read_is_missing_where_any_of_it_is(store: &dyn Store) {
    let key = shard(store);
    // Fields that a sloppy answer would find.
    let batch = Batch::new().put("e", "12345678").put("i", "1").put("i78", "2").put("", "3");
    let batch = batch.put("i78\0\0", "4").put("i\0\0\0\0", "5");
    let outcome = apply(
        store,
        key,
        batch
            .read_linked("none", 0, 4, "i")
            .read_linked("none", 0, 0, "i")
            .read_linked("e", 6, 4, "i")
            .read_linked("e", 8, 1, "i")
            .read_linked("e", 9, 0, "i")
            .read_linked("e", u32::MAX, u32::MAX, "i")
            .read_linked("e", 6, 2, "none"),
    );
    assert_eq!(outcome.values, vec![None; 7]);
    let end =
        apply(store, key, Batch::new().read_linked("e", 8, 0, "i").read_linked("e", 6, 2, "i"));
    assert_eq!(end.values, [Some(&b"1"[..]), Some(b"2")].map(to_owned), "not beyond the end");
}

fn a_linked_read_sees_the_updates(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("e", "1").put("i1", "one").put("i2", "two"));
    let batch = Batch::new().put("e", "2").patch("i2", 0, "T").read_linked("e", 0, 1, "i");
    assert_eq!(apply(store, key, batch).values, [Some(b"Two".to_vec())]);
}

fn a_batch_says_whether_the_shard_was_empty(store: &dyn Store) {
    let key = shard(store);
    assert!(apply(store, key, Batch::new()).shard_was_empty);
    assert!(apply(store, key, Batch::new().absent("a").read("a")).shard_was_empty);
    assert!(apply(store, key, Batch::new().delete("a")).shard_was_empty);
    assert!(apply(store, key, Batch::new().put("a", "")).shard_was_empty);
    assert!(!apply(store, key, Batch::new().put("a", "")).shard_was_empty);
    assert!(!apply(store, key, Batch::new().delete("a")).shard_was_empty);
    assert!(apply(store, key, Batch::new().put("a", "").delete("a")).shard_was_empty);
    assert!(apply(store, key, Batch::new().read("a")).shard_was_empty);
}

fn reading_makes_nothing(store: &dyn Store) {
    let key = shard(store);
    apply(
        store,
        key,
        Batch::new().absent("a").at_most("a", 9, 0).read("a").read_linked("a", 0, 1, ""),
    );
    assert!(fields(store, key).is_empty());
    assert!(apply(store, key, Batch::new()).shard_was_empty);
}

fn to_owned(value: Option<&[u8]>) -> Option<Vec<u8>> {
    value.map(<[u8]>::to_vec)
}
