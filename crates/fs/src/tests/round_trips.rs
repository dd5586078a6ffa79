//! How many calls of the store an operation waits for. Each is a round to a server, and rounds are
//! most of what an operation on a small file takes; `docs/decisions/round-trips.md` has the table.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, ManualClock, Time};
use tidefs_store::{Batch, Embedded, Faulty, Operation, Store};

use super::bed::{ME, WRITE, Watched};
use crate::data::AppendedAt;
use crate::inode::Inode;
use crate::{Error, Fs, Handle, Kind, OpenMode, RenameMode, SetAttr, SetTime, XattrMode, keys};

type Counted = Faulty<Embedded>;

const ALL: [Operation; 8] = [
    Operation::Batch,
    Operation::List,
    Operation::DeleteShards,
    Operation::Read,
    Operation::Write,
    Operation::Trim,
    Operation::Lengths,
    Operation::Overview,
];

struct Counting {
    store: Arc<Counted>,
    clock: Arc<ManualClock>,
    fs: Fs<Counted>,
    /// A directory that was made here.
    directory: Ino,
}

impl Counting {
    fn new() -> Counting {
        let Watched { store, clock, fs } = Watched::new();
        let directory = fs.mkdir(ME, Ino::ROOT, b"made", 0o755).expect("made").attr.ino;
        fs.getattr(directory, None).expect("attributes");
        let counting = Counting { store, clock, fs, directory };
        // The first file of a mount pays for its range of inode numbers.
        counting.make(b"first");
        counting
    }

    /// A write and a batch that are made at the same time are one.
    fn calls(&self) -> u64 {
        let operations: u64 = ALL.iter().map(|&operation| self.store.count(operation)).sum();
        operations - self.store.pairs()
    }

    /// The answer of `work`, and how many calls it made.
    fn count<T>(&self, work: impl FnOnce(&Fs<Counted>, Ino) -> T) -> (T, u64) {
        let before = self.calls();
        let answer = work(&self.fs, self.directory);
        (answer, self.calls() - before)
    }

    fn open_and_close(&self, ino: Ino) -> u64 {
        let (opened, calls) = self.count(|fs, _| fs.open(ino, WRITE));
        self.fs.release(opened.expect("opened").handle).expect("released");
        calls
    }

    fn make(&self, name: &[u8]) -> Ino {
        let (entry, opened) = self.fs.create(ME, self.directory, name, 0o644, WRITE).expect("made");
        self.write_and_close(opened.handle);
        entry.attr.ino
    }

    fn write_and_close(&self, handle: Handle) {
        self.fs.write(handle, 0, &[7; 4096], None, false).expect("written");
        self.fs.flush(handle).expect("flushed");
        self.fs.release(handle).expect("released");
    }
}

#[test]
fn a_new_small_file_takes_one_call() {
    let counting = Counting::new();
    let (absent, calls) = counting.count(|fs, directory| fs.lookup(directory, b"new"));
    assert_eq!((absent.err(), calls), (Some(Error::NotFound), 0), "a free name is known to be");
    let create = |fs: &Fs<Counted>, directory| fs.create(ME, directory, b"new", 0o644, WRITE);
    let (made, calls) = counting.count(create);
    let (entry, opened) = made.expect("made");
    assert_eq!(calls, 0, "entry and inode can wait");
    let ((), calls) = counting.count(|fs, directory| {
        assert_eq!(fs.getxattr(entry.attr.ino, b"security.capability"), Err(Error::NoAttribute));
        fs.write(opened.handle, 0, &[7; 4096], None, false).expect("written");
        fs.getattr(directory, None).expect("attributes");
    });
    assert_eq!(calls, 0, "what the kernel asks in between");
    let (flushed, calls) = counting.count(|fs, _| fs.flush(opened.handle));
    assert_eq!((flushed, calls), (Ok(()), 1), "entry, inode, bytes");
    let (released, calls) = counting.count(|fs, _| fs.release(opened.handle));
    assert_eq!((released, calls), (Ok(()), 0));
}

