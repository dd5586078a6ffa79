//! A check of the file system: what it finds, what it repairs, and what it leaves alone.

mod trees;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId, ShardKey, StripeKey};
use tidefs_store::{Batch, Embedded, Store, StripeWrite};

use super::bed::{Bed, Host, ME, WRITE};
use crate::closing::Closing;
use crate::entry::{EntryRecord, Passage, Place, Reference};
use crate::inode::Parent;
use crate::rename_lock::Intent;
use crate::{
    CheckReport, Error, Finding, Fs, Kind, Lock, LockFamily, LockKind, RenameMode, Surroundings,
    XattrMode, check, inode, keys,
};

type Mount = Fs<Arc<Embedded>>;

const STRIPE: u64 = 4096;
/// So that a worker ends, whatever happens.
const TURNS_MAX: usize = 100_000;
const LONG: Duration = Duration::from_secs(120);

/// Time passes for the mounts that live.
struct Around<'a> {
    bed: &'a Bed,
    living: &'a [&'a Mount],
    /// What else happens while time passes.
    meanwhile: &'a dyn Fn(),
}

impl Surroundings for Around<'_> {
    fn pause(&self, time: Duration) {
        (self.meanwhile)();
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(500));
            self.bed.pass(step);
            for fs in self.living {
                fs.tick().expect("housekeeping");
            }
            left -= step;
        }
    }

    fn placement(&self) -> Option<u64> {
        Some(1)
    }
}

fn run(bed: &Bed, living: &[&Mount], repair: bool) -> CheckReport {
    run_while(bed, living, repair, &|| ())
}

fn run_while(bed: &Bed, living: &[&Mount], repair: bool, meanwhile: &dyn Fn()) -> CheckReport {
    let store = Arc::new(Arc::clone(&bed.store));
    let clock: Arc<dyn Clock> = bed.clock.clone();
    check(&store, &clock, &Around { bed, living, meanwhile }, MountId(99), repair)
        .expect("a check ends")
}

fn kinds(found: &[crate::Found]) -> Vec<&'static str> {
    found.iter().map(|found| found.finding.kind()).collect()
}

fn make(fs: &Mount, name: &[u8], bytes: &[u8]) -> Reference {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, bytes, None, false).expect("written");
    fs.flush(opened.handle).expect("stored");
    fs.release(opened.handle).expect("closed");
    fs.table.get(entry.attr.ino).expect("known").reference()
}

/// A mount that lives, with a file and a directory.
fn furnished() -> (Bed, Mount) {
    let bed = Bed::new();
    let fs = bed.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    make(&fs, b"file", &[1; 3 * STRIPE as usize]);
    fs.mkdir(ME, Ino::ROOT, b"directory", 0o755).expect("made");
    (bed, fs)
}

/// Plants something, and expects it to be found alone, repaired, and not found again.
fn is_repaired(kind: &'static str, plant: impl FnOnce(&Bed, &Mount)) {
    let (bed, fs) = furnished();
    assert!(run(&bed, &[&fs], false).is_clean(), "{kind}: before anything is planted");
    plant(&bed, &fs);
    bed.pass(LONG);
    let found = run(&bed, &[&fs], false);
    assert_eq!(kinds(&found.left), [kind], "{found:#?}");
    assert!(!found.left[0].finding.is_damage(), "{kind}");
    let repaired = run(&bed, &[&fs], true);
    assert_eq!((kinds(&repaired.repaired), kinds(&repaired.left)), (vec![kind], vec![]));
    assert!(run(&bed, &[&fs], false).is_clean(), "{kind}: after it was repaired");
    let read = fs.lookup(Ino::ROOT, b"file").map(|entry| (entry.attr.size, entry.attr.nlink));
    assert_eq!(read, Ok((3 * STRIPE, 1)), "{kind}: what is in order stays");
}

fn put(bed: &Bed, shard: ShardKey, field: Vec<u8>, value: Vec<u8>) {
    bed.store.batch(shard, &Batch::new().put(field, value)).expect("put");
}

