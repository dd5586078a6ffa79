//! A node that does not answer: more programs want what is on it than threads serve the mount.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use rustix::io::Errno;
use tidefs_fuse::Session;
use tidefs_model::ByteSize;
use tidefs_store::{Embedded, Faulty, Operation, When};

use crate::full::{frees, furnish};
use crate::support::{MountedSession, empty_folder, heap, is_wanted, join, options};

/// More than there ever are threads that serve a mount.
const READERS: usize = 200;
const LOOKERS: usize = 300;
/// Files that another mount has locked, and tries for them that are held up: more than the housekeeping
/// ever asks at a time.
const LOCKED: usize = 40;
const TRIES: usize = 10;
/// Less than the store holds a call.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn what_frees_memory_is_served_however_many_wait_for_bytes() {
    if !is_wanted("fuse") {
        return;
    }
    let store: Arc<Faulty<Arc<Embedded>>> =
        Arc::new(Faulty::new(heap(ByteSize::mib(64)), Vec::new()));
    let folder = empty_folder();
    let options = options(folder.path());
    let mut session = Session::mount(join(Arc::clone(&store), false), &options).unwrap();
    let (free, inside) = (folder.path().join("free"), folder.path().join("in"));
    furnish(&free);
    fs::create_dir(&inside).unwrap();
    let opened = |number: usize| {
        let path = inside.join(number.to_string());
        fs::write(&path, [7; 8_192]).unwrap();
        let file = File::open(path).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file
    };
    let files: Vec<File> = (0..READERS).map(opened).collect();
    let silent = store.pause(Operation::Read, When::Before);
    let reads: Vec<_> = files
        .into_iter()
        .map(|mut file| std::thread::spawn(move || file.read(&mut [0; 4_096])))
        .collect();
    assert!(silent.wait_until_held(READERS, SOON), "not all of them read at a time");
    frees(&free);
    assert!(reads.iter().all(|read| !read.is_finished()), "they wait");
    drop(silent);
    reads.into_iter().for_each(|read| assert_eq!(read.join().unwrap().unwrap(), 4_096));
    session.unmount().unwrap();
}

/// One of several kinds of request, in a directory of its own: the kernel lets one change of each through.
fn looks_or_changes(number: usize, inside: &Path) -> io::Result<()> {
    let own = inside.join(number.to_string());
    match number % 4 {
        0 => fs::metadata(own.join("there")).map(drop),
        1 => fs::create_dir(own.join("new")),
        2 => fs::set_permissions(&own, fs::Permissions::from_mode(0o700)),
        _ => File::create(own.join("new")).map(drop),
    }
}

#[test]
fn what_frees_memory_is_served_however_many_wait_for_names() {
    if !is_wanted("fuse") {
        return;
    }
    let store: Arc<Faulty<Arc<Embedded>>> =
        Arc::new(Faulty::new(heap(ByteSize::mib(64)), Vec::new()));
    let folder = empty_folder();
    let (free, inside) = (folder.path().join("free"), folder.path().join("in"));
    let mount =
        || Session::mount(join(Arc::clone(&store), false), &options(folder.path())).unwrap();
    // By another mount, so that the one that is tried has to ask for them.
    let mut before = mount();
    for number in 0..LOOKERS {
        let own = inside.join(number.to_string());
        fs::create_dir_all(&own).unwrap();
        File::create(own.join("there")).unwrap();
    }
    before.unmount().unwrap();
    let mut session = mount();
    furnish(&free);
    assert_eq!(fs::read_dir(&inside).unwrap().count(), LOOKERS);
    let silent = store.pause_at_most(Operation::Batch, When::Before, LOOKERS);
    let work = |number| {
        let inside = inside.clone();
        std::thread::spawn(move || looks_or_changes(number, &inside))
    };
    let works: Vec<_> = (0..LOOKERS).map(work).collect();
    assert!(silent.wait_until_held(LOOKERS, SOON), "not all of them wait at a time");
    frees(&free);
    // The housekeeping may have been held in place of one or two.
    let waiting = works.iter().filter(|work| !work.is_finished()).count();
    assert!(waiting > LOOKERS - 8, "no more than {waiting} wait");
    drop(silent);
    works.into_iter().for_each(|work| work.join().unwrap().unwrap());
    session.unmount().unwrap();
}

/// Has calls that wait end with EINTR.
fn hear_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    let nothing: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the structure is plain numbers, and the function does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_try_for_a_lock_that_is_held_up_keeps_none_of_the_others_waiting() {
    if !is_wanted("fuse") {
        return;
    }
    hear_signals();
    let memory = heap(ByteSize::mib(64));
    let store: Arc<Faulty<Arc<Embedded>>> = Arc::new(Faulty::new(Arc::clone(&memory), Vec::new()));
    let mut mount = MountedSession::over(Arc::clone(&store), false);
    let mut other = MountedSession::over(memory, false);
    let lock_on_other = |number: usize| {
        let file = File::create(other.path().join(number.to_string())).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file
    };
    let held: Vec<File> = (0..LOCKED).map(lock_on_other).collect();
    let (got, gets) = channel();
    let wait = |number: usize| {
        let file = File::open(mount.path().join(number.to_string())).unwrap();
        let got = got.clone();
        // The test may have failed.
        std::thread::spawn(move || {
            let _ = got.send(flock(&file, FlockOperation::LockExclusive));
        })
    };
    let first: Vec<_> = (0..LOCKED).map(wait).collect();
    let second: Vec<_> = (0..LOCKED).map(wait).collect();
    // Each has asked and is tried again and again.
    let asked = store.count(Operation::Batch);
    while store.count(Operation::Batch) < asked + 10 * LOCKED as u64 {
        assert!(gets.try_recv().is_err(), "none is free");
        std::thread::sleep(Duration::from_millis(1));
    }
    let silent = store.pause_at_most(Operation::Batch, When::Before, TRIES);
    assert!(silent.wait_until_held(TRIES, SOON), "one try waits for another one");
    for waits in &second {
        // SAFETY: the thread has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(waits.as_pthread_t(), libc::SIGUSR2) }, 0);
    }
    for _ in TRIES..LOCKED {
        assert_eq!(gets.recv_timeout(SOON), Ok(Err(Errno::INTR)), "who waits hears signals");
    }
    drop(held);
    for _ in TRIES..LOCKED {
        let locked = gets.recv_timeout(SOON).expect("what is free is had");
        assert!(matches!(locked, Ok(()) | Err(Errno::INTR)));
    }
    drop(silent);
    first.into_iter().chain(second).for_each(|waits| waits.join().unwrap());
    mount.session.unmount().unwrap();
    other.session.unmount().unwrap();
}
