//! Closing a small file sends its bytes and its size at the same time; either may fail alone.

use std::sync::Arc;

use tidefs_model::{Ino, ManualClock, MountId};
use tidefs_store::{Embedded, Fault, Faulty, Operation, StoreError};

use super::bed::{ME, WRITE, Watched};
use crate::{Config, Error, Fs, Handle};

struct Closing {
    store: Arc<Faulty<Embedded>>,
    fs: Fs<Faulty<Embedded>>,
    ino: Ino,
    handle: Handle,
}

impl Closing {
    /// A file of `stored` bytes is open.
    fn new(stored: usize) -> Closing {
        let Watched { store, fs, .. } = Watched::new();
        let (entry, opened) = fs.create(ME, Ino::ROOT, b"file", 0o644, WRITE).expect("made");
        let closing = Closing { store, fs, ino: entry.attr.ino, handle: opened.handle };
        if stored > 0 {
            closing.write(0, &vec![1; stored]);
            assert_eq!(closing.flush(), Ok(()));
        }
        closing
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let written = self.fs.write(self.handle, offset, bytes, None, false);
        assert_eq!(written, Ok(bytes.len()));
    }

    fn flush(&self) -> Result<(), Error> {
        self.fs.flush(self.handle)
    }

    /// The next calls of an operation, so many of them, fail.
    fn fail(&self, operation: Operation, calls: u64, error: &StoreError) {
        let done = self.store.count(operation);
        for nth in 1..=calls {
            self.store.add(Fault::nth(operation, done + nth, error.clone()));
        }
    }

    /// What a program that opens the file now finds in it, and what its size is said to be.
    fn contents(&self) -> (Vec<u8>, u64) {
        self.fs.release(self.handle).expect("released");
        let handle = self.fs.open(self.ino, WRITE).expect("opened").handle;
        let bytes = self.fs.read(handle, 0, 1 << 20).expect("read").as_slice().to_vec();
        self.fs.release(handle).expect("released");
        (bytes, self.fs.getattr(self.ino, None).expect("attributes").size)
    }
}

fn full() -> StoreError {
    StoreError::Full { endpoint: "a node".into() }
}

fn gone() -> StoreError {
    StoreError::Unavailable { endpoint: "a node".into() }
}

#[test]
fn bytes_that_were_refused_once_are_sent_again() {
    let closing = Closing::new(0);
    closing.write(0, &[7; 5000]);
    closing.fail(Operation::Write, 1, &gone());
    assert_eq!(closing.flush(), Ok(()));
    assert_eq!(closing.store.pairs(), 1);
    assert_eq!(closing.contents(), (vec![7; 5000], 5000));
}

#[test]
fn a_size_whose_bytes_did_not_arrive_falls_back() {
    for stored in [0, 100] {
        let closing = Closing::new(stored);
        let size = stored as u64;
        closing.write(size, &[7; 5000]);
        closing.fail(Operation::Write, 9, &gone());
        assert_eq!(closing.flush(), Err(Error::Store(gone())));
        assert_eq!(closing.flush(), Ok(()), "it is told once");
        closing.store.heal();
        assert_eq!(closing.contents(), (vec![1; stored], size));
    }
}

#[test]
fn a_commit_that_found_no_room_is_made_after_the_bytes() {
    let closing = Closing::new(0);
    closing.write(0, &[7; 5000]);
    closing.fail(Operation::Batch, 1, &full());
    assert_eq!(closing.flush(), Ok(()));
    assert_eq!(closing.contents(), (vec![7; 5000], 5000));
}

#[test]
fn a_commit_that_failed_is_told_and_made_by_the_next_close() {
    let closing = Closing::new(0);
    closing.write(0, &[7; 5000]);
    closing.fail(Operation::Batch, 1, &gone());
    assert_eq!(closing.flush(), Err(Error::Store(gone())));
    assert_eq!(closing.flush(), Ok(()));
    assert_eq!(closing.contents(), (vec![7; 5000], 5000));
}

#[test]
fn a_size_that_may_have_been_committed_without_its_bytes_falls_back() {
    let closing = Closing::new(100);
    closing.write(100, &[7; 5000]);
    let lost = StoreError::Indeterminate { endpoint: "a node".into() };
    let next = closing.store.count(Operation::Batch) + 1;
    closing.store.add(Fault::nth(Operation::Batch, next, lost).after());
    closing.fail(Operation::Write, 9, &gone());
    assert_eq!(closing.flush(), Err(Error::Store(gone())));
    closing.store.heal();
    assert_eq!(closing.contents(), (vec![1; 100], 100));
}

#[test]
fn when_both_fail_nothing_was_written() {
    let closing = Closing::new(100);
    closing.write(100, &[7; 5000]);
    closing.fail(Operation::Batch, 1, &gone());
    closing.fail(Operation::Write, 9, &gone());
    assert_eq!(closing.flush(), Err(Error::Store(gone())));
    closing.store.heal();
    assert_eq!(closing.contents(), (vec![1; 100], 100));
}

#[test]
fn much_goes_first_and_the_size_follows() {
    let closing = Closing::new(0);
    closing.write(0, &[7; 100_000]);
    assert_eq!(closing.flush(), Ok(()));
    assert_eq!(closing.store.pairs(), 0);
    closing.write(50_000, &[8; 10]);
    closing.write(90_000, &[8; 10]);
    assert_eq!(closing.flush(), Ok(()));
    assert_eq!(closing.store.pairs(), 1);
    let mut expected = vec![7; 100_000];
    expected[50_000..50_010].fill(8);
    expected[90_000..90_010].fill(8);
    assert_eq!(closing.contents(), (expected, 100_000));
}

#[test]
fn with_company_the_bytes_go_first() {
    let closing = Closing::new(0);
    let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
    let clock = Arc::new(ManualClock::default());
    let _other = Fs::mount(Arc::clone(&closing.store), config, clock).expect("mounted");
    closing.fs.tick().expect("asked");
    closing.write(0, &[7; 5000]);
    assert_eq!(closing.flush(), Ok(()));
    assert_eq!(closing.store.pairs(), 0);
    assert_eq!(closing.contents(), (vec![7; 5000], 5000));
}
