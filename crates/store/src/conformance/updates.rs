//! What the updates of a batch do.

use super::fixture::{AWKWARD, apply, fields, noise, shard, value};
use crate::{Batch, Store};

cases![
    put_sets_the_whole_value,
    names_and_values_may_hold_any_bytes,
    large_values_come_back_whole,
    delete_removes_a_field_if_it_is_there,
    updates_are_made_in_order,
    patch_overwrites_from_an_offset_on,
    patch_extends_with_zeros_and_creates,
    add_is_exact_and_wraps_around_both_ways,
    max_raises_and_never_lowers,
    numbers_extend_with_zeros_and_create,
    a_number_leaves_the_bytes_around_it_alone,
    a_batch_that_reclaims_works_as_any_other,
    a_batch_of_many_updates_is_applied_whole,
];

fn put_sets_the_whole_value(store: &dyn Store) {
    let key = shard(store);
    for text in ["a longer value", "short", "", "again"] {
        apply(store, key, Batch::new().put("a", text));
        assert_eq!(value(store, key, b"a"), Some(text.into()));
    }
}

fn names_and_values_may_hold_any_bytes(store: &dyn Store) {
    let key = shard(store);
    let every: Vec<u8> = (0..=255).collect();
    let pairs = AWKWARD.iter().zip(AWKWARD.iter().rev());
    let batch = pairs.fold(Batch::new(), |batch, (&field, &text)| batch.put(field, text));
    apply(store, key, batch.put(every.clone(), every.clone()));
    for (&field, &text) in AWKWARD.iter().zip(AWKWARD.iter().rev()) {
        assert_eq!(value(store, key, field).as_deref(), Some(text), "{field:?}");
        let check = Batch::new().present(field).equals(field, text);
        apply(store, key, check);
    }
    assert_eq!(value(store, key, &every), Some(every));
    assert_eq!(fields(store, key).len(), AWKWARD.len() + 1);
    let batch = AWKWARD.iter().fold(Batch::new(), |batch, &field| batch.delete(field));
    apply(store, key, batch);
    assert_eq!(fields(store, key).len(), 1);
}

fn large_values_come_back_whole(store: &dyn Store) {
    let key = shard(store);
    let large = noise(1, 1 << 20);
    apply(store, key, Batch::new().put("large", large.clone()).put("small", "s"));
    assert_eq!(value(store, key, b"large").as_ref(), Some(&large));
    apply(store, key, Batch::new().equals("large", large.clone()).patch("large", 700_000, "here"));
    let patched = value(store, key, b"large").unwrap();
    assert_eq!(&patched[700_000..700_004], b"here");
    assert_eq!((&patched[..700_000], patched.len()), (&large[..700_000], large.len()));
    assert_eq!(fields(store, key)[&b"large"[..]], patched);
}

fn delete_removes_a_field_if_it_is_there(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "1").put("b", "2"));
    apply(store, key, Batch::new().delete("a").delete("none").delete("a"));
    assert_eq!(value(store, key, b"a"), None);
    assert_eq!(value(store, key, b"b"), Some(b"2".to_vec()));
}

fn updates_are_made_in_order(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "xxxx").patch("a", 1, "bc").put("b", "1").delete("b"));
    assert_eq!(value(store, key, b"a"), Some(b"xbcx".to_vec()));
    assert_eq!(value(store, key, b"b"), None);
    apply(store, key, Batch::new().delete("a").patch("a", 2, "z").add("n", 0, 5).max("n", 0, 3));
    assert_eq!(value(store, key, b"a"), Some(b"\0\0z".to_vec()), "the old value is gone");
    assert_eq!(value(store, key, b"n"), Some(5_u64.to_be_bytes().to_vec()));
    apply(store, key, Batch::new().max("n", 0, 10).add("n", 0, -1).add("n", 0, -1));
    assert_eq!(value(store, key, b"n"), Some(8_u64.to_be_bytes().to_vec()));
}

fn patch_overwrites_from_an_offset_on(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "0123456789"));
    for (at, bytes, expected) in [
        (0, "", "0123456789"),
        (0, "AB", "AB23456789"),
        (4, "C", "AB23C56789"),
        (8, "DE", "AB23C567DE"),
        (9, "FGH", "AB23C567DFGH"),
        (12, "I", "AB23C567DFGHI"),
    ] {
        apply(store, key, Batch::new().patch("a", at, bytes));
        assert_eq!(value(store, key, b"a"), Some(expected.into()), "{bytes:?} at {at}");
    }
}

