//! Locks between the programs of one mount; `joined` has those between mounts.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const GOT_IT: i32 = 0;
const HELD: i32 = 1;
const FAILED: i32 = 2;

/// What another process is told when it tries to get a lock.
fn in_another_process(path: &Path, attempt: fn(i32) -> bool) -> i32 {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the child calls nothing but system calls, as it must when others were running.
    let child = match unsafe { libc::fork() } {
        0 => unsafe {
            let descriptor = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            let answer = match (descriptor, attempt(descriptor)) {
                (..0, _) => FAILED,
                (_, true) => GOT_IT,
                (_, false) => HELD,
            };
            libc::_exit(answer)
        },
        child => Pid::from_raw(child).expect("a fork succeeds"),
    };
    let give_up = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
            return status.exit_status().unwrap_or(FAILED);
        }
        if Instant::now() > give_up {
            kill_process(child, Signal::KILL).unwrap();
            panic!("the other process hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn try_flock(descriptor: i32) -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::flock(descriptor, libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// The first ten bytes, as a record lock.
fn try_record_lock(descriptor: i32) -> bool {
    // SAFETY: the structure is plain numbers, all of which may be 0, and lives through the call.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        lock.l_len = 10;
        libc::fcntl(descriptor, libc::F_SETLK, &lock) == 0
    }
}

pub fn a_flock_keeps_others_out(dir: &Path) {
    let path = dir.join("lock");
    let file = File::create(&path).unwrap();
    assert_eq!(in_another_process(&path, try_flock), GOT_IT, "nobody holds it");
    flock(&file, FlockOperation::LockExclusive).unwrap();
    assert_eq!(in_another_process(&path, try_flock), HELD);
    flock(&file, FlockOperation::Unlock).unwrap();
    assert_eq!(in_another_process(&path, try_flock), GOT_IT, "it was given back");
}

pub fn a_record_lock_keeps_other_processes_out(dir: &Path) {
    let path = dir.join("lock");
    let file = File::create(&path).unwrap();
    assert_eq!(in_another_process(&path, try_record_lock), GOT_IT, "nobody holds it");
    fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
    assert_eq!(in_another_process(&path, try_record_lock), HELD);
    drop(file);
    assert_eq!(in_another_process(&path, try_record_lock), GOT_IT, "a close gives it back");
}

/// The process, first byte and length of a record lock that is in this process's way.
pub fn holder(file: &File) -> Option<(i32, i64, i64)> {
    let lock = find_lock(file.as_raw_fd())?;
    (i32::from(lock.l_type) != libc::F_UNLCK).then_some((lock.l_pid, lock.l_start, lock.l_len))
}

fn find_lock(descriptor: i32) -> Option<libc::flock> {
    // SAFETY: the structure is plain numbers, all of which may be 0, and lives through the call.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        (libc::fcntl(descriptor, libc::F_GETLK, &mut lock) == 0).then_some(lock)
    }
}

/// The process that started this one has locked from the third byte to the end.
fn is_locked_by_parent(descriptor: i32) -> bool {
    // SAFETY: takes nothing.
    let parent = unsafe { libc::getppid() };
    find_lock(descriptor).is_some_and(|lock| {
        let found = (i32::from(lock.l_type), lock.l_pid, lock.l_start, lock.l_len);
        found == (libc::F_RDLCK, parent, 2, 0)
    })
}

pub fn who_asks_for_a_lock_is_told_who_has_it(dir: &Path) {
    let path = dir.join("lock");
    let mut file = File::options();
    let file = file.read(true).write(true).create(true).truncate(true);
    let file = file.open(&path).unwrap();
    assert_eq!(in_another_process(&path, is_locked_by_parent), HELD, "nobody has");
    // SAFETY: as above.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        (lock.l_type, lock.l_start) = (libc::F_RDLCK as i16, 2);
        assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock), 0);
    }
    assert_eq!(in_another_process(&path, is_locked_by_parent), GOT_IT);
    assert_eq!(holder(&file), None, "one's own is in nobody's way");
}

/// The first bytes of the two locks of the process that started this one, whichever it took first.
fn first_is_at(descriptor: i32, start: i64) -> bool {
    find_lock(descriptor).is_some_and(|lock| (lock.l_start, lock.l_len) == (start, 5))
}

pub fn who_asks_for_a_lock_is_told_of_the_first_one_in_the_way(dir: &Path) {
    let path = dir.join("lock");
    let file = File::create(&path).unwrap();
    let lock = |kind, start| {
        // SAFETY: as above.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            (lock.l_type, lock.l_start, lock.l_len) = (kind as i16, start, 5);
            assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock), 0);
        }
    };
    for start in [20, 10, 40, 30] {
        lock(libc::F_WRLCK, start);
    }
    assert_eq!(in_another_process(&path, |descriptor| first_is_at(descriptor, 10)), GOT_IT);
    lock(libc::F_UNLCK, 10);
    assert_eq!(in_another_process(&path, |descriptor| first_is_at(descriptor, 20)), GOT_IT);
}

pub fn what_a_descriptor_that_only_reads_has_locked_is_free_when_it_is_closed(dir: &Path) {
    let path = dir.join("lock");
    File::create(&path).unwrap();
    let locks: [fn(&File) -> rustix::io::Result<()>; 2] = [
        |file| fcntl_lock(file, FlockOperation::LockShared),
        |file| flock(file, FlockOperation::LockShared),
    ];
    for lock in locks {
        let file = File::open(&path).unwrap();
        lock(&file).unwrap();
        let attempt = [try_record_lock, try_flock];
        let held = attempt.iter().any(|attempt| in_another_process(&path, *attempt) == HELD);
        assert!(held, "the other process wants it for itself");
        drop(file);
        for attempt in attempt {
            eventually("a close gives it back", || in_another_process(&path, attempt) == GOT_IT);
        }
    }
}

pub fn who_waits_for_a_lock_gets_it_when_it_is_given_back(dir: &Path) {
    let path = dir.join("lock");
    let (holder, waiter) = (File::create(&path).unwrap(), File::create(&path).unwrap());
    for _ in 0..20 {
        flock(&holder, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| flock(&waiter, FlockOperation::LockExclusive));
            flock(&holder, FlockOperation::Unlock).unwrap();
            waits.join().expect("no panic").unwrap();
        });
        flock(&waiter, FlockOperation::Unlock).unwrap();
    }
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}: not within 30 seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
}
