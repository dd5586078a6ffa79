//! Threads of a process that serves a mount, and work on that mount as any program does. Where the process is killed, the
//! kernel waits for their requests to be answered, and ends the mount, which would answer them, once nobody has its device open
//! any more: they must not have it open themselves.

use std::io;
use std::thread;

use crate::signals;

/// Does something in a thread that is apart.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let works = || {
        begin();
        work()
    };
    thread::scope(|scope| scope.spawn(works).join().expect("what is apart does not panic"))
}

/// From now on this thread, and those that it starts, have a table of descriptors of their own: standard streams, what
/// signals are noted in, and what they open themselves.
pub fn begin() {
    if let Err(error) = leave() {
        tracing::warn!("files are copied by threads that hold the mount: {error}");
    }
}

fn leave() -> io::Result<()> {
    // SAFETY: the table is this thread's alone from here on; what others have open is not touched.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let noted = signals::descriptor().and_then(|it| u32::try_from(it).ok()).filter(|it| *it > 2);
    match noted {
        None => close(3, u32::MAX),
        Some(noted) => close(3, noted - 1).and_then(|()| close(noted + 1, u32::MAX)),
    }
}

fn close(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: nothing that this thread works with owns a descriptor of this table yet.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_is_apart_has_nothing_open_and_leaves_what_others_have_open() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let at = format!("/proc/thread-self/fd/{}", writer.as_raw_fd());
        assert!(std::fs::symlink_metadata(&at).is_ok());
        assert!(apart(|| std::fs::symlink_metadata(&at).is_err()), "it has the pipe open");
        let opened = apart(|| apart(|| std::fs::read_to_string("/proc/self/stat").is_ok()));
        assert!(opened, "it can open files");
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"x");
    }
}
