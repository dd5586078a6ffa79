//! Times of files that mounts change whose clocks differ: none goes back.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Clock, Ino, ManualClock, MountId, Time};
use tidefs_store::{Embedded, Operation, When};

use super::bed::{Bed, ME, WRITE, Watched};
use crate::{Config, Fs, Kind, PLACEMENT, RenameMode, SetAttr, SetTime, XattrMode};

type Mount = Fs<Arc<Embedded>>;

const AHEAD: Duration = Duration::from_secs(5);

/// Two mounts, of which the second one's clock is ahead.
fn two() -> (Bed, Mount, Mount) {
    let bed = Bed::new();
    let first = bed.mount(1);
    let ahead = Arc::new(ManualClock::at(bed.clock.now() + AHEAD));
    let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
    let second = Fs::mount(Arc::new(bed.store.clone()), config, ahead).expect("mounted");
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (bed, first, second)
}

fn mode(bits: u32) -> SetAttr {
    SetAttr { mode: Some(bits), ..SetAttr::default() }
}

fn touch(time: SetTime) -> SetAttr {
    SetAttr { mtime: Some(time), ..SetAttr::default() }
}

/// The second mount changes something, then the first one does: the time of change stays.
fn stays(what: &str, kind: Kind, change: impl FnOnce(&Mount, Ino)) {
    let (_bed, first, second) = two();
    let made = match kind {
        Kind::Directory => first.mkdir(ME, Ino::ROOT, b"made", 0o700),
        _ => first.mknod(ME, Ino::ROOT, b"made", kind, 0o600, 0),
    };
    let made = made.expect("made").attr.ino;
    if kind != Kind::Directory {
        first.link(made, Ino::ROOT, b"other").expect("a second name");
    }
    assert_eq!(second.lookup(Ino::ROOT, b"made").expect("found").attr.ino, made);
    second.setattr(made, None, &mode(0o640)).expect("changed");
    change(&first, made);
    let seen = second.getattr(made, None).expect("there").ctime;
    // Whatever changes names moves the time on, by as little as there is.
    assert!(seen >= second.now() && seen - second.now() < Duration::from_micros(1), "{what}");
}

#[test]
fn the_time_of_change_does_not_go_back() {
    let replace = RenameMode::Replace;
    stays("chmod", Kind::File, |fs, ino| drop(fs.setattr(ino, None, &mode(0o600))));
    stays("utimes", Kind::File, |fs, ino| {
        drop(fs.setattr(ino, None, &touch(SetTime::At(Time::from_unix(7, 0)))));
    });
    stays("utimes of a directory", Kind::Directory, |fs, ino| {
        drop(fs.setattr(ino, None, &touch(SetTime::At(Time::from_unix(7, 0)))));
    });
    stays("link", Kind::File, |fs, ino| drop(fs.link(ino, Ino::ROOT, b"third")));
    stays("unlink", Kind::File, |fs, _| fs.unlink(Ino::ROOT, b"other").expect("removed"));
    for new in [b"renamed".as_slice(), b"r", b"s"] {
        stays("rename", Kind::File, |fs, _| {
            fs.rename(Ino::ROOT, b"made", Ino::ROOT, new, replace).expect("renamed");
        });
    }
    stays("setxattr", Kind::File, |fs, ino| {
        fs.setxattr(ino, b"user.name", b"value", XattrMode::Any).expect("set");
    });
    stays("placement", Kind::Directory, |fs, ino| {
        fs.setxattr(ino, PLACEMENT, b"local", XattrMode::Any).expect("set");
    });
}

#[test]
fn a_touch_does_not_date_back_what_was_written_later() {
    let (bed, first, second) = two();
    let made = first.mknod(ME, Ino::ROOT, b"made", Kind::File, 0o600, 0).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"made").expect("found");
    let handle = second.open(made, WRITE).expect("opened").handle;
    second.write(handle, 0, b"later", None, false).expect("written");
    second.release(handle).expect("closed");
    let later = second.now();
    let attr = first.setattr(made, None, &touch(SetTime::Now)).expect("touched");
    assert_eq!((attr.mtime, attr.ctime), (later, later));
    // What a program has set to the future is no change that was later.
    let future = later + Duration::from_secs(100);
    first.setattr(made, None, &touch(SetTime::At(future))).expect("set");
    bed.pass(Duration::from_secs(10));
    let attr = first.setattr(made, None, &touch(SetTime::Now)).expect("touched");
    assert_eq!((attr.mtime, attr.ctime), (first.now(), first.now()));
}

#[test]
fn a_late_commit_does_not_date_back_what_its_mount_has_seen_since() {
    let (bed, first, second) = two();
    let made = first.mknod(ME, Ino::ROOT, b"made", Kind::File, 0o600, 0).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"made").expect("found");
    let (early, late) = (first.open(made, WRITE), second.open(made, WRITE));
    let (early, late) = (early.expect("opened").handle, late.expect("opened").handle);
    first.write(early, 0, b"early", None, false).expect("written");
    bed.pass(Duration::from_millis(20));
    second.write(late, 0, b"later", None, false).expect("written");
    let later = second.now();
    second.release(late).expect("closed");
    // Its clock is ahead by less.
    bed.pass(Duration::from_secs(10));
    first.getattr(made, None).expect("looked at");
    first.release(early).expect("closed");
    assert_eq!(second.getattr(made, None).expect("looked at").mtime, later);
}

#[test]
fn a_touch_of_a_directory_loses_no_later_change_of_its_entries() {
    let (_bed, first, second) = two();
    let made = first.mkdir(ME, Ino::ROOT, b"made", 0o700).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"made").expect("found");
    second.mknod(ME, made, b"later", Kind::File, 0o600, 0).expect("made");
    let attr = first.setattr(made, None, &touch(SetTime::Now)).expect("touched");
    assert_eq!((attr.mtime, attr.ctime), (second.now(), second.now()));
}

#[test]
fn a_look_that_began_before_a_file_was_closed_shows_the_times_that_others_have_seen() {
    let Watched { store, clock, fs } = Watched::new();
    let (entry, opened) = fs.create(ME, Ino::ROOT, b"f", 0o600, WRITE).expect("made");
    fs.flush(opened.handle).expect("stored");
    let ino = entry.attr.ino;
    let second = Config { io_threads: 1, ..Config::new(MountId(2)) };
    let _second = Fs::mount(Arc::clone(&store), second, clock.clone()).expect("mounted");
    clock.advance(Duration::from_secs(2));
    fs.tick().expect("housekeeping");
    fs.write(opened.handle, 0, b"bytes", None, false).expect("written");
    let seen = fs.getattr(ino, None).expect("there");
    let look = std::thread::scope(|scope| {
        let pause = store.pause_at_most(Operation::Batch, When::After, 1);
        let look = scope.spawn(|| fs.getattr(ino, None).expect("there"));
        assert!(pause.wait_until_held(1, Duration::from_secs(30)));
        fs.flush(opened.handle).expect("stored");
        fs.release(opened.handle).expect("closed");
        drop(pause);
        look.join().expect("no panic")
    });
    assert!(look.mtime >= seen.mtime && look.size == seen.size, "{seen:?}, then {look:?}");
}
