//! Files that are open on one mount while another one removes them, writes to them without a name, or frees them.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, MountId, StripeKey};
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError};

use super::bed::{Bed, ME, WRITE};
use crate::{Config, Error, Fs, Handle, Lock, LockFamily, LockKind, RenameMode, Seek, inode, keys};

type Mount = Fs<Arc<Embedded>>;

/// Before another mount has looked what it has open.
const SOON: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(300);

fn two() -> (Bed, Mount, Mount) {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (bed, first, second)
}

fn make<S: Store>(fs: &Fs<S>, name: &[u8], bytes: &[u8], size: u64) -> Ino {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, bytes, None, false).expect("written");
    if size > bytes.len() as u64 {
        fs.handles.file(opened.handle).expect("open").file.truncate(size).expect("made long");
    }
    fs.flush(opened.handle).expect("stored");
    fs.release(opened.handle).expect("closed");
    entry.attr.ino
}

fn open<S: Store>(fs: &Fs<S>, name: &[u8]) -> Handle {
    let found = fs.lookup(Ino::ROOT, name).expect("found").attr.ino;
    fs.open(found, WRITE).expect("opened").handle
}

fn read<S: Store>(fs: &Fs<S>, handle: Handle) -> Result<Vec<u8>, Error> {
    fs.read(handle, 0, 100).map(|bytes| bytes.as_slice().to_vec())
}

/// Whatever a mount takes for removed.
#[test]
fn bytes_of_what_has_a_name_are_not_freed() {
    let (bed, first, second) = two();
    let ino = make(&first, b"kept", b"bytes", 10_000);
    let handle = open(&first, b"kept");
    let home = first.handles.file(handle).expect("open").node.home;
    first.release(handle).expect("closed");
    first.data.delete_later(home, ino, 10_000);
    for _ in 0..5 {
        pass(&bed, Duration::from_secs(1), &[&first, &second]);
        free(&first);
    }
    let handle = open(&second, b"kept");
    assert_eq!(read(&second, handle).map(|bytes| bytes[..5].to_vec()), Ok(b"bytes".to_vec()));
}

/// Has a mount free what it has removed, all of it.
fn free(fs: &Mount) {
    fs.data.free_due();
    assert!(fs.data.finish_freeing());
}

#[test]
fn what_goes_with_much_else_stays_until_others_have_said_that_they_have_it_open() {
    let (bed, first, second) = two();
    make(&first, b"small", b"bytes", 0);
    let large = [b"0", b"1", b"2"];
    large.iter().for_each(|name| _ = make(&first, *name, b"", 1 << 30));
    pass(&bed, LOOK, &[&first, &second]);
    let handle = open(&second, b"small");
    first.unlink(Ino::ROOT, b"small").expect("removed");
    large.iter().for_each(|name| first.unlink(Ino::ROOT, *name).expect("removed"));
    free(&first);
    assert_eq!(read(&second, handle), Ok(b"bytes".to_vec()));
    for _ in 0..10 {
        pass(&bed, LOOK, &[&second, &first]);
        free(&first);
    }
    assert_eq!(read(&second, handle), Ok(b"bytes".to_vec()));
}

fn pass(bed: &Bed, time: Duration, mounts: &[&Mount]) {
    bed.pass(time);
    mounts.iter().for_each(|mount| _ = mount.tick().expect("housekeeping"));
}

/// A file that a mount has open which stood still while another one removed it.
fn freed_behind_its_back() -> (Bed, Mount, Mount, Handle) {
    let (bed, first, second) = two();
    make(&first, b"file", b"bytes", 10_000);
    let handle = open(&second, b"file");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    for _ in 0..5 {
        pass(&bed, Duration::from_secs(1), &[&first]);
    }
    free(&first);
    (bed, first, second, handle)
}

#[test]
fn a_file_that_was_freed_is_stale_and_no_zeros() {
    let (bed, first, second, handle) = freed_behind_its_back();
    let is_stale = |what: &str| {
        assert_eq!(read(&second, handle), Err(Error::Stale), "{what}");
        assert_eq!(second.read(handle, 5000, 10).err(), Some(Error::Stale), "{what}");
        assert_eq!(second.seek(handle, 0, Seek::Data), Err(Error::Stale), "{what}");
        let written = second.write(handle, 0, b"new", None, false);
        assert_eq!(written, Err(Error::Stale), "{what}");
    };
    is_stale("at once");
    pass(&bed, LOOK, &[&first, &second]);
    is_stale("after a look");
    second.release(handle).expect("closed");
}

