//! A mount that is handed over: whoever goes on with it has its handles, locks and files without names, under the
//! same name.

use std::sync::Arc;

use tidefs_model::{Ino, MountId, ShardKey};
use tidefs_store::{Batch, Embedded, Fault, Operation, Store, StoreError};

use super::bed::{Bed, ME, SECOND, WRITE, Watched, eventually};
use crate::hand_over::VERSION;
use crate::{
    AppendedAt, Config, Error, Fs, HandOverError, Handle, Lock, LockFamily, LockKind, OpenMode,
    RenameMode, keys,
};

type Mount = Fs<Arc<Embedded>>;

fn lock(owner: u64) -> Lock {
    let (family, kind) = (LockFamily::Whole, LockKind::Exclusive);
    Lock { family, kind, owner, start: 0, last: u64::MAX, pid: 77 }
}

fn make(fs: &Mount, name: &[u8], bytes: &[u8]) -> (Ino, Handle) {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made");
    fs.write(opened.handle, 0, bytes, None, false).expect("written");
    (entry.attr.ino, opened.handle)
}

fn read(fs: &Mount, handle: Handle) -> Vec<u8> {
    fs.read(handle, 0, 100).expect("read").as_slice().to_vec()
}

fn alone(bed: &Bed, id: u64) -> Mount {
    let fs = bed.mount(id);
    assert_eq!(fs.is_admitted(), Ok(true));
    assert!(fs.is_alone());
    fs
}

fn handed_over(fs: &Mount) -> Vec<u8> {
    fs.prepare_hand_over().expect("nothing is in the way");
    fs.hand_over().expect("nothing is in the way")
}

/// Goes on with a mount whose process ends without a word.
fn go_on(bed: &Bed, id: u64, state: &[u8]) -> Mount {
    let config = Config { io_threads: 1, ..Config::new(MountId(id)) };
    let store = Arc::new(bed.store.clone());
    Fs::take_over(store, config, bed.clock.clone(), None, state).expect("it goes on")
}

#[test]
fn handles_and_what_was_written_through_them_go_on() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let (ino, handle) = make(&before, b"file", b"bytes");
    let append = OpenMode { append: true, ..WRITE };
    let appender = before.open(ino, append).expect("opened").handle;
    let reader = before.open(ino, OpenMode { read: true, ..OpenMode::default() });
    let reader = reader.expect("opened").handle;
    let after = go_on(&bed, 1, &handed_over(&before));
    assert_eq!([read(&after, handle), read(&after, reader)], [b"bytes", b"bytes"]);
    after.write(appender, 0, b" more", Some(&AppendedAt::default()), false).expect("appended");
    assert_eq!(read(&after, handle), b"bytes more");
    assert_eq!(after.write(reader, 0, b"x", None, false), Err(Error::BadHandle));
    let (_, newer) = make(&after, b"newer", b"");
    assert!(newer > reader.max(appender), "no number that the kernel has is given again");
    for handle in [handle, appender, reader, newer] {
        after.release(handle).expect("closed");
    }
    assert!(!after.table.get(ino).expect("known").is_open());
    let other = bed.mount(2);
    let found = other.lookup(Ino::ROOT, b"file").expect("found").attr;
    assert_eq!((found.ino, found.size), (ino, 10));
}

#[test]
fn locks_are_held_without_a_gap() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let (_, handle) = make(&before, b"file", b"");
    before.lock(handle, &lock(5)).expect("nobody else has it");
    let state = handed_over(&before);
    let other = bed.mount(2);
    assert_eq!(other.is_admitted(), Ok(true), "the one before shares");
    let found = other.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let theirs = other.open(found, WRITE).expect("opened").handle;
    assert_eq!(other.lock(theirs, &lock(6)).err(), Some(Error::WouldBlock));
    let after = go_on(&bed, 1, &state);
    assert_eq!(other.lock(theirs, &lock(6)).err(), Some(Error::WouldBlock));
    bed.pass_with(30, &[&after, &other]);
    assert_eq!(other.lock(theirs, &lock(6)).err(), Some(Error::WouldBlock));
    after.unlock(handle, &lock(5)).expect("given back");
    other.lock(theirs, &lock(6)).expect("it is free");
    assert_eq!(after.lock(handle, &lock(5)).err(), Some(Error::WouldBlock));
}

