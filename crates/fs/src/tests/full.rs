//! A store that is full: what frees memory asks for no room, and what needs room has done nothing when it
//! is begun again.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{ByteSize, Ino, ManualClock, MountId, StripeSize};
use tidefs_store::caller::{Caller, serve};
use tidefs_store::{Embedded, Faulty, Operation, Patient, Room, Store, StoreError, When};

use super::bed::{ME, WRITE};
use crate::{Config, Error, Format, Fs, Kind, OpenMode, RenameMode, SetAttr, XattrMode};

const ROOT: Ino = Ino::ROOT;
type Full = Patient<Arc<Faulty<Embedded>>>;

/// Room may come at any time.
struct Hope;

impl Room for Hope {
    fn hope(&self, _endpoint: &str) -> bool {
        true
    }
}

struct World {
    faulty: Arc<Faulty<Embedded>>,
    store: Arc<Full>,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> World {
        let embedded = Embedded::in_heap(ByteSize::mib(64), StripeSize::DEFAULT);
        let faulty = Arc::new(Faulty::new(embedded, Vec::new()));
        let store = Arc::new(Patient::new(Arc::clone(&faulty), Arc::new(Hope) as Arc<dyn Room>));
        let clock = Arc::new(ManualClock::default());
        Fs::format(&store, Format::default(), &*clock).unwrap();
        World { faulty, store, clock }
    }

    fn mount(&self, id: u64) -> Fs<Full> {
        let config = Config { io_threads: 1, ..Config::new(MountId(id)) };
        Fs::mount(Arc::clone(&self.store), config, self.clock.clone()).unwrap()
    }
}

/// As one whose thread leaves rather than wait.
fn on_a_thread_that_serves<T>(work: impl FnOnce() -> T) -> T {
    serve(Some(Caller { number: 0, has_gone: |_| true, begins_again: || true }), work)
}

fn is_to_wait<T: std::fmt::Debug>(done: Result<T, Error>) {
    assert!(matches!(done, Err(Error::Store(StoreError::Interrupted { .. }))), "{done:?}");
}

fn mkdir<S: Store>(fs: &Fs<S>, parent: Ino, name: &str) -> Ino {
    fs.mkdir(ME, parent, name.as_bytes(), 0o755).unwrap().attr.ino
}

fn file<S: Store>(fs: &Fs<S>, parent: Ino, name: &str, bytes: &[u8]) -> Ino {
    let (entry, opened) = fs.create(ME, parent, name.as_bytes(), 0o644, WRITE).unwrap();
    fs.write(opened.handle, 0, bytes, None, false).unwrap();
    fs.flush(opened.handle).unwrap();
    fs.release(opened.handle).unwrap();
    entry.attr.ino
}

/// With company and without: no call that frees memory, or only looks, meets the full store. Several
/// directories, so that renames go between shards.
fn frees(company: bool) {
    let world = World::new();
    let fs = world.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let dir = mkdir(&fs, ROOT, "dir");
    let other = mkdir(&fs, ROOT, "other");
    for number in 0..8 {
        for name in ["gone", "cut", "from", "onto", "open"] {
            let ino = file(&fs, dir, &format!("{name}{number}"), &[7; 5_000]);
            for attribute in [b"user.name", b"user.kept"] {
                fs.setxattr(ino, attribute, &[7; 100], XattrMode::Any).unwrap();
            }
        }
        file(&fs, other, &format!("there{number}"), &[7; 5_000]);
        mkdir(&fs, dir, &format!("empty{number}"));
        mkdir(&fs, dir, &format!("over{number}"));
        mkdir(&fs, other, &format!("beneath{number}"));
    }
    let second = company.then(|| {
        let second = world.mount(2);
        for _ in 0..100 {
            world.clock.advance(Duration::from_millis(500));
            fs.tick().unwrap();
            second.tick().unwrap();
        }
        assert_eq!(second.is_admitted(), Ok(true));
        second
    });
    let found = |name: String| fs.lookup(dir, name.as_bytes()).unwrap().attr.ino;
    let opened: Vec<_> =
        (0..8).map(|n| fs.open(found(format!("open{n}")), WRITE).unwrap().handle).collect();
    fs.sync_directory().unwrap();
    world.faulty.set_full(true);
    on_a_thread_that_serves(|| {
        is_to_wait(fs.mkdir(ME, dir, b"no room", 0o755));
        for (number, opened) in opened.iter().enumerate() {
            let name = |name: &str| format!("{name}{number}").into_bytes();
            fs.unlink(dir, &name("gone")).unwrap();
            let cut = SetAttr { size: Some(1), ..SetAttr::default() };
            fs.setattr(found(format!("cut{number}")), None, &cut).unwrap();
            // One of two, a shorter value, and the last one.
            let attributed = found(format!("cut{number}"));
            fs.removexattr(attributed, b"user.name").unwrap();
            fs.setxattr(attributed, b"user.kept", &[7; 10], XattrMode::Replace).unwrap();
            fs.removexattr(attributed, b"user.kept").unwrap();
            fs.rename(dir, &name("from"), dir, &name("onto"), RenameMode::Replace).unwrap();
            fs.rename(dir, &name("onto"), other, &name("there"), RenameMode::Replace).unwrap();
            fs.rename(dir, &name("over"), other, &name("beneath"), RenameMode::Replace).unwrap();
            fs.rmdir(dir, &name("empty")).unwrap();
            fs.rename(dir, &name("cut"), dir, &name("x"), RenameMode::Replace).unwrap_or_else(
                // Of another shard's name.
                |error| is_to_wait::<()>(Err(error)),
            );
            fs.unlink(dir, &name("open")).unwrap();
            fs.release(*opened).unwrap();
            let truncate = OpenMode { truncate: true, ..WRITE };
            let there = fs.lookup(other, &name("there")).unwrap().attr.ino;
            let again = fs.open(there, truncate).unwrap().handle;
            fs.release(again).unwrap();
            fs.forget(there, 2);
        }
        fs.sync_directory().unwrap();
        fs.tick().unwrap();
    });
    drop(second);
}

