//! Attributes that are set on a new file before it is closed.

use std::time::Duration;

use tidefs_model::{Clock, Ino, Time};
use tidefs_store::{Batch, Operation, Store};

use super::bed::{ME, WRITE, Watched};
use crate::inode::Inode;
use crate::{Handle, SetAttr, SetTime, keys};

struct Bed {
    watched: Watched,
    directory: Ino,
}

impl Bed {
    fn new() -> Bed {
        let watched = Watched::new();
        let directory = watched.fs.mkdir(ME, Ino::ROOT, b"made", 0o755).expect("made").attr.ino;
        let bed = Bed { watched, directory };
        // The first file of a mount pays for its range of inode numbers.
        let (_, handle) = bed.create(b"first");
        bed.close(handle);
        bed
    }

    fn create(&self, name: &[u8]) -> (Ino, Handle) {
        let (entry, opened) =
            self.watched.fs.create(ME, self.directory, name, 0o6755, WRITE).expect("made");
        self.watched.fs.write(opened.handle, 0, &[7; 100], None, false).expect("written");
        (entry.attr.ino, opened.handle)
    }

    fn close(&self, handle: Handle) {
        self.watched.fs.flush(handle).and(self.watched.fs.release(handle)).expect("closed");
    }

    fn set(&self, ino: Ino, changes: SetAttr) {
        let attr = self.watched.fs.setattr(ino, None, &changes).expect("set");
        assert_eq!(Ok(attr), self.watched.fs.getattr(ino, None));
    }

    /// As the store has it.
    fn stored(&self, name: &[u8], ino: Ino) -> Option<Inode> {
        let shard = self.watched.fs.shard_of(self.directory, name);
        let read = Batch::new().read(keys::inode(ino));
        let record = self.watched.store.batch(shard, &read).expect("read").take(0)?;
        Some(Inode::decode(ino, &record).expect("a record"))
    }

    fn calls(&self) -> u64 {
        let all = [Operation::Batch, Operation::Write, Operation::List];
        all.iter().map(|operation| self.watched.store.count(*operation)).sum()
    }

    fn passes(&self) {
        self.watched.clock.advance(Duration::from_secs(1));
    }
}

const OLD: Time = Time(1_000_000_000_000_000_000);

fn owner() -> SetAttr {
    SetAttr { uid: Some(5), gid: Some(6), ..SetAttr::default() }
}

fn mode() -> SetAttr {
    SetAttr { mode: Some(0o4640), ..SetAttr::default() }
}

fn times() -> SetAttr {
    let time = Some(SetTime::At(OLD));
    SetAttr { atime: time, mtime: time, ..SetAttr::default() }
}

#[test]
fn what_unpacks_a_file_pays_for_its_close_alone() {
    let bed = Bed::new();
    let (ino, handle) = bed.create(b"file");
    bed.passes();
    let before = bed.calls();
    bed.set(ino, owner());
    assert_eq!(bed.watched.fs.getattr(ino, None).map(|attr| attr.mode), Ok(0o755));
    bed.set(ino, mode());
    bed.set(ino, times());
    assert_eq!(bed.calls(), before, "it waits");
    let changed = bed.watched.clock.now();
    bed.passes();
    bed.close(handle);
    assert_eq!(bed.calls(), before + 2, "the record and, at the same time, the bytes");
    let stored = bed.stored(b"file", ino).expect("made");
    assert_eq!((stored.uid, stored.gid, stored.mode, stored.size), (5, 6, 0o4640, 100));
    assert_eq!((stored.mtime, stored.atime, stored.ctime), (OLD, OLD, changed));
    assert_eq!(bed.watched.fs.getattr(ino, None).map(|attr| attr.mtime), Ok(OLD));
}

#[test]
fn a_file_that_is_made_meanwhile_keeps_what_was_set() {
    let bed = Bed::new();
    let (ino, handle) = bed.create(b"file");
    bed.passes();
    bed.set(ino, times());
    bed.watched.fs.store.flush_changes();
    assert_eq!(bed.stored(b"file", ino).map(|inode| inode.mtime), Some(OLD));
    bed.set(ino, mode());
    bed.passes();
    bed.close(handle);
    let stored = bed.stored(b"file", ino).expect("made");
    assert_eq!((stored.mtime, stored.mode, stored.size), (OLD, 0o4640, 100));
}

#[test]
fn what_is_written_after_a_time_was_set_dates_the_file() {
    for is_made in [false, true] {
        let bed = Bed::new();
        let (ino, handle) = bed.create(b"file");
        bed.set(ino, times());
        bed.passes();
        if is_made {
            bed.watched.fs.store.flush_changes();
        }
        let written = bed.watched.clock.now();
        bed.watched.fs.write(handle, 50, &[8; 100], None, false).expect("written");
        bed.passes();
        bed.close(handle);
        let stored = bed.stored(b"file", ino).expect("made");
        assert_eq!((stored.mtime, stored.atime, stored.size), (written, OLD, 150), "{is_made}");
    }
}

#[test]
fn the_present_is_the_time_of_the_call() {
    let bed = Bed::new();
    let (ino, handle) = bed.create(b"file");
    bed.passes();
    let set = bed.watched.clock.now();
    bed.set(ino, SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() });
    bed.passes();
    bed.close(handle);
    assert_eq!(bed.stored(b"file", ino).map(|inode| inode.mtime), Some(set));
}
