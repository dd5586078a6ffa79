//! Two mounts at work at the same time: what one of them has found and the other one changes.

use std::time::Duration;

use tidefs_model::{Ino, Time};
use tidefs_store::Embedded;

use super::bed::{Bed, ME};
use crate::data::AppendedAt;
use crate::{Attr, DirectoryEntry, Error, Fs, Kind, OpenMode, RenameMode, SetAttr, SetTime};

type Mount = Fs<std::sync::Arc<Embedded>>;

const READ: OpenMode = OpenMode {
    read: true,
    write: false,
    append: false,
    truncate: false,
    exclusive: false,
    sync: false,
};
const WRITE: OpenMode = OpenMode { read: false, write: true, ..READ };
/// Longer than a removed file stays.
const LATER: Duration = Duration::from_secs(3);

fn two() -> (Bed, Mount, Mount) {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (bed, first, second)
}

fn make(fs: &Mount, name: &[u8], bytes: &[u8]) -> Ino {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, bytes, None, false).expect("written");
    fs.flush(opened.handle).expect("stored");
    fs.release(opened.handle).expect("closed");
    entry.attr.ino
}

fn read(fs: &Mount, ino: Ino) -> Result<Vec<u8>, Error> {
    let opened = fs.open(ino, READ)?;
    let bytes = fs.read(opened.handle, 0, 100).map(|bytes| bytes.as_slice().to_vec());
    fs.release(opened.handle)?;
    bytes
}

#[test]
fn a_file_that_was_found_can_be_opened_although_another_mount_replaces_it() {
    let (bed, first, second) = two();
    make(&first, b"status", b"old");
    make(&first, b"new", b"newer");
    let found = second.lookup(Ino::ROOT, b"status").expect("found").attr.ino;
    first.rename(Ino::ROOT, b"new", Ino::ROOT, b"status", RenameMode::Replace).expect("replaced");
    assert_eq!(second.getattr(found, None).map(|attr| attr.nlink), Ok(0));
    assert_eq!(read(&second, found), Ok(b"old".to_vec()));
    bed.pass(LATER);
    first.tick().expect("housekeeping");
    super::bed::eventually("the old file is freed", || {
        second.getattr(found, None) == Err(Error::Stale)
    });
    assert_eq!(second.open(found, READ).map(drop), Err(Error::Stale));
}

#[test]
fn links_and_directories_that_were_found_answer_although_another_mount_removes_them() {
    let (bed, first, second) = two();
    first.symlink(ME, Ino::ROOT, b"link", b"target").expect("made");
    first.mkdir(ME, Ino::ROOT, b"directory", 0o700).expect("made");
    let link = second.lookup(Ino::ROOT, b"link").expect("found").attr.ino;
    let directory = second.lookup(Ino::ROOT, b"directory").expect("found").attr.ino;
    first.unlink(Ino::ROOT, b"link").expect("removed");
    first.rmdir(Ino::ROOT, b"directory").expect("removed");
    assert_eq!(second.readlink(link), Ok(b"target".to_vec()));
    assert_eq!(second.getattr(directory, None).map(|attr| attr.nlink), Ok(0));
    let late = second.mknod(ME, directory, b"late", Kind::File, 0o600, 0);
    assert_eq!(late.map(drop), Err(Error::NotFound));
    bed.pass(LATER);
    first.tick().expect("housekeeping");
    super::bed::eventually("both are freed", || {
        second.readlink(link) == Err(Error::Stale)
            && second.getattr(directory, None) == Err(Error::Stale)
    });
}

#[test]
fn a_file_that_this_mount_removes_before_it_is_opened_stays_until_it_is_closed() {
    let (bed, first, _second) = two();
    let found = make(&first, b"file", b"bytes");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    let opened = first.open(found, READ).expect("opened");
    bed.pass(LATER);
    first.tick().expect("housekeeping");
    let bytes = first.read(opened.handle, 0, 100).expect("read");
    assert_eq!(bytes.as_slice(), b"bytes");
    first.release(opened.handle).expect("closed");
    bed.pass(LATER);
    first.tick().expect("housekeeping");
    super::bed::eventually("it is freed", || first.getattr(found, None) == Err(Error::Stale));
}

#[test]
fn leaving_frees_what_stays() {
    let (_bed, first, second) = two();
    let found = make(&first, b"file", b"bytes");
    second.lookup(Ino::ROOT, b"file").expect("found");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    first.unmount().expect("left");
    assert_eq!(second.getattr(found, None), Err(Error::Stale));
}

