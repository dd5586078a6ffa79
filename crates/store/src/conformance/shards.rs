//! Shards as wholes: many at once, listed, removed; and what a store says of itself.

use std::collections::BTreeSet;

use tidefs_model::{Ino, PARTITIONS, ShardKey};

use super::fixture::{apply, fields, ino, shard, shards, stripe, value, write};
use crate::{Batch, Bytes, Cursor, Store};

cases![
    shards_do_not_share_fields,
    batches_are_answered_in_order_each_for_itself,
    several_batches_on_one_shard_are_all_applied,
    a_shard_without_fields_lists_as_one_empty_page,
    a_shard_of_5000_fields_is_listed_whole,
    a_field_that_stays_is_listed_whatever_comes_and_goes,
    many_shards_are_listed_at_once,
    a_shard_is_empty_when_its_last_field_is_deleted,
    delete_shards_removes_them_whole_and_no_others,
    calls_without_keys_do_nothing,
    an_overview_covers_every_partition,
];

fn shards_do_not_share_fields(store: &dyn Store) {
    let (one, other) = (ino(), ino());
    let keys = [(one, 0), (one, 1), (one, 256), (one, u16::MAX), (other, 0), (Ino(u64::MAX), 0)];
    let keys = keys.map(|(directory, index)| ShardKey { directory, index });
    store.delete_shards(&keys).unwrap();
    for (number, &key) in keys.iter().enumerate() {
        assert!(apply(store, key, Batch::new().put("a", [number as u8])).shard_was_empty);
    }
    for (number, &key) in keys.iter().enumerate() {
        assert_eq!(value(store, key, b"a"), Some(vec![number as u8]), "{key:?}");
    }
    store.delete_shards(&keys).unwrap();
}

fn batches_are_answered_in_order_each_for_itself(store: &dyn Store) {
    let keys = shards(store, 100);
    apply(store, keys[40], Batch::new().put("taken", "1"));
    let create = |number: u8| Batch::new().absent("taken").put("n", [number]).read("n");
    let batches: Vec<_> =
        keys.iter().zip(0..).map(|(&key, number)| (key, create(number))).collect();
    let outcomes = store.batches(&batches).unwrap();
    assert_eq!(outcomes.len(), keys.len());
    for (number, outcome) in (0..).zip(outcomes) {
        let refused = number == 40;
        assert_eq!(outcome.refused_by, refused.then_some(0), "batch {number}");
        assert_eq!(outcome.shard_was_empty, !refused, "batch {number}");
        assert_eq!(outcome.values, [(!refused).then(|| vec![number])], "batch {number}");
    }
}

fn several_batches_on_one_shard_are_all_applied(store: &dyn Store) {
    let key = shard(store);
    let outcomes = store.batches(&vec![(key, Batch::new().add("n", 0, 1)); 50]).unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.shard_was_empty).count(), 1);
    assert_eq!(value(store, key, b"n"), Some(50_u64.to_be_bytes().to_vec()));
}

fn a_shard_without_fields_lists_as_one_empty_page(store: &dyn Store) {
    let pages = store.list(&[(shard(store), Cursor::default())]).unwrap();
    assert_eq!(pages.len(), 1);
    assert_eq!((pages[0].fields.as_slice(), &pages[0].next), (&[][..], &None));
}

/// Fields enough for several pages of any store.
fn populate(store: &dyn Store, key: ShardKey, prefix: &str, count: usize) -> BTreeSet<Bytes> {
    let names: Vec<Bytes> = (0..count).map(|n| format!("{prefix}{n}").into_bytes()).collect();
    for names in names.chunks(500) {
        let batch = names.iter().fold(Batch::new(), |batch, name| {
            batch.put(name.clone(), [name, &b" value"[..]].concat())
        });
        apply(store, key, batch);
    }
    names.into_iter().collect()
}

fn a_shard_of_5000_fields_is_listed_whole(store: &dyn Store) {
    let key = shard(store);
    let mut names = populate(store, key, "file", 5_000);
    apply(store, key, Batch::new().put("", " value").put("\0", "\0 value"));
    names.extend([vec![], vec![0]]);
    let listed = fields(store, key);
    assert_eq!(listed.keys().cloned().collect::<BTreeSet<_>>(), names);
    for (name, found) in &listed {
        assert_eq!(found, &[name, &b" value"[..]].concat());
    }
}

