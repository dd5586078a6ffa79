//! Several mounts of one file system.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use tidefs_fuse::Session;
use tidefs_model::ByteSize;
use tidefs_store::{Embedded, Faulty, Operation, When};

use crate::locks::holder;
use crate::support::{MountedSession, empty_folder, heap, is_wanted, join, options};

/// A mount that has found out that it is alone, so that its kernel keeps what it sees; and its store.
fn lone_mount() -> (Arc<Embedded>, MountedSession) {
    let store = heap(ByteSize::mib(64));
    let first = MountedSession::over(store.clone(), false);
    std::thread::sleep(Duration::from_millis(1500));
    (store, first)
}

#[test]
fn a_mount_forgets_what_its_kernel_kept_before_another_one_begins() {
    if !is_wanted("fuse") {
        return;
    }
    let (store, first) = lone_mount();
    let here = first.path();
    for name in ["moved", "removed", "changed"] {
        fs::write(here.join(name), name).unwrap();
    }
    fs::create_dir(here.join("directory")).unwrap();
    let directory = File::open(here.join("directory")).unwrap();
    assert!(!here.join("made").exists());
    let open = File::open(here.join("changed")).unwrap();
    assert_eq!(open.metadata().unwrap().mode() & 0o777, 0o644);
    assert!(here.join("removed").exists() && here.join("moved").exists());

    let second = MountedSession::over(store, false);
    let there = second.path();
    fs::rename(there.join("moved"), there.join("made")).unwrap();
    fs::remove_file(there.join("removed")).unwrap();
    fs::set_permissions(there.join("changed"), Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(there.join("directory/below")).unwrap();

    assert!(!here.join("removed").exists(), "a name that was kept");
    assert!(!here.join("moved").exists(), "another");
    assert_eq!(fs::read(here.join("made")).unwrap(), b"moved", "a name that was missing");
    assert_eq!(open.metadata().unwrap().mode() & 0o777, 0o600, "attributes of an open file");
    assert_eq!(directory.metadata().unwrap().nlink(), 3, "of an open directory");
    fs::write(here.join("back"), "again").unwrap();
    assert_eq!(fs::read(there.join("back")).unwrap(), b"again");
}

#[test]
fn however_a_kernel_came_by_a_name_it_looks_again_when_another_mount_has_joined() {
    const FILES: usize = 300;
    if !is_wanted("fuse") {
        return;
    }
    let (store, first) = lone_mount();
    let here = first.path();
    for directory in ["looked-at", "again", "listed", "from", "to", "there"] {
        fs::create_dir(here.join(directory)).unwrap();
        for number in 0..FILES {
            fs::create_dir(here.join(directory).join(number.to_string())).unwrap();
        }
    }
    let each =
        |directory: &'static str| (0..FILES).map(move |number| format!("{directory}/{number}"));
    each("looked-at").for_each(|name| assert!(here.join(name).is_dir()));
    for _ in 0..3 {
        each("again").for_each(|name| assert!(here.join(name).is_dir()));
    }
    let listed = fs::read_dir(here.join("listed")).unwrap();
    assert!(listed.flatten().all(|entry| entry.metadata().unwrap().is_dir()));
    let listed = fs::read_dir(here.join("from")).unwrap();
    assert_eq!(listed.flatten().filter(|entry| entry.metadata().is_ok()).count(), FILES);
    for (from, to) in each("from").zip(each("to")) {
        fs::remove_dir(here.join(&to)).unwrap();
        fs::rename(here.join(from), here.join(to)).unwrap();
    }

    let second = MountedSession::over(store, false);
    let there = second.path();
    for directory in ["looked-at", "again", "listed", "to"] {
        for name in each(directory) {
            fs::remove_dir(there.join(&name)).unwrap();
            assert!(!here.join(&name).exists(), "{name} is gone");
        }
    }
}

#[test]
fn programs_do_not_lose_their_directory_when_another_mount_joins() {
    if !is_wanted("fuse") {
        return;
    }
    let (store, first) = lone_mount();
    let directory = first.path().join("one/two");
    fs::create_dir_all(&directory).unwrap();
    let open = File::open(&directory).unwrap();
    let itself = format!("/proc/self/fd/{}", open.as_raw_fd());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let walks = scope.spawn(|| {
            let walk = || fs::metadata(directory.join(".")).is_ok();
            while !is_over.load(Ordering::SeqCst) {
                assert!(walk());
            }
        });
        let asks = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                // As getcwd does, which fails where this says that the directory is deleted.
                assert_eq!(fs::read_link(&itself).unwrap(), directory);
            }
        });
        let second = MountedSession::over(store, false);
        let seen = second.path().join("one/two").is_dir();
        is_over.store(true, Ordering::SeqCst);
        walks.join().expect("each look finds it");
        asks.join().expect("it has its name all the time");
        assert!(seen);
    });
}

#[test]
fn what_is_at_rest_is_looked_at_without_the_store_and_a_change_elsewhere_is_seen_at_once() {
    const LOOKS: u64 = 2_000;
    if !is_wanted("fuse") {
        return;
    }
    let embedded = heap(ByteSize::mib(64));
    let first = MountedSession::over(embedded.clone(), false);
    let store = Arc::new(Faulty::new(embedded, Vec::new()));
    let second = MountedSession::over(store.clone(), false);
    let (here, there) = (first.path().join("file"), second.path().join("file"));
    fs::write(&here, "text").unwrap();
    // Long enough to have begun to poll for recalls.
    std::thread::sleep(Duration::from_millis(500));
    let look = || fs::metadata(&there).unwrap().mode() & 0o777;
    for _ in 0..LOOKS / 10 {
        look();
    }
    let before = store.count(Operation::Batch);
    for _ in 0..LOOKS {
        look();
    }
    // Housekeeping goes on meanwhile.
    let calls = store.count(Operation::Batch) - before;
    assert!(calls < LOOKS / 2, "{calls} calls for {LOOKS} looks");
    for mode in [0o600, 0o640, 0o644] {
        fs::set_permissions(&here, Permissions::from_mode(mode)).unwrap();
        assert_eq!(look(), mode);
    }
}