#[test]
fn reading_takes_a_call_for_the_bytes_and_one_for_a_name_that_is_not_known() {
    let counting = Counting::new();
    let ino = counting.make(b"file");
    let look_up = || counting.count(|fs, directory| fs.lookup(directory, b"file")).1;
    let attributes = || counting.count(|fs, _| fs.getattr(ino, None)).1;
    assert_eq!((attributes(), look_up()), (0, 0), "it was made here");
    counting.clock.advance(Duration::from_secs(60));
    assert_eq!(counting.fs.tick(), Ok(false));
    assert_eq!((look_up(), look_up(), attributes()), (1, 0, 0), "that is long ago");
    let (opened, calls) = counting.count(|fs, _| fs.open(ino, WRITE));
    let handle = opened.expect("opened").handle;
    assert_eq!(calls, 0, "the record came with the name");
    let (bytes, calls) = counting.count(|fs, _| fs.read(handle, 0, 4096));
    assert_eq!((bytes.expect("read").as_slice(), calls), (&[7; 4096][..], 1));
    assert_eq!(counting.count(|fs, _| fs.flush(handle)).1, 0);
    assert_eq!(counting.count(|fs, _| fs.release(handle)).1, 0);
    assert_eq!(counting.open_and_close(ino), 0, "nothing has changed");
    counting.clock.advance(Duration::from_secs(10));
    assert_eq!(counting.open_and_close(ino), 1, "others may be about to take this mount for dead");
    assert_eq!((look_up(), attributes()), (1, 1));
    assert_eq!(counting.fs.tick(), Ok(false));
    counting.open_and_close(ino);
    assert_eq!((look_up(), attributes(), counting.open_and_close(ino)), (0, 0, 0));
}

#[test]
fn a_record_that_this_mount_changed_is_known_as_it_is() {
    let counting = Counting::new();
    let (fs, ino) = (&counting.fs, counting.make(b"file"));
    let length = || {
        let handle = fs.open(ino, WRITE).expect("opened").handle;
        let bytes = fs.read(handle, 0, 1 << 20).expect("read").as_slice().len();
        fs.release(handle).expect("released");
        bytes
    };
    let changed = |what: &str, expected: usize, change: &dyn Fn()| {
        fs.lookup(counting.directory, b"file").expect("found");
        fs.getattr(ino, None).expect("attributes");
        change();
        let home = fs.place(counting.directory, b"file").shard;
        let read = Batch::new().read(keys::inode(ino));
        let record = counting.store.batch(home, &read).expect("read").take(0).expect("there");
        let stored = Inode::decode(ino, &record).expect("a record").attr(ino);
        assert_eq!(fs.getattr(ino, None), Ok(stored), "{what}");
        assert_eq!(length(), expected, "{what}");
    };
    changed("cut", 10, &|| {
        fs.setattr(ino, None, &SetAttr { size: Some(10), ..SetAttr::default() }).expect("cut");
    });
    changed("written", 4096, &|| {
        counting.write_and_close(fs.open(ino, WRITE).expect("opened").handle);
    });
    changed("emptied", 0, &|| {
        let mode = OpenMode { truncate: true, ..WRITE };
        fs.release(fs.open(ino, mode).expect("opened").handle).expect("released");
    });
    changed("times", 0, &|| {
        let mtime = Some(SetTime::At(Time(5)));
        fs.setattr(ino, None, &SetAttr { mtime, ..SetAttr::default() }).expect("set");
    });
    changed("attributes", 0, &|| {
        fs.setxattr(ino, b"user.a", b"b", XattrMode::Any).expect("set");
    });
    changed("one of two names", 0, &|| {
        fs.link(ino, counting.directory, b"other").expect("linked");
        fs.unlink(counting.directory, b"other").expect("removed");
    });
    assert_eq!(fs.getattr(ino, None).expect("attributes").mtime, Time(5));
}

