//! What a mount that is alone remembers of directories is what it would read.

use std::time::Duration;

use tidefs_model::{Ino, Time};
use tidefs_store::Embedded;

use super::bed::{Bed, ME};
use crate::{Error, Fs, Kind, RenameMode, SetAttr, SetTime};

type Mount = Fs<std::sync::Arc<Embedded>>;

fn attr_now(fs: &Mount, directory: Ino) -> (u64, Time, u32) {
    let attr = fs.getattr(directory, None).expect("attributes");
    (attr.nlink, attr.mtime, attr.mode)
}

/// Asks once so that the answer is remembered, changes something, and compares what is answered
/// then with what a mount reads that remembers nothing.
fn check(bed: &Bed, fs: &Mount, directory: Ino, what: &str, change: impl FnOnce(&Mount)) {
    attr_now(fs, directory);
    bed.pass(Duration::from_secs(1));
    change(fs);
    let remembered = attr_now(fs, directory);
    fs.forget_directory(directory);
    assert_eq!(remembered, attr_now(fs, directory), "{what}");
}

#[test]
fn every_change_of_a_directory_shows() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let made = fs.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    let check = |what: &str, change: &dyn Fn(&Mount)| check(&bed, &fs, made, what, change);
    check("mkdir", &|fs| {
        fs.mkdir(ME, made, b"sub", 0o755).expect("made");
    });
    check("mknod", &|fs| {
        fs.mknod(ME, made, b"f", Kind::File, 0o644, 0).expect("made");
    });
    for number in 0..20 {
        let (old, new) = (format!("f{number}"), format!("f{}", number + 1));
        let (old, new) = if number == 0 { ("f", "f1") } else { (&old[..], &new[..]) };
        check("rename", &|fs| {
            let mode = RenameMode::Replace;
            fs.rename(made, old.as_bytes(), made, new.as_bytes(), mode).expect("renamed");
        });
    }
    check("rename of a directory out and back", &|fs| {
        let mode = RenameMode::Replace;
        fs.rename(made, b"sub", Ino::ROOT, b"out", mode).expect("out");
        fs.rename(Ino::ROOT, b"out", made, b"sub", mode).expect("back");
    });
    check("chmod", &|fs| {
        let changes = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        fs.setattr(made, None, &changes).expect("changed");
    });
    check("utimens", &|fs| {
        let changes = SetAttr { mtime: Some(SetTime::At(Time(5))), ..SetAttr::default() };
        assert_eq!(fs.setattr(made, None, &changes).expect("changed").mtime, Time(5));
    });
    check("unlink", &|fs| fs.unlink(made, b"f20").expect("removed"));
    check("rmdir", &|fs| fs.rmdir(made, b"sub").expect("removed"));
    assert_eq!(attr_now(&fs, made).0, 2);
}

#[test]
fn nothing_is_remembered_with_company() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let made = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    assert_eq!(attr_now(&first, made).0, 2);
    let second = bed.mount(2);
    while second.is_admitted() != Ok(true) {
        first.tick().expect("ticks");
    }
    second.lookup(Ino::ROOT, b"d").expect("seen");
    second.mkdir(ME, made, b"sub", 0o755).expect("made");
    assert_eq!(attr_now(&first, made).0, 3);
}

/// Waits until `second` is let in, which the first mount hears of when it ticks.
fn admit(first: &Mount, second: &Mount) {
    while second.is_admitted() != Ok(true) {
        first.tick().expect("ticks");
    }
}

#[test]
fn what_was_known_to_be_absent_is_asked_for_again_with_company_and_after_it() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let made = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    assert_eq!(first.lookup(made, b"x").err(), Some(Error::NotFound));
    let second = bed.mount(2);
    admit(&first, &second);
    second.lookup(Ino::ROOT, b"d").expect("seen");
    second.mknod(ME, made, b"x", Kind::File, 0o644, 0).expect("made");
    let seen = first.lookup(made, b"x").expect("seen at once").attr.ino;
    second.mknod(ME, made, b"y", Kind::File, 0o644, 0).expect("made");
    second.unlink(made, b"x").expect("removed");
    second.unmount().expect("left");
    bed.pass(Duration::from_secs(2));
    first.tick().expect("ticks");
    assert!(first.lifetimes().entry > Duration::ZERO, "alone again");
    assert!(first.lookup(made, b"y").is_ok(), "made while there was company");
    assert_eq!(first.lookup(made, b"x").err(), Some(Error::NotFound));
    assert_eq!(first.getattr(seen, None).err(), Some(Error::Stale));
}

#[test]
fn a_name_that_stands_for_another_file_now_is_not_taken_for_the_old_one() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    admit(&first, &second);
    let old = first.mknod(ME, Ino::ROOT, b"x", Kind::File, 0o644, 0).expect("made").attr.ino;
    assert_eq!(second.lookup(Ino::ROOT, b"x").expect("seen").attr.ino, old);
    first.unlink(Ino::ROOT, b"x").expect("removed");
    assert_eq!(second.lookup(Ino::ROOT, b"x").err(), Some(Error::NotFound));
    let new = first.mknod(ME, Ino::ROOT, b"x", Kind::Fifo, 0o644, 0).expect("made").attr.ino;
    let seen = second.lookup(Ino::ROOT, b"x").expect("seen").attr;
    assert_eq!((seen.ino, seen.kind), (new, Kind::Fifo));
    first.rename(Ino::ROOT, b"x", Ino::ROOT, b"y", RenameMode::Replace).expect("renamed");
    first.mkdir(ME, Ino::ROOT, b"x", 0o755).expect("made");
    assert_eq!(second.lookup(Ino::ROOT, b"x").expect("seen").attr.kind, Kind::Directory);
    assert_eq!(second.lookup(Ino::ROOT, b"y").expect("seen").attr.ino, new);
}
