//! A node that has the stripes and answers what it likes: altered, swapped, replayed, cut, none. Every
//! read answers an error or the bytes that were written last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidefs_model::{ByteSize, ShardKey, StripeKey};
use tidefs_store::{
    Batch, Cursor, Embedded, KeyPage, Outcome, Overview, Page, Store, StoreError, StripeRead,
    StripeWrite,
};

use crate::support::{BLOCK, STRIPE, client, heap, laid, noise, read, stripe, write};

/// What the node does with the bytes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crime {
    None,
    /// Turns a bit of the byte at this place of the answer.
    Alters(usize),
    /// Answers with another stripe's bytes.
    Swaps,
    /// Answers with the same stripe's bytes from elsewhere in it.
    Shifts,
    /// Answers with what it had before the last write.
    Replays,
    /// Says that there is nothing.
    Drops,
    /// Leaves the second half of the answer out.
    Halves,
    /// Answers with bytes of its own.
    Invents,
}

const CRIMES: [Crime; 9] = [
    Crime::Alters(0),
    Crime::Alters(BLOCK / 2),
    Crime::Alters(usize::MAX),
    Crime::Swaps,
    Crime::Shifts,
    Crime::Replays,
    Crime::Drops,
    Crime::Halves,
    Crime::Invents,
];

/// Shards are kept faithfully, since they lie on other nodes; it remembers every stripe as it was.
struct Node {
    kept: Embedded,
    crime: Mutex<Crime>,
    earlier: Mutex<BTreeMap<StripeKey, Vec<u8>>>,
}

impl Node {
    fn new() -> Arc<Node> {
        let (crime, earlier) = (Mutex::new(Crime::None), Mutex::default());
        Arc::new(Node { kept: heap(ByteSize::mib(64)), crime, earlier })
    }

    fn commits(&self, crime: Crime) {
        *self.crime.lock().unwrap() = crime;
    }

    /// From now on what is there counts as earlier.
    fn remembers(&self, key: StripeKey) {
        let bytes = read(&self.kept, key, 0, STRIPE).unwrap();
        self.earlier.lock().unwrap().insert(key, bytes);
    }