#[test]
fn who_looks_first_finds_that_a_file_was_freed() {
    let (bed, first, second, handle) = freed_behind_its_back();
    pass(&bed, LOOK, &[&second, &first]);
    assert_eq!(read(&second, handle), Err(Error::Stale));
    assert_eq!(second.opened.all(), []);
}

#[test]
fn who_is_alone_by_then_finds_that_a_file_was_freed() {
    let (bed, first, second, handle) = freed_behind_its_back();
    first.unmount().expect("leaves");
    drop(first);
    bed.pass(SOON);
    while !second.is_alone() {
        second.membership.tick(&second.store, second.steady()).expect("a look at the others");
        bed.pass(SOON);
    }
    assert_eq!(read(&second, handle), Err(Error::Stale));
}

#[test]
fn a_file_of_which_something_is_gone_is_stale_though_its_record_is_there() {
    let (bed, first, second) = two();
    let ino = make(&first, b"file", &[7; 5000], 0);
    let handle = open(&second, b"file");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    let home = first.table.get(ino).expect("known").home;
    let begun = Batch::new().patch(keys::inode(ino), inode::FREED, [1]);
    bed.store.batch(home, &begun).expect("said");
    assert_eq!(read(&second, handle), Ok(vec![7; 100]), "bytes that are there are right");
    bed.store.trim(&[(StripeKey { ino, index: 0 }, 0)]).expect("gone");
    assert_eq!(read(&second, handle), Err(Error::Stale));
    assert_eq!(second.read(handle, 4096, 10).err(), Some(Error::Stale), "from then on");
}

#[test]
fn who_begins_to_free_a_file_does_so_where_nobody_has_it_open_at_that_instant() {
    let (bed, first, second) = two();
    let ino = make(&first, b"file", b"bytes", 0);
    let handle = open(&second, b"file");
    let home = first.table.get(ino).expect("known").home;
    let node = second.table.get(ino).expect("known");
    assert_eq!(second.keep_from_others(&node), Ok(()));
    first.unlink(Ino::ROOT, b"file").expect("removed");
    for _ in 0..5 {
        pass(&bed, Duration::from_secs(1), &[&second, &first]);
    }
    first.data.wait_for_room(first.data.freed(), None);
    let record = bed.store.batch(home, &Batch::new().read(keys::inode(ino))).expect("read").take(0);
    assert!(!inode::is_being_freed(&record.expect("there")));
    assert_eq!(read(&second, handle), Ok(b"bytes".to_vec()));
}

#[test]
fn a_full_store_takes_no_file_that_the_kernel_of_its_remover_has_and_another_mount_has_open() {
    let (bed, first, second) = two();
    first.data.set_kernel_has(Box::new(|_| true));
    make(&first, b"file", b"bytes", 0);
    let handle = open(&second, b"file");
    pass(&bed, LOOK, &[&first, &second]);
    first.unlink(Ino::ROOT, b"file").expect("removed");
    first.data.wait_for_room(first.data.freed(), None);
    assert_eq!(read(&second, handle), Ok(b"bytes".to_vec()));
}

#[test]
fn a_full_store_takes_what_others_have_not_said_to_have_open_and_they_see_no_zeros() {
    let (bed, first, second) = two();
    make(&first, b"file", b"bytes", 0);
    let handle = open(&second, b"file");
    pass(&bed, Duration::ZERO, &[&first]);
    first.unlink(Ino::ROOT, b"file").expect("removed");
    assert!(first.data.wait_for_room(first.data.freed(), None));
    assert_eq!(read(&second, handle), Err(Error::Stale));
}

#[test]
fn where_there_is_no_room_to_enter_a_hole_is_read_and_a_file_that_was_freed_is_not() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    make(&second, b"file", b"bytes", 40_000);
    let handle = open(&first, b"file");
    let refuse_to_enter = || {
        let full = StoreError::Full { endpoint: "the node".into() };
        let next = store.count(Operation::Batch) + 1;
        // All together, and each by itself.
        (next..next + 2).for_each(|nth| {
            store.add(Fault::nth(Operation::Batch, nth, full.clone()));
        });
    };
    let before = store.count(Operation::Batch);
    refuse_to_enter();
    assert_eq!(first.read(handle, 8192, 10).expect("a hole").as_slice(), [0; 10]);
    assert_eq!(store.count(Operation::Batch) - before, 3, "it could not enter, and asked");
    second.unlink(Ino::ROOT, b"file").expect("removed");
    pass(&bed, Duration::ZERO, &[&second]);
    assert!(second.data.wait_for_room(second.data.freed(), None));
    refuse_to_enter();
    assert_eq!(first.read(handle, 8192, 10).err(), Some(Error::Stale));
}

