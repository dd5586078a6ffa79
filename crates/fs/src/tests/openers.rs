//! Files that one mount removes while another one has them open.

use std::sync::Arc;

use tidefs_model::{Ino, MountId};
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError};

use super::bed::{Bed, ME, WRITE, eventually};
use crate::{Config, Error, Fs, Handle, RenameMode, keys};

type Mount = Fs<Arc<Embedded>>;
type Line = Faulty<Arc<Embedded>>;

fn make<S: Store>(fs: &Fs<S>, name: &[u8], bytes: &[u8]) -> Ino {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, bytes, None, false).expect("written");
    fs.flush(opened.handle).expect("stored");
    fs.release(opened.handle).expect("closed");
    entry.attr.ino
}

fn open<S: Store>(fs: &Fs<S>, name: &[u8]) -> Handle {
    let found = fs.lookup(Ino::ROOT, name).expect("found").attr.ino;
    fs.open(found, WRITE).expect("opened").handle
}

fn read(fs: &Mount, handle: Handle) -> Vec<u8> {
    fs.read(handle, 0, 100).expect("read").as_slice().to_vec()
}

fn pass(bed: &Bed, seconds: u64, mounts: &[&Mount]) {
    bed.pass_with(seconds, mounts);
}

/// Lets time pass until an inode is gone from the store.
fn is_freed(bed: &Bed, fs: &Mount, ino: Ino, mounts: &[&Mount]) {
    eventually("the file is freed", || {
        pass(bed, 1, mounts);
        fs.getattr(ino, None) == Err(Error::Stale)
    });
}

fn two() -> (Bed, Mount, Mount) {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (bed, first, second)
}

#[test]
fn a_file_that_is_open_elsewhere_keeps_its_bytes_until_it_is_closed() {
    let (bed, first, second) = two();
    let removed = make(&first, b"removed", b"one");
    let replaced = make(&first, b"replaced", b"two");
    make(&first, b"new", b"three");
    let handles = [open(&second, b"removed"), open(&second, b"replaced")];
    pass(&bed, 1, &[&first, &second]);
    first.unlink(Ino::ROOT, b"removed").expect("removed");
    first.rename(Ino::ROOT, b"new", Ino::ROOT, b"replaced", RenameMode::Replace).expect("done");
    pass(&bed, 20, &[&first, &second]);
    assert_eq!(handles.map(|handle| read(&second, handle)), [b"one", b"two"]);
    second.write(handles[0], 3, b" more", None, false).expect("written");
    second.flush(handles[0]).expect("stored");
    assert_eq!(read(&second, handles[0]), b"one more");
    assert_eq!(second.getattr(removed, None).map(|attr| (attr.nlink, attr.size)), Ok((0, 8)));
    for (handle, ino) in handles.into_iter().zip([removed, replaced]) {
        second.release(handle).expect("closed");
        is_freed(&bed, &second, ino, &[&first, &second]);
    }
}

#[test]
fn a_large_file_that_is_open_elsewhere_stays_as_well() {
    let (bed, first, second) = two();
    let large = make(&first, b"large", b"bytes");
    let mine = open(&first, b"large");
    first.handles.file(mine).expect("open").file.truncate(1 << 30).expect("made long");
    first.release(mine).expect("closed");
    let handle = open(&second, b"large");
    pass(&bed, 1, &[&first, &second]);
    first.unlink(Ino::ROOT, b"large").expect("removed");
    pass(&bed, 5, &[&first, &second]);
    assert!(read(&second, handle).starts_with(b"bytes"));
    second.release(handle).expect("closed");
    is_freed(&bed, &second, large, &[&first, &second]);
}

#[test]
fn the_last_to_close_frees_a_file_whose_remover_has_left() {
    let (bed, first, second) = two();
    let removed = make(&first, b"file", b"bytes");
    let handle = open(&second, b"file");
    pass(&bed, 1, &[&first, &second]);
    first.unlink(Ino::ROOT, b"file").expect("removed");
    first.unmount().expect("leaves");
    pass(&bed, 5, &[&second]);
    assert_eq!(read(&second, handle), b"bytes");
    second.release(handle).expect("closed");
    is_freed(&bed, &second, removed, &[&second]);
}

#[test]
fn a_mount_that_died_keeps_no_file() {
    let (bed, first, second) = two();
    let removed = make(&first, b"file", b"bytes");
    let _handle = open(&second, b"file");
    pass(&bed, 1, &[&first, &second]);
    first.unlink(Ino::ROOT, b"file").expect("removed");
    pass(&bed, 10, &[&first]);
    assert!(first.getattr(removed, None).is_ok(), "it may only be slow");
    is_freed(&bed, &first, removed, &[&first]);
}

#[test]
fn what_was_open_before_another_mount_came_is_kept_too() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let removed = make(&first, b"file", b"bytes");
    let handle = open(&first, b"file");
    let second = bed.mount(2);
    assert_eq!((first.tick(), first.tick()), (Ok(true), Ok(false)));
    assert_eq!(second.is_admitted(), Ok(true));
    second.lookup(Ino::ROOT, b"file").expect("found");
    pass(&bed, 1, &[&first, &second]);
    second.unlink(Ino::ROOT, b"file").expect("removed");
    pass(&bed, 5, &[&first, &second]);
    assert_eq!(read(&first, handle), b"bytes");
    first.release(handle).expect("closed");
    is_freed(&bed, &second, removed, &[&first, &second]);
}