/// A heartbeat that began anew each time would look like one that stands still.
#[test]
fn a_mount_that_changes_hands_all_the_time_is_not_taken_for_dead() {
    let bed = Bed::new();
    let mut fs = alone(&bed, 1);
    let (_, handle) = make(&fs, b"file", b"");
    fs.lock(handle, &lock(5)).expect("nobody else has it");
    let other = bed.mount(2);
    bed.pass_with(1, &[&fs, &other]);
    for _ in 0..60 {
        fs = go_on(&bed, 1, &handed_over(&fs));
        bed.pass(SECOND / 2);
        other.tick().expect("housekeeping");
    }
    let found = other.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let theirs = other.open(found, WRITE).expect("opened").handle;
    assert_eq!(other.lock(theirs, &lock(6)).err(), Some(Error::WouldBlock));
    fs.tick().expect("it is registered");
    assert!(fs.is_known_to_others());
}

/// Where what has to be stored first waits for a node that is silent, that takes longer than a mount may be silent.
#[test]
fn a_mount_whose_hand_over_takes_long_is_not_taken_for_dead() {
    let bed = Bed::new();
    let fs = alone(&bed, 1);
    let (_, handle) = make(&fs, b"file", b"");
    fs.lock(handle, &lock(5)).expect("nobody else has it");
    let other = bed.mount(2);
    bed.pass_with(3, &[&fs, &other]);
    assert_eq!(other.is_admitted(), Ok(true));
    fs.prepare_hand_over().expect("nothing is in the way");
    for _ in 0..60 {
        fs.stay().expect("it is registered");
        bed.pass_with(1, &[&other]);
    }
    assert!(!fs.is_alone() && fs.is_known_to_others());
    let found = other.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let theirs = other.open(found, WRITE).expect("opened").handle;
    assert_eq!(other.lock(theirs, &lock(6)).err(), Some(Error::WouldBlock));
    fs.hand_over().expect("it is registered");
}

#[test]
fn whoever_was_expelled_meanwhile_is_not_gone_on_with() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let state = handed_over(&before);
    let registration = Batch::new().delete(keys::mount(MountId(1)));
    bed.store.batch(keys::MOUNTS, &registration).expect("taken off");
    let (config, store) = (Config::new(MountId(1)), Arc::new(bed.store.clone()));
    let refused = Fs::take_over(store, config, bed.clock.clone(), None, &state);
    let expelled = Error::Store(StoreError::Expelled);
    assert_eq!(refused.err(), Some(HandOverError::Failed(expelled)));
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let (ino, handle) = make(&before, b"file", b"bytes");
    let home = before.table.get(ino).expect("known").home;
    before.unlink(Ino::ROOT, b"file").expect("removed");
    let after = go_on(&bed, 1, &handed_over(&before));
    assert_eq!(read(&after, handle), b"bytes");
    assert_eq!(after.getattr(ino, Some(handle)).map(|attr| attr.nlink), Ok(0));
    bed.pass_with(30, &[&after]);
    assert_eq!(read(&after, handle), b"bytes");
    after.release(handle).expect("closed");
    is_freed(&bed, &after, home, ino);
}

fn is_freed(bed: &Bed, fs: &Mount, home: ShardKey, ino: Ino) {
    eventually("the file is freed", || {
        bed.pass_with(1, &[fs]);
        let look = Batch::new().read(keys::inode(ino));
        bed.store.batch(home, &look).expect("read").take(0).is_none()
    });
}

#[test]
fn a_file_that_the_kernel_has_without_a_name_is_freed_when_it_lets_go() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    before.keep_what_kernel_has();
    let (ino, handle) = make(&before, b"file", b"bytes");
    let home = before.table.get(ino).expect("known").home;
    before.release(handle).expect("closed");
    before.unlink(Ino::ROOT, b"file").expect("removed");
    let after = go_on(&bed, 1, &handed_over(&before));
    after.keep_what_kernel_has();
    bed.pass_with(30, &[&after]);
    let again = after.open(ino, WRITE).expect("the kernel has it").handle;
    assert_eq!(read(&after, again), b"bytes");
    after.release(again).expect("closed");
    after.forget(ino, 1);
    is_freed(&bed, &after, home, ino);
}

