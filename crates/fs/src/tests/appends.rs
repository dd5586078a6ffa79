//! Appends of a mount that was alone, and the one that comes.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, MountId};
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError, When};

use super::bed::{Bed, ME, SECOND, WRITE, eventually};
use crate::data::AppendedAt;
use crate::inode::{APPENDS, u64_at};
use crate::{Config, Fs, Handle, OpenMode, SetAttr, keys};

type Line = Faulty<Arc<Embedded>>;
type Mount = Fs<Line>;

const APPEND: OpenMode = OpenMode { append: true, ..WRITE };

/// A mount that is alone on a store that fails or waits when told to, with a file.
fn alone() -> (Bed, Arc<Line>, Mount, (Ino, Handle)) {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    assert_eq!(first.is_admitted(), Ok(true));
    assert!(first.is_alone());
    let (entry, opened) = first.create(ME, Ino::ROOT, b"file", 0o600, APPEND).expect("made");
    first.fsync(opened.handle).expect("stored");
    (bed, store, first, (entry.attr.ino, opened.handle))
}

fn append<S: Store>(fs: &Fs<S>, handle: Handle, bytes: &[u8]) {
    let taken = fs.write(handle, 0, bytes, Some(&AppendedAt::default()), false);
    assert_eq!(taken, Ok(bytes.len()));
}

/// Another mount comes, and the first one keeps house.
fn come(bed: &Bed, first: &Mount) -> Fs<Arc<Embedded>> {
    let second = bed.mount(2);
    assert_eq!(first.tick(), Ok(true));
    assert_eq!(first.tick(), Ok(false));
    assert_eq!(second.is_admitted(), Ok(true));
    second
}

fn content<S: Store>(fs: &Fs<S>) -> Vec<u8> {
    let found = fs.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let handle = fs.open(found, WRITE).expect("opened").handle;
    let bytes = fs.read(handle, 0, 100).expect("read").as_slice().to_vec();
    fs.release(handle).expect("closed");
    bytes
}

#[test]
fn telling_of_appends_brings_back_no_size_from_before_a_cut() {
    let (_bed, store, first, (ino, handle)) = alone();
    append(&first, handle, b"0123456789");
    first.fsync(handle).expect("stored");
    let file = &first.handles.file(handle).expect("open").file;
    let pause = store.pause(Operation::Batch, When::Before);
    std::thread::scope(|scope| {
        let cut = scope.spawn(|| file.truncate(0));
        assert!(pause.wait_until_held(1, SECOND * 20));
        let told = scope.spawn(|| file.tell_appends());
        // Most often it waits for the cut by now.
        std::thread::sleep(Duration::from_millis(100));
        drop(pause);
        assert_eq!((cut.join().expect("ended"), told.join().expect("ended")), (Ok(()), Ok(())));
    });
    assert_eq!(first.getattr(ino, None).map(|attr| attr.size), Ok(0));
}

#[test]
fn a_mount_that_comes_waits_for_a_file_that_is_being_closed() {
    let (bed, store, first, (_, handle)) = alone();
    append(&first, handle, b"mine ");
    let second = bed.mount(2);
    let pause = store.pause(Operation::Write, When::Before);
    std::thread::scope(|scope| {
        let closed = scope.spawn(|| first.release(handle));
        assert!(pause.wait_until_held(1, SECOND * 20));
        for _ in 0..3 {
            first.beat().expect("a heartbeat");
        }
        assert_eq!(second.is_admitted(), Ok(false), "it would append where the first one did");
        drop(pause);
        assert_eq!(closed.join().expect("ended"), Ok(()));
    });
    eventually("it is let in", || {
        first.tick().expect("housekeeping");
        second.is_admitted() == Ok(true)
    });
    assert_eq!(content(&second), b"mine ");
}