#[test]
fn a_file_that_is_open_for_a_while_leaves_nothing_behind() {
    let (bed, first, second) = two();
    let ino = make(&first, b"file", b"bytes");
    let (mine, yours) = (open(&first, b"file"), open(&second, b"file"));
    pass(&bed, 1, &[&first, &second]);
    let home = first.table.get(ino).expect("known").home;
    let openers = || {
        let record = bed.store.batch(home, &Batch::new().read(keys::openers(ino)));
        record.expect("read").take(0).map_or(0, |record| record.len() / 8)
    };
    assert_eq!(openers(), 2);
    first.release(mine).expect("closed");
    pass(&bed, 1, &[&first, &second]);
    assert_eq!(openers(), 1);
    second.release(yours).expect("closed");
    pass(&bed, 1, &[&first, &second]);
    assert_eq!(openers(), 0);
    assert!(first.getattr(ino, None).is_ok(), "it has a name");
}

/// Two mounts, of which the first one's store fails when told to.
fn one_on_a_faulty_store() -> (Bed, Arc<Line>, Fs<Line>, Mount) {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    (bed, store, first, second)
}

fn gone() -> StoreError {
    StoreError::Unavailable { endpoint: "the node".into() }
}

#[test]
fn a_file_counts_as_open_elsewhere_while_its_home_does_not_answer() {
    let (bed, store, first, second) = one_on_a_faulty_store();
    let removed = make(&first, b"removed", b"one");
    let handle = open(&second, b"removed");
    for mount in [1, 2] {
        bed.pass_with(1, &[&second]);
        assert_eq!(first.tick(), Ok(false), "{mount}");
    }
    first.unlink(Ino::ROOT, b"removed").expect("removed");
    bed.pass_with(3, &[&second]);
    store.add(Fault::every(Operation::Batch, 1, gone()));
    first.data.free_due();
    first.data.free_waiting();
    let freed = first.data.freed();
    first.data.wait_for_room(freed, None);
    store.heal();
    assert_eq!(read(&second, handle), b"one");
    second.release(handle).expect("closed");
    eventually("the file is freed", || {
        bed.pass_with(1, &[&second]);
        first.tick().expect("housekeeping");
        second.getattr(removed, None) == Err(Error::Stale)
    });
}

#[test]
fn a_file_whose_home_does_not_answer_keeps_no_other_from_being_known_as_open() {
    let (bed, store, first, _second) = one_on_a_faulty_store();
    let inos = [b"a", b"b", b"c"].map(|name| make(&first, name, b""));
    let closed = open(&first, b"a");
    first.note_open_files(first.steady());
    first.release(closed).expect("closed");
    let handles = [b"b", b"c"].map(|name| open(&first, name));
    bed.pass(super::bed::SECOND);
    // All at once, and one by itself.
    let next = store.count(Operation::Batch) + 1;
    store.add(Fault::nth(Operation::Batch, next, gone()));
    store.add(Fault::nth(Operation::Batch, next + 1, gone()));
    first.note_open_files(first.steady());
    let openers = inos.map(|ino| {
        let home = first.table.get(ino).expect("known").home;
        let read = Batch::new().read(keys::openers(ino));
        bed.store.batch(home, &read).expect("read").take(0)
    });
    let entered = Some(1_u64.to_be_bytes().to_vec());
    assert_eq!(openers, [None, None, entered]);
    for handle in handles {
        first.release(handle).expect("closed");
    }
}

#[test]
fn homes_that_do_not_answer_hold_up_a_look_for_a_bounded_time_and_keep_no_file_waiting_for_ever() {
    let (bed, store, first, _second) = one_on_a_faulty_store();
    let names: Vec<_> = (0..10).map(|number| format!("file-{number}")).collect();
    let inos: Vec<_> = names.iter().map(|name| make(&first, name.as_bytes(), b"")).collect();
    let handles: Vec<_> = names.iter().map(|name| open(&first, name.as_bytes())).collect();
    let entered = || {
        let is_entered = |ino: &&Ino| {
            let home = first.table.get(**ino).expect("known").home;
            let read = Batch::new().read(keys::openers(**ino));
            bed.store.batch(home, &read).expect("read").take(0).is_some()
        };
        inos.iter().filter(is_entered).count()
    };
    // All at once, and two by themselves.
    for round in 1..=3 {
        bed.pass(super::bed::SECOND);
        let before = store.count(Operation::Batch);
        for nth in 1..=3 {
            store.add(Fault::nth(Operation::Batch, before + nth, gone()));
        }
        // The others answer, but the look does not know.
        first.note_open_files(first.steady());
        assert_eq!(store.count(Operation::Batch) - before, 3, "look {round}");
        assert_eq!(entered(), 0, "look {round}");
    }
    // The next one begins where that one stopped, behind the first six.
    bed.pass(super::bed::SECOND);
    let before = store.count(Operation::Batch);
    for nth in [1, 6, 7] {
        store.add(Fault::nth(Operation::Batch, before + nth, gone()));
    }
    first.note_open_files(first.steady());
    assert_eq!(entered(), 4);
    bed.pass(super::bed::SECOND);
    first.note_open_files(first.steady());
    assert_eq!(entered(), 10);
    for handle in handles {
        first.release(handle).expect("closed");
    }
}
