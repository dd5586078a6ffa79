//! Listing the keys of the whole store.

use std::collections::BTreeSet;

use tidefs_model::{ShardKey, StripeKey};

use super::fixture::{apply, remove, shards, stripes, write};
use crate::{Batch, Cursor, Key, Store};

cases![
    every_key_with_something_under_it_is_listed_and_no_other,
    keys_that_stay_are_listed_whatever_comes_and_goes,
];

/// Pages of a store that others use as well.
const PAGES_MAX: usize = 100_000;

/// Lists all keys; `between` runs after each page.
fn listed(store: &dyn Store, mut between: impl FnMut(usize)) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    let mut cursor = Some(Cursor::default());
    for page_number in 0..PAGES_MAX {
        let Some(from) = cursor else { return keys };
        let page = store.keys(&from).unwrap();
        keys.extend(page.keys);
        cursor = page.next;
        between(page_number);
    }
    panic!("the listing does not end");
}

fn fill(store: &dyn Store, shards: &[ShardKey], stripes: &[StripeKey]) {
    for &shard in shards {
        apply(store, shard, Batch::new().put("a", "1"));
    }
    for &stripe in stripes {
        write(store, stripe, 0, b"bytes");
    }
}

fn every_key_with_something_under_it_is_listed_and_no_other(store: &dyn Store) {
    let (shards, stripes) = (shards(store, 200), stripes(store, 300));
    let (full_shards, empty_shards) = shards.split_at(150);
    let (full_stripes, empty_stripes) = stripes.split_at(200);
    fill(store, full_shards, full_stripes);
    // What was there and is gone.
    fill(store, &empty_shards[..10], &empty_stripes[..10]);
    store.delete_shards(&empty_shards[..10]).unwrap();
    remove(store, &empty_stripes[..10]);
    let found = listed(store, |_| ());
    for &shard in full_shards {
        assert!(found.contains(&Key::Shard(shard)), "{shard:?} is missing");
    }
    for &stripe in full_stripes {
        assert!(found.contains(&Key::Stripe(stripe)), "{stripe:?} is missing");
    }
    let empty = empty_shards.iter().map(|&shard| Key::Shard(shard));
    let empty = empty.chain(empty_stripes.iter().map(|&stripe| Key::Stripe(stripe)));
    let odd: Vec<_> = empty.filter(|key| found.contains(key)).collect();
    assert_eq!(odd, [], "keys of nothing are listed");
    store.delete_shards(full_shards).unwrap();
    remove(store, full_stripes);
}

fn keys_that_stay_are_listed_whatever_comes_and_goes(store: &dyn Store) {
    let (staying_shards, staying_stripes) = (shards(store, 2_000), stripes(store, 2_000));
    let others = stripes(store, 2_000);
    fill(store, &staying_shards, &staying_stripes);
    fill(store, &[], &others[..1_000]);
    let found = listed(store, |page| {
        if page == 0 {
            remove(store, &others[..1_000]);
        } else if page == 1 {
            fill(store, &[], &others[1_000..]);
        }
    });
    let stay = staying_shards.iter().map(|&shard| Key::Shard(shard));
    let stay = stay.chain(staying_stripes.iter().map(|&stripe| Key::Stripe(stripe)));
    let missed: Vec<_> = stay.filter(|key| !found.contains(key)).collect();
    assert!(missed.is_empty(), "{} keys were missed, {:?} first", missed.len(), missed[0]);
    store.delete_shards(&staying_shards).unwrap();
    remove(store, &staying_stripes);
    remove(store, &others);
}