#[test]
fn a_file_whose_home_does_not_answer_keeps_nobody_out_and_is_told_later() {
    let (bed, store, first, (ino, handle)) = alone();
    append(&first, handle, b"mine ");
    let second = bed.mount(2);
    assert_eq!(first.beat(), Ok(true));
    let gone = StoreError::Unavailable { endpoint: "the node".into() };
    store.add(Fault::every(Operation::Batch, 1, gone));
    first.keep_up();
    store.heal();
    assert_eq!(first.beat(), Ok(false));
    assert_eq!(second.is_admitted(), Ok(true));
    first.keep_up();
    let found = second.lookup(Ino::ROOT, b"file").expect("found").attr;
    assert_eq!((found.ino, found.size), (ino, 0), "the bytes are on their way");
    eventually("they arrive", || {
        first.tick().expect("housekeeping");
        second.getattr(ino, None).map(|it| it.size) == Ok(5)
    });
    let yours = second.open(ino, APPEND).expect("opened").handle;
    append(&second, yours, b"yours");
    second.release(yours).expect("closed");
    first.release(handle).expect("closed");
    assert_eq!(content(&second), b"mine yours");
}

#[test]
fn letting_a_mount_in_changes_no_times() {
    let (bed, _, first, (ino, handle)) = alone();
    append(&first, handle, b"stored");
    first.fsync(handle).expect("stored");
    let before = first.getattr(ino, None).expect("there");
    bed.pass(SECOND);
    let second = come(&bed, &first);
    let after = second.lookup(Ino::ROOT, b"file").expect("found").attr;
    assert_eq!((after.size, after.mtime, after.ctime), (6, before.mtime, before.ctime));
}

#[test]
fn an_append_that_waits_keeps_its_place_also_where_the_file_was_cut() {
    let (bed, _, first, (ino, handle)) = alone();
    append(&first, handle, b"0");
    first.fsync(handle).expect("stored");
    let at = AppendedAt::default();
    first.handles.file(handle).expect("open").file.place_alone(5, &at);
    let second = come(&bed, &first);
    second.lookup(Ino::ROOT, b"file").expect("found");
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    second.setattr(ino, None, &cut).expect("cut");
    append(&first, handle, b"newer");
    assert_eq!(first.write(handle, 0, b"first", Some(&at), false), Ok(5));
    first.release(handle).expect("closed");
    assert_eq!(content(&second), b"\0firstnewer");
}

#[test]
fn an_append_without_a_place_asks_the_store_also_where_the_mount_was_alone() {
    let (_bed, store, first, (_, handle)) = alone();
    let file = &first.handles.file(handle).expect("open");
    file.file.append(&file.errors, b"0123", &AppendedAt::default()).expect("appended");
    assert!(file.file.has_told_appends());
    let read = Batch::new().read(keys::inode(file.node.ino));
    let record = store.batch(file.node.home, &read).expect("read").take(0).expect("there");
    assert_eq!(u64_at(&record, APPENDS), 4);
}

#[test]
fn an_append_after_a_cut_begins_there_also_where_an_earlier_one_is_not_forgotten_yet() {
    let (_bed, _, first, (ino, handle)) = alone();
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    // As where the answer goes out before what belongs to the request.
    let earlier = AppendedAt::default();
    assert_eq!(first.write(handle, 0, b"earlier", Some(&earlier), false), Ok(7));
    first.setattr(ino, None, &cut).expect("cut");
    append(&first, handle, b"later");
    assert_eq!(content(&first), b"later");
    // And one that had its place before the cut, and no bytes there yet.
    let waits = AppendedAt::default();
    first.handles.file(handle).expect("open").file.place_alone(5, &waits);
    first.setattr(ino, None, &cut).expect("cut");
    append(&first, handle, b"first");
    assert_eq!(first.write(handle, 0, b"then ", Some(&waits), false), Ok(5));
    assert_eq!(content(&first), b"firstthen ");
}

#[test]
fn what_was_written_alone_is_sent_when_another_mount_comes() {
    for grows in [false, true] {
        let (bed, _, first, (ino, handle)) = alone();
        append(&first, handle, b"mine ");
        if grows {
            let longer = SetAttr { size: Some(6), ..SetAttr::default() };
            first.setattr(ino, None, &longer).expect("longer");
        }
        let second = come(&bed, &first);
        let expected: &[u8] = if grows { b"mine \0" } else { b"mine " };
        // No time passes.
        eventually("the bytes are there", || {
            first.tick().expect("housekeeping");
            content(&second) == expected
        });
    }
}