#[test]
fn a_listing_shows_the_file_that_took_the_name() {
    let (_bed, first, second) = two();
    make(&first, b"status", b"old");
    let newer = make(&first, b"new", b"newer");
    let handle = second.opendir(Ino::ROOT).expect("opened");
    let mut replace = true;
    let mut seen = Vec::new();
    let listed = second.readdir_plus(handle, 0, &mut |entry, attr| {
        // The names are known when the first one is handed out; their attributes are not.
        if std::mem::take(&mut replace) {
            let (old, new) = (b"new", b"status");
            first.rename(Ino::ROOT, old, Ino::ROOT, new, RenameMode::Replace).expect("replaced");
        }
        seen.push((entry.name.clone(), attr.size, entry.ino));
        true
    });
    assert_eq!(listed, Ok(()));
    assert!(seen.contains(&(b"status".to_vec(), 5, newer)), "{seen:?}");
}

#[test]
fn the_time_of_a_file_does_not_go_back_when_an_earlier_write_arrives_later() {
    let (bed, first, second) = two();
    let file = make(&first, b"file", b"");
    second.lookup(Ino::ROOT, b"file").expect("found");
    let (early, late) = (first.open(file, WRITE), second.open(file, WRITE));
    let (early, late) = (early.expect("opened").handle, late.expect("opened").handle);
    bed.pass(Duration::from_secs(1));
    first.write(early, 0, b"a", None, false).expect("written");
    bed.pass(Duration::from_secs(1));
    second.write(late, 0, b"b", None, false).expect("written");
    second.release(late).expect("closed");
    let seen = second.getattr(file, None).expect("there");
    first.release(early).expect("closed");
    let after = second.getattr(file, None).expect("there");
    assert_eq!((after.mtime, after.ctime), (seen.mtime, seen.ctime));
}

#[test]
fn a_time_that_was_set_by_hand_ends_with_the_next_write() {
    let (bed, first, _second) = two();
    let file = make(&first, b"file", b"");
    for by_hand in [Time::from_unix(9_000_000, 0), Time::from_unix(-9_000_000, 5), Time(0)] {
        let set = SetAttr { mtime: Some(SetTime::At(by_hand)), ..SetAttr::default() };
        assert_eq!(first.setattr(file, None, &set).map(|attr| attr.mtime), Ok(by_hand));
        bed.pass(Duration::from_secs(1));
        let handle = first.open(file, WRITE).expect("opened").handle;
        first.write(handle, 0, b"a", None, false).expect("written");
        first.release(handle).expect("closed");
        assert_eq!(first.getattr(file, None).expect("there").mtime, first.now());
    }
}

#[test]
fn a_directory_that_was_removed_stays_for_the_mount_that_knows_it() {
    let (bed, first, second) = two();
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o750).expect("made").attr.ino;
    assert_eq!(second.lookup(Ino::ROOT, b"d").expect("found").attr.ino, directory);
    let handle = first.opendir(directory).expect("opened");
    bed.pass(Duration::from_secs(1));
    first.rmdir(Ino::ROOT, b"d").expect("removed");
    assert_eq!(second.getattr(directory, None).map(|attr| attr.nlink), Ok(0));
    bed.pass(LATER);
    first.tick().expect("housekeeping");
    super::bed::eventually("its record is freed", || {
        second.getattr(directory, None) == Err(Error::Stale)
    });
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    let attr = first.setattr(directory, None, &mode).expect("it is there still");
    assert_eq!((attr.nlink, attr.mode, attr.ctime), (0, 0o700, first.now()));
    let mut names = Vec::new();
    let mut take = |entry: &DirectoryEntry, _: &Attr| {
        names.push(entry.name.clone());
        true
    };
    first.readdir_plus(handle, 0, &mut take).expect("listed");
    assert_eq!(names, [b"." as &[u8], b".."]);
    first.releasedir(handle).expect("closed");
    first.forget(directory, 1);
    assert_eq!(first.getattr(directory, None), Err(Error::Stale));
}

/// The first mount wrote through a handle that it had since before the second one's change, so it
/// knows the version of both changes and has pages from before them.
#[test]
fn pages_are_not_kept_that_are_older_than_another_mounts_change() {
    let (_bed, first, second) = two();
    let found = make(&first, b"file", b"aa");
    let held = first.open(found, OpenMode { read: true, ..WRITE }).expect("opened");
    let again = first.open(found, READ).expect("opened");
    assert!(again.keep_cache, "nobody changed it");
    first.release(again.handle).expect("closed");
    let there = second.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let opened = second.open(there, WRITE).expect("opened");
    second.write(opened.handle, 0, b"b", None, false).expect("written");
    second.release(opened.handle).expect("closed");
    first.write(held.handle, 1, b"c", None, false).expect("written");
    first.fsync(held.handle).expect("stored");
    let after = first.open(found, READ).expect("opened");
    assert!(!after.keep_cache, "the kernel may have the first byte of before");
    let together = first.open(found, READ).expect("opened");
    assert!(!together.keep_cache, "the kernel may not have dropped them for the other one yet");
    first.read(after.handle, 0, 2).expect("read");
    for handle in [together.handle, after.handle, held.handle] {
        first.release(handle).expect("closed");
    }
    let last = first.open(found, READ).expect("opened");
    assert!(last.keep_cache, "read anew since");
    first.release(last.handle).expect("closed");
}