#[test]
fn a_mount_that_is_alone_asks_nobody_to_append_and_sends_nothing_to_make_a_file_longer() {
    let counting = Counting::new();
    let ino = counting.make(b"file");
    let handle = counting.fs.open(ino, WRITE).expect("opened").handle;
    let append = |fs: &Fs<Counted>| {
        fs.write(handle, 0, b"record", Some(&AppendedAt::default()), false).expect("appended")
    };
    assert_eq!(counting.count(|fs, _| append(fs)), (6, 0));
    let longer = SetAttr { size: Some(5000), ..SetAttr::default() };
    let (grown, calls) = counting.count(|fs, _| fs.setattr(ino, None, &longer));
    assert_eq!((grown.map(|attr| attr.size), calls), (Ok(5000), 2));
    assert!(counting.fs.handles.file(handle).expect("open").file.has_unsent());
}

#[test]
fn a_file_without_names_is_not_opened_by_memory() {
    let counting = Counting::new();
    let (fs, directory) = (&counting.fs, counting.directory);
    let ino = counting.make(b"file");
    fs.lookup(directory, b"file").expect("found");
    fs.unlink(directory, b"file").expect("removed");
    assert_eq!(fs.open(ino, WRITE).err(), Some(Error::Stale));
    let ino = counting.make(b"file");
    counting.make(b"other");
    fs.lookup(directory, b"file").expect("found");
    fs.rename(directory, b"other", directory, b"file", RenameMode::Replace).expect("renamed");
    assert_eq!(fs.open(ino, WRITE).err(), Some(Error::Stale));
}

#[test]
fn removing_and_freeing_many_files_takes_a_call_each_for_names_bytes_and_records() {
    let counting = Counting::new();
    for number in 0..20_u8 {
        counting.make(&[b'a' + number]);
    }
    let ((), calls) = counting.count(|fs, directory| {
        (0..20).for_each(|number| fs.unlink(directory, &[b'a' + number]).expect("removed"));
    });
    assert_eq!(calls, 0, "they wait for each other");
    let batches = counting.store.count(Operation::Batch);
    counting.fs.unmount().expect("left");
    assert_eq!(counting.store.count(Operation::Trim), 1);
    let batches = counting.store.count(Operation::Batch) - batches;
    assert_eq!(batches, 3, "names, records, and leaving");
}

#[test]
fn a_name_that_this_mount_never_saw_takes_one_call_too() {
    let counting = Counting::new();
    counting.make(b"file");
    assert_eq!(counting.count(|fs, _| fs.lookup(Ino::ROOT, b"absent")).1, 1);
    let directory = counting.directory;
    counting.fs.forget(directory, 1);
    let (found, calls) = counting.count(|fs, _| fs.lookup(Ino::ROOT, b"made"));
    assert_eq!(found.expect("found").attr.ino, directory);
    assert_eq!(calls, 1, "the record with all shards' headers; the entry was made here");
    let (absent, calls) = counting.count(|fs, directory| fs.lookup(directory, b"absent"));
    assert_eq!((absent.err(), calls), (Some(Error::NotFound), 1), "names are forgotten with it");
}

#[test]
fn a_name_is_found_however_it_came_into_a_known_directory() {
    let counting = Counting::new();
    let (fs, directory) = (&counting.fs, counting.directory);
    let ino = counting.make(b"file");
    fs.mknod(ME, directory, b"fifo", Kind::Fifo, 0o644, 0).expect("made");
    fs.symlink(ME, directory, b"symlink", b"target").expect("made");
    fs.mkdir(ME, directory, b"directory", 0o755).expect("made");
    fs.link(ino, directory, b"link").expect("linked");
    for number in 0..20_u8 {
        fs.mknod(ME, Ino::ROOT, &[number + b'a'], Kind::Fifo, 0o644, 0).expect("made");
        let mode = RenameMode::NoReplace;
        fs.rename(Ino::ROOT, &[number + b'a'], directory, &[number + b'a'], mode).expect("moved");
        fs.rename(directory, &[number + b'a'], directory, &[number + b'A'], mode).expect("moved");
        assert!(fs.lookup(directory, &[number + b'A']).is_ok());
        assert_eq!(fs.lookup(directory, &[number + b'a']).err(), Some(Error::NotFound));
    }
    fs.rename(directory, b"A", Ino::ROOT, b"made", RenameMode::Replace).expect_err("a directory");
    for name in ["file", "fifo", "symlink", "directory", "link"] {
        assert!(fs.lookup(directory, name.as_bytes()).is_ok(), "{name}");
    }
    let mode = RenameMode::Exchange;
    fs.mknod(ME, Ino::ROOT, b"other", Kind::Fifo, 0o644, 0).expect("made");
    fs.rename(Ino::ROOT, b"other", directory, b"file", mode).expect("exchanged");
    assert!(fs.lookup(directory, b"file").is_ok() && fs.lookup(Ino::ROOT, b"other").is_ok());
    fs.unlink(directory, b"file").expect("removed");
    assert_eq!(counting.count(|fs, directory| fs.lookup(directory, b"file").err()).1, 0);
    counting.make(b"file");
    assert!(fs.lookup(directory, b"file").is_ok());
}

