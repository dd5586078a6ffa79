//! Threads that write and read without a pause, know what must come out, and fail when it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tidefs_model::{Ino, ShardKey, StripeKey};
use tidefs_store::{Batch, Cursor, Store, StoreError, StripeRead, StripeWrite};
use tidefs_valkey::Valkey;

const THREADS: u64 = 3;
const STRIPES: u32 = 40;
const SHARDS: u16 = 8;
const STRIPE_BYTES: usize = 24_000;
/// Stripes that are written once and must be the same for ever.
const STILL: u32 = 400;

/// Constant traffic on a store, until it is ended.
pub struct Load {
    store: Arc<Valkey>,
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Traffic>>,
}

/// What one thread has made of its own stripes and shards.
struct Traffic {
    me: u64,
    store: Arc<Valkey>,
    /// How often each stripe was written; 0 where it is removed.
    stripes: Vec<u64>,
    /// Counts in each shard.
    shards: Vec<u64>,
    /// Operations so far.
    count: u64,
}

/// The bytes of a stripe after its `version`th write.
fn pattern(key: StripeKey, version: u64) -> Vec<u8> {
    let start = key.ino.0.wrapping_mul(31) ^ u64::from(key.index) << 20 ^ version << 40;
    if version == 0 {
        return vec![0; STRIPE_BYTES];
    }
    let numbers = (0..STRIPE_BYTES as u64 / 8).map(|at| start.wrapping_mul(2 * at + 1));
    numbers.flat_map(u64::to_be_bytes).collect()
}

/// The stripes that are written once.
pub fn still() -> impl Iterator<Item = StripeKey> {
    (0..STILL).map(|index| StripeKey { ino: Ino(900), index })
}

pub fn write_still(store: &Valkey) {
    for key in still() {
        let bytes = pattern(key, 1);
        store.write(&[StripeWrite { key, offset: 0, bytes: &bytes }]).unwrap();
    }
}

/// Whether a stripe that was written once can be read.
///
/// # Panics
/// When it has other bytes.
pub fn is_readable(store: &Valkey, key: StripeKey) -> bool {
    let mut buffer = vec![0xee; STRIPE_BYTES];
    match store.read(&mut [StripeRead { key, offset: 0, buffer: &mut buffer }]) {
        Ok(()) => assert!(buffer == pattern(key, 1), "{key:?} has other bytes"),
        Err(StoreError::Unavailable { .. }) => return false,
        Err(error) => panic!("{key:?}: {error}"),
    }
    true
}

impl Load {
    pub fn start(store: Valkey) -> Load {
        let store = Arc::new(store);
        write_still(&store);
        let done = Arc::new(AtomicBool::new(false));
        let threads = (0..THREADS).map(|me| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            thread::spawn(move || {
                let stripes = vec![0; STRIPES as usize];
                let shards = vec![0; usize::from(SHARDS)];
                let mut traffic = Traffic { me, store, stripes, shards, count: 0 };
                while !done.load(Ordering::Relaxed) {
                    traffic.operate();
                }
                traffic
            })
        });
        let threads = threads.collect();
        Load { store, done, threads }
    }

    /// Ends the traffic and looks at everything once more.
    ///
    /// # Panics
    /// When a thread met an error or a wrong byte.
    pub fn end(mut self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        let traffic = self.threads.drain(..).map(|thread| thread.join().expect("a thread failed"));
        let count = traffic.map(|mut traffic| traffic.check_all()).sum();
        for key in still() {
            check(&self.store, key, 1);
        }
        count
    }
}

/// A test that fails elsewhere does not leave the threads behind.
impl Drop for Load {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn check(store: &Valkey, key: StripeKey, version: u64) {
    let mut buffer = vec![0xee; STRIPE_BYTES];
    store.read(&mut [StripeRead { key, offset: 0, buffer: &mut buffer }]).unwrap();
    assert!(buffer == pattern(key, version), "{key:?} is not as it was written ({version})");
}

impl Traffic {
    fn stripe(&self, index: usize) -> StripeKey {
        StripeKey { ino: Ino(1_000 + self.me), index: index as u32 }
    }

    fn shard(&self, index: usize) -> ShardKey {
        ShardKey { directory: Ino(2_000 + self.me), index: index as u16 }
    }

    fn operate(&mut self) {
        self.count += 1;
        let at = self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let (stripe, shard) = (at as usize % self.stripes.len(), at as usize % self.shards.len());
        match self.count % 7 {
            0 => self.remove(stripe),
            1 | 2 => self.write(stripe),
            3 | 4 => self.count_in(shard),
            5 => self.read_many(),
            _ => check(&self.store, self.stripe(stripe), self.stripes[stripe]),
        }
    }

    fn write(&mut self, index: usize) {
        let (key, version) = (self.stripe(index), self.count);
        let bytes = pattern(key, version);
        let (first, second) = bytes.split_at(STRIPE_BYTES / 3);
        let offset = first.len() as u32;
        self.store.write(&[StripeWrite { key, offset: 0, bytes: first }]).unwrap();
        self.store.write(&[StripeWrite { key, offset, bytes: second }]).unwrap();
        self.stripes[index] = version;
    }

    fn remove(&mut self, index: usize) {
        self.store.trim(&[(self.stripe(index), 0)]).unwrap();
        self.stripes[index] = 0;
    }

    fn count_in(&mut self, index: usize) {
        let shard = self.shard(index);
        self.shards[index] += 1;
        let batch = Batch::new().at_most("n", 0, self.shards[index] - 1).add("n", 0, 1).read("n");
        let outcome = self.store.batch(shard, &batch).unwrap();
        assert!(outcome.applied(), "{shard:?} was counted in twice");
        let counted = Some(self.shards[index].to_be_bytes().to_vec());
        assert_eq!(outcome.values[0], counted, "{shard:?}");
    }

    fn read_many(&mut self) {
        let mut buffers = vec![vec![0xee; STRIPE_BYTES]; 6];
        let keys: Vec<_> = (0..6).map(|at| self.stripe(at * 5)).collect();
        let reads = keys.iter().zip(&mut buffers);
        let mut reads: Vec<_> =
            reads.map(|(&key, buffer)| StripeRead { key, offset: 0, buffer }).collect();
        self.store.read(&mut reads).unwrap();
        for (at, (key, buffer)) in keys.into_iter().zip(&buffers).enumerate() {
            assert!(*buffer == pattern(key, self.stripes[at * 5]), "{key:?} among others");
        }
    }

    fn check_all(&mut self) -> u64 {
        for index in 0..self.stripes.len() {
            check(&self.store, self.stripe(index), self.stripes[index]);
        }
        for index in 0..self.shards.len() {
            let pages = self.store.list(&[(self.shard(index), Cursor::default())]).unwrap();
            let expected: Vec<_> = (self.shards[index] > 0)
                .then(|| (b"n".to_vec(), self.shards[index].to_be_bytes().to_vec()))
                .into_iter()
                .collect();
            assert_eq!(pages[0].fields, expected);
        }
        self.count
    }
}
