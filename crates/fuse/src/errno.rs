//! Which error number a program sees for each failure. The one place where that is decided.

use tidefs_fs::Error;
use tidefs_session::Errno;
use tidefs_store::StoreError;

/// A request failed by a mistake in this program.
pub const PANICKED: Errno = Errno::IO;
/// What a mount without a server answers.
pub const MOUNT_OVER: Errno = Errno::NOTCONN;
/// There are no device controls here; `isatty` and its like ask every file.
pub const NO_DEVICE_CONTROL: Errno = Errno::NOTTY;
/// Told once, the kernel never asks again and treats every file as ready.
pub const ALWAYS_READY: Errno = Errno::NOSYS;

pub fn of(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::NOENT,
        Error::Exists => Errno::EXIST,
        Error::NotADirectory => Errno::NOTDIR,
        Error::IsADirectory => Errno::ISDIR,
        Error::NotEmpty => Errno::NOTEMPTY,
        Error::NameTooLong => Errno::NAMETOOLONG,
        Error::Invalid => Errno::INVAL,
        Error::FileTooLarge => Errno::FBIG,
        Error::TooManyLinks => Errno::MLINK,
        Error::NotPermitted => Errno::PERM,
        Error::BadHandle => Errno::BADF,
        Error::NoAttribute => Errno::NODATA,
        Error::RangeTooSmall => Errno::RANGE,
        // As ext4 answers when its attribute block is full; E2BIG is about the value alone.
        Error::AttributesTooLarge => Errno::NOSPC,
        Error::NoSuchOffset => Errno::NXIO,
        Error::NotSupported => Errno::OPNOTSUPP,
        Error::WouldBlock => Errno::WOULDBLOCK,
        Error::Deadlock => Errno::DEADLK,
        Error::TooManyLocks => Errno::NOLCK,
        // The kernel answers it by looking the path up afresh, once.
        Error::Stale => Errno::STALE,
        Error::NoKey => Errno::ACCESS,
        Error::Corrupt { .. } | Error::CorruptEntry { .. } => Errno::IO,
        // Unlink, rmdir and rename may say so; programs retry it more often than EAGAIN, which
        // they take for a descriptor that does not block.
        Error::Contended => Errno::BUSY,
        Error::NotStill => Errno::IO,
        // A mount is refused for it; no request gets as far.
        Error::NoSuperblock | Error::WrongFormat { .. } => Errno::IO,
        Error::Store(error) => of_store(error),
    }
}

fn of_store(error: &StoreError) -> Errno {
    match error {
        StoreError::Full { .. } => Errno::NOSPC,
        StoreError::Interrupted { .. } => Errno::INTR,
        // A node that is gone is to a program what a dead disk is.
        StoreError::Unavailable { .. } => Errno::IO,
        StoreError::Lost { .. } => Errno::IO,
        StoreError::Forged { .. } => Errno::IO,
        StoreError::Indeterminate { .. } => Errno::IO,
        StoreError::Malformed { .. } => Errno::IO,
        StoreError::Unplaced { .. } => Errno::IO,
        // The mount's own credentials are wrong, which no program that reads a file can mend;
        // still the number that says where to look.
        StoreError::Denied { .. } => Errno::ACCESS,
        StoreError::Expelled => Errno::IO,
        // Callers cut to stripes, so this is a mistake in this program.
        StoreError::TooLarge { .. } => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_store_is_no_space_and_a_lost_node_is_an_input_output_error() {
        let endpoint: Box<str> = "node".into();
        let full = StoreError::Full { endpoint: endpoint.clone() };
        assert_eq!(of(&Error::Store(full)), Errno::NOSPC);
        let gone = StoreError::Unavailable { endpoint: endpoint.clone() };
        assert_eq!(of(&Error::Store(gone)), Errno::IO);
        let odd = Error::CorruptEntry { directory: 1, name: "name".into() };
        assert_eq!(of(&odd), Errno::IO);
        assert_eq!(of(&Error::Corrupt { what: "inode", ino: 7 }), Errno::IO);
        let denied = StoreError::Denied { endpoint };
        assert_eq!(of(&Error::Store(denied)), Errno::ACCESS);
    }
}