    fn tamper(&self, read: &mut StripeRead<'_>) -> Result<(), StoreError> {
        let length = read.buffer.len();
        let whole = |store: &Embedded, key| self::read(store, key, 0, STRIPE);
        let from = read.offset as usize;
        match *self.crime.lock().unwrap() {
            Crime::None => {}
            Crime::Alters(at) => read.buffer[at.min(length - 1)] ^= 4,
            Crime::Swaps => {
                let other = StripeKey { index: read.key.index ^ 1, ..read.key };
                let bytes = whole(&self.kept, other)?;
                read.buffer.copy_from_slice(&bytes[from..from + length]);
            }
            Crime::Shifts => {
                let mut bytes = whole(&self.kept, read.key)?;
                bytes.rotate_left((from + 1) % STRIPE);
                read.buffer.copy_from_slice(&bytes[..length]);
            }
            Crime::Replays => {
                if let Some(bytes) = self.earlier.lock().unwrap().get(&read.key) {
                    read.buffer.copy_from_slice(&bytes[from..from + length]);
                }
            }
            Crime::Drops => read.buffer.fill(0),
            Crime::Halves => read.buffer[length / 2..].fill(0),
            Crime::Invents => read.buffer.copy_from_slice(&noise(99, length)),
        }
        Ok(())
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
        reads.iter_mut().filter(|read| !read.buffer.is_empty()).try_for_each(|it| self.tamper(it))
    }
    fn write(&self, writes: &[StripeWrite<'_>]) -> Result<(), StoreError> {
        self.kept.write(writes)
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

/// How a stripe came to what it holds; the answer is that.
type History = fn(&Node, &dyn Fn(usize, &[u8]), StripeKey) -> Vec<u8>;

const HISTORIES: [(&str, History); 5] = [
    ("written once", |_, write, _| {
        write(0, &noise(1, STRIPE));
        noise(1, STRIPE)
    }),
    ("written twice", |node, write, key| {
        write(0, &noise(1, STRIPE));
        node.remembers(key);
        write(0, &noise(2, STRIPE));
        noise(2, STRIPE)
    }),
    ("a small file", |node, write, key| {
        write(0, &noise(1, 4_096));
        node.remembers(key);
        write(0, &noise(2, 4_096));
        noise(2, 4_096)
    }),
    ("changed in the middle", |node, write, key| {
        write(0, &noise(1, 3 * BLOCK));
        node.remembers(key);
        write(BLOCK - 10, &noise(2, 20));
        laid(&noise(1, 3 * BLOCK), BLOCK - 10, &noise(2, 20))
    }),
    ("appended to", |node, write, key| {
        write(0, &noise(1, 1_000));
        node.remembers(key);
        write(1_000, &noise(2, 1_000));
        laid(&noise(1, 1_000), 1_000, &noise(2, 1_000))
    }),
];

/// Whether any range answers anything else than the truth or an error; how many answered errors.
fn judge(store: &impl Store, key: StripeKey, truth: &[u8], what: &str) -> usize {
    let ends = [(0, truth.len()), (0, 1), (truth.len() - 1, 1), (truth.len() / 2, 7), (10, 100)];
    let ends = ends.into_iter().map(|(at, length)| (at, length.min(truth.len() - at)));
    ends.filter(|&(at, length)| match read(store, key, at, length) {
        Ok(bytes) => {
            assert!(bytes == truth[at..at + length], "{what}: wrong bytes at {at}");
            false
        }
        Err(StoreError::Forged { ino, index }) => {
            assert_eq!((ino, index), (key.ino.0, key.index), "{what}");
            true
        }
        Err(error) => panic!("{what}: {error}"),
    })
    .count()
}

#[test]
fn no_answer_of_a_hostile_node_becomes_a_wrong_byte() {
    for alone in [true, false] {
        for (name, history) in HISTORIES {
            let node = Node::new();
            let (writer, reader) = (client(&node, 1, alone), client(&node, 2, alone));
            let key = stripe(4);
            write(&writer, stripe(5), 0, &noise(50, STRIPE)).unwrap();
            let truth = history(&node, &|at, bytes| write(&writer, key, at, bytes).unwrap(), key);
            for crime in CRIMES {
                node.commits(crime);
                let what = format!("{name}, {crime:?}, alone: {alone}");
                let found = judge(&writer, key, &truth, &what) + judge(&reader, key, &truth, &what);
                let was_one_version = name == "written once" && crime == Crime::Replays;
                assert!(found >= 2 || was_one_version, "{what}: {found} of the reads found it");
                node.commits(Crime::None);
                assert_eq!(judge(&writer, key, &truth, "an honest node"), 0);
            }
        }
    }
}

#[test]
fn a_part_is_not_written_over_bytes_that_are_forged() {
    for alone in [true, false] {
        for crime in CRIMES {
            let node = Node::new();
            let writer = client(&node, 1, alone);
            write(&writer, stripe(5), 0, &noise(9, STRIPE)).unwrap();
            write(&writer, stripe(4), 0, &noise(1, BLOCK)).unwrap();
            node.remembers(stripe(4));
            write(&writer, stripe(4), 0, &noise(2, BLOCK)).unwrap();
            node.commits(crime);
            let written = write(&writer, stripe(4), 100, b"part");
            assert!(matches!(written, Err(StoreError::Forged { .. })), "{crime:?}: {written:?}");
            node.commits(Crime::None);
            assert_eq!(read(&writer, stripe(4), 0, BLOCK).unwrap(), noise(2, BLOCK), "{crime:?}");
            node.commits(crime);
            write(&writer, stripe(4), 0, &noise(3, BLOCK)).expect("all of it is written anew");
            node.commits(Crime::None);
            assert_eq!(read(&writer, stripe(4), 0, BLOCK).unwrap(), noise(3, BLOCK), "{crime:?}");
        }
    }
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let node = Node::new();
    let writer = client(&node, 1, true);
    write(&writer, stripe(4), 0, &noise(1, 2 * BLOCK)).unwrap();
    node.remembers(stripe(4));
    writer.trim(&[(stripe(4), 100)]).unwrap();
    node.commits(Crime::Replays);
    let mut truth = noise(1, 100);
    truth.resize(2 * BLOCK, 0);
    assert!(read(&writer, stripe(4), 0, 2 * BLOCK).unwrap() == truth, "seals say what is there");
    writer.trim(&[(stripe(4), 0)]).unwrap();
    assert_eq!(read(&writer, stripe(4), 0, 100).unwrap(), [0; 100]);
    assert_eq!(writer.lengths(&[stripe(4)]).unwrap(), [0]);
}

/// What lies on the node says nothing of what was written.
#[test]
fn the_node_has_nothing_in_the_clear() {
    let node = Node::new();
    let writer = client(&node, 1, true);
    let plain = b"a line that is easy to find\n".repeat(10_000);
    write(&writer, stripe(0), 0, &plain).unwrap();
    let kept = read(&node.kept, stripe(0), 0, plain.len()).unwrap();
    let words = |bytes: &[u8]| bytes.windows(8).filter(|window| plain.starts_with(window)).count();
    assert_eq!((words(&plain) >= 1, words(&kept)), (true, 0));
    // The same bytes are sealed differently every time.
    write(&writer, stripe(0), 0, &plain).unwrap();
    let again = read(&node.kept, stripe(0), 0, plain.len()).unwrap();
    let same = kept.iter().zip(&again).filter(|(one, other)| one == other).count();
    assert!(same < plain.len() / 64, "{same} bytes are the same");
    assert_eq!(node.kept.lengths(&[stripe(0)]).unwrap(), [plain.len() as u32], "and no byte more");
}
