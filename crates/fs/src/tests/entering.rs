//! Names that enter a directory which another mount is removing or has removed.

use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use super::bed::{Bed, ME, WRITE};
use super::stepping::Order;
use crate::{Error, Fs, Kind, OpenMode, RenameMode, keys};

/// All ways in which a name enters a directory. `tag` tells the files of several directories apart.
fn ways<S: Store>(fs: &Fs<S>, directory: Ino, tag: &str) -> Vec<(&'static str, Result<(), Error>)> {
    let name = |what: &str| format!("{tag}-{what}").into_bytes();
    let there = |what: &str| {
        let made = fs.mknod(ME, Ino::ROOT, &name(what), Kind::Fifo, 0o600, 0).expect("made");
        made.attr.ino
    };
    let linked = there("link");
    there("file");
    there("other");
    fs.mkdir(ME, Ino::ROOT, &name("directory"), 0o700).expect("made");
    let rename = |what: &str, mode| fs.rename(Ino::ROOT, &name(what), directory, b"name", mode);
    let open = OpenMode { exclusive: true, ..WRITE };
    vec![
        ("create", fs.create(ME, directory, b"name", 0o600, open).map(drop)),
        ("mkdir", fs.mkdir(ME, directory, b"name", 0o700).map(drop)),
        ("symlink", fs.symlink(ME, directory, b"name", b"target").map(drop)),
        ("mknod", fs.mknod(ME, directory, b"name", Kind::Fifo, 0o600, 0).map(drop)),
        ("link", fs.link(linked, directory, b"name").map(drop)),
        ("rename", rename("file", RenameMode::Replace)),
        ("rename without replacing", rename("other", RenameMode::NoReplace)),
        ("rename of a directory", rename("directory", RenameMode::Replace)),
        ("exchange", rename("other", RenameMode::Exchange)),
    ]
}

/// Each answers the same, and what was to enter keeps the name that it had.
fn are_refused<S: Store>(fs: &Fs<S>, directory: Ino, tag: &str) {
    for (way, answer) in ways(fs, directory, tag) {
        assert_eq!(answer, Err(Error::NotFound), "{tag}: {way}");
    }
    for what in ["link", "file", "other", "directory"] {
        let name = format!("{tag}-{what}").into_bytes();
        assert!(fs.lookup(Ino::ROOT, &name).is_ok(), "{tag}: {what} is lost");
    }
    let (left, _) = fs.listing(directory).expect("listed");
    assert_eq!(left.from(0).count(), 0, "{tag}");
}

fn two(bed: &Bed) -> (Fs<impl Store>, Fs<impl Store>) {
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (first, second)
}

#[test]
fn no_name_enters_a_directory_that_another_mount_removed() {
    let bed = Bed::new();
    let (first, second) = two(&bed);
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    first.rmdir(Ino::ROOT, b"d").expect("removed");
    are_refused(&second, directory, "closed");
    bed.pass(Duration::from_secs(61));
    first.tick().expect("clears the shards");
    are_refused(&second, directory, "cleared");
    first.unmount().expect("left");
    bed.pass_with(20, &[&bed.mount(3)]);
    are_refused(&second, directory, "alone");
}

/// A file lives where it was made, so that the shards of a directory that is gone may have records.
#[test]
fn nor_where_files_that_were_made_there_live_on() {
    let bed = Bed::new();
    let (first, second) = two(&bed);
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    for number in 0..64 {
        let name = format!("moved {number}").into_bytes();
        first.mknod(ME, directory, &name, Kind::Fifo, 0o600, 0).expect("made");
        first.rename(directory, &name, Ino::ROOT, &name, RenameMode::Replace).expect("moved");
    }
    first.rmdir(Ino::ROOT, b"d").expect("removed");
    first.unmount().expect("left");
    let shard = second.shard_of(directory, b"name");
    let read = Batch::new().read(keys::HEADER).read(keys::CLOSED);
    assert!(!bed.store.batch(shard, &read).expect("read").shard_was_empty);
    are_refused(&second, directory, "inhabited");
}

/// One mount removes a directory while the other one moves something into it, in every order in which
/// each has its turn twice at most.
#[test]
fn a_directory_is_removed_or_something_moves_in_and_never_both() {
    for is_directory in [false, true] {
        let mut most = 40;
        let mut seen = [false; 2];
        for first in [0, 1] {
            for run in 0..40 {
                for other in (0..40).step_by(3) {
                    if run > most || other > most {
                        continue;
                    }
                    let (answers, made) = move_in_and_remove(is_directory, first, &[run, other]);
                    seen[usize::from(answers[0].is_ok())] = true;
                    most = made[0].max(made[1]) + 1;
                }
            }
        }
        assert_eq!(seen, [true; 2], "both happen");
    }
}

fn move_in_and_remove(
    is_directory: bool,
    first: usize,
    plan: &[usize],
) -> ([Result<(), Error>; 2], [usize; 2]) {
    let bed = Bed::new();
    let order = Order::new(&bed, Duration::ZERO);
    let mounts = [order.mount(&bed, 0), order.mount(&bed, 1)];
    for mount in &mounts {
        assert_eq!(mount.is_admitted(), Ok(true));
    }
    let directory = mounts[1].mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    mounts[0].lookup(Ino::ROOT, b"d").expect("found");
    let moved = match is_directory {
        true => mounts[1].mkdir(ME, Ino::ROOT, b"moved", 0o755).expect("made"),
        false => mounts[1].mknod(ME, Ino::ROOT, b"moved", Kind::Fifo, 0o600, 0).expect("made"),
    };
    let move_in = || mounts[0].rename(Ino::ROOT, b"moved", directory, b"in", RenameMode::Replace);
    // The removal's mount leaves at once, and clears what keeps late names out.
    let remove = || {
        let removed = mounts[1].rmdir(Ino::ROOT, b"d");
        mounts[1].unmount().expect("left");
        removed
    };
    let (answers, made) = order.run(first, plan, [&move_in, &remove]);
    let what = format!("{first} first, runs of {plan:?}: {answers:?}");
    let third = bed.mount(3);
    let found = match &answers {
        [Ok(()), Err(Error::NotEmpty)] => {
            let directory = third.lookup(Ino::ROOT, b"d").expect("is there").attr.ino;
            third.lookup(directory, b"in")
        }
        [Err(Error::NotFound), Ok(())] => third.lookup(Ino::ROOT, b"moved"),
        _ => panic!("{what}"),
    };
    assert_eq!(found.map(|it| it.attr.ino), Ok(moved.attr.ino), "{what}");
    (answers, made)
}