#[test]
fn an_inode_without_names_is_removed_with_all_it_has() {
    let (bed, fs) = furnished();
    let before = bed.store.overview().expect("an overview").nodes[0].memory_used_bytes;
    let gone = make(&fs, b"gone", &[1; 5 * STRIPE as usize]);
    fs.setxattr(gone.ino, b"user.a", b"value", XattrMode::Any).expect("set");
    put(&bed, gone.home, keys::region(gone.ino, 3), Vec::new());
    let far = StripeKey { ino: gone.ino, index: 3_080 };
    bed.store.write(&[StripeWrite { key: far, offset: 0, bytes: b"far out" }]).expect("written");
    let place = fs.place(Ino::ROOT, b"gone");
    let found = fs.settle(&place).expect("reads").expect("is there");
    bed.store.batch(place.shard, &fs.removal(&place, &found)).expect("removed");
    bed.pass(LONG);
    let report = run(&bed, &[&fs], true);
    assert_eq!((kinds(&report.repaired), kinds(&report.left)), (vec!["unreachable"], vec![]));
    assert!(run(&bed, &[&fs], false).is_clean());
    let after = bed.store.overview().expect("an overview").nodes[0].memory_used_bytes;
    assert!(after <= before + 1_000, "{before} bytes were in use, {after} are now");
}

#[test]
fn leaks_of_every_kind_are_found_and_repaired() {
    is_repaired("ownerless", |bed, _| {
        for index in [0, 7, 5_000] {
            let key = StripeKey { ino: Ino(77_777), index };
            bed.store.write(&[StripeWrite { key, offset: 0, bytes: b"x" }]).expect("written");
        }
    });
    is_repaired("beyond-end", |bed, fs| {
        let ino = fs.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
        let write = StripeWrite { key: StripeKey { ino, index: 3 }, offset: 0, bytes: b"x" };
        bed.store.write(&[write]).expect("written");
    });
    is_repaired("links", |bed, fs| {
        let found = fs.settle(&fs.place(Ino::ROOT, b"file")).expect("reads").expect("is there");
        let field = keys::inode(found.reference.ino);
        let batch = Batch::new().add(field, inode::NLINK, 4);
        bed.store.batch(found.reference.home, &batch).expect("added");
    });
    is_repaired("counters", |bed, fs| {
        let shard = fs.shard_of(Ino::ROOT, b"file");
        bed.store.batch(shard, &Batch::new().add(keys::HEADER, 0, 2)).expect("added");
    });
    is_repaired("lease_term", |bed, fs| {
        let shard = fs.shard_of(Ino::ROOT, b"file");
        put(bed, keys::SUPERBLOCK, keys::lease_term(MountId(7)), vec![1; 16]);
        put(bed, keys::SUPERBLOCK, keys::recall(MountId(7), shard), Vec::new());
    });
    is_repaired("holder", |bed, fs| {
        put(bed, fs.shard_of(Ino::ROOT, b"file"), keys::HOLDERS.to_vec(), vec![7; 24]);
    });
    is_repaired("holder", |bed, _| {
        let of_none = ShardKey { directory: Ino(77_777), index: 3 };
        put(bed, of_none, keys::HOLDERS.to_vec(), vec![7; 24]);
    });
    is_repaired("fence", |bed, fs| {
        put(bed, fs.shard_of(Ino::ROOT, b"file"), keys::aborted(12_345), Vec::new());
    });
    is_repaired("remains", |bed, fs| {
        put(bed, fs.shard_of(Ino::ROOT, b"file"), keys::xattrs(Ino(77_777)), vec![1]);
    });
    is_repaired("husk", |bed, fs| {
        let shard = ShardKey { directory: Ino(77_777), index: 1 };
        let parent = fs.place(Ino::ROOT, b"was here");
        let closing = Closing { transaction: 12_345, parent };
        put(bed, shard, keys::CLOSED.to_vec(), closing.encode());
    });
    is_repaired("removal", |_, fs| {
        let directory = fs.lookup(Ino::ROOT, b"directory").expect("found").attr.ino;
        let parent = fs.place(Ino::ROOT, b"directory");
        let closing = Closing { transaction: 12_345, parent };
        fs.close_shards(directory, &closing).expect("closed");
    });
}

