//! Mounts on hosts whose clocks are hours apart, and are set while they work.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, ManualClock, Time};
use tidefs_store::{Batch, Embedded, Store};

use super::bed::{Bed, Host, ME, SECOND, WRITE, eventually};
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage};
use crate::{Error, Fs, Kind, RenameMode, keys};

type Mount = Fs<Arc<Embedded>>;

const HOURS: [i64; 3] = [-5, 0, 5];

/// Two mounts, the second one on a host whose clock is so many hours ahead.
fn two(hours: i64) -> (Bed, Mount, Mount) {
    let mut bed = Bed::new();
    // Later than 1970 on all hosts.
    bed.clock = Arc::new(ManualClock::at(Time::from_unix(1_700_000_000, 0)));
    let (first, second) = (bed.mount(1), bed.mount_on(&Host::ahead(&bed.clock, hours), 2));
    bed.pass_with(2, &[&first, &second]);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (bed, first, second)
}

/// `fs` has begun to rename `old` to `new`, and does no more: the record of what it does next.
fn begins_a_rename(fs: &Mount) -> EntryRecord {
    fs.mknod(ME, Ino::ROOT, b"old", Kind::File, 0o644, 0).expect("made");
    let (old, new) = (fs.place(Ino::ROOT, b"old"), fs.place(Ino::ROOT, b"new"));
    assert_ne!(old.shard, new.shard, "the names were chosen to lie in different shards");
    let reference = fs.settle(&old).expect("reads").expect("is there").reference;
    let leaving = Passage::Leaving { transaction: 7, to: new, instead: None };
    let record = EntryRecord { reference, passage: Some(leaving) };
    let batch = Batch::new().put(keys::entry(b"old"), record.encode());
    fs.store.batch(old.shard, &batch).expect("put");
    let arrived = Passage::Arrived { transaction: 7, from: old, instead: None };
    EntryRecord { reference, passage: Some(arrived) }
}

fn arrives(fs: &Mount, record: &EntryRecord) -> bool {
    let entry = keys::entry(b"new");
    let batch = Batch::new().absent(keys::aborted(7)).put(entry, record.encode());
    fs.store.batch(fs.shard_of(Ino::ROOT, b"new"), &batch).expect("asked").applied()
}

#[test]
fn a_rename_under_way_is_waited_for_whatever_the_clocks_say() {
    for hours in HOURS {
        let (bed, first, second) = two(hours);
        let arrived = begins_a_rename(&first);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                second.rename(Ino::ROOT, b"old", Ino::ROOT, b"elsewhere", RenameMode::Replace)
            });
            eventually("the second mount meets it", || second.unfinished.count() == 1);
            bed.pass(SECOND);
            assert!(arrives(&first, &arrived), "{hours} hours: it was given up");
            assert_eq!(other.join().expect("no panic"), Err(Error::NotFound), "{hours} hours");
        });
        assert!(second.lookup(Ino::ROOT, b"new").is_ok());
    }
}

#[test]
fn a_rename_that_nobody_ends_is_given_up_whatever_the_clocks_say() {
    for hours in HOURS {
        let (bed, first, second) = two(hours);
        let arrived = begins_a_rename(&first);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                second.rename(Ino::ROOT, b"old", Ino::ROOT, b"elsewhere", RenameMode::Replace)
            });
            eventually("the second mount meets it", || second.unfinished.count() == 1);
            bed.pass(3 * SECOND);
            assert_eq!(other.join().expect("no panic"), Ok(()), "{hours} hours");
        });
        assert!(!arrives(&first, &arrived), "{hours} hours: it happens after all");
    }
}

#[test]
fn a_removal_that_nobody_ends_is_undone_whatever_the_clocks_say() {
    for hours in HOURS {
        let (bed, first, second) = two(hours);
        let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
        assert_eq!(second.lookup(Ino::ROOT, b"d").expect("found").attr.ino, directory);
        let closing = Closing { transaction: 9, parent: first.place(Ino::ROOT, b"d") };
        first.close_shards(directory, &closing).expect("closed");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| second.mkdir(ME, directory, b"sub", 0o755).map(drop));
            eventually("the second mount meets it", || second.unfinished.count() == 1);
            bed.pass(SECOND);
            std::thread::sleep(Duration::from_millis(50));
            assert!(!other.is_finished(), "{hours} hours: it was not waited for");
            bed.pass(2 * SECOND);
            assert_eq!(other.join().expect("no panic"), Ok(()), "{hours} hours");
        });
        let late = Batch::new().absent(keys::aborted(9));
        let shard = first.shard_of(Ino::ROOT, b"d");
        assert!(!first.store.batch(shard, &late).expect("asked").applied(), "{hours} hours");
    }
}

/// Bytes are sent when they have waited for long, and not when a clock says so.
#[test]
fn what_was_written_is_sent_in_time_though_the_clock_is_set_back() {
    for hours in HOURS {
        let mut bed = Bed::new();
        bed.clock = Arc::new(ManualClock::at(Time::from_unix(1_700_000_000, 0)));
        let host = Host::ahead(&bed.clock, 0);
        let fs = bed.mount_on(&host, 1);
        assert_eq!(fs.is_admitted(), Ok(true));
        let (made, opened) = fs.create(ME, Ino::ROOT, b"f", 0o600, WRITE).expect("made");
        fs.write(opened.handle, 0, b"bytes", None, false).expect("written");
        let key = tidefs_model::StripeKey { ino: made.attr.ino, index: 0 };
        host.step(hours);
        fs.beat().expect("the store answers");
        assert_eq!(bed.store.lengths(&[key]).expect("asked"), [0], "{hours} hours: too early");
        bed.pass(60 * SECOND);
        fs.beat().expect("the store answers");
        eventually("the bytes arrive", || bed.store.lengths(&[key]) == Ok(vec![5]));
    }
}

/// What two looks of a check see is the same only if nothing has happened in between.
#[test]
fn a_change_of_names_moves_times_on_though_the_clock_is_behind() {
    for hours in HOURS {
        let (bed, first, second) = two(hours);
        let made = first.mknod(ME, Ino::ROOT, b"name", Kind::File, 0o644, 0).expect("made");
        let seen = |fs: &Mount, name: &[u8]| {
            let place = fs.place(Ino::ROOT, name);
            let read = Batch::new().read(keys::HEADER);
            let header = bed.store.batch(place.shard, &read).expect("read").values;
            (fs.getattr(made.attr.ino, None).expect("there").ctime, header)
        };
        second.lookup(Ino::ROOT, b"name").expect("found");
        let change = |what: &str, change: &dyn Fn(&Mount)| {
            let before = seen(&second, b"name");
            change(&second);
            let after = seen(&second, b"name");
            assert!(after.0 > before.0, "{what}, {hours} hours: {before:?}, {after:?}");
            assert_ne!(after.1, before.1, "{what}, {hours} hours");
        };
        change("there and back", &|fs| {
            for (from, to) in [(b"name", b"away"), (b"away", b"name")] {
                fs.rename(Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace).expect("renamed");
            }
        });
        change("a name more, the first one less", &|fs| {
            fs.link(made.attr.ino, Ino::ROOT, b"away").expect("linked");
            fs.unlink(Ino::ROOT, b"name").expect("removed");
            fs.link(made.attr.ino, Ino::ROOT, b"name").expect("linked");
            fs.unlink(Ino::ROOT, b"away").expect("removed");
        });
        let _ = &first;
    }
}
