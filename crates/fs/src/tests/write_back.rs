//! Names that are answered before the store has them: nobody can tell, and what fails is told.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId};
use tidefs_store::{Embedded, Fault, Faulty, Operation, Store, StoreError, When};

use super::bed::{ME, WRITE, Watched, eventually};
use crate::entry::EntryRecord;
use crate::write_back::GROUP;
use crate::{Config, Error, Fs, Handle, RenameMode, keys};

type Mount = Fs<Faulty<Embedded>>;

/// Whether something finds a file that waits, with this number.
type Look<'a> = &'a dyn Fn(&Deferred, Ino) -> bool;

struct Deferred {
    watched: Watched,
    /// A directory that was made here, so that its names are known.
    directory: Ino,
}

impl Deferred {
    fn new() -> Deferred {
        let watched = Watched::new();
        let directory = watched.fs.mkdir(ME, Ino::ROOT, b"made", 0o755).expect("made").attr.ino;
        let deferred = Deferred { watched, directory };
        // The first file of a mount pays for its range of inode numbers.
        deferred.make(b"first");
        deferred
    }

    fn fs(&self) -> &Mount {
        &self.watched.fs
    }

    fn open(&self, name: &[u8]) -> (Ino, Handle) {
        let made = self.fs().create(ME, self.directory, name, 0o644, WRITE);
        let (entry, opened) = made.expect("made");
        (entry.attr.ino, opened.handle)
    }

    fn close(&self, handle: Handle) -> Result<(), Error> {
        let flushed = self.fs().flush(handle);
        flushed.and(self.fs().release(handle))
    }

    fn make(&self, name: &[u8]) -> Ino {
        let (ino, handle) = self.open(name);
        self.fs().write(handle, 0, &[7; 100], None, false).expect("written");
        self.close(handle).expect("closed");
        ino
    }

    fn unlink(&self, name: &[u8]) {
        self.fs().unlink(self.directory, name).expect("removed");
    }

    /// Whether the store has the name.
    fn is_stored(&self, name: &[u8]) -> bool {
        let place = self.fs().place(self.directory, name);
        let batch = tidefs_store::Batch::new().read(keys::entry(name));
        self.watched.store.batch(place.shard, &batch).expect("read").take(0).is_some()
    }

    fn fail(&self, operation: Operation, times: u64, error: &StoreError) {
        let next = self.watched.store.count(operation) + 1;
        for nth in next..next + times {
            self.watched.store.add(Fault::nth(operation, nth, error.clone()));
        }
    }

    fn used(&self) -> u64 {
        self.watched.store.overview().expect("known").memory_used_bytes()
    }

    /// What is used once the name has been there, which leaves its shard's header, and gone.
    fn used_without(&self, name: &[u8]) -> u64 {
        let ino = self.make(name);
        self.unlink(name);
        self.fs().flush_changes();
        let home = self.fs().place(self.directory, name).shard;
        let read = tidefs_store::Batch::new().read(keys::inode(ino));
        eventually("the first is freed", || {
            assert_eq!(self.fs().tick(), Ok(false));
            self.watched.store.batch(home, &read).expect("read").take(0).is_none()
        });
        self.used()
    }

    fn names(&self) -> Vec<Vec<u8>> {
        let handle = self.fs().opendir(self.directory).expect("opened");
        let mut names = Vec::new();
        self.fs()
            .readdir(handle, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })
            .expect("listed");
        self.fs().releasedir(handle).expect("closed");
        names.retain(|name| !name.starts_with(b"."));
        names.sort();
        names
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable { endpoint: "a node".into() }
}

fn lost() -> StoreError {
    StoreError::Indeterminate { endpoint: "a node".into() }
}

#[test]
fn a_file_is_made_when_it_is_closed_or_synced_or_by_housekeeping() {
    let deferred = Deferred::new();
    let ends: [&dyn Fn(Handle); 4] = [
        &|handle| deferred.fs().flush(handle).expect("flushed"),
        &|handle| deferred.fs().fsync(handle).expect("synced"),
        &|_| deferred.fs().sync_directory().expect("synced"),
        &|_| assert_eq!(deferred.fs().tick(), Ok(false)),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let name = [b'a' + number as u8];
        let (_, handle) = deferred.open(&name);
        assert!(!deferred.is_stored(&name));
        end(handle);
        assert!(deferred.is_stored(&name), "end {number}");
        deferred.close(handle).expect("closed");
    }
}

