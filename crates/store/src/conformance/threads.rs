//! What holds while many threads work on one key.

use std::thread;

use super::fixture::{apply, noise, read, refusal, shard, stripe, stripes, value, write};
use crate::{Batch, Store};

const THREADS: u64 = 8;

cases![
    no_addition_is_lost,
    one_of_many_creators_wins,
    a_limit_is_never_exceeded,
    a_batch_is_seen_whole_or_not_at_all,
    writers_of_disjoint_ranges_do_not_meet,
    writers_and_trimmers_of_neighbours_do_not_meet,
];

/// Runs `work` on every thread and answers with what each came to.
fn on_each_thread<T: Send>(work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|me| scope.spawn(move || work(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn no_addition_is_lost(store: &dyn Store) {
    let key = shard(store);
    on_each_thread(|me| {
        for _ in 0..200 {
            apply(store, key, Batch::new().add("n", 0, 1 + me as i64).max("highest", 0, me));
        }
    });
    let sum: u64 = (1..=THREADS).sum::<u64>() * 200;
    assert_eq!(value(store, key, b"n"), Some(sum.to_be_bytes().to_vec()));
    assert_eq!(value(store, key, b"highest"), Some((THREADS - 1).to_be_bytes().to_vec()));
}

fn one_of_many_creators_wins(store: &dyn Store) {
    let key = shard(store);
    for name in 0..50_u64 {
        let field = name.to_be_bytes();
        let won = on_each_thread(|me| {
            let create = Batch::new().absent(field).put(field, [me as u8]);
            refusal(store, key, create).is_none()
        });
        let winners: Vec<_> = (0..).zip(won).filter(|(_, won)| *won).map(|(me, _)| me).collect();
        assert_eq!(winners.len(), 1, "{winners:?} made the same field");
        assert_eq!(value(store, key, &field), Some(winners));
    }
}

fn a_limit_is_never_exceeded(store: &dyn Store) {
    let key = shard(store);
    let taken = on_each_thread(|_| {
        let take = || Batch::new().at_most("taken", 0, 99).add("taken", 0, 1);
        (0..50).filter(|_| refusal(store, key, take()).is_none()).count()
    });
    assert_eq!(taken.iter().sum::<usize>(), 100);
    assert_eq!(value(store, key, b"taken"), Some(100_u64.to_be_bytes().to_vec()));
}

fn a_batch_is_seen_whole_or_not_at_all(store: &dyn Store) {
    let key = shard(store);
    apply(store, key, Batch::new().add("a", 0, 1_000).add("b", 0, 0));
    on_each_thread(|me| {
        for step in 0..200 {
            let outcome = if me % 2 == 0 {
                let transfer = Batch::new().at_least("a", 0, 1).add("a", 0, -1).add("b", 0, 1);
                store.batch(key, &transfer.read("a").read("b")).unwrap()
            } else {
                apply(store, key, Batch::new().read("a").read("b"))
            };
            let numbers = outcome
                .values
                .iter()
                .map(|value| u64::from_be_bytes(value.as_deref().unwrap().try_into().unwrap()));
            assert_eq!(numbers.sum::<u64>(), 1_000, "thread {me}, step {step}");
        }
    });
}

fn writers_of_disjoint_ranges_do_not_meet(store: &dyn Store) {
    let key = stripe(store);
    // Ranges that share pages and words with their neighbours, in turns.
    const RANGE: usize = 1_001;
    on_each_thread(|me| {
        for turn in (0..50).rev() {
            let place = turn * THREADS + me;
            write(store, key, place as u32 * RANGE as u32, &noise(place, RANGE));
        }
    });
    let expected: Vec<_> = (0..50 * THREADS).flat_map(|place| noise(place, RANGE)).collect();
    assert!(read(store, key, 0, expected.len()) == expected);
}

fn writers_and_trimmers_of_neighbours_do_not_meet(store: &dyn Store) {
    let keys = stripes(store, THREADS as u32);
    on_each_thread(|me| {
        let key = keys[me as usize];
        for round in 0..60 {
            let bytes = noise(me * 100 + round, 3_000);
            write(store, key, 500, &bytes);
            assert!(read(store, key, 500, 3_000) == bytes, "thread {me}, round {round}");
            store.trim(&[(key, 600 * (round as u32 % 2))]).unwrap();
            let left = if round % 2 == 0 { vec![0; 100] } else { bytes[..100].to_vec() };
            assert_eq!(read(store, key, 500, 101), [left, vec![0]].concat(), "thread {me}");
        }
    });
}
