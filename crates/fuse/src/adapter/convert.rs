//! The words of the kernel's protocol in the words of `fs`, and back.

use std::time::Duration;

use tidefs_fs::{
    Attr, Caller, Error, Kind, Lifetimes, OpenMode, RenameMode, Seek, SetTime, SpaceMode, XattrMode,
};
use tidefs_model::{Ino, Time};
use tidefs_session::{FileAttr, FileType, Generation, INodeNo, Moment, OpenFlags, TimeOrNow};

/// What `stat` tells programs to read and write at a time. Streams of the C library take it as
/// the size of their buffer: larger makes sequential ones cheaper and those that jump dearer.
const TRANSFER_BYTES: u32 = 64 << 10;

/// Inode numbers are never used twice, so one generation does for all.
pub const GENERATION: Generation = Generation(0);

pub fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

pub fn caller(request: &tidefs_session::Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

/// Whether a change of a file's bytes ends set-user-id: root keeps it, others do not. The kernel's own
/// word on it comes with writes alone.
pub fn is_ordinary(request: &tidefs_session::Request) -> bool {
    request.uid() != 0
}

pub fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.into(),
        mtime: attr.mtime.into(),
        ctime: attr.ctime.into(),
        kind: file_type(attr.kind),
        perm: (attr.mode & 0o7777) as u16,
        nlink: u32::try_from(attr.nlink).unwrap_or(u32::MAX),
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: TRANSFER_BYTES,
    }
}

/// The answer that a name does not exist, for the kernel to keep: inode number 0.
pub fn absence() -> FileAttr {
    let epoch = std::time::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: TRANSFER_BYTES,
    }
}

pub fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// What `mknod` is to make; `None` for what only another call makes.
pub fn kind_of_mode(mode: u32) -> Option<Kind> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Some(Kind::File),
        libc::S_IFIFO => Some(Kind::Fifo),
        libc::S_IFSOCK => Some(Kind::Socket),
        libc::S_IFCHR => Some(Kind::CharDevice),
        libc::S_IFBLK => Some(Kind::BlockDevice),
        _ => None,
    }
}

/// O_DIRECT counts as a sync flag: both ask that a write has arrived when it returns.
pub fn open_mode(flags: OpenFlags) -> OpenMode {
    let has = |flag| flags.0 & flag == flag;
    let access = flags.0 & libc::O_ACCMODE;
    OpenMode {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY,
        append: has(libc::O_APPEND),
        truncate: has(libc::O_TRUNC),
        exclusive: has(libc::O_EXCL),
        sync: has(libc::O_DSYNC) || has(libc::O_DIRECT),
    }
}

pub fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::At(moment) => SetTime::At(time_of(moment)),
    }
}

pub fn time_of(moment: Moment) -> Time {
    Time::from_unix(moment.seconds, moment.nanoseconds)
}

/// A whiteout is what an overlay leaves of a deleted file; there are none here.
pub fn rename_mode(flags: u32) -> Result<RenameMode, Error> {
    match flags {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        _ => Err(Error::Invalid),
    }
}

pub fn space_mode(mode: i32) -> Result<SpaceMode, Error> {
    const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP_SIZE;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP_SIZE: i32 = ZERO | KEEP_SIZE;
    match mode {
        0 => Ok(SpaceMode::Allocate),
        KEEP_SIZE => Ok(SpaceMode::AllocateKeepSize),
        PUNCH_HOLE => Ok(SpaceMode::PunchHole),
        ZERO => Ok(SpaceMode::Zero),
        ZERO_KEEP_SIZE => Ok(SpaceMode::ZeroKeepSize),
        _ => Err(Error::NotSupported),
    }
}

pub fn seek(whence: i32) -> Result<Seek, Error> {
    match whence {
        libc::SEEK_DATA => Ok(Seek::Data),
        libc::SEEK_HOLE => Ok(Seek::Hole),
        // The kernel keeps positions itself and asks for nothing else.
        _ => Err(Error::Invalid),
    }
}

pub fn xattr_mode(flags: i32) -> Result<XattrMode, Error> {
    match flags {
        0 => Ok(XattrMode::Any),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Error::Invalid),
    }
}

/// For replies that have one lifetime for the name and the attributes.
pub fn shorter(lifetimes: &Lifetimes) -> Duration {
    lifetimes.entry.min(lifetimes.attr)
}
