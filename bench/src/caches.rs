//! Makes the kernel forget, so that a file system is measured and not the cache above it.

use std::fs::{self, File};
use std::io;
use std::os::fd::IntoRawFd;

use rustix::fs::{Advice, fadvise};

/// Drops the clean pages of a file; tmpfs keeps them, since there they are the file.
pub fn forget_pages(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Drops all names and inodes that nobody uses, of the whole machine. `false` without the right
/// to do so.
pub fn forget_names() -> io::Result<bool> {
    match fs::write("/proc/sys/vm/drop_caches", "2") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}

/// Closes a file and says whether that failed, which dropping it would hide.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was given up by the file and is closed here alone.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
