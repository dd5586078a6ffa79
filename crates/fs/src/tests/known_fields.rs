//! What a mount remembers of entries and inodes is what the store has.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidefs_model::{Ino, ShardKey};
use tidefs_store::{Batch, Fault, Operation, Store, StoreError};

use super::bed::Watched;
use crate::inode::u64_at;
use crate::keys;

/// One batch of a random story: what it does to which field, and how far the clock moves first.
#[derive(Clone, Debug)]
struct Step {
    shard: u16,
    field: u8,
    act: Act,
    seconds: u64,
}

#[derive(Clone, Debug)]
enum Act {
    Read,
    Follow,
    Put(u8),
    PutAndAdd(u8),
    Delete,
    Patch(u8),
    Refused,
    LostReply(u8),
    NotDone,
    DropShard,
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        4 => Just(Act::Read),
        2 => Just(Act::Follow),
        2 => any::<u8>().prop_map(Act::Put),
        1 => any::<u8>().prop_map(Act::PutAndAdd),
        1 => Just(Act::Delete),
        1 => any::<u8>().prop_map(Act::Patch),
        1 => Just(Act::Refused),
        1 => any::<u8>().prop_map(Act::LostReply),
        1 => Just(Act::NotDone),
        1 => Just(Act::DropShard),
    ];
    (0..2_u16, 0..3_u8, act, 0..8_u64).prop_map(|(shard, field, act, seconds)| Step {
        shard,
        field,
        act,
        seconds,
    })
}

fn shard(index: u16) -> ShardKey {
    ShardKey { directory: Ino(99), index }
}

/// Entries are fields 0 and 1 and lead to the inode, which is field 2.
fn field(number: u8) -> Vec<u8> {
    if number == 2 { keys::inode(Ino(7)) } else { keys::entry(&[b'a' + number]) }
}

/// A value that leads to the inode.
fn value(byte: u8) -> Vec<u8> {
    let mut value = vec![byte];
    value.extend(7_u64.to_be_bytes());
    value.resize(24, byte);
    value
}

fn follow(field: &[u8]) -> Batch {
    Batch::new().read(field).read_linked(field, 1, 8, [keys::INODE_PREFIX])
}

fn take(watched: &Watched, step: &Step) {
    let (shard, field, store) = (shard(step.shard), field(step.field), &watched.fs.store);
    let put = |byte| Batch::new().put(field.clone(), value(byte)).read(field.clone());
    let fault = |error| {
        let next = watched.store.count(Operation::Batch) + 1;
        Fault::nth(Operation::Batch, next, error)
    };
    let batch = match step.act {
        Act::Read => Batch::new().read(field),
        Act::Follow => follow(&field),
        Act::Put(byte) => put(byte),
        Act::PutAndAdd(byte) => Batch::new().put(field.clone(), value(byte)).add(field, 16, 1),
        Act::Delete => Batch::new().delete(field),
        Act::Patch(byte) => Batch::new().patch(field, 16, [byte]),
        Act::Refused => put(1).present(b"no such field".to_vec()),
        Act::LostReply(byte) => {
            let lost = StoreError::Indeterminate { endpoint: "a node".into() };
            watched.store.add(fault(lost).after());
            put(byte)
        }
        Act::NotDone => {
            watched.store.add(fault(StoreError::Unavailable { endpoint: "a node".into() }));
            put(3)
        }
        Act::DropShard => {
            store.delete_shards(&[shard]).expect("dropped");
            return;
        }
    };
    let failed = store.batch(shard, &batch).is_err();
    assert_eq!(failed, matches!(step.act, Act::LostReply(_) | Act::NotDone));
}

proptest! {
    #[test]
    fn what_is_answered_is_what_the_store_has(steps in vec(step(), 1..60)) {
        let watched = Watched::new();
        for step in &steps {
            watched.clock.advance(Duration::from_secs(step.seconds));
            watched.fs.membership.tick(&watched.fs.store, watched.fs.now()).expect("a heartbeat");
            take(&watched, step);
            for (index, number) in (0..2).flat_map(|index| (0..3).map(move |number| (index, number))) {
                for batch in [Batch::new().read(field(number)), follow(&field(number))] {
                    let answer = watched.fs.store.batch(shard(index), &batch).expect("read").values;
                    let stored = watched.store.inner().batch(shard(index), &batch).expect("read");
                    prop_assert_eq!(answer, stored.values);
                }
            }
        }
    }
}

#[test]
fn nothing_is_answered_from_memory_with_company_or_when_nobody_knows() {
    let watched = Watched::new();
    let (store, read) = (&watched.fs.store, Batch::new().read(field(2)));
    store.batch(shard(0), &Batch::new().put(field(2), value(1))).expect("put");
    let calls = || {
        let before = watched.store.count(Operation::Batch);
        store.batch(shard(0), &read).expect("read");
        watched.store.count(Operation::Batch) - before
    };
    assert_eq!(calls(), 0);
    watched.clock.advance(Duration::from_secs(10));
    assert_eq!(calls(), 1, "the store has not been asked for so long");
    assert_eq!(watched.fs.tick(), Ok(false));
    assert_eq!(calls(), 0, "nobody has come");
    watched.fs.membership.assume_company();
    assert_eq!((calls(), calls()), (1, 1));
}

#[test]
fn who_reads_while_others_write_never_sees_an_older_value() {
    let watched = Watched::new();
    let store = &watched.fs.store;
    store.batch(shard(0), &Batch::new().put(field(2), [0; 24])).expect("put");
    let number = |value: Option<Vec<u8>>| u64_at(&value.expect("there"), 0);
    let add = Batch::new().add(field(2), 0, 1).read(field(2));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut before = 0;
                for _ in 0..2_000 {
                    let own = number(store.batch(shard(0), &add).expect("added").take(0));
                    let read = Batch::new().read(field(2));
                    let seen = number(store.batch(shard(0), &read).expect("read").take(0));
                    assert!(own > before && seen >= own, "{before} {own} {seen}");
                    before = seen;
                }
            });
        }
    });
    let read = Batch::new().read(field(2));
    assert_eq!(number(store.batch(shard(0), &read).expect("read").take(0)), 4_000);
}
