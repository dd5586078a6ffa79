//! A request that its client has given up and that is carried out later all the same: what was there
//! before still opens until it comes, and so does what it brings.

use std::sync::{Arc, Mutex};

use tidefs_model::{ByteSize, ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Embedded, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead,
    StripeWrite,
};

use crate::support::{BLOCK, client, heap, laid, noise, read, stripe, write};

/// Keeps one write back until after some reads.
struct Node {
    kept: Embedded,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    /// What the next write answers, while it is kept back for so many reads.
    next: Option<(StoreError, u32)>,
    late: Vec<(StripeKey, u32, Vec<u8>)>,
    reads_left: u32,
}

impl Node {
    fn new() -> Arc<Node> {
        Arc::new(Node { kept: heap(ByteSize::mib(16)), plan: Mutex::default() })
    }

    fn delay(&self, reads: u32, error: StoreError) {
        self.plan.lock().unwrap().next = Some((error, reads));
    }

    fn arrive(&self) {
        for (key, offset, bytes) in self.plan.lock().unwrap().late.drain(..) {
            self.kept.write(&[StripeWrite { key, offset, bytes: &bytes }]).unwrap();
        }
    }

    fn is_waiting(&self) -> bool {
        !self.plan.lock().unwrap().late.is_empty()
    }
}

impl Store for Node {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.kept.batch(shard, batch)
    }
    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.kept.batches(batches)
    }
    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.kept.list(shards)
    }
    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.kept.keys(cursor)
    }
    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.kept.delete_shards(shards)
    }
    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        self.kept.read(reads)?;
        let is_time = {
            let mut plan = self.plan.lock().unwrap();
            plan.reads_left = plan.reads_left.saturating_sub(1);
            plan.reads_left == 0
        };
        if is_time {
            self.arrive();
        }
        Ok(())
    }
    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        let mut plan = self.plan.lock().unwrap();
        let Some((error, reads)) = plan.next.take() else {
            drop(plan);
            return self.kept.write(writes);
        };
        plan.late = writes.iter().map(|it| (it.key, it.offset, it.bytes.to_vec())).collect();
        plan.reads_left = reads;
        Err(error)
    }
    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.kept.trim(trims)
    }
    fn lengths(&self, stripes: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.kept.lengths(stripes)
    }
    fn overview(&self) -> Result<Overview, StoreError> {
        self.kept.overview()
    }
}

fn errors() -> [StoreError; 2] {
    let endpoint = "a node";
    [
        StoreError::Indeterminate { endpoint: endpoint.into() },
        StoreError::Unavailable { endpoint: endpoint.into() },
    ]
}

/// Longer than the block was, and inside it.
const PLACES: [(usize, usize); 3] = [(0, 5_000), (1_000, 4_500), (700, 80)];

/// What was there, what a write in doubt would make of it, and its client.
fn in_doubt(
    node: &Arc<Node>,
    (at, length): (usize, usize),
    reads: u32,
    error: StoreError,
    alone: bool,
) -> (Vec<u8>, Vec<u8>, impl Store + use<>) {
    let first = client(node, 1, alone);
    let before = noise(1, 5_000);
    write(&first, stripe(0), 0, &before).unwrap();
    node.delay(reads, error);
    write(&first, stripe(0), at, &noise(2, length)).unwrap_err();
    first.tidy();
    let after = laid(&before, at, &noise(2, length));
    (before, after, first)
}

fn is_either(found: &[u8], before: &[u8], after: &[u8]) -> bool {
    let padded = |bytes: &[u8]| [bytes, &vec![0; found.len() - bytes.len()]].concat();
    found == padded(before) || found == padded(after)
}

#[test]
fn what_comes_late_spoils_nothing_and_the_next_change_builds_on_it() {
    for place in PLACES {
        for (error, alone) in errors().into_iter().flat_map(|it| [(it.clone(), true), (it, false)])
        {
            for reads in 1..=8 {
                let what = format!("{place:?}, {error}, alone: {alone}, after {reads} reads");
                let node = Node::new();
                let (before, after, first) = in_doubt(&node, place, reads, error.clone(), alone);
                let second = client(&node, 2, alone);
                let reader = |client: &dyn Store| {
                    let found = read(client, stripe(0), 0, BLOCK);
                    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(is_either(&found, &before, &after), "{what}");
                    found
                };
                reader(&first);
                reader(&second);
                reader(&first);
                if node.is_waiting() {
                    node.arrive();
                }
                let found = reader(&second);
                assert!(found[..after.len()] == after, "{what}: it has come");
                write(&second, stripe(0), 750, b"next").unwrap_or_else(|it| panic!("{what}: {it}"));
                let wanted = laid(&after, 750, b"next");
                for client in [&client(&node, 3, alone) as &dyn Store, &second] {
                    assert!(read(client, stripe(0), 0, wanted.len()).unwrap() == wanted, "{what}");
                }
            }
        }
    }
}

/// It comes between the reading of what a change builds on and the announcement, or after a cut.
#[test]
fn a_change_that_looked_before_it_came_goes_on() {
    for place in PLACES {
        for reads in 1..=6 {
            let node = Node::new();
            let (before, after, first) = in_doubt(&node, place, reads, errors()[0].clone(), false);
            first.trim(&[(stripe(0), 900)]).unwrap();
            write(&first, stripe(0), 100, b"a part").unwrap();
            let found = read(&first, stripe(0), 0, BLOCK);
            if node.is_waiting() || matches!(found, Err(StoreError::Forged { .. })) {
                // The cut and the change came first; then it is in vain, and nobody reads it.
                node.arrive();
                let found = read(&first, stripe(0), 0, BLOCK);
                assert!(matches!(found, Err(StoreError::Forged { .. })), "{place:?}, {reads}");
                continue;
            }
            let cut = |bytes: &[u8]| laid(&bytes[..900], 100, b"a part");
            assert!(is_either(&found.unwrap(), &cut(&before), &cut(&after)), "{place:?}, {reads}");
        }
    }
}

/// A failed call that is tried again and again leaves no more than a few seals.
#[test]
fn many_failed_calls_leave_a_record_of_bounded_length() {
    let node = Node::new();
    let first = client(&node, 1, false);
    write(&first, stripe(0), 0, &noise(1, 5_000)).unwrap();
    let mut taken = Vec::new();
    for round in 0..20 {
        // Never carried out: the next one takes its place.
        node.delay(u32::MAX, errors()[0].clone());
        write(&first, stripe(0), 0, &noise(2 + round, 5_000)).unwrap_err();
        taken.push(node.overview().unwrap().nodes[0].memory_used_bytes);
        assert!(read(&first, stripe(0), 0, 5_000).unwrap() == noise(1, 5_000));
    }
    assert_eq!(taken[10], taken[19]);
    node.arrive();
    assert!(read(&first, stripe(0), 0, 5_000).unwrap() == noise(21, 5_000), "the last one comes");
}
