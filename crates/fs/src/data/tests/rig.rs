//! One mount's data path with one file in it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidefs_model::{ByteSize, Ino, ManualClock, MountId, ShardKey, StripeKey, StripeSize, Time};
use tidefs_sealed::Sealed;
use tidefs_store::{Batch, Embedded, Fault, Faulty, Store, StoreError};

use crate::attr::Kind;
use crate::data::{AppendedAt, DataPath, ErrorCursor, OpenFile, ReadAhead};
use crate::delegations::Delegations;
use crate::inode::Inode;
use crate::write_back::WriteBack;
use crate::{Config, Error, keys};

pub const STRIPE: u64 = 4096;
pub const INO: Ino = Ino(77);
pub const HOME: ShardKey = ShardKey { directory: Ino::ROOT, index: 3 };

/// For an append that is not begun again.
pub fn new_end() -> AppendedAt {
    AppendedAt::default()
}

/// Appends; `shared`: other mounts may be there.
pub fn append<S: Store>(
    file: &OpenFile<S>,
    errors: &ErrorCursor,
    bytes: &[u8],
    shared: bool,
    at: &AppendedAt,
) -> Result<Range<u64>, Error> {
    if !shared {
        file.place_alone(bytes.len(), at);
    }
    file.append(errors, bytes, at)
}

pub type TestStore = Faulty<Embedded>;

pub struct Rig<S: Store = TestStore> {
    pub store: Arc<S>,
    pub path: Arc<DataPath<S>>,
    pub file: OpenFile<S>,
    pub clock: Arc<Ticking>,
}

/// Moves on a little each time it is read, so that times tell what came first.
#[derive(Default)]
pub struct Ticking {
    clock: ManualClock,
    readings: AtomicU64,
}

impl Ticking {
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl tidefs_model::Clock for Ticking {
    fn now(&self) -> Time {
        Time(self.clock.now().0 + self.readings.fetch_add(1, Ordering::SeqCst))
    }
}

pub fn stripe_size() -> StripeSize {
    StripeSize::new(STRIPE as u32).unwrap()
}

pub fn config() -> Config {
    Config {
        dirty_bytes_max: ByteSize(8 * STRIPE),
        read_ahead_bytes_max: ByteSize(8 * STRIPE),
        io_threads: 3,
        ..Config::new(MountId(1))
    }
}

pub fn embedded() -> Embedded {
    Embedded::in_heap(ByteSize::gib(1), stripe_size())
}

pub fn full() -> StoreError {
    StoreError::Full { endpoint: "node".into() }
}

pub fn gone() -> StoreError {
    StoreError::Unavailable { endpoint: "node".into() }
}

/// A file that is there and empty.
pub fn rig(faults: Vec<Fault>) -> Rig {
    rig_over(Arc::new(Faulty::new(embedded(), faults)), &config())
}

pub fn rig_over<S: Store>(store: Arc<S>, config: &Config) -> Rig<S> {
    let clock = Arc::new(Ticking::default());
    let inode = empty_inode();
    put_inode(&*store, &inode);
    let write_back = WriteBack::over(
        Arc::new(Sealed::plain(Arc::clone(&store))),
        None,
        Arc::new(Delegations::none()),
    );
    let path = DataPath::new(write_back, stripe_size(), config, clock.clone());
    let file = OpenFile::new(Arc::clone(&path), INO, HOME, &inode, None);
    Rig { store, path, file, clock }
}

pub fn empty_inode() -> Inode {
    Inode {
        kind: Kind::File,
        sparse: false,
        capable: false,
        mode: 0o644,
        nlink: 1,
        size: 0,
        version: 0,
        mtime: Time(0),
        ctime: Time(0),
        atime: Time(0),
        btime: Time(0),
        uid: 0,
        gid: 0,
        rdev: 0,
        layout: crate::Layout::Striped,
        parent: None,
        cut: None,
        holes: Vec::new(),
        target: Vec::new(),
    }
}

pub fn put_inode<S: Store>(store: &S, inode: &Inode) {
    let batch = Batch::new().put(keys::inode(INO), inode.encode());
    assert!(store.batch(HOME, &batch).unwrap().applied());
}

impl<S: Store> Rig<S> {
    pub fn cursor(&self) -> ErrorCursor {
        ErrorCursor::new(&self.file)
    }

    /// The inode as the store has it.
    pub fn inode(&self) -> Inode {
        let batch = Batch::new().read(keys::inode(INO));
        let record = self.store.batch(HOME, &batch).unwrap().take(0).expect("the inode");
        Inode::decode(INO, &record).unwrap()
    }

    /// The same file as another mount sees it.
    pub fn other_mount(&self) -> Rig<S> {
        let write_back = WriteBack::over(
            Arc::new(Sealed::plain(Arc::clone(&self.store))),
            None,
            Arc::new(Delegations::none()),
        );
        let path = DataPath::new(write_back, stripe_size(), &config(), self.clock.clone());
        let file = OpenFile::new(Arc::clone(&path), INO, HOME, &self.inode(), None);
        Rig { store: Arc::clone(&self.store), path, file, clock: Arc::clone(&self.clock) }
    }

    /// A second open file of this mount. Real mounts have one for an inode; here it stands for
    /// another file that shares the budget.
    pub fn again(&self) -> OpenFile<S> {
        OpenFile::new(Arc::clone(&self.path), INO, HOME, &self.inode(), None)
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write(&self.cursor(), offset, bytes).map(|taken| assert_eq!(taken, bytes.len()))
    }

    pub fn flush(&self) {
        self.file.flush(&self.cursor()).unwrap();
    }

    pub fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        self.read_with(&ReadAhead::default(), offset, length)
    }

    pub fn read_with(&self, reader: &ReadAhead, offset: u64, length: usize) -> Vec<u8> {
        self.file.read(reader, offset, length).unwrap().as_slice().to_vec()
    }

    pub fn all(&self) -> Vec<u8> {
        self.read(0, self.file.size() as usize)
    }

    /// How many of the file's first stripes the store has.
    pub fn stripes_stored(&self, of: u32) -> usize {
        let keys: Vec<_> = (0..of).map(|index| StripeKey { ino: INO, index }).collect();
        let lengths = self.store.lengths(&keys).unwrap();
        lengths.iter().filter(|&&length| length > 0).count()
    }

    pub fn has_region(&self, region: u32) -> bool {
        let batch = Batch::new().read(keys::region(INO, region));
        self.store.batch(HOME, &batch).unwrap().take(0).is_some()
    }
}

/// Bytes that tell where they belong and in which round they were written.
pub fn pattern(offset: u64, length: usize, round: u64) -> Vec<u8> {
    (offset..offset + length as u64).map(|at| (at * 31 + round * 101 + at / 251) as u8).collect()
}

/// Waits until something is so that other threads bring about.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waited = Mutex::new(0);
    while !holds() {
        let mut waited = waited.lock().unwrap();
        *waited += 1;
        assert!(*waited < 10_000, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