#[test]
fn a_holder_whose_mount_has_begun_another_lease_term_is_no_leak() {
    let (bed, fs) = furnished();
    let mine = MountId(1);
    let words = |words: [u64; 3]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    put(&bed, keys::SUPERBLOCK, keys::lease_term(mine), words([9, 0, 0]));
    let earlier = words([mine.0, 8, 1]);
    put(&bed, fs.shard_of(Ino::ROOT, b"file"), keys::HOLDERS.to_vec(), earlier);
    assert_eq!(kinds(&run(&bed, &[&fs], false).left), [] as [&str; 0]);
}

/// One that lives would have taken it off the list by itself.
#[test]
fn a_mount_that_died_is_found_where_none_lives() {
    let (bed, fs) = furnished();
    fs.unmount().expect("left");
    drop(bed.mount(2));
    for (repair, found) in [(false, vec!["mount"]), (true, vec!["mount"]), (true, vec![])] {
        let report = run(&bed, &[], repair);
        let (some, none) = match repair {
            true => (report.repaired, report.left),
            false => (report.left, report.repaired),
        };
        assert_eq!((kinds(&some), kinds(&none)), (found, vec![]));
    }
}

#[test]
fn a_rename_that_stopped_is_undone_or_finished() {
    for arrived in [false, true] {
        let (bed, fs) = furnished();
        let (old, new) = (fs.place(Ino::ROOT, b"file"), fs.place(Ino::ROOT, b"new"));
        assert_ne!(old.shard, new.shard, "the names were chosen to lie in different shards");
        let reference = fs.settle(&old).expect("reads").expect("is there").reference;
        let (transaction, instead) = (12_345, None);
        let leaving = Passage::Leaving { transaction, to: new.clone(), instead };
        let record = EntryRecord { reference, passage: Some(leaving) };
        put(&bed, old.shard, keys::entry(b"file"), record.encode());
        if arrived {
            let passage = Passage::Arrived { transaction, from: old, instead };
            let record = EntryRecord { reference, passage: Some(passage) };
            put(&bed, new.shard, keys::entry(b"new"), record.encode());
            bed.store.batch(new.shard, &Batch::new().add(keys::HEADER, 0, 1)).expect("counted");
        }
        bed.pass(LONG);
        let report = run(&bed, &[&fs], true);
        assert!(report.is_clean(), "{report:#?}");
        assert!(kinds(&report.repaired).contains(&"rename"), "{report:#?}");
        assert!(run(&bed, &[&fs], false).is_clean());
        let there = [b"file".as_slice(), b"new"].map(|name| fs.lookup(Ino::ROOT, name).is_ok());
        assert_eq!(there, [!arrived, arrived]);
    }
}

#[test]
fn damage_is_told_with_its_path_and_stays() {
    let (bed, fs) = furnished();
    let directory = fs.lookup(Ino::ROOT, b"directory").expect("found").attr.ino;
    let (lost, opened) = fs.create(ME, directory, b"lost", 0o600, WRITE).expect("made");
    fs.release(opened.handle).expect("closed");
    let shard = fs.shard_of(directory, b"lost");
    bed.store.batch(shard, &Batch::new().delete(keys::inode(lost.attr.ino))).expect("lost");
    let odd = fs.place(directory, b"odd");
    put(&bed, odd.shard, keys::entry(b"odd"), vec![9]);
    bed.store.batch(odd.shard, &Batch::new().add(keys::HEADER, 0, 1)).expect("counted");
    bed.pass(LONG);
    let report = run(&bed, &[&fs], true);
    assert_eq!(report.repaired, []);
    assert_eq!(kinds(&report.left), ["no-inode", "unreadable"], "{report:#?}");
    let paths: Vec<_> = report.left.iter().map(|found| found.paths.clone()).collect();
    assert_eq!(paths, [[b"/directory/lost".to_vec()], [b"/directory/odd".to_vec()]]);
    assert!(report.left.iter().all(|found| found.finding.is_damage()));
}