#[test]
fn a_change_of_attributes_takes_two_calls() {
    let counting = Counting::new();
    let ino = counting.make(b"file");
    let changes = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(counting.count(|fs, _| fs.setattr(ino, None, &changes)).1, 2);
}

/// So many that the mount does not remember them all.
const MANY: u64 = 3_000;

impl Counting {
    fn list(&self) {
        let handle = self.fs.opendir(self.directory).expect("opened");
        let mut names = 0;
        self.fs
            .readdir(handle, 0, &mut |_| {
                names += 1;
                true
            })
            .expect("listed");
        assert!(names > MANY);
        self.fs.releasedir(handle).expect("closed");
    }

    /// Until nothing that this mount read before counts any more.
    fn forget(&self) {
        self.clock.advance(Duration::from_secs(61));
        self.fs.tick().expect("housekeeping");
    }

    fn look_at(&self, names: impl Iterator<Item = u64>) -> u64 {
        let (looks, calls) = self.count(|fs, directory| {
            let found = names.map(|name| fs.lookup(directory, name_of(name).as_bytes()).is_ok());
            found.filter(|found| *found).count() as u64
        });
        assert_eq!(looks, MANY);
        calls
    }
}

fn name_of(number: u64) -> String {
    format!("file {number:05}")
}

#[test]
fn a_directory_that_was_listed_is_gone_through_in_few_rounds() {
    let counting = Counting::new();
    // The order of the names is not that of the inodes.
    let made = || (0..MANY).map(|number| number * 1009 % MANY);
    let all: std::collections::BTreeSet<_> = made().collect();
    assert_eq!(all.len() as u64, MANY);
    for name in made() {
        counting.make(name_of(name).as_bytes());
    }
    counting.forget();
    let mut at_random: Vec<_> = made().map(|name| (name, name * 0x9e37_79b9 % 65_537)).collect();
    at_random.sort_by_key(|(_, key)| *key);
    counting.list();
    let calls = counting.look_at(at_random.iter().map(|(name, _)| *name));
    assert!(calls >= MANY * 9 / 10, "{calls} calls at random: each name is a round");
    for in_names in [true, false] {
        counting.forget();
        counting.list();
        let calls = match in_names {
            true => counting.look_at(all.iter().copied()),
            false => counting.look_at(made()),
        };
        assert!(calls <= MANY / 100, "{calls} calls in the order of the names: {in_names}");
    }
}

#[test]
fn what_was_read_ahead_is_not_what_a_name_stands_for_later() {
    let counting = Counting::new();
    for name in 0..MANY {
        counting.make(name_of(name).as_bytes());
    }
    counting.forget();
    counting.list();
    let look = |name: u64| {
        let looked = counting.fs.lookup(counting.directory, name_of(name).as_bytes());
        looked.map(|entry| entry.attr.mode)
    };
    assert!((0..100).all(|name| look(name).is_ok()));
    let ino = counting.fs.lookup(counting.directory, name_of(200).as_bytes()).expect("found");
    let changes = SetAttr { mode: Some(0o640), ..SetAttr::default() };
    counting.fs.setattr(ino.attr.ino, None, &changes).expect("changed");
    counting.fs.unlink(counting.directory, name_of(201).as_bytes()).expect("removed");
    for name in 100..300 {
        match name {
            200 => assert_eq!(look(name), Ok(0o640)),
            201 => assert_eq!(look(name), Err(Error::NotFound)),
            _ => assert!(look(name).is_ok()),
        }
    }
}
