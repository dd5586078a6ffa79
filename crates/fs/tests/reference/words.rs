//! The words of the oracle in the words of the file system, and back.

use tidefs_fs::{Attr, Error, Kind, OpenMode, RenameMode, Seek, SetTime, SpaceMode, XattrMode};
use tidefs_model::Time;
use tidefs_oracle as oracle;
use tidefs_oracle::{Errno, Facts, Observed};

/// What a program would be told, as far as the model can answer with it.
pub fn errno(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::NotFound,
        Error::Exists => Errno::Exists,
        Error::NotADirectory => Errno::NotADirectory,
        Error::IsADirectory => Errno::IsADirectory,
        Error::NotEmpty => Errno::NotEmpty,
        Error::NameTooLong => Errno::NameTooLong,
        Error::Invalid => Errno::Invalid,
        Error::FileTooLarge => Errno::FileTooLarge,
        Error::TooManyLinks => Errno::TooManyLinks,
        Error::NotPermitted => Errno::NotPermitted,
        Error::BadHandle => Errno::BadHandle,
        Error::NoAttribute => Errno::NoAttribute,
        Error::NoSuchOffset => Errno::NoSuchOffset,
        Error::NotSupported => Errno::NotSupported,
        Error::Stale => Errno::Stale,
        other => {
            eprintln!("the file system says: {other}");
            Errno::Io
        }
    }
}

pub fn observed(attr: &Attr) -> Observed {
    let kind = kind(attr.kind);
    let size = if kind == oracle::Kind::Directory { 0 } else { attr.size };
    Observed {
        facts: Facts { kind, mode: attr.mode, links: attr.nlink, size },
        ino: attr.ino.0,
        atime: attr.atime.0,
        mtime: attr.mtime.0,
        ctime: attr.ctime.0,
    }
}

pub fn kind(kind: Kind) -> oracle::Kind {
    match kind {
        Kind::File => oracle::Kind::File,
        Kind::Directory => oracle::Kind::Directory,
        Kind::Symlink => oracle::Kind::Symlink,
        Kind::Fifo => oracle::Kind::Fifo,
        Kind::Socket | Kind::CharDevice | Kind::BlockDevice => {
            panic!("no step makes a {kind:?}")
        }
    }
}

pub fn open_mode(flags: oracle::OpenFlags) -> OpenMode {
    OpenMode {
        read: flags.reads(),
        write: flags.writes(),
        append: flags.append,
        truncate: flags.truncate,
        exclusive: flags.exclusive,
        sync: false,
    }
}

pub fn space_mode(mode: oracle::SpaceMode) -> SpaceMode {
    match mode {
        oracle::SpaceMode::Allocate => SpaceMode::Allocate,
        oracle::SpaceMode::AllocateKeepSize => SpaceMode::AllocateKeepSize,
        oracle::SpaceMode::PunchHole => SpaceMode::PunchHole,
        oracle::SpaceMode::Zero => SpaceMode::Zero,
        oracle::SpaceMode::ZeroKeepSize => SpaceMode::ZeroKeepSize,
    }
}

pub fn seek(what: oracle::SeekFor) -> Seek {
    match what {
        oracle::SeekFor::Data => Seek::Data,
        oracle::SeekFor::Hole => Seek::Hole,
    }
}

pub fn rename_mode(mode: oracle::RenameMode) -> RenameMode {
    match mode {
        oracle::RenameMode::Replace => RenameMode::Replace,
        oracle::RenameMode::NoReplace => RenameMode::NoReplace,
        oracle::RenameMode::Exchange => RenameMode::Exchange,
    }
}

pub fn set_time(time: oracle::SetTime) -> Option<SetTime> {
    match time {
        oracle::SetTime::Omit => None,
        oracle::SetTime::Now => Some(SetTime::Now),
        oracle::SetTime::At(nanoseconds) => Some(SetTime::At(Time(nanoseconds))),
    }
}

pub fn xattr_mode(mode: oracle::XattrMode) -> XattrMode {
    match mode {
        oracle::XattrMode::Any => XattrMode::Any,
        oracle::XattrMode::Create => XattrMode::Create,
        oracle::XattrMode::Replace => XattrMode::Replace,
    }
}