#[test]
fn a_directory_is_read_on_from_where_it_was() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    for number in 0..20 {
        let name = format!("file-{number:02}");
        let (_, handle) = make(&before, name.as_bytes(), b"");
        before.release(handle).expect("closed");
    }
    let made = before.mkdir(ME, Ino::ROOT, b"removed", 0o700).expect("made").attr.ino;
    let [all, removed] = [Ino::ROOT, made].map(|ino| before.opendir(ino).expect("opened"));
    before.rmdir(Ino::ROOT, b"removed").expect("removed");
    let (mut seen, mut at) = (Vec::new(), 0);
    let mut list = |fs: &Mount, most: usize| {
        let mut some = Vec::new();
        fs.readdir(all, at, &mut |entry| {
            let takes = some.len() < most;
            if takes {
                at = entry.next;
                some.push(entry.name.clone());
            }
            takes
        })
        .expect("listed");
        seen.extend(some);
    };
    list(&before, 7);
    before.unlink(Ino::ROOT, b"file-00").expect("removed");
    let after = go_on(&bed, 1, &handed_over(&before));
    list(&after, usize::MAX);
    seen.retain(|name| name.starts_with(b"file"));
    let names: Vec<_> = (0..20).map(|number| format!("file-{number:02}").into_bytes()).collect();
    assert_eq!(seen, names, "each once, as it was when reading began");
    assert_eq!(after.getattr(made, None).map(|attr| attr.nlink), Ok(0));
    after.releasedir(removed).expect("closed");
    after.releasedir(all).expect("closed");
}

#[test]
fn names_that_the_store_did_not_have_yet_are_there() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let (ino, handle) = make(&before, b"file", b"bytes");
    before.rename(Ino::ROOT, b"file", Ino::ROOT, b"other", RenameMode::Replace).unwrap();
    let state = handed_over(&before);
    let other = bed.mount(2);
    assert_eq!(other.lookup(Ino::ROOT, b"other").map(|it| it.attr.ino), Ok(ino));
    let after = go_on(&bed, 1, &state);
    assert_eq!(read(&after, handle), b"bytes");
    let numbers = [after.new_transaction(), after.new_transaction()];
    let last = go_on(&bed, 1, &handed_over(&after));
    assert!(!numbers.contains(&last.new_transaction()), "no number is given twice");
}

#[test]
fn a_mount_that_is_kept_goes_on_where_it_was() {
    let bed = Bed::new();
    let fs = alone(&bed, 1);
    let (ino, handle) = make(&fs, b"file", b"bytes");
    fs.lock(handle, &lock(5)).expect("nobody else has it");
    let state = handed_over(&fs);
    drop(go_on(&bed, 1, &state));
    fs.keep();
    bed.pass_with(5, &[&fs]);
    assert!(fs.is_alone(), "it finds that it is");
    fs.write(handle, 5, b" more", None, false).expect("written");
    fs.fsync(handle).expect("stored");
    assert_eq!(read(&fs, handle), b"bytes more");
    let other = bed.mount(2);
    bed.pass_with(15, &[&fs, &other]);
    assert_eq!(other.is_admitted(), Ok(true));
    let theirs = other.open(other.lookup(Ino::ROOT, b"file").unwrap().attr.ino, WRITE).unwrap();
    assert_eq!(other.lock(theirs.handle, &lock(6)).err(), Some(Error::WouldBlock));
    assert_eq!(other.getattr(ino, None).map(|attr| attr.size), Ok(10));
}