fn a_field_that_stays_is_listed_whatever_comes_and_goes(store: &dyn Store) {
    let key = shard(store);
    let stays = populate(store, key, "stays", 3_000);
    let mut goes = populate(store, key, "goes", 3_000).into_iter();
    let mut seen = BTreeSet::new();
    let mut cursor = Some(Cursor::default());
    let mut pages = 0;
    while let Some(from) = cursor {
        let page = store.list(&[(key, from)]).unwrap().remove(0);
        seen.extend(page.fields.into_iter().map(|(field, _)| field));
        cursor = page.next;
        pages += 1;
        assert!(pages <= 100_000, "the listing does not end");
        let batch = goes.by_ref().take(500).fold(Batch::new(), |batch, name| batch.delete(name));
        apply(store, key, batch.reclaims());
        // Growth ends, so that a store that lists newcomers comes to an end.
        if pages <= 4 {
            populate(store, key, &format!("comes{pages}-"), 700);
        }
    }
    let missed: Vec<_> = stays.difference(&seen).collect();
    assert!(missed.is_empty(), "{} fields were missed, {:?} first", missed.len(), missed[0]);
}

fn many_shards_are_listed_at_once(store: &dyn Store) {
    let keys = shards(store, 60);
    let sizes: Vec<usize> = (0..60).map(|index| [0, 1, 7, 1_300][index % 4]).collect();
    let expected: Vec<_> = keys
        .iter()
        .zip(&sizes)
        .map(|(&key, &size)| populate(store, key, &format!("{}-", key.index), size))
        .collect();
    let mut seen = vec![BTreeSet::new(); keys.len()];
    let mut open: Vec<_> = keys.iter().map(|&key| (key, Cursor::default())).collect();
    while !open.is_empty() {
        let pages = store.list(&open).unwrap();
        assert_eq!(pages.len(), open.len());
        let asked = std::mem::take(&mut open);
        for ((key, _), page) in asked.into_iter().zip(pages) {
            let fields = page.fields.into_iter().map(|(field, _)| field);
            seen[usize::from(key.index)].extend(fields);
            open.extend(page.next.map(|next| (key, next)));
        }
    }
    assert_eq!(seen, expected);
}

fn a_shard_is_empty_when_its_last_field_is_deleted(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().put("a", "1").put("b", "1"));
    apply(store, key, Batch::new().delete("a"));
    assert!(!apply(store, key, Batch::new()).shard_was_empty);
    apply(store, key, Batch::new().delete("b"));
    assert!(apply(store, key, Batch::new().absent("a").absent("b")).shard_was_empty);
    assert!(fields(store, key).is_empty());
}

fn delete_shards_removes_them_whole_and_no_others(store: &dyn Store) {
    let keys = shards(store, 20);
    for &key in &keys[..10] {
        populate(store, key, "f", 100);
    }
    let (gone, missing) = (&keys[..5], &keys[10..]);
    store.delete_shards(&[gone, missing].concat()).unwrap();
    for (number, &key) in keys.iter().enumerate() {
        let left = if (5..10).contains(&number) { 100 } else { 0 };
        assert_eq!(fields(store, key).len(), left, "{key:?}");
        assert_eq!(apply(store, key, Batch::new()).shard_was_empty, left == 0, "{key:?}");
    }
    store.delete_shards(&keys).unwrap();
}

fn calls_without_keys_do_nothing(store: &dyn Store) {
    assert_eq!(store.batches(&[]), Ok(vec![]));
    assert_eq!(store.list(&[]), Ok(vec![]));
    assert_eq!(store.delete_shards(&[]), Ok(()));
    assert_eq!(store.read(&mut []), Ok(()));
    assert_eq!(store.write(&[]), Ok(()));
    assert_eq!(store.trim(&[]), Ok(()));
    assert_eq!(store.lengths(&[]), Ok(vec![]));
}

fn an_overview_covers_every_partition(store: &dyn Store) {
    let key = stripe(store);
    write(store, key, 0, &[1; 100_000]);
    apply(store, shard(store), Batch::new().put("a", "1"));
    let overview = store.overview().unwrap();
    let partitions: u32 = overview.nodes.iter().map(|node| u32::from(node.partitions)).sum();
    assert_eq!(partitions, u32::from(PARTITIONS));
    assert!(overview.nodes.iter().all(|node| node.available), "{overview:?}");
    assert!(overview.nodes.iter().map(|node| node.keys).sum::<u64>() >= 2, "{overview:?}");
    assert!(overview.memory_used_bytes() >= 100_000, "{overview:?}");
    assert!(overview.memory_capacity_bytes() >= overview.memory_used_bytes(), "{overview:?}");
}
