//! Which error number a program sees for each failure. The one place where that is decided.

use fuser::Errno;
use tidefs_fs::Error;
use tidefs_store::StoreError;

/// A request failed by a mistake in this program.
pub const PANICKED: Errno = Errno::EIO;
/// What a mount without a server answers.
pub const MOUNT_OVER: Errno = Errno::ENOTCONN;
/// There are no device controls here; `isatty` and its like ask every file.
pub const NO_DEVICE_CONTROL: Errno = Errno::ENOTTY;
/// Told once, the kernel never asks again and treats every file as ready.
pub const ALWAYS_READY: Errno = Errno::ENOSYS;

pub fn of(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotADirectory => Errno::ENOTDIR,
        Error::IsADirectory => Errno::EISDIR,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::NameTooLong => Errno::ENAMETOOLONG,
        Error::Invalid => Errno::EINVAL,
        Error::FileTooLarge => Errno::EFBIG,
        Error::TooManyLinks => Errno::EMLINK,
        Error::NotPermitted => Errno::EPERM,
        Error::BadHandle => Errno::EBADF,
        Error::NoAttribute => Errno::NO_XATTR,
        Error::RangeTooSmall => Errno::ERANGE,
        // As ext4 answers when its attribute block is full; E2BIG is about the value alone.
        Error::AttributesTooLarge => Errno::ENOSPC,
        Error::NoSuchOffset => Errno::ENXIO,
        Error::NotSupported => Errno::EOPNOTSUPP,
        Error::WouldBlock => Errno::EWOULDBLOCK,
        Error::Deadlock => Errno::EDEADLK,
        Error::TooManyLocks => Errno::ENOLCK,
        // The kernel answers it by looking the path up afresh, once.
        Error::Stale => Errno::ESTALE,
        Error::NoKey => Errno::EACCES,
        Error::Corrupt { .. } | Error::CorruptEntry { .. } => Errno::EIO,
        // Unlink, rmdir and rename may say so; programs retry it more often than EAGAIN, which
        // they take for a descriptor that does not block.
        Error::Contended => Errno::EBUSY,
        // A mount is refused for it; no request gets as far.
        Error::WrongFormat { .. } => Errno::EIO,
        Error::Store(error) => of_store(error),
    }
}

fn of_store(error: &StoreError) -> Errno {
    match error {
        StoreError::Full { .. } => Errno::ENOSPC,
        StoreError::Interrupted { .. } => Errno::EINTR,
        // A node that is gone is to a program what a dead disk is.
        StoreError::Unavailable { .. } => Errno::EIO,
        StoreError::Lost { .. } => Errno::EIO,
        StoreError::Forged { .. } => Errno::EIO,
        StoreError::Indeterminate { .. } => Errno::EIO,
        StoreError::Malformed { .. } => Errno::EIO,
        StoreError::Unplaced { .. } => Errno::EIO,
        // The mount's own credentials are wrong, which no program that reads a file can mend;
        // still the number that says where to look.
        StoreError::Denied { .. } => Errno::EACCES,
        StoreError::Expelled => Errno::EIO,
        // Callers cut to stripes, so this is a mistake in this program.
        StoreError::TooLarge { .. } => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_no_space_and_a_lost_node_is_an_input_output_error() {
        let endpoint: Box<str> = "node".into();
        let full = StoreError::Full { endpoint: endpoint.clone() };
        assert_eq!(of(&Error::Store(full)), Errno::ENOSPC);
        let gone = StoreError::Unavailable { endpoint: endpoint.clone() };
        assert_eq!(of(&Error::Store(gone)), Errno::EIO);
        let odd = Error::CorruptEntry { directory: 1, name: "name".into() };
        assert_eq!(of(&odd), Errno::EIO);
        assert_eq!(of(&Error::Corrupt { what: "inode", ino: 7 }), Errno::EIO);
        let denied = StoreError::Denied { endpoint };
        assert_eq!(of(&Error::Store(denied)), Errno::EACCES);
    }
}
