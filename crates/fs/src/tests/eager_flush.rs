//! New small files that are made while their programs are on the way to close them.

use std::sync::Arc;

use tidefs_model::Ino;
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError};

use super::bed::{ME, WRITE, Watched};
use crate::{Error, Fs, Handle, keys};

struct Early {
    watched: Watched,
    /// A directory that was made here, so that its names are known.
    directory: Ino,
}

impl Early {
    fn new() -> Early {
        let watched = Watched::new();
        let directory = watched.fs.mkdir(ME, Ino::ROOT, b"made", 0o755).expect("made").attr.ino;
        let early = Early { watched, directory };
        // The first file of a mount pays for its range of inode numbers.
        let first = early.open(b"first");
        early.close(first).expect("closed");
        early
    }

    fn fs(&self) -> &Fs<Faulty<Embedded>> {
        &self.watched.fs
    }

    fn store(&self) -> &Arc<Faulty<Embedded>> {
        &self.watched.store
    }

    fn open(&self, name: &[u8]) -> Handle {
        self.fs().create(ME, self.directory, name, 0o644, WRITE).expect("made").1.handle
    }

    /// As a mount writes: what is left to do comes after the answer.
    fn write(&self, handle: Handle, offset: u64) {
        let written = self.fs().write(handle, offset, &[7; 100], None, false).expect("written");
        self.fs().make_eagerly(handle, offset, written);
    }

    fn close(&self, handle: Handle) -> Result<(), Error> {
        let flushed = self.fs().flush(handle);
        flushed.and(self.fs().release(handle))
    }

    fn grow(&self, name: &[u8]) {
        let handle = self.open(name);
        (0..3).for_each(|number| self.write(handle, number * 100));
        self.close(handle).expect("closed");
    }

    fn is_stored(&self, name: &[u8]) -> bool {
        let place = self.fs().place(self.directory, name);
        let batch = Batch::new().read(keys::entry(name));
        self.store().batch(place.shard, &batch).expect("read").take(0).is_some()
    }

    fn batches(&self) -> u64 {
        self.store().count(Operation::Batch)
    }

    fn size(&self, name: &[u8]) -> u64 {
        self.fs().lookup(self.directory, name).expect("found").attr.size
    }
}

#[test]
fn a_file_is_made_after_its_first_write_and_its_close_asks_the_store_nothing() {
    let early = Early::new();
    let handle = early.open(b"new");
    let before = early.batches();
    early.write(handle, 0);
    assert_eq!(early.batches(), before + 1);
    early.close(handle).expect("closed");
    assert_eq!(early.batches(), before + 1);
    assert!(early.is_stored(b"new"));
    assert_eq!(early.size(b"new"), 100);
}

#[test]
fn files_that_grow_are_made_when_they_are_closed_until_some_are_written_once_again() {
    let early = Early::new();
    for name in [b"a", b"b", b"c"] {
        early.grow(name);
        assert_eq!(early.size(name), 300);
    }
    for number in 0..8 {
        let name = format!("once {number}").into_bytes();
        let handle = early.open(&name);
        early.write(handle, 0);
        assert!(!early.is_stored(&name), "{number}");
        early.close(handle).expect("closed");
    }
    // Two grew early, then one cost its score; eight closes outweigh that.
    let handle = early.open(b"soon");
    early.write(handle, 0);
    assert!(early.is_stored(b"soon"));
    early.close(handle).expect("closed");
}

#[test]
fn what_fails_early_fails_the_close() {
    let early = Early::new();
    let gone = StoreError::Unavailable { endpoint: "a node".into() };
    let handle = early.open(b"new");
    let next = early.batches() + 1;
    (next..next + 30).for_each(|nth| {
        early.store().add(Fault::nth(Operation::Batch, nth, gone.clone()));
    });
    early.write(handle, 0);
    assert_eq!(early.fs().flush(handle), Err(Error::Store(gone)));
    early.store().heal();
    drop(early.fs().release(handle));
    assert!(!early.is_stored(b"new"));
}

#[test]
fn an_early_making_that_was_not_confirmed_is_found_out_by_the_close() {
    let early = Early::new();
    let handle = early.open(b"new");
    let lost = StoreError::Indeterminate { endpoint: "a node".into() };
    let next = early.batches() + 1;
    early.store().add(Fault::nth(Operation::Batch, next, lost).after());
    early.write(handle, 0);
    early.close(handle).expect("closed");
    assert_eq!(early.size(b"new"), 100);
}

#[test]
fn a_file_without_a_name_is_not_made() {
    let early = Early::new();
    let handle = early.open(b"new");
    early.fs().unlink(early.directory, b"new").expect("removed");
    early.write(handle, 0);
    early.close(handle).expect("closed");
    assert!(!early.is_stored(b"new"));
}