#[test]
fn a_hole_costs_a_round_once_for_each_open_and_bytes_cost_none() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    make(&second, b"sparse", b"bytes", 40_000);
    make(&second, b"full", &[7; 10_000], 0);
    let [sparse, full] = [b"sparse", &b"full"[..]].map(|name| open(&first, name));
    let rounds = |handle, offset| {
        let before = store.count(Operation::Batch);
        let bytes = first.read(handle, offset, 4096).expect("read");
        (bytes.as_slice()[100], store.count(Operation::Batch) - before)
    };
    assert_eq!(rounds(full, 0), (7, 0));
    assert_eq!(rounds(sparse, 4096), (0, 1));
    assert_eq!(rounds(sparse, 8192), (0, 0));
    bed.pass(LOOK);
    first.note_open_files(first.steady());
    assert_eq!(rounds(sparse, 12_288), (0, 0));
    assert_eq!(rounds(full, 4096), (7, 0));
}

/// A file that both mounts have open when it loses its name on the first one.
fn nameless(replace: bool) -> (Bed, Mount, Mount, [Handle; 2]) {
    let (bed, first, second) = two();
    make(&first, b"file", b"before", 0);
    make(&first, b"new", b"", 0);
    let handles = [open(&first, b"file"), open(&second, b"file")];
    pass(&bed, LOOK, &[&first, &second]);
    match replace {
        true => first.rename(Ino::ROOT, b"new", Ino::ROOT, b"file", RenameMode::Replace),
        false => first.unlink(Ino::ROOT, b"file"),
    }
    .expect("it has no name");
    (bed, first, second, handles)
}

#[test]
fn what_is_synced_of_a_file_without_a_name_is_seen_by_others_that_have_it_open() {
    for replace in [false, true] {
        let (_bed, first, second, [mine, yours]) = nameless(replace);
        first.write(mine, 0, b"written later", None, false).expect("written");
        first.fsync(mine).expect("stored");
        let ino = second.handles.file(yours).expect("open").node.ino;
        assert_eq!(second.getattr(ino, None).map(|attr| attr.size), Ok(13));
        second.look_again(&second.handles.file(yours).expect("open")).expect("there");
        assert_eq!(read(&second, yours), Ok(b"written later".to_vec()));
    }
}

#[test]
fn what_is_closed_of_a_file_without_a_name_is_seen_by_others_that_have_it_open() {
    for flushes in [true, false] {
        let (bed, first, second, [mine, yours]) = nameless(false);
        first.write(mine, 0, b"written later", None, false).expect("written");
        if flushes {
            first.flush(mine).expect("stored");
        }
        first.release(mine).expect("closed");
        for _ in 0..5 {
            pass(&bed, Duration::from_secs(1), &[&first, &second]);
        }
        second.look_again(&second.handles.file(yours).expect("open")).expect("there");
        assert_eq!(read(&second, yours), Ok(b"written later".to_vec()), "{flushes}");
    }
}

#[test]
fn a_lock_orders_the_bytes_of_a_file_without_a_name() {
    let (_bed, first, second, [mine, yours]) = nameless(false);
    let lock = Lock {
        family: LockFamily::Record,
        kind: LockKind::Exclusive,
        owner: 1,
        start: 0,
        last: 0,
        pid: 100,
    };
    first.lock(mine, &lock).expect("taken");
    first.write(mine, 0, b"locked", None, false).expect("written");
    first.unlock(mine, &lock).expect("given back");
    second.lock(yours, &lock).expect("taken");
    assert_eq!(read(&second, yours), Ok(b"locked".to_vec()));
}

#[test]
fn bytes_of_a_file_without_a_name_that_nobody_else_has_open_are_given_up_with_it() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    make(&first, b"file", b"before", 0);
    let handle = open(&first, b"file");
    first.unlink(Ino::ROOT, b"file").expect("removed");
    first.write(handle, 0, b"written later", None, false).expect("written");
    let before = store.count(Operation::Write);
    first.release(handle).expect("closed");
    assert_eq!(store.count(Operation::Write), before);
}
