//! Seals that were lost with a node are no holes.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{ByteSize, Granted, ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Cut, Embedded, Faulty, Key, KeyPage, Operation, Outcome, Overview, Page, Store,
    StoreError, StripeRead, StripeWrite, When,
};

use crate::support::{BLOCK, LOSSES, STRIPE, client, heap, noise, read, stripe, write};

fn is_lost<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Lost { .. }))
}

/// The shard of the seals comes back empty; that was said before.
fn lose_seals(store: &Embedded, inos: u64) {
    let below = Batch::new().put(LOSSES.1, Granted { inos, serials: 0 }.encode());
    assert!(store.batch(LOSSES.0, &below).unwrap().applied());
    let seals: Vec<_> = store
        .keys(&Default::default())
        .into_iter()
        .chain((1..128).map(|at| store.keys(&Cursor(u16::to_be_bytes(at).to_vec())).unwrap()))
        .flat_map(|page| page.keys)
        .filter_map(|key| match key {
            Key::Shard(shard) if shard.directory == stripe(0).ino => Some(shard),
            _ => None,
        })
        .collect();
    assert_eq!(seals.len(), 1);
    store.delete_shards(&seals).unwrap();
}

fn read_cut(store: &impl Store, at: usize, length: usize, cut: Cut) -> Result<Vec<u8>, StoreError> {
    let mut buffer = vec![0xee; length];
    let read = StripeRead { key: stripe(0), offset: at as u32, buffer: &mut buffer };
    store.read_cut(&mut [read], cut)?;
    Ok(buffer)
}

fn write_cut(store: &impl Store, at: usize, bytes: &[u8], cut: Cut) -> Result<(), StoreError> {
    store.write_cut(&[StripeWrite { key: stripe(0), offset: at as u32, bytes }], cut)
}

#[test]
fn what_was_cut_after_seals_were_lost_is_a_hole_until_others_are_lost() {
    for alone in [true, false] {
        let store = Arc::new(heap(ByteSize::mib(64)));
        write(&client(&store, 1, false), stripe(0), 0, &noise(1, STRIPE)).unwrap();
        let inos = stripe(0).ino.0 + 1;
        lose_seals(&store, inos);

        let second = client(&store, 2, alone);
        let cut = |from| Cut { as_of: inos, from };
        assert_eq!(read_cut(&second, 10, STRIPE - 10, cut(0)).unwrap(), vec![0; STRIPE - 10]);
        let earlier = Cut { as_of: inos - 1, from: 0 };
        assert!(is_lost(read_cut(&second, 10, 1, earlier)), "it was cut before they were lost");
        assert!(is_lost(write_cut(&second, BLOCK + 50, b"end", earlier)));
        assert!(
            is_lost(write_cut(&second, BLOCK + 50, b"end", cut(BLOCK as u32 + 1))),
            "a byte is lost"
        );
        write_cut(&second, BLOCK + 50, b"end", cut(BLOCK as u32)).unwrap();
        let mut wanted = [0; 53];
        wanted[50..].copy_from_slice(b"end");
        assert_eq!(read(&second, stripe(0), BLOCK, 53).unwrap(), wanted);
        // What was there before the cut is told from what was cut by whoever knows where that was.
        assert!(is_lost(read(&second, stripe(0), 0, 1)));
        write_cut(&second, 1, b"x", cut(0)).unwrap();
        assert_eq!(read(&second, stripe(0), 0, 2).unwrap(), b"\0x");

        lose_seals(&store, inos + 1);
        let third = client(&store, 3, alone);
        assert!(is_lost(read_cut(&third, BLOCK, 1, cut(0))), "it was lost after the cut");
        assert!(is_lost(write_cut(&third, 9, b"end", cut(0))));
    }
}

#[test]
fn what_is_lost_while_a_write_asks_for_seals_is_no_hole() {
    let within = Duration::from_secs(10);
    let heap = Arc::new(heap(ByteSize::mib(64)));
    write(&client(&heap, 1, false), stripe(0), 0, &noise(1, STRIPE)).unwrap();
    let inos = stripe(0).ino.0 + 1;
    lose_seals(&heap, inos);
    let cut = Cut { as_of: inos, from: 0 };
    write_cut(&client(&heap, 2, false), BLOCK + 50, b"end", cut).unwrap();

    let node = Arc::new(Faulty::new(Arc::clone(&heap), Vec::new()));
    let third = client(&node, 3, false);
    let first = node.pause(Operation::Batch, When::After);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_cut(&third, 9, b"end", cut));
        let is_held = first.wait_until_held(1, within);
        let second = node.pause(Operation::Batch, When::Before);
        drop(first);
        let is_held = is_held && second.wait_until_held(1, within);
        lose_seals(&heap, inos + 1);
        drop(second);
        let written = writer.join().unwrap();
        assert!(is_held && is_lost(written), "between the two that it asks");
    });
}

