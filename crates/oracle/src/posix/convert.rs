//! Between the driver's words and those of the system calls.

use rustix::fs::{
    FallocateFlags, FileType, OFlags, RenameFlags, Timespec, UTIME_NOW, UTIME_OMIT, XattrFlags,
};

use crate::{
    Access, Errno, Facts, Kind, Observed, OpenFlags, Path, RenameMode, SetTime, SpaceMode,
    XattrMode,
};

/// The path relative to the root's directory.
pub fn name(at: &Path) -> &str {
    if at.is_root() { "." } else { at.as_str() }
}

pub fn open_flags(flags: OpenFlags) -> OFlags {
    let access = match flags.access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    let choices = [
        (flags.create, OFlags::CREATE),
        (flags.exclusive, OFlags::EXCL),
        (flags.truncate, OFlags::TRUNC),
        (flags.append, OFlags::APPEND),
    ];
    let chosen = choices.into_iter().filter(|(chosen, _)| *chosen);
    chosen.fold(access | OFlags::NOFOLLOW | OFlags::CLOEXEC, |all, (_, flag)| all | flag)
}

pub fn observed(stat: &rustix::fs::Stat) -> Result<Observed, Errno> {
    let kind = kind_of(FileType::from_raw_mode(stat.st_mode))?;
    let size = if kind == Kind::Directory { 0 } else { stat.st_size as u64 };
    Ok(Observed {
        facts: Facts { kind, mode: stat.st_mode & 0o7777, links: stat.st_nlink, size },
        ino: stat.st_ino,
        atime: nanoseconds(stat.st_atime, stat.st_atime_nsec),
        mtime: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
    })
}

pub fn kind_of(kind: FileType) -> Result<Kind, Errno> {
    match kind {
        FileType::RegularFile => Ok(Kind::File),
        FileType::Directory => Ok(Kind::Directory),
        FileType::Symlink => Ok(Kind::Symlink),
        FileType::Fifo => Ok(Kind::Fifo),
        _ => Err(Errno::Other(0)),
    }
}

pub fn timespec(time: SetTime) -> Timespec {
    match time {
        SetTime::Omit => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::At(nanoseconds) => Timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as i64,
        },
    }
}

pub fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to `time` and nowhere else.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(answer, 0, "both clocks are there since Linux 2.6.32");
    nanoseconds(time.tv_sec, time.tv_nsec as u64)
}

pub fn nanoseconds(seconds: i64, rest: u64) -> u64 {
    seconds as u64 * 1_000_000_000 + rest
}

pub fn last_error() -> Errno {
    rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
        .map_or(Errno::Io, Errno::from)
}

pub fn fallocate_flags(mode: SpaceMode) -> FallocateFlags {
    let keep = FallocateFlags::KEEP_SIZE;
    match mode {
        SpaceMode::Allocate => FallocateFlags::empty(),
        SpaceMode::AllocateKeepSize => keep,
        SpaceMode::PunchHole => FallocateFlags::PUNCH_HOLE | keep,
        SpaceMode::Zero => FallocateFlags::ZERO_RANGE,
        SpaceMode::ZeroKeepSize => FallocateFlags::ZERO_RANGE | keep,
    }
}

pub fn rename_flags(mode: RenameMode) -> RenameFlags {
    match mode {
        RenameMode::Replace => RenameFlags::empty(),
        RenameMode::NoReplace => RenameFlags::NOREPLACE,
        RenameMode::Exchange => RenameFlags::EXCHANGE,
    }
}

pub fn xattr_flags(mode: XattrMode) -> XattrFlags {
    match mode {
        XattrMode::Any => XattrFlags::empty(),
        XattrMode::Create => XattrFlags::CREATE,
        XattrMode::Replace => XattrFlags::REPLACE,
    }
}