#[test]
fn what_frees_memory_asks_for_no_room() {
    frees(false);
}

#[test]
fn what_frees_memory_asks_for_no_room_with_company() {
    frees(true);
}

/// Each is refused by the full store, leaves nothing behind that another mount would have to undo, and does
/// what it was asked for when it is begun again.
#[test]
fn what_needs_room_has_done_nothing_when_it_is_begun_again() {
    let world = World::new();
    let fs = world.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let (from, to) = (mkdir(&fs, ROOT, "from"), mkdir(&fs, ROOT, "to"));
    let inos: Vec<_> = (0..8).map(|n| file(&fs, from, &format!("f{n}"), b"bytes")).collect();
    fs.sync_directory().unwrap();
    let exclusive = OpenMode { exclusive: true, ..WRITE };
    let name = |what: &str, number: usize| format!("{what}{number}").into_bytes();
    let link = |n: usize| fs.link(inos[n], to, &name("link", n)).map(drop);
    let rename = |n: usize| {
        fs.rename(from, &name("f", n), to, &name("a longer name", n), RenameMode::Replace)
    };
    let symlink = |n: usize| fs.symlink(ME, to, &name("symlink", n), b"target").map(drop);
    let fifo = |n: usize| fs.mknod(ME, to, &name("fifo", n), Kind::Fifo, 0o600, 0).map(drop);
    let directory = |n: usize| fs.mkdir(ME, to, &name("dir", n), 0o700).map(drop);
    let attribute = |n: usize| fs.setxattr(inos[n], b"user.a", b"value", XattrMode::Create);
    let calls: [&dyn Fn(usize) -> Result<(), Error>; 6] =
        [&link, &rename, &symlink, &fifo, &directory, &attribute];
    for call in calls {
        for number in 0..8 {
            world.faulty.set_full(true);
            on_a_thread_that_serves(|| is_to_wait(call(number)));
            world.faulty.set_full(false);
            // Nothing stands in its way: the clock stands still, and no rename left half done would end.
            call(number).unwrap();
        }
    }
    for ino in &inos {
        assert_eq!(fs.getattr(*ino, None).unwrap().nlink, 2);
    }
    world.faulty.set_full(true);
    let create = || fs.create(ME, to, b"created", 0o600, exclusive);
    on_a_thread_that_serves(|| match create() {
        // Alone, a file need not be in the store before it is closed.
        Ok((_, opened)) => is_to_wait(fs.flush(opened.handle)),
        Err(error) => is_to_wait::<()>(Err(error)),
    });
}

/// The kernel tells of a close when the program has gone on: it may have removed the file, and write another one.
#[test]
fn who_meets_a_full_store_waits_for_a_removed_file_that_is_being_closed() {
    let embedded = Embedded::in_heap(ByteSize::mib(8), StripeSize::DEFAULT);
    let store = Arc::new(Faulty::new(embedded, Vec::new()));
    let clock = Arc::new(ManualClock::default());
    Fs::format(&store, Format::default(), &*clock).unwrap();
    let config = Config { io_threads: 2, ..Config::new(MountId(1)) };
    let fs = Fs::mount(Arc::clone(&store), config, clock).unwrap();
    assert_eq!(fs.is_admitted(), Ok(true));
    let make = |name: &[u8]| fs.create(ME, ROOT, name, 0o644, WRITE).unwrap().1.handle;
    let (old, new, piece) = (make(b"old"), make(b"new"), vec![1; 1 << 20]);
    let write = |handle, at: u64| fs.write(handle, at << 20, &piece, None, false).map(drop);
    for at in 0..5 {
        write(old, at).unwrap();
    }
    fs.flush(old).unwrap();
    // Of a part of a stripe nothing is sent before the close.
    fs.write(old, 5 << 20, b"rest", None, false).unwrap();
    std::thread::scope(|scope| {
        let pause = store.pause_at_most(Operation::Write, When::Before, 1);
        let closed = scope.spawn(|| fs.release(old));
        assert!(pause.wait_until_held(1, Duration::from_secs(20)), "it sends what is left");
        fs.unlink(ROOT, b"old").unwrap();
        let written = scope.spawn(|| (0..5).try_for_each(|at| write(new, at)).and(fs.fsync(new)));
        // Whoever does not wait for the close has failed by then.
        std::thread::sleep(Duration::from_millis(300));
        drop(pause);
        assert_eq!(written.join().unwrap(), Ok(()));
        let _told_of_its_own = closed.join().unwrap();
    });
}