fn patch_extends_with_zeros_and_creates(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "x").patch("a", 3, "y").patch("new", 2, "z"));
    assert_eq!(value(store, key, b"a"), Some(b"x\0\0y".to_vec()));
    assert_eq!(value(store, key, b"new"), Some(b"\0\0z".to_vec()));
    apply(store, key, Batch::new().patch("zeros", 3, "").patch("empty", 0, ""));
    assert_eq!(value(store, key, b"zeros"), Some(vec![0; 3]));
    assert_eq!(value(store, key, b"empty"), Some(vec![]));
    apply(store, key, Batch::new().put("far", "f").patch("far", 100_000, "end"));
    let far = value(store, key, b"far").unwrap();
    assert_eq!((far.len(), far[0], &far[100_000..]), (100_003, b'f', &b"end"[..]));
    assert!(far[1..100_000].iter().all(|&byte| byte == 0));
}

fn add_is_exact_and_wraps_around_both_ways(store: &dyn Store) {
    let key = shard(store);
    for (start, delta) in [
        (0, 0),
        (0, 1),
        (0, -1),
        (255, 1),
        (65_536, -1),
        (1 << 53, 1),
        ((1 << 53) + 1, 2),
        ((1 << 32) - 1, 1),
        ((1 << 63) - 1, 1),
        (1 << 63, -1),
        (u64::MAX, 1),
        (u64::MAX, i64::MAX),
        (u64::MAX, i64::MIN),
        (0, i64::MIN),
        (1, i64::MIN),
        (12_345_678_901_234_567_890, 1_234_567_890_123_456_789),
        (12_345_678_901_234_567_890, -1_234_567_890_123_456_789),
    ] {
        apply(store, key, Batch::new().put("n", start.to_be_bytes()).add("n", 0, delta));
        let sum = (i128::from(start) + i128::from(delta)).rem_euclid(1 << 64) as u64;
        assert_eq!(value(store, key, b"n"), Some(sum.to_be_bytes().to_vec()), "{start} {delta:+}");
    }
}

fn max_raises_and_never_lowers(store: &dyn Store) {
    let key = shard(store);
    let numbers = [0, 1, 255, 256, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, u64::MAX];
    for start in numbers {
        for other in numbers {
            apply(store, key, Batch::new().put("n", start.to_be_bytes()).max("n", 0, other));
            let expected = if start < other { other } else { start };
            let found = value(store, key, b"n");
            assert_eq!(found, Some(expected.to_be_bytes().to_vec()), "{start} and {other}");
        }
    }
}

fn numbers_extend_with_zeros_and_create(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().add("add", 4, 258).max("max", 4, 258));
    for field in ["add", "max"] {
        let expected = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2];
        assert_eq!(value(store, key, field.as_bytes()), Some(expected), "{field}");
    }
    apply(store, key, Batch::new().put("short", [9, 0, 1]).add("short", 1, 1));
    assert_eq!(value(store, key, b"short"), Some(vec![9, 0, 1, 0, 0, 0, 0, 0, 1]));
    apply(store, key, Batch::new().put("cut", [9, 0, 1]).max("cut", 1, 1));
    assert_eq!(value(store, key, b"cut"), Some(vec![9, 0, 1, 0, 0, 0, 0, 0, 0]));
    apply(store, key, Batch::new().add("add of 0", 0, 0).max("max of 0", 0, 0));
    assert_eq!(value(store, key, b"add of 0"), Some(vec![0; 8]));
    assert_eq!(value(store, key, b"max of 0"), Some(vec![0; 8]));
}

fn a_number_leaves_the_bytes_around_it_alone(store: &dyn Store) {
    let key = shard(store);
    let record = noise(2, 40);
    apply(store, key, Batch::new().put("r", record.clone()));
    apply(store, key, Batch::new().patch("r", 11, [255; 8]).add("r", 11, 2).max("r", 21, u64::MAX));
    let mut expected = record;
    expected[11..19].copy_from_slice(&1_u64.to_be_bytes());
    expected[21..29].fill(255);
    assert_eq!(value(store, key, b"r"), Some(expected));
}

fn a_batch_that_reclaims_works_as_any_other(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "1").put("b", "1").reclaims());
    apply(store, key, Batch::new().delete("a").add("n", 0, -1).reclaims());
    assert_eq!(fields(store, key).len(), 2);
}

fn a_batch_of_many_updates_is_applied_whole(store: &dyn Store) {
    let key = shard(store);
    let batch = (0..2_000_u32).fold(Batch::new(), |batch, number| {
        let field = number.to_be_bytes();
        batch.absent(field).put(field, noise(number.into(), 20)).read(field)
    });
    let outcome = apply(store, key, batch);
    for (number, found) in (0..).zip(&outcome.values) {
        assert_eq!(found.as_ref(), Some(&noise(number, 20)), "{number}");
    }
    assert_eq!(outcome.values.len(), 2_000);
}