fn cut_by(second: &Mount, name: &[u8]) {
    let there = second.lookup(Ino::ROOT, name).expect("found").attr.ino;
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    second.setattr(there, None, &cut).expect("cut");
}

#[test]
fn allocating_copying_and_seeking_go_by_where_the_file_ends_now() {
    let (_bed, first, second) = two();
    let found = make(&first, b"file", &[1; 1000]);
    let mode = OpenMode { read: true, ..WRITE };
    let held = first.open(found, mode).expect("opened").handle;
    let other = first.create(ME, Ino::ROOT, b"copy", 0o600, mode).expect("made").1.handle;
    cut_by(&second, b"file");
    assert_eq!(first.copy_range(held, 0, other, 0, 1000, false), Ok(0));
    assert_eq!(first.seek(held, 10, crate::Seek::Data), Err(Error::NoSuchOffset));
    first.allocate(held, 0, 500, crate::SpaceMode::Allocate, false).expect("allocated");
    assert_eq!(second.getattr(found, None).map(|attr| attr.size), Ok(500));
}

#[test]
fn an_append_without_company_goes_by_what_others_left() {
    let (bed, first, second) = two();
    let found = make(&first, b"file", &[1; 1000]);
    let held = first.open(found, OpenMode { append: true, ..WRITE }).expect("opened").handle;
    cut_by(&second, b"file");
    second.unmount().expect("leaves");
    bed.pass(Duration::from_secs(2));
    first.tick().expect("housekeeping");
    assert!(first.is_admitted() == Ok(true) && first.lifetimes().entry > Duration::ZERO);
    first.write(held, 0, b"first", Some(&AppendedAt::default()), false).expect("appended");
    first.release(held).expect("closed");
    assert_eq!(read(&first, found), Ok(b"first".to_vec()));
}

/// What the first mount appended while it was alone is in nobody's record yet when the second one comes.
#[test]
fn a_mount_that_comes_appends_behind_what_was_appended_before() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    first.tick().expect("housekeeping");
    assert!(first.lifetimes().entry > Duration::ZERO, "it is alone");
    let found = make(&first, b"file", b"");
    let append = OpenMode { append: true, ..WRITE };
    let held = first.open(found, append).expect("opened").handle;
    let write = |fs: &Mount, handle, bytes: &[u8]| {
        fs.write(handle, 0, bytes, Some(&AppendedAt::default()), false).expect("appended")
    };
    write(&first, held, b"first ");
    let second = bed.mount(2);
    for _ in 0..5 {
        first.tick().expect("housekeeping");
        second.tick().expect("housekeeping");
    }
    assert_eq!(second.is_admitted(), Ok(true));
    second.lookup(Ino::ROOT, b"file").expect("found");
    let theirs = second.open(found, append).expect("opened").handle;
    write(&second, theirs, b"second ");
    second.release(theirs).expect("closed");
    write(&first, held, b"third");
    first.release(held).expect("closed");
    assert_eq!(read(&second, found), Ok(b"first second third".to_vec()));
}

/// An append that began alone, took nothing, and is begun again with company, keeps its place.
#[test]
fn others_append_behind_an_append_that_waits() {
    let (bed, first, second) = two();
    second.unmount().expect("leaves");
    bed.pass(Duration::from_secs(20));
    first.tick().expect("housekeeping");
    let found = make(&first, b"file", b"0");
    let held = first.open(found, OpenMode { append: true, ..WRITE }).expect("opened").handle;
    let at = AppendedAt::default();
    first.handles.file(held).expect("open").file.place_alone(5, &at);
    let third = bed.mount(3);
    first.tick().expect("housekeeping");
    first.tick().expect("housekeeping");
    third.lookup(Ino::ROOT, b"file").expect("found");
    let theirs = third.open(found, OpenMode { append: true, ..WRITE }).expect("opened").handle;
    third.write(theirs, 0, b"third", Some(&AppendedAt::default()), false).expect("appended");
    third.release(theirs).expect("closed");
    assert_eq!(first.write(held, 0, b"first", Some(&at), false), Ok(5));
    first.release(held).expect("closed");
    assert_eq!(read(&third, found), Ok(b"0firstthird".to_vec()));
}