#[test]
fn a_stripe_whose_seals_may_be_lost_answers_that_and_can_be_written_anew() {
    for alone in [true, false] {
        let store = Arc::new(heap(ByteSize::mib(64)));
        let first = client(&store, 1, false);
        write(&first, stripe(0), 0, &noise(1, BLOCK)).unwrap();
        write(&first, stripe(1), 0, &noise(2, 100)).unwrap();
        lose_seals(&store, stripe(0).ino.0 + 1);

        let second = client(&store, 2, alone);
        for (at, length) in [(0, 10), (0, STRIPE), (STRIPE - 1, 1)] {
            assert!(is_lost(read(&second, stripe(0), at, length)), "{at}, {length}");
        }
        assert_eq!(second.lengths(&[stripe(0)]).unwrap(), [STRIPE as u32]);
        assert!(is_lost(write(&second, stripe(0), 50, b"behind a gap")));
        write(&second, stripe(0), 0, b"anew").unwrap();
        assert_eq!(read(&second, stripe(0), 0, 4).unwrap(), b"anew");
        assert!(is_lost(read(&second, stripe(0), BLOCK, 1)), "the rest is still lost");
        // So is the rest of the block.
        for (at, length) in [(4, 1), (0, 5), (0, BLOCK), (0, STRIPE), (BLOCK - 1, 1)] {
            assert!(is_lost(read(&second, stripe(0), at, length)), "{at}, {length}");
        }
        assert!(is_lost(write(&second, stripe(0), 5, b"behind a gap")));
        write(&second, stripe(0), 4, b" and more").unwrap();
        assert_eq!(read(&second, stripe(0), 0, 13).unwrap(), b"anew and more");
        assert!(is_lost(read(&second, stripe(0), 0, 14)));
        second.trim(&[(stripe(0), 2)]).unwrap();
        assert_eq!(read(&second, stripe(0), 0, 2).unwrap(), b"an");
        assert!(is_lost(read(&second, stripe(0), 0, 3)), "who cut it says where");
        let cut = Cut { as_of: stripe(0).ino.0 + 1, from: 0 };
        assert_eq!(read_cut(&second, 1, 3, cut).unwrap(), b"n\0\0");
        write_cut(&second, 5, b"end", Cut { from: 2, ..cut }).unwrap();
        assert_eq!(read(&second, stripe(0), 0, 8).unwrap(), b"an\0\0\0end");
        // Later inodes have lost nothing.
        let later = tidefs_model::StripeKey { ino: tidefs_model::Ino(9_999), index: 0 };
        assert_eq!(read(&second, later, 0, 10).unwrap(), [0; 10]);
    }
}

/// A store that has lost the bytes of all stripes, and cannot tell afterwards what is a hole from what was lost.
struct BytesLost(Arc<Embedded>);

impl BytesLost {
    fn check(&self, key: StripeKey, up_to: u32) -> Result<(), StoreError> {
        let length = self.0.lengths(&[key])?[0];
        if length < up_to { Err(StoreError::Lost { partition: 0 }) } else { Ok(()) }
    }
}

impl Store for BytesLost {
    fn batch(&self, shard: ShardKey, batch: &Batch) -> Result<Outcome, StoreError> {
        self.0.batch(shard, batch)
    }

    fn batches(&self, batches: &[(ShardKey, Batch)]) -> Result<Vec<Outcome>, StoreError> {
        self.0.batches(batches)
    }

    fn list(&self, shards: &[(ShardKey, Cursor)]) -> Result<Vec<Page>, StoreError> {
        self.0.list(shards)
    }

    fn keys(&self, cursor: &Cursor) -> Result<KeyPage, StoreError> {
        self.0.keys(cursor)
    }

    fn delete_shards(&self, shards: &[ShardKey]) -> Result<(), StoreError> {
        self.0.delete_shards(shards)
    }

    fn read(&self, reads: &mut [StripeRead<'_>]) -> Result<(), StoreError> {
        for read in reads.iter() {
            self.check(read.key, read.offset + read.buffer.len() as u32)?;
        }
        self.0.read(reads)
    }

    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        for write in writes {
            self.check(write.key, write.offset)?;
            self.0.write(std::slice::from_ref(write))?;
        }
        Ok(())
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        self.0.trim(trims)
    }

    fn lengths(&self, keys: &[StripeKey]) -> Result<Vec<u32>, StoreError> {
        self.0.lengths(keys)
    }

    fn overview(&self) -> Result<Overview, StoreError> {
        self.0.overview()
    }
}

#[test]
fn a_write_that_is_refused_behind_lost_bytes_leaves_the_stripe_to_be_written() {
    for alone in [true, false] {
        let heap = Arc::new(heap(ByteSize::mib(64)));
        write(&client(&heap, 1, false), stripe(0), 0, &noise(1, STRIPE)).unwrap();
        heap.trim(&[(stripe(0), 0)]).unwrap();

        let second = client(&Arc::new(BytesLost(heap)), 2, alone);
        write(&second, stripe(0), 0, &noise(2, BLOCK)).unwrap();
        assert!(is_lost(write(&second, stripe(0), 2 * BLOCK, &noise(3, BLOCK))));
        write(&second, stripe(0), 0, &noise(4, BLOCK)).unwrap();
        assert_eq!(read(&second, stripe(0), 0, BLOCK).unwrap(), noise(4, BLOCK));
        assert!(is_lost(read(&second, stripe(0), 2 * BLOCK, 1)));
        write(&second, stripe(0), BLOCK, &noise(5, STRIPE - BLOCK)).unwrap();
        assert_eq!(
            read(&second, stripe(0), BLOCK, STRIPE - BLOCK).unwrap(),
            noise(5, STRIPE - BLOCK)
        );
    }
}
