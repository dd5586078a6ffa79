//! Locks between the programs of one mount.

use std::ffi::CString;
use std::fs::File;
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
