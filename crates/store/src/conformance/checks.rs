//! What the checks of a batch mean.

use super::fixture::{apply, fields, refusal, shard, value};
use crate::{Batch, Store};

cases![
    absent_holds_where_the_field_is_missing,
    present_holds_where_the_field_is,
    equals_compares_every_byte,
    at_least_and_at_most_compare_the_number_at_an_offset,
    missing_bytes_of_a_number_count_as_zero,
    numbers_are_unsigned_and_exact_beyond_2_to_the_53,
    the_first_check_that_fails_is_named_and_nothing_changes,
    checks_see_the_shard_before_the_updates,
    a_refused_batch_answers_its_reads,
];

fn absent_holds_where_the_field_is_missing(store: &dyn Store) {
    let key = shard(store);
    assert_eq!(refusal(store, key, Batch::new().absent("a")), None);
    apply(store, key, Batch::new().put("a", "").put("b", "1"));
    assert_eq!(refusal(store, key, Batch::new().absent("a")), Some(0));
    assert_eq!(refusal(store, key, Batch::new().absent("b")), Some(0));
    assert_eq!(refusal(store, key, Batch::new().absent("c").absent("")), None);
}

fn present_holds_where_the_field_is(store: &dyn Store) {
    let key = shard(store);
    assert_eq!(refusal(store, key, Batch::new().present("a")), Some(0));
    apply(store, key, Batch::new().put("a", "").put("", "nameless"));
    assert_eq!(refusal(store, key, Batch::new().present("a").present("")), None);
    assert_eq!(refusal(store, key, Batch::new().present("b")), Some(0));
}

fn equals_compares_every_byte(store: &dyn Store) {
    let key = shard(store);
    assert_eq!(refusal(store, key, Batch::new().equals("a", "")), Some(0), "missing is not empty");
    apply(store, key, Batch::new().put("a", "10\0").put("e", ""));
    assert_eq!(refusal(store, key, Batch::new().equals("a", "10\0").equals("e", "")), None);
    for other in ["", "10", "10\0\0", "10\x01", "1e1", "010"] {
        assert_eq!(refusal(store, key, Batch::new().equals("a", other)), Some(0), "{other:?}");
    }
    assert_eq!(refusal(store, key, Batch::new().equals("e", "\0")), Some(0));
    apply(store, key, Batch::new().put("n", "10"));
    assert_eq!(refusal(store, key, Batch::new().equals("n", "10.0")), Some(0), "not numbers");
}

fn at_least_and_at_most_compare_the_number_at_an_offset(store: &dyn Store) {
    let key = shard(store);
    let mut record = vec![0xff; 3];
    record.extend(1_000_u64.to_be_bytes());
    record.push(0xff);
    apply(store, key, Batch::new().put("r", record));
    for (least, refused) in [(0, None), (999, None), (1_000, None), (1_001, Some(0))] {
        assert_eq!(refusal(store, key, Batch::new().at_least("r", 3, least)), refused, "{least}");
    }
    for (most, refused) in [(0, Some(0)), (999, Some(0)), (1_000, None), (u64::MAX, None)] {
        assert_eq!(refusal(store, key, Batch::new().at_most("r", 3, most)), refused, "{most}");
    }
}

fn missing_bytes_of_a_number_count_as_zero(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("short", [1, 2]).put("empty", ""));
    // The field, where the number starts, what it is.
    for (field, at, number) in [
        ("none", 0, 0),
        ("none", 5_000, 0),
        ("empty", 0, 0),
        ("short", 0, 0x0102_0000_0000_0000),
        ("short", 1, 0x0200_0000_0000_0000),
        ("short", 2, 0),
        ("short", u32::MAX, 0),
    ] {
        let exactly = Batch::new().at_least(field, at, number).at_most(field, at, number);
        assert_eq!(refusal(store, key, exactly), None, "{field} at {at}");
        let more = Batch::new().at_least(field, at, number + 1);
        assert_eq!(refusal(store, key, more), Some(0), "{field} at {at}");
    }
    assert_eq!(fields(store, key).len(), 2, "a check makes no field");
}

fn numbers_are_unsigned_and_exact_beyond_2_to_the_53(store: &dyn Store) {
    let key = shard(store);
    for number in [1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX] {
        apply(store, key, Batch::new().put("n", number.to_be_bytes()));
        let exactly = Batch::new().at_least("n", 0, number).at_most("n", 0, number);
        assert_eq!(refusal(store, key, exactly), None, "{number}");
        let less = Batch::new().at_most("n", 0, number - 1);
        assert_eq!(refusal(store, key, less), Some(0), "{number}");
        if let Some(above) = number.checked_add(1) {
            let more = Batch::new().at_least("n", 0, above);
            assert_eq!(refusal(store, key, more), Some(0), "{number}");
        }
    }
}

fn the_first_check_that_fails_is_named_and_nothing_changes(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "1").put("n", 7_u64.to_be_bytes()));
    let before = fields(store, key);
    let checks = Batch::new().present("a").at_most("n", 0, 9).absent("a").equals("a", "2");
    let batch = checks
        .put("a", "9")
        .put("b", "9")
        .patch("a", 0, "9")
        .add("n", 0, 1)
        .max("n", 0, 99)
        .delete("a");
    assert_eq!(refusal(store, key, batch.clone()), Some(2));
    assert_eq!(refusal(store, key, batch.reclaims()), Some(2));
    assert_eq!(fields(store, key), before);
}

fn checks_see_the_shard_before_the_updates(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().absent("a").put("a", "1").put("a", "2"));
    apply(store, key, Batch::new().equals("a", "2").present("a").delete("a"));
    assert_eq!(value(store, key, b"a"), None);
}

fn a_refused_batch_answers_its_reads(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "there"));
    let batch = Batch::new().absent("a").put("a", "new").read("a").read("b");
    let outcome = store.batch(key, &batch).unwrap();
    assert!(!outcome.applied() && !outcome.shard_was_empty);
    assert_eq!(outcome.values, [Some(b"there".to_vec()), None]);

    let empty = shard(store);
    let outcome = store.batch(empty, &Batch::new().present("a").put("a", "new").read("a")).unwrap();
    assert_eq!(outcome.refused_by, Some(0));
    assert!(outcome.shard_was_empty);
    assert_eq!(outcome.values, [None]);
    let outcome = store.batch(empty, &Batch::new().read("a")).unwrap();
    assert!(outcome.shard_was_empty, "a refused batch leaves an empty shard empty");
}
