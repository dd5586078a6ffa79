//! A mount that answers for changes in a directory of its own before the store has them, and others that come there.

use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Batch, Operation, Store};

use super::{Company, Mount, look, make};
use crate::tests::bed::{ME, WRITE};
use crate::{Error, Handle, RenameMode, keys};

pub(super) struct Bed {
    pub(super) company: Company,
    pub(super) directory: Ino,
}

impl Bed {
    /// A directory that the first of two mounts has made, and in which it answers early.
    pub(super) fn new() -> Bed {
        let company = Company::of(2);
        let [first, second] = &company.mounts[..] else { unreachable!() };
        let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
        second.lookup(Ino::ROOT, b"d").expect("found");
        company.rest(first, Ino::ROOT, b"d");
        let bed = Bed { company, directory };
        // The first file of a mount pays for its range of inode numbers.
        bed.close(bed.create(b"first").expect("made"));
        bed
    }

    pub(super) fn first(&self) -> &Mount {
        &self.company.mounts[0]
    }

    pub(super) fn second(&self) -> &Mount {
        &self.company.mounts[1]
    }

    /// Makes a file that is not closed.
    pub(super) fn create(&self, name: &[u8]) -> Result<(Ino, Handle), Error> {
        let made = self.first().create(ME, self.directory, name, 0o600, WRITE);
        made.map(|(entry, opened)| (entry.attr.ino, opened.handle))
    }

    pub(super) fn close(&self, (_, handle): (Ino, Handle)) {
        self.first().flush(handle).and(self.first().release(handle)).expect("closed");
    }

    /// Makes a file that the store has not got yet.
    fn create_early(&self, name: &[u8]) -> (Ino, Handle) {
        let (made, calls) = self.company.count(|| self.create(name).expect("made"));
        assert_eq!(calls, 0, "it waits");
        made
    }

    fn unlink_early(&self, name: &[u8]) {
        let ((), calls) =
            self.company.count(|| self.first().unlink(self.directory, name).expect("removed"));
        assert_eq!(calls, 0, "it waits");
    }

    /// What the second mount does while the first answers recalls.
    pub(super) fn beside<T>(&self, work: impl FnOnce(&Mount) -> T) -> T {
        let both = [self.first(), self.second()];
        self.company.while_answering_recalls(&both, || work(self.second()))
    }

    fn is_writer(&self, name: &[u8]) -> bool {
        let read = Batch::new().read(keys::WRITER);
        let shard = self.first().shard_of(self.directory, name);
        self.company.store.batch(shard, &read).expect("read").take(0).is_some()
    }
}

#[test]
fn who_looks_finds_what_was_answered_before_the_store_had_it() {
    let bed = Bed::new();
    let directory = bed.directory;
    bed.close(bed.create_early(b"gone"));
    let open = bed.create_early(b"made");
    bed.unlink_early(b"gone");
    let (seen, listed) = bed.beside(|second| {
        let seen = [b"made", b"gone"].map(|name| look(second, directory, name));
        (seen, second.readdir_all(directory).len())
    });
    assert_eq!(seen, [Ok(Some(0o600)), Ok(None)]);
    assert_eq!(listed, 2);
    bed.close(open);
    assert!(!bed.is_writer(b"made"), "others need not ask any more");
}

#[test]
fn a_listing_finds_it_in_one_page_or_several() {
    for files in [10, 30_000] {
        let bed = Bed::new();
        for number in 0..files {
            make(bed.first(), bed.directory, format!("f{number}").as_bytes(), 0o600).expect("made");
        }
        let open: Vec<_> =
            (0..40).map(|number| bed.create_early(format!("g{number}").as_bytes())).collect();
        let listed = bed.beside(|second| second.readdir_all(bed.directory).len());
        assert_eq!(listed, files + open.len() + 1);
        open.into_iter().for_each(|file| bed.close(file));
    }
}

#[test]
fn who_changes_something_meets_it() {
    let bed = Bed::new();
    let directory = bed.directory;
    bed.close(bed.create_early(b"gone"));
    let open = bed.create_early(b"made");
    bed.unlink_early(b"gone");
    bed.beside(|second| {
        assert_eq!(make(second, directory, b"made", 0o400), Err(Error::Exists));
        assert_eq!(make(second, directory, b"gone", 0o400), Ok(()));
        assert_eq!(second.rmdir(Ino::ROOT, b"d"), Err(Error::NotEmpty));
        let replace = RenameMode::Replace;
        assert_eq!(second.rename(directory, b"made", directory, b"moved", replace), Ok(()));
    });
    bed.company.while_answering_recalls(&[bed.second()], || {
        assert_eq!(look(bed.first(), directory, b"gone"), Ok(Some(0o400)));
        assert_eq!(look(bed.first(), directory, b"moved"), Ok(Some(0o600)));
        bed.close(open);
    });
}