#[test]
fn what_looks_at_the_name_or_its_directory_sees_it() {
    let looks: [(&str, Look<'_>); 8] = [
        ("look-up", &|deferred, ino| {
            deferred.fs().lookup(deferred.directory, b"new").expect("found").attr.ino == ino
        }),
        ("attributes", &|deferred, ino| {
            deferred.fs().getattr(ino, None).is_ok_and(|attr| attr.nlink == 1)
        }),
        ("listing", &|deferred, _| deferred.names() == [&b"first"[..], b"new"]),
        ("link", &|deferred, ino| {
            deferred.fs().link(ino, deferred.directory, b"other").is_ok_and(|e| e.attr.nlink == 2)
        }),
        ("rename", &|deferred, ino| {
            let (fs, directory) = (deferred.fs(), deferred.directory);
            let mode = RenameMode::Replace;
            fs.rename(directory, b"new", directory, b"first", mode).expect("renamed");
            fs.lookup(directory, b"first").expect("found").attr.ino == ino
        }),
        ("removal of the directory", &|deferred, _| {
            deferred.unlink(b"first");
            deferred.fs().rmdir(Ino::ROOT, b"made") == Err(Error::NotEmpty)
        }),
        ("making it again", &|deferred, _| {
            let mode = crate::OpenMode { exclusive: true, ..WRITE };
            let again = deferred.fs().create(ME, deferred.directory, b"new", 0o644, mode);
            again.map(drop) == Err(Error::Exists)
        }),
        ("removal", &|deferred, ino| {
            deferred.unlink(b"new");
            let unlinked = deferred.fs().getattr(ino, None).map(|attr| attr.nlink);
            unlinked == Ok(0) && deferred.names() == [b"first"]
        }),
    ];
    for (what, look) in looks {
        let deferred = Deferred::new();
        let (ino, handle) = deferred.open(b"new");
        assert!(look(&deferred, ino), "{what}");
        deferred.fs().write(handle, 0, &[7; 10], None, false).expect("written");
        deferred.close(handle).expect("closed");
    }
}

#[test]
fn a_directory_s_attributes_count_what_waits() {
    let deferred = Deferred::new();
    let attributes = || deferred.fs().getattr(deferred.directory, None).expect("attributes");
    attributes();
    for number in 0..40_u8 {
        deferred.watched.clock.advance(Duration::from_millis(200));
        let name = [b'a' + number % 20];
        let (calls, handle) = match number < 20 {
            true => (deferred.watched.store.count(Operation::Batch), Some(deferred.open(&name).1)),
            false => {
                let calls = deferred.watched.store.count(Operation::Batch);
                deferred.unlink(&name);
                (calls, None)
            }
        };
        let assumed = attributes();
        assert_eq!(assumed.mtime, deferred.watched.clock.now());
        assert_eq!(deferred.watched.store.count(Operation::Batch), calls, "it was remembered");
        deferred.fs().flush_changes();
        deferred.fs().forget_directory(deferred.directory);
        assert_eq!(attributes(), assumed);
        if let Some(handle) = handle {
            deferred.close(handle).expect("closed");
        }
    }
}

#[test]
fn a_name_is_removed_later_and_the_file_s_bytes_with_it() {
    let deferred = Deferred::new();
    let before = deferred.used_without(b"file");
    let ino = deferred.make(b"file");
    deferred.unlink(b"file");
    assert!(deferred.is_stored(b"file"));
    assert_eq!(deferred.fs().lookup(deferred.directory, b"file").err(), Some(Error::NotFound));
    assert_eq!(deferred.fs().open(ino, WRITE).err(), Some(Error::Stale));
    assert!(!deferred.is_stored(b"file"));
    assert_eq!(deferred.fs().tick(), Ok(false));
    eventually("its bytes are freed", || deferred.used() == before);
}

#[test]
fn a_name_that_is_made_removed_and_made_again_is_there() {
    let deferred = Deferred::new();
    let first = deferred.make(b"file");
    deferred.unlink(b"file");
    let second = deferred.make(b"file");
    assert_ne!(first, second);
    deferred.unlink(b"file");
    deferred.fs().mkdir(ME, deferred.directory, b"file", 0o755).expect("the name is free");
    deferred.fs().rmdir(deferred.directory, b"file").expect("removed");
    let (third, handle) = deferred.open(b"file");
    deferred
        .fs()
        .rename(deferred.directory, b"file", Ino::ROOT, b"out", RenameMode::NoReplace)
        .expect("out");
    deferred.close(handle).expect("closed");
    assert_eq!(deferred.fs().lookup(Ino::ROOT, b"out").expect("found").attr.ino, third);
    assert_eq!(deferred.names(), [b"first"]);
}

#[test]
fn one_of_two_names_is_removed_and_the_other_one_stays() {
    let deferred = Deferred::new();
    let ino = deferred.make(b"file");
    deferred.fs().link(ino, deferred.directory, b"other").expect("linked");
    deferred.unlink(b"file");
    assert_eq!(deferred.fs().getattr(ino, None).map(|attr| attr.nlink), Ok(1));
    let handle = deferred.fs().open(ino, WRITE).expect("opened").handle;
    assert_eq!(deferred.fs().read(handle, 0, 200).expect("read").as_slice(), [7; 100]);
    deferred.close(handle).expect("closed");
}

#[test]
fn enough_removals_are_made_without_being_asked_for() {
    let deferred = Deferred::new();
    let names: Vec<_> = (0..GROUP).map(|number| format!("file-{number}").into_bytes()).collect();
    for name in &names {
        deferred.make(name);
    }
    names.iter().for_each(|name| deferred.unlink(name));
    eventually("all are removed", || names.iter().all(|name| !deferred.is_stored(name)));
}

#[test]
fn a_newcomer_starts_when_the_store_has_all() {
    let deferred = Deferred::new();
    deferred.make(b"removed");
    let (_, handle) = deferred.open(b"open");
    deferred.unlink(b"removed");
    let watched = &deferred.watched;
    let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
    let clock: Arc<dyn Clock> = watched.clock.clone();
    let second = Fs::mount(Arc::clone(&watched.store), config, clock).expect("mounted");
    while !second.is_admitted().expect("asked") {
        deferred.fs().tick().expect("housekeeping");
    }
    let directory = second.lookup(Ino::ROOT, b"made").expect("found").attr.ino;
    assert!(second.lookup(directory, b"open").is_ok());
    assert_eq!(second.lookup(directory, b"removed").err(), Some(Error::NotFound));
    let (_, other) = deferred.open(b"with company");
    assert!(second.lookup(directory, b"with company").is_ok());
    deferred.unlink(b"with company");
    assert!(!deferred.is_stored(b"with company"));
    for handle in [handle, other] {
        deferred.close(handle).expect("closed");
    }
}

#[test]
fn a_file_that_cannot_be_made_fails_its_close() {
    for written in [false, true] {
        let deferred = Deferred::new();
        let attributes = || deferred.fs().getattr(deferred.directory, None).expect("attributes");
        let before = attributes();
        deferred.watched.clock.advance(Duration::from_secs(1));
        let (_, handle) = deferred.open(b"new");
        if written {
            deferred.fs().write(handle, 0, &[7; 10], None, false).expect("written");
        }
        deferred.fail(Operation::Batch, 9, &gone());
        assert_eq!(deferred.fs().flush(handle), Err(Error::Store(gone())), "{written}");
        deferred.watched.store.heal();
        drop(deferred.fs().release(handle));
        assert_eq!((deferred.names(), attributes()), (vec![b"first".to_vec()], before));
        deferred.make(b"new");
        assert_eq!(deferred.names(), [&b"first"[..], b"new"]);
    }
}

/// Or else it would be taken for one that another mount has freed.
#[test]
fn a_file_that_is_made_once_more_is_still_to_be_made_meanwhile() {
    let deferred = Deferred::new();
    let (ino, handle) = deferred.open(b"new");
    let home = deferred.fs().handles.file(handle).expect("open").node.home;
    let is_to_be_made = || deferred.fs().store.is_to_be_made(home, ino);
    deferred.fail(Operation::Batch, 9, &gone());
    deferred.fs().flush_changes();
    deferred.watched.store.heal();
    assert!(is_to_be_made(), "it could not be made");
    let held = deferred.watched.store.pause(Operation::Batch, When::Before);
    std::thread::scope(|scope| {
        let again = scope.spawn(|| deferred.fs().store.make_again(ino));
        assert!(held.wait_until_held(1, Duration::from_secs(30)), "it is on its way");
        assert!(is_to_be_made(), "the store does not have it yet");
        drop(held);
        again.join().unwrap();
    });
    assert!(!is_to_be_made() && deferred.is_stored(b"new"));
    deferred.close(handle).expect("closed");
}

#[test]
fn a_file_whose_making_was_not_confirmed_is_there() {
    for written in [false, true] {
        let deferred = Deferred::new();
        let (ino, handle) = deferred.open(b"new");
        if written {
            deferred.fs().write(handle, 0, &[7; 10], None, false).expect("written");
        }
        let next = deferred.watched.store.count(Operation::Batch) + 1;
        deferred.watched.store.add(Fault::nth(Operation::Batch, next, lost()).after());
        deferred.close(handle).expect("closed");
        let found = deferred.fs().lookup(deferred.directory, b"new").expect("found").attr;
        assert_eq!((found.ino, found.size), (ino, if written { 10 } else { 0 }));
    }
}

#[test]
fn a_full_store_is_waited_for() {
    let deferred = Deferred::new();
    let (ino, handle) = deferred.open(b"new");
    deferred.make(b"other");
    deferred.unlink(b"other");
    deferred.fs().write(handle, 0, &[7; 10], None, false).expect("written");
    deferred.fail(Operation::Batch, 1, &StoreError::Full { endpoint: "a node".into() });
    deferred.close(handle).expect("closed");
    let found = deferred.fs().lookup(deferred.directory, b"new").expect("found").attr;
    assert_eq!((found.ino, found.size), (ino, 10));
}

#[test]
fn a_removal_whose_reply_is_lost_has_happened_and_frees_the_bytes() {
    let deferred = Deferred::new();
    let before = deferred.used_without(b"file");
    deferred.make(b"file");
    deferred.unlink(b"file");
    let next = deferred.watched.store.count(Operation::Batch) + 1;
    deferred.watched.store.add(Fault::nth(Operation::Batch, next, lost()).after());
    assert_eq!(deferred.fs().sync_directory(), Ok(()));
    assert!(!deferred.is_stored(b"file"));
    assert_eq!(deferred.fs().tick(), Ok(false));
    eventually("its bytes are freed", || deferred.used() == before);
}

#[test]
fn a_removal_that_fails_is_told_to_whoever_syncs_and_the_name_is_there() {
    let deferred = Deferred::new();
    let ino = deferred.make(b"file");
    deferred.unlink(b"file");
    deferred.fail(Operation::Batch, 9, &gone());
    assert_eq!(deferred.fs().sync_directory(), Err(Error::Store(gone())));
    deferred.watched.store.heal();
    assert_eq!(deferred.fs().sync_directory(), Ok(()), "it is told once");
    assert_eq!(deferred.fs().lookup(deferred.directory, b"file").expect("found").attr.ino, ino);
    deferred.unlink(b"file");
    assert_eq!(deferred.fs().sync_directory(), Ok(()));
    assert!(!deferred.is_stored(b"file"));
}

#[test]
fn a_name_that_was_renamed_over_is_removed_as_what_it_is() {
    let deferred = Deferred::new();
    let (fs, directory) = (deferred.fs(), deferred.directory);
    deferred.make(b"file");
    let other = deferred.make(b"other");
    fs.lookup(directory, b"file").expect("found");
    fs.rename(directory, b"other", directory, b"file", RenameMode::Replace).expect("renamed");
    let place = fs.place(directory, b"file");
    let raw = fs.read_entry(&place).expect("read").expect("there");
    let record = EntryRecord::decode(directory, &raw).expect("an entry");
    assert_eq!(record.reference.ino, other);
    deferred.unlink(b"file");
    assert_eq!(fs.sync_directory(), Ok(()));
    assert_eq!(deferred.names(), [b"first"]);
}

#[test]
fn what_fails_together_is_made_apart() {
    let deferred = Deferred::new();
    let names: Vec<_> = (0..40_u8).map(|number| vec![b'A' + number]).collect();
    let handles: Vec<_> = names.iter().map(|name| deferred.open(name).1).collect();
    deferred.fail(Operation::Batch, 1, &gone());
    assert_eq!(deferred.fs().sync_directory(), Ok(()));
    assert!(names.iter().all(|name| deferred.is_stored(name)));
    for handle in handles {
        deferred.close(handle).expect("closed");
    }
}

#[test]
fn shards_that_answer_do_not_wait_for_one_that_does_not() {
    let deferred = Deferred::new();
    let (fs, directory) = (deferred.fs(), deferred.directory);
    let apart = |name: &[u8]| fs.place(directory, name).shard != fs.place(directory, b"a").shard;
    let other = (b'b'..=b'z').map(|letter| [letter]).find(|name| apart(name)).expect("a shard");
    let (_, slow) = deferred.open(b"a");
    let (ino, quick) = deferred.open(&other);
    // All together fails; then the other shard is asked for what it has alone.
    deferred.fail(Operation::Batch, 1, &gone());
    fs.store.settle([fs.place(directory, &other).shard]);
    let found = fs.lookup(directory, &other).expect("found").attr.ino;
    assert_eq!((found, deferred.is_stored(b"a")), (ino, false));
    deferred.close(quick).expect("closed");
    deferred.close(slow).expect("closed");
    assert!(deferred.is_stored(b"a"));
}

#[test]
fn a_file_that_was_made_without_its_bytes_gets_them_when_it_is_closed() {
    let deferred = Deferred::new();
    let (fs, directory) = (deferred.fs(), deferred.directory);
    let apart = |name: &[u8]| fs.place(directory, name).shard != fs.place(directory, b"a").shard;
    let other = (b'b'..=b'z').map(|letter| [letter]).find(|name| apart(name)).expect("a shard");
    let (_, handle) = deferred.open(b"a");
    let (ino, quick) = deferred.open(&other);
    fs.write(handle, 0, &[7; 10], None, false).expect("written");
    // Both are made, but nobody is told; the other one finds out, this one goes on waiting.
    let next = deferred.watched.store.count(Operation::Batch) + 1;
    deferred.watched.store.add(Fault::nth(Operation::Batch, next, lost()).after());
    fs.store.settle([fs.place(directory, &other).shard]);
    assert_eq!(fs.lookup(directory, &other).expect("found").attr.ino, ino);
    assert!(deferred.is_stored(b"a"));
    deferred.close(handle).expect("closed");
    deferred.close(quick).expect("closed");
    assert_eq!(fs.lookup(directory, b"a").expect("found").attr.size, 10);
}

#[test]
fn a_name_that_stands_for_another_file_by_now_is_removed_as_that() {
    let deferred = Deferred::new();
    let (fs, directory) = (deferred.fs(), deferred.directory);
    let other = deferred.make(b"other");
    deferred.make(b"file");
    let stale = fs.lookup(directory, b"file").expect("found");
    deferred.unlink(b"file");
    fs.link(other, directory, b"file").expect("linked");
    assert_ne!(stale.attr.ino, other);
    deferred.unlink(b"file");
    assert_eq!(fs.sync_directory(), Ok(()));
    assert_eq!(deferred.names(), [&b"first"[..], b"other"]);
    assert_eq!(fs.getattr(other, None).map(|attr| attr.nlink), Ok(1));
}

#[test]
fn syncing_waits_for_what_is_on_its_way() {
    let deferred = Deferred::new();
    deferred.make(b"file");
    deferred.unlink(b"file");
    let held = deferred.watched.store.pause(Operation::Batch, When::Before);
    std::thread::scope(|scope| {
        let batches = deferred.watched.store.count(Operation::Batch);
        scope.spawn(|| deferred.fs().store.flush_changes());
        eventually("it is on its way", || deferred.watched.store.count(Operation::Batch) > batches);
        let synced = scope.spawn(|| deferred.fs().sync_directory());
        drop(held);
        assert_eq!(synced.join().expect("it ends"), Ok(()));
        assert!(!deferred.is_stored(b"file"));
    });
}