#[test]
fn what_a_living_mount_has_in_use_is_no_finding() {
    let (bed, fs) = furnished();
    let other = bed.mount(2);
    Around { bed: &bed, living: &[&fs, &other], meanwhile: &|| () }.pause(Duration::from_secs(2));
    assert_eq!(other.is_admitted(), Ok(true));
    // Open without a name; written and not committed; kept for others for a while.
    let (unnamed, first) = fs.create(ME, Ino::ROOT, b"unnamed", 0o600, WRITE).expect("made");
    fs.write(first.handle, 0, b"kept", None, false).expect("written");
    fs.flush(first.handle).expect("stored");
    fs.unlink(Ino::ROOT, b"unnamed").expect("removed");
    let (_, second) = other.create(ME, Ino::ROOT, b"growing", 0o600, WRITE).expect("made");
    other.write(second.handle, 0, &[7; 8 * STRIPE as usize], None, false).expect("written");
    let around = Around { bed: &bed, living: &[&fs, &other], meanwhile: &|| () };
    around.pause(LONG);
    let growing = other.lookup(Ino::ROOT, b"growing").expect("found").attr.ino;
    let stored = StripeKey { ino: growing, index: 2 };
    super::bed::eventually("old bytes are sent", || {
        other.tick().expect("housekeeping");
        bed.store.lengths(&[stored]) == Ok(vec![STRIPE as u32])
    });
    let report = run(&bed, &[&fs, &other], true);
    assert_eq!((report.repaired, report.left), (vec![], vec![]));
    // Both go on as if nothing had been.
    other.flush(second.handle).expect("stored");
    let bytes = fs.read(first.handle, 0, 10).expect("read");
    assert_eq!(bytes.as_slice(), b"kept");
    for (mount, handle) in [(&fs, first.handle), (&other, second.handle)] {
        mount.release(handle).expect("closed");
    }
    around.pause(LONG);
    super::bed::eventually("the file without a name is freed", || {
        fs.getattr(unnamed.attr.ino, None) == Err(Error::Stale)
    });
    let entry = fs.lookup(Ino::ROOT, b"growing").expect("found");
    assert_eq!(entry.attr.size, 8 * STRIPE);
    let report = run(&bed, &[&fs, &other], false);
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn the_same_of_a_mount_that_died_is_one() {
    let (bed, fs) = furnished();
    let dead = bed.mount(2);
    Around { bed: &bed, living: &[&fs, &dead], meanwhile: &|| () }.pause(Duration::from_secs(2));
    let (_, opened) = dead.create(ME, Ino::ROOT, b"unnamed", 0o600, WRITE).expect("made");
    dead.write(opened.handle, 0, b"lost", None, false).expect("written");
    dead.flush(opened.handle).expect("stored");
    dead.unlink(Ino::ROOT, b"unnamed").expect("removed");
    Around { bed: &bed, living: &[&fs], meanwhile: &|| () }.pause(LONG);
    let report = run(&bed, &[&fs], true);
    // The mount that lives has taken the other one off the list.
    assert_eq!((kinds(&report.repaired), report.left), (vec!["unreachable"], vec![]));
    assert!(run(&bed, &[&fs], false).is_clean());
}

/// A link counts first and enters second. Its mount's clock may be hours from that of the check.
#[test]
fn a_name_that_is_late_is_waited_for_whatever_the_clocks_say() {
    for (hours, enters) in [(-5, true), (0, true), (5, true), (-5, false), (5, false)] {
        let (bed, fs) = furnished();
        let name = fs.place(Ino::ROOT, b"file");
        let file = fs.settle(&name).expect("reads").expect("there").reference;
        let changed = Host::ahead(&bed.clock, hours).now();
        let record = keys::inode(file.ino);
        let batch = Batch::new().add(record.clone(), inode::NLINK, 1);
        let batch = batch.patch(record, inode::CTIME, changed.0.to_be_bytes());
        bed.store.batch(file.home, &batch).expect("added");
        let pauses = Cell::new(0);
        let meanwhile = || {
            pauses.set(pauses.get() + 1);
            if enters && pauses.get() == 2 {
                fs.add_entry(&fs.place(Ino::ROOT, b"late"), file, |batch| batch).expect("entered");
            }
        };
        let report = run_while(&bed, &[&fs], true, &meanwhile);
        let found = if enters { vec![] } else { vec!["links"] };
        assert_eq!((kinds(&report.repaired), report.left), (found, vec![]), "{hours} hours");
        let links = fs.lookup(Ino::ROOT, b"file").expect("there").attr.nlink;
        assert_eq!(links, 1 + u64::from(enters), "{hours} hours");
    }
}

#[test]
fn renames_and_links_that_go_on_disturb_no_check() {
    [0, -5].into_iter().for_each(what_goes_on_disturbs_no_check);
}

/// The mount that works is on a host whose clock differs by so many hours from that of the host on which
/// the files were made.
fn what_goes_on_disturbs_no_check(hours: i64) {
    let (bed, first) = furnished();
    let fs = bed.mount_on(&Host::ahead(&bed.clock, hours), 2);
    bed.pass_with(2, &[&first, &fs]);
    assert_eq!(fs.is_admitted(), Ok(true));
    first.unmount().expect("left");
    let names: [&[u8]; 3] = [b"file", b"elsewhere", b"third"];
    let work = |turn: usize| {
        // Time does not stand still between two operations.
        bed.pass(Duration::from_millis(1));
        let (from, to) = (names[turn % 3], names[(turn + 1) % 3]);
        fs.rename(Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace).expect("renamed");
        fs.mknod(ME, Ino::ROOT, b"short", Kind::Fifo, 0o600, 0).expect("made");
        fs.unlink(Ino::ROOT, b"short").expect("removed");
    };
    let (turns, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    // No operation takes long by the clock of the test.
    let go_on = || {
        let before = turns.load(Ordering::SeqCst);
        super::bed::eventually("the worker goes on", || {
            turns.load(Ordering::SeqCst) >= (before + 2).min(TURNS_MAX)
        });
    };
    let reports: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in (0..TURNS_MAX).take_while(|_| !stop.load(Ordering::SeqCst)) {
                work(turn);
                turns.fetch_add(1, Ordering::SeqCst);
            }
        });
        let reports = (0..30).map(|_| run_while(&bed, &[&fs], true, &go_on)).collect();
        stop.store(true, Ordering::SeqCst);
        reports
    });
    for report in reports {
        assert_eq!((report.repaired, report.left), (vec![], vec![]));
    }
    let there = names.iter().filter(|name| fs.lookup(Ino::ROOT, name).is_ok()).count();
    assert_eq!(there, 1);
}