#[test]
fn a_directory_with_nothing_but_what_waits_is_not_empty() {
    let bed = Bed::new();
    bed.unlink_early(b"first");
    let open = bed.create_early(b"made");
    assert_eq!(bed.beside(|second| second.rmdir(Ino::ROOT, b"d")), Err(Error::NotEmpty));
    bed.first().unlink(bed.directory, b"made").expect("removed");
    bed.close(open);
    assert_eq!(bed.beside(|second| second.rmdir(Ino::ROOT, b"d")), Ok(()));
}

#[test]
fn a_size_is_not_seen_before_its_bytes() {
    for _ in 0..20 {
        let bed = Bed::new();
        let file = bed.create_early(b"made");
        bed.first().write(file.1, 0, &[7; 4096], None, false).expect("written");
        let seen = bed.beside(|second| {
            std::thread::scope(|scope| {
                let seen = scope.spawn(|| bytes_once_there(second, bed.directory));
                bed.close(file);
                seen.join().expect("it looked")
            })
        });
        assert_eq!(seen, vec![7; 4096]);
    }
}

/// What is in a file as soon as it has a size.
fn bytes_once_there(mount: &Mount, directory: Ino) -> Vec<u8> {
    loop {
        let attr = mount.lookup(directory, b"made").expect("found").attr;
        if attr.size > 0 {
            let opened = mount.open(attr.ino, WRITE).expect("opened");
            let read = mount.read(opened.handle, 0, 4096).expect("read");
            mount.release(opened.handle).expect("closed");
            return read.as_slice().to_vec();
        }
    }
}

#[test]
fn a_mount_that_only_looks_now_and_then_costs_the_writer_little() {
    let bed = Bed::new();
    bed.beside(|second| look(second, bed.directory, b"first")).expect("seen");
    assert!(!bed.is_writer(b"first"));
    bed.company.clock.advance(Duration::from_millis(200));
    let writes = || bed.company.store.count(Operation::Batch);
    let before = writes();
    for _ in 0..20 {
        let file = bed.create(b"again").expect("made");
        bed.close(file);
        bed.first().unlink(bed.directory, b"again").expect("removed");
    }
    assert!(bed.is_writer(b"again"), "it became one with its own changes");
    let calls = writes() - before;
    assert!(calls < 60, "{calls} for sixty changes");
}

#[test]
fn what_a_mount_that_stood_still_had_answered_comes_when_it_goes_on() {
    let bed = Bed::new();
    let directory = bed.directory;
    bed.close(bed.create_early(b"gone"));
    let (early, taken) = (bed.create_early(b"early"), bed.create_early(b"taken"));
    bed.unlink_early(b"gone");
    let second = bed.second();
    bed.company.while_time_passes(|| {
        // As where a mount was killed.
        assert_eq!(look(second, directory, b"early"), Ok(None));
        assert_eq!(look(second, directory, b"gone"), Ok(Some(0o600)));
        make(second, directory, b"taken", 0o400).expect("made");
    });
    bed.beside(|second| {
        bed.first().tick().expect("housekeeping");
        assert_eq!(look(second, directory, b"early"), Ok(Some(0o600)));
        assert_eq!(look(second, directory, b"gone"), Ok(None));
        assert_eq!(look(second, directory, b"taken"), Ok(Some(0o400)));
        bed.close(early);
        let flushed = bed.first().flush(taken.1);
        assert_eq!(flushed, Err(Error::Stale), "another mount took the name");
        let _ = bed.first().release(taken.1);
    });
    assert_eq!(bed.first().sync_directory(), Err(Error::Stale), "it is told once");
    assert_eq!(bed.first().sync_directory(), Ok(()));
}

#[test]
fn a_mount_that_ends_leaves_all_that_it_answered() {
    let bed = Bed::new();
    bed.create_early(b"early");
    bed.unlink_early(b"first");
    bed.first().unmount().expect("unmounted");
    let second = bed.second();
    let listed = bed.company.while_time_passes(|| second.readdir_all(bed.directory));
    assert_eq!(listed, [(b"early".to_vec(), 0o600)]);
    assert!(!bed.is_writer(b"early"));
}