#[test]
fn attributes_at_rest_are_looked_at_in_the_kernel_and_a_change_elsewhere_is_seen_at_once() {
    const LOOKS: u64 = 2_000;
    if !is_wanted("fuse") {
        return;
    }
    let store = heap(ByteSize::mib(64));
    let first = MountedSession::over(store.clone(), false);
    let second = MountedSession::over(store, false);
    let (here, there) = (first.path().join("file"), second.path().join("file"));
    fs::write(&here, "text").unwrap();
    // Not opened, but found: no name is looked up any more.
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&there).unwrap();
    let look = || found.metadata().unwrap().mode() & 0o777;
    let asked = || second.session.requests().total();
    for mode in [0o600, 0o640, 0o644] {
        // Long enough to be at rest again.
        std::thread::sleep(Duration::from_millis(500));
        (0..LOOKS).for_each(|_| _ = look());
        let before = asked();
        (0..LOOKS).for_each(|_| _ = look());
        let requests = asked() - before;
        assert!(requests < LOOKS / 10, "{requests} requests for {LOOKS} looks");
        fs::set_permissions(&here, Permissions::from_mode(mode)).unwrap();
        assert_eq!(look(), mode);
    }
}

/// What makes the kernel forget waits for answers that it may keep, and the registration for that.
#[test]
fn a_listing_that_waits_for_the_store_does_not_make_its_mount_look_dead() {
    if !is_wanted("fuse") {
        return;
    }
    let embedded = heap(ByteSize::mib(64));
    let store = Arc::new(Faulty::new(embedded.clone(), Vec::new()));
    let held_up = join(store.clone(), false);
    let folder = empty_folder();
    let mut session = Session::mount(held_up.clone(), &options(folder.path())).unwrap();
    // Long enough to have found out that it is alone.
    std::thread::sleep(Duration::from_millis(1500));
    fs::write(folder.path().join("file"), "text").unwrap();
    let held = store.pause_at_most(Operation::List, When::Before, 1);
    let path = folder.path().to_owned();
    let listing = std::thread::spawn(move || {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    });
    assert!(held.wait_until_held(1, Duration::from_secs(10)), "the listing waits for the store");
    let second = MountedSession::over(embedded, false);
    assert!(held_up.is_known_to_others(), "its heart has beaten on");
    fs::write(second.path().join("other"), "text").unwrap();
    drop(held);
    assert!(listing.join().unwrap().contains(&"file".into()));
    assert!(folder.path().join("other").exists());
    session.unmount().expect("nothing uses the mount any more");
}

#[test]
fn what_one_mount_closed_the_other_opens() {
    if !is_wanted("fuse") {
        return;
    }
    let store = heap(ByteSize::mib(64));
    let first = MountedSession::over(store.clone(), false);
    let second = MountedSession::over(store, false);
    for round in 0..20 {
        let text = format!("round {round}").repeat(round + 1);
        fs::write(first.path().join("file"), &text).unwrap();
        assert_eq!(fs::read_to_string(second.path().join("file")).unwrap(), text);
        fs::write(second.path().join("file"), "answer").unwrap();
        assert_eq!(fs::read(first.path().join("file")).unwrap(), b"answer");
    }
}

#[test]
fn appends_through_several_mounts_are_all_kept_whole() {
    const RECORDS: usize = 200;
    if !is_wanted("fuse") {
        return;
    }
    let store = heap(ByteSize::mib(64));
    let mounts: Vec<_> = (0..3).map(|_| MountedSession::over(store.clone(), false)).collect();
    std::thread::scope(|scope| {
        for (writer, mount) in mounts.iter().enumerate() {
            let path = mount.path().join("log");
            scope.spawn(move || {
                let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
                for record in 0..RECORDS {
                    log.write_all(format!("{writer} {record:5}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    for mount in &mounts {
        let log = fs::read_to_string(mount.path().join("log")).unwrap();
        assert_eq!(log.lines().count(), mounts.len() * RECORDS);
        for writer in 0..mounts.len() {
            let name = format!("{writer} ");
            let records: Vec<_> = log.lines().filter_map(|line| line.strip_prefix(&name)).collect();
            let expected: Vec<_> = (0..RECORDS).map(|record| format!("{record:5}")).collect();
            assert_eq!(records, expected, "writer {writer}");
        }
    }
}

#[test]
fn locks_hold_between_mounts_and_are_handed_over_when_another_one_joins() {
    if !is_wanted("fuse") {
        return;
    }
    let store = heap(ByteSize::mib(64));
    let first = MountedSession::over(store.clone(), false);
    // Long enough to have found out that it is alone, so that it keeps its locks to itself.
    std::thread::sleep(Duration::from_millis(1500));
    let here = File::create(first.path().join("lock")).unwrap();
    fcntl_lock(&here, FlockOperation::LockExclusive).unwrap();
    flock(&here, FlockOperation::LockShared).unwrap();

    let second = MountedSession::over(store, false);
    let path = second.path().join("lock");
    let there = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(holder(&there), Some((0, 0, 0)), "a process that has no number here");
    assert_eq!(flock(&there, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    flock(&there, FlockOperation::NonBlockingLockShared).unwrap();
    let waits = std::thread::spawn(move || {
        flock(&there, FlockOperation::LockExclusive).unwrap();
        holder(&there)
    });
    drop(here);
    assert_eq!(waits.join().expect("it is given the lock"), None);
}