#[test]
fn findings_say_what_they_are_about() {
    let finding = Finding::NoInode { ino: Ino(7) };
    assert_eq!((finding.kind(), finding.is_damage()), ("no-inode", true));
    assert_eq!(finding.to_string(), "inode 7 is gone and has a name");
}

#[test]
fn what_mounts_keep_beside_an_open_file_is_in_order_and_goes_with_it() {
    let (bed, first) = furnished();
    let second = bed.mount(2);
    for _ in 0..3 {
        first.tick().expect("housekeeping");
        second.tick().expect("housekeeping");
    }
    assert_eq!(second.is_admitted(), Ok(true));
    let file = second.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let handle = second.open(file, WRITE).expect("opened").handle;
    let (family, kind) = (LockFamily::Whole, LockKind::Exclusive);
    let lock = Lock { family, kind, owner: 1, start: 0, last: u64::MAX, pid: 1 };
    second.lock(handle, &lock).expect("locked");
    for _ in 0..5 {
        bed.pass(Duration::from_secs(1));
        first.tick().expect("housekeeping");
        second.tick().expect("housekeeping");
    }
    let home = second.table.get(file).expect("known").home;
    for field in [keys::locks(file), keys::openers(file)] {
        let read = Batch::new().read(field);
        assert!(bed.store.batch(home, &read).expect("read").take(0).is_some());
    }
    assert!(run(&bed, &[&first, &second], true).is_clean());
    put(&bed, home, keys::locks(Ino(99)), vec![0]);
    put(&bed, home, keys::openers(Ino(99)), vec![0]);
    let repaired = run(&bed, &[&first, &second], true);
    assert_eq!((kinds(&repaired.repaired), repaired.is_clean()), (vec!["remains"; 2], true));
    second.release(handle).expect("closed");
}