#[test]
fn what_others_changed_meanwhile_the_kernel_is_to_drop() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let (ino, handle) = make(&before, b"file", b"bytes");
    let (same, unchanged) = make(&before, b"same", b"bytes");
    // Who reads has had the kernel drop what it had before.
    assert_eq!(read(&before, unchanged), b"bytes");
    let state = handed_over(&before);
    let other = bed.mount(2);
    let found = other.lookup(Ino::ROOT, b"file").expect("found").attr.ino;
    let theirs = other.open(found, WRITE).expect("opened").handle;
    other.write(theirs, 0, b"BYTES", None, false).expect("written");
    other.release(theirs).expect("stored");
    let after = go_on(&bed, 1, &state);
    assert_eq!(read(&after, handle), b"BYTES");
    let stale = after.take_stale_pages();
    assert!(stale.contains(&ino) && !stale.contains(&same), "{stale:?}");
}

#[test]
fn a_state_of_another_version_is_refused_before_anything_is_done() {
    let bed = Bed::new();
    let before = alone(&bed, 1);
    let mut state = handed_over(&before);
    let at = state.windows(4).position(|four| four == VERSION.to_be_bytes()).expect("a version");
    state[at + 3] += 1;
    let config = Config::new(MountId(1));
    let store = Arc::new(bed.store.clone());
    let refused = Fs::take_over(store, config, bed.clock.clone(), None, &state);
    assert_eq!(refused.err(), Some(HandOverError::Version { found: VERSION + 1 }));
}

/// Whoever closes the file, or writes to it, is to hear of it from the mount that knows.
#[test]
fn a_mount_whose_programs_have_yet_to_hear_of_a_loss_is_not_handed_over() {
    let Watched { fs, store, .. } = Watched::new();
    let (_, opened) = fs.create(ME, Ino::ROOT, b"file", 0o600, WRITE).expect("made");
    fs.flush(opened.handle).expect("stored");
    let full = StoreError::Full { endpoint: "a node".into() };
    store.add(Fault::every(Operation::Write, 1, full));
    fs.write(opened.handle, 0, &[7; 1 << 16], None, false).expect("written");
    fs.prepare_hand_over().expect("what failed is on record");
    store.heal();
    assert_eq!(fs.hand_over(), Err(HandOverError::Untold));
    assert!(fs.fsync(opened.handle).is_err(), "it hears of it");
    fs.keep();
    fs.prepare_hand_over().expect("nothing is in the way");
    fs.hand_over().expect("nothing is in the way");
}

/// Of a file that programs have closed, and of one that they have open.
#[test]
fn what_a_failed_write_left_does_not_turn_up_after_a_hand_over_when_the_file_grows() {
    for closes in [false, true] {
        let Watched { fs, store, clock } = Watched::new();
        let (entry, opened) = fs.create(ME, Ino::ROOT, b"file", 0o600, WRITE).expect("made");
        fs.flush(opened.handle).expect("stored");
        // Where others may write there nobody clears it at once.
        let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
        let other = Fs::mount(store.clone(), config, clock.clone()).expect("mounted");
        for _ in 0..3 {
            clock.advance(SECOND);
            fs.tick().expect("housekeeping");
            other.tick().expect("housekeeping");
        }
        let gone = StoreError::Unavailable { endpoint: "a node".into() };
        store.add(Fault::every(Operation::Write, 1, gone).after());
        fs.write(opened.handle, 0, &[7; 100], None, false).expect("written");
        assert!(fs.fsync(opened.handle).is_err(), "it hears of it");
        store.heal();
        let node = fs.table.get(entry.attr.ino).expect("known");
        assert_eq!(node.slot().file.as_ref().map(|file| file.residue_end()), Some(100));
        if closes {
            fs.release(opened.handle).expect("closed");
        }
        fs.prepare_hand_over().expect("nothing is in the way");
        let state = fs.hand_over().expect("nothing is in the way");
        let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
        let after = Fs::take_over(store, config, clock, None, &state).expect("it goes on");
        let handle = match closes {
            false => opened.handle,
            true => after.open(entry.attr.ino, WRITE).expect("opened").handle,
        };
        after.write(handle, 200, b"x", None, false).expect("written");
        let read = after.read(handle, 0, 201).expect("read").as_slice().to_vec();
        assert_eq!(read, [&[0; 200][..], b"x"].concat(), "closed: {closes}");
    }
}
