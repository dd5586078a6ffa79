//! Renames and removals whose steps fail: what has happened is no failure.

use std::sync::Arc;

use tidefs_model::{Ino, MountId};
use tidefs_store::{Fault, Faulty, Operation, StoreError};

use super::bed::{Bed, ME, WRITE};
use crate::{Config, Error, Fs, Kind, RenameMode};

/// How it went when a call of the store failed: whether it did, what the rename answered, whether the
/// new name stands for the file, and how many names the replaced file has then.
struct Went {
    failed: bool,
    answer: Result<(), Error>,
    happened: bool,
    names_left: u64,
}

/// Renames a file over another one, between two shards and with company, while the `nth` call fails.
fn rename_with_failure(nth: u64) -> Went {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let make = |name: &[u8]| {
        let (entry, opened) = first.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
        first.release(opened.handle).expect("closed");
        entry.attr.ino
    };
    let (moved, replaced) = (make(b"old"), make(b"new"));
    assert_ne!(first.shard_of(Ino::ROOT, b"old"), first.shard_of(Ino::ROOT, b"new"));
    let before = store.count(Operation::Batch);
    let gone = StoreError::Unavailable { endpoint: "the node".into() };
    store.add(Fault::nth(Operation::Batch, before + nth, gone));
    let answer = first.rename(Ino::ROOT, b"old", Ino::ROOT, b"new", RenameMode::Replace);
    let failed = store.count(Operation::Batch) >= before + nth;
    store.heal();
    let found = second.lookup(Ino::ROOT, b"new").expect("the name is never missing").attr.ino;
    assert!(found == moved || found == replaced);
    let names_left = first.getattr(replaced, None).map_or(0, |attr| attr.nlink);
    Went { failed, answer, happened: found == moved, names_left }
}

#[test]
fn a_rename_that_has_happened_does_not_fail_and_drops_what_it_replaces() {
    let walk: Vec<_> = (1..).map(rename_with_failure).take_while(|went| went.failed).collect();
    for (nth, went) in walk.iter().enumerate() {
        assert_eq!(went.answer.is_ok(), went.happened, "call {}", nth + 1);
    }
    let late: Vec<_> = walk.iter().filter(|went| went.happened).collect();
    assert!(late.len() >= 4 && late.len() < walk.len(), "{} of {}", late.len(), walk.len());
    let kept = late.iter().filter(|went| went.names_left > 0).count();
    assert_eq!(kept, 1, "only the step that drops it can leave it");
}

#[test]
fn a_directory_that_has_been_removed_is_no_failure_either() {
    let removed_with_failure = |nth: u64| {
        let bed = Bed::new();
        let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
        let first = Fs::mount(store.clone(), Config::new(MountId(1)), bed.clock.clone());
        let (first, second) = (first.expect("mounted"), bed.mount(2));
        first.mkdir(ME, Ino::ROOT, b"d", 0o700).expect("made");
        let before = store.count(Operation::Batch);
        let gone = StoreError::Unavailable { endpoint: "the node".into() };
        store.add(Fault::nth(Operation::Batch, before + nth, gone));
        let answer = first.rmdir(Ino::ROOT, b"d");
        let failed = store.count(Operation::Batch) >= before + nth;
        store.heal();
        let is_there = second.lookup(Ino::ROOT, b"d").map(|entry| entry.attr.kind);
        assert!(matches!(is_there, Ok(Kind::Directory) | Err(Error::NotFound)));
        failed.then_some((answer.is_ok(), is_there.is_err()))
    };
    let walk: Vec<_> = (1..).map_while(removed_with_failure).collect();
    assert!(walk.iter().all(|(is_done, is_gone)| is_done == is_gone), "{walk:?}");
    assert!(walk.iter().any(|(is_done, _)| *is_done), "{walk:?}");
}

/// Removes a name while the `nth` call fails, of a file whose record lies in the name's shard or in
/// another one. The answer is whether that succeeded, and whether the name is gone.
fn unlink_with_failure(name: &[u8], nth: u64) -> Option<(bool, bool)> {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let first = Fs::mount(store.clone(), Config::new(MountId(1)), bed.clock.clone());
    let (first, second) = (first.expect("mounted"), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let file = first.mknod(ME, Ino::ROOT, b"old", Kind::File, 0o600, 0).expect("made").attr.ino;
    first.link(file, Ino::ROOT, b"new").expect("linked");
    assert_ne!(first.shard_of(Ino::ROOT, b"old"), first.shard_of(Ino::ROOT, b"new"));
    let before = store.count(Operation::Batch);
    let gone = StoreError::Unavailable { endpoint: "the node".into() };
    store.add(Fault::nth(Operation::Batch, before + nth, gone));
    let answer = first.unlink(Ino::ROOT, name);
    let failed = store.count(Operation::Batch) >= before + nth;
    store.heal();
    let is_there = second.lookup(Ino::ROOT, name).map(drop);
    assert!(matches!(is_there, Ok(()) | Err(Error::NotFound)));
    failed.then_some((answer.is_ok(), is_there.is_err()))
}

#[test]
fn a_name_that_has_been_removed_is_no_failure_either() {
    for name in [b"old", b"new"] {
        let walk: Vec<_> = (1..).map_while(|nth| unlink_with_failure(name, nth)).collect();
        assert!(walk.iter().all(|(is_done, is_gone)| is_done == is_gone), "{walk:?}");
    }
    let elsewhere: Vec<_> = (1..).map_while(|nth| unlink_with_failure(b"new", nth)).collect();
    assert!(elsewhere.iter().any(|(is_done, _)| *is_done), "no call follows: {elsewhere:?}");
}
