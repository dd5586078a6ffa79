//! Operations on two shards that stopped half way: whoever comes next sees the old state or the
//! new one, and can go on.

use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use super::bed::{Bed, ME};
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage};
use crate::fs::Fs;
use crate::keys;
use crate::{Error, Kind, RenameMode};

/// A file `old` in the root, and the record that says it is leaving for `new`, in another shard.
fn leaving<S: Store>(fs: &Fs<S>) -> (EntryRecord, EntryRecord) {
    fs.mknod(ME, Ino::ROOT, b"old", Kind::File, 0o644, 0).expect("made");
    let (old, new) = (fs.place(Ino::ROOT, b"old"), fs.place(Ino::ROOT, b"new"));
    assert_ne!(old.shard, new.shard, "the names were chosen to lie in different shards");
    let reference = fs.settle(&old).expect("reads").expect("is there").reference;
    let passage = Passage::Leaving { transaction: 7, to: new, instead: None };
    let arrived = Passage::Arrived { transaction: 7, from: old, instead: None };
    (
        EntryRecord { reference, passage: Some(passage) },
        EntryRecord { reference, passage: Some(arrived) },
    )
}

fn put_entry<S: Store>(fs: &Fs<S>, name: &[u8], record: &EntryRecord) {
    let batch = Batch::new().put(keys::entry(name), record.encode());
    fs.store.batch(fs.shard_of(Ino::ROOT, name), &batch).expect("put");
}

fn names<S: Store>(fs: &Fs<S>) -> Vec<String> {
    let (listing, missed) = fs.listing(Ino::ROOT).expect("listed");
    assert_eq!(missed, None);
    listing.from(0).map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
}

/// A mount meets an operation that is under way for the first time.
fn meets<S: Store>(fs: &Fs<S>, transaction: u64) {
    assert_eq!(fs.unfinished.age(transaction, fs.steady()), Duration::ZERO);
}

#[test]
fn a_rename_that_only_began_has_not_happened() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let (leaving, _) = leaving(&fs);
    put_entry(&fs, b"old", &leaving);
    assert!(fs.lookup(Ino::ROOT, b"old").is_ok());
    assert_eq!(fs.lookup(Ino::ROOT, b"new"), Err(Error::NotFound));
    assert_eq!(names(&fs), ["old"]);
}

#[test]
fn a_rename_that_arrived_has_happened() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let (leaving, arrived) = leaving(&fs);
    put_entry(&fs, b"old", &leaving);
    put_entry(&fs, b"new", &arrived);
    assert_eq!(fs.lookup(Ino::ROOT, b"old"), Err(Error::NotFound));
    assert!(fs.lookup(Ino::ROOT, b"new").is_ok());
    assert_eq!(names(&fs), ["new"]);
}

#[test]
fn whoever_removes_the_new_name_first_finishes_the_rename() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let (leaving, arrived) = leaving(&fs);
    put_entry(&fs, b"old", &leaving);
    put_entry(&fs, b"new", &arrived);
    fs.unlink(Ino::ROOT, b"new").expect("removed");
    assert_eq!(fs.lookup(Ino::ROOT, b"old"), Err(Error::NotFound));
    assert_eq!(names(&fs), Vec::<String>::new());
}

#[test]
fn a_rename_left_alone_is_given_up_and_cannot_happen_later() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let (leaving, arrived) = leaving(&fs);
    put_entry(&fs, b"old", &leaving);
    meets(&fs, 7);
    bed.pass(Duration::from_secs(3));
    fs.rename(Ino::ROOT, b"old", Ino::ROOT, b"elsewhere", RenameMode::Replace).expect("renamed");
    // What the interrupted mount would do next, if it were only slow.
    let late = Batch::new().absent(keys::aborted(7)).put(keys::entry(b"new"), arrived.encode());
    let shard = fs.shard_of(Ino::ROOT, b"new");
    assert!(!fs.store.batch(shard, &late).expect("asked").applied());
    assert_eq!(names(&fs), ["elsewhere"]);
}

#[test]
fn a_removal_left_alone_is_undone_by_the_next_create() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let directory = fs.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    let closing = Closing { transaction: 9, parent: fs.place(Ino::ROOT, b"d") };
    fs.close_shards(directory, &closing).expect("closed");
    meets(&fs, 9);
    bed.pass(Duration::from_secs(3));
    fs.mkdir(ME, directory, b"sub", 0o755).expect("the directory takes entries again");
    assert_eq!(fs.rmdir(Ino::ROOT, b"d"), Err(Error::NotEmpty));
    let late = Batch::new().absent(keys::aborted(9));
    assert!(!fs.store.batch(fs.shard_of(Ino::ROOT, b"d"), &late).expect("asked").applied());
}
