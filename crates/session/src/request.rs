//! Who asks, and what some requests ask for.

use std::ffi::OsStr;

use crate::arguments::Numbers;
use crate::flags::{LockFlags, WriteFlags};
use crate::operation as op;
use crate::values::{FileHandle, INodeNo, LockOwner, Moment, OpenFlags, TimeOrNow};

/// In the number of a request that the kernel sends again.
const SENT_AGAIN: u64 = 1 << 63;

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub(crate) opcode: u32,
    pub(crate) unique: u64,
    pub(crate) node: u64,
    uid: u32,
    gid: u32,
    pid: u32,
}

impl Request {
    pub(crate) const HEAD_BYTES: usize = 40;

    /// `None`: that is too short for one, or not as long as it says.
    pub(crate) fn parse(message: &[u8]) -> Option<Request> {
        let length = Numbers(message).u32()? as usize;
        Request::parse_head(message).filter(|_| length == message.len())
    }

    /// Of a request whose parts lie apart.
    pub(crate) fn parse_head(head: &[u8]) -> Option<Request> {
        let mut numbers = Numbers(head.get(..Request::HEAD_BYTES)?);
        let _length = numbers.u32()?;
        let (opcode, unique, node) = (numbers.u32()?, numbers.u64()?, numbers.u64()?);
        let (uid, gid, pid) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
        Some(Request { opcode, unique, node, uid, gid, pid })
    }

    /// It was read before, and not answered by whoever read it.
    pub fn is_sent_again(&self) -> bool {
        self.unique & SENT_AGAIN != 0
    }

    /// Tells it from all others that are under way.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// It opens a file, or makes one and opens it.
    pub fn opens(&self) -> bool {
        matches!(self.opcode, op::OPEN | op::CREATE)
    }

    /// It moves bytes of an open file, or closes a descriptor of it.
    pub fn uses_an_open_file(&self) -> bool {
        matches!(self.opcode, op::READ | op::WRITE | op::FLUSH | op::COPY_FILE_RANGE)
    }

    pub fn uid(&self) -> u32 {
        self.uid
    }

    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The thread of the program that asks; 0 where there is none.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// New values of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
    pub ctime: Option<Moment>,
}

impl Changes {
    pub(crate) const BYTES: usize = 88;

    /// Also the handle through which they are made.
    pub(crate) fn parse(mut numbers: Numbers<'_>) -> Option<(Option<FileHandle>, Changes)> {
        let valid = numbers.u32()?;
        let has = |bit: u32| valid & 1 << bit != 0;
        numbers.u32()?;
        let (fh, size, _owner) = (numbers.u64()?, numbers.u64()?, numbers.u64()?);
        let seconds = [numbers.i64()?, numbers.i64()?, numbers.i64()?];
        let nanoseconds = [numbers.u32()?, numbers.u32()?, numbers.u32()?];
        let (mode, _unused) = (numbers.u32()?, numbers.u32()?);
        let (uid, gid) = (numbers.u32()?, numbers.u32()?);
        let moment =
            |which: usize| Moment { seconds: seconds[which], nanoseconds: nanoseconds[which] };
        let time = |set, now, which| match (has(set), has(now)) {
            (_, true) => Some(TimeOrNow::Now),
            (true, false) => Some(TimeOrNow::At(moment(which))),
            (false, false) => None,
        };
        let changes = Changes {
            mode: has(0).then_some(mode),
            uid: has(1).then_some(uid),
            gid: has(2).then_some(gid),
            size: has(3).then_some(size),
            atime: time(4, 7, 0),
            mtime: time(5, 8, 1),
            ctime: has(10).then(|| moment(2)),
        };
        Some((has(6).then_some(FileHandle(fh)), changes))
    }
}

/// A name that becomes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    pub parent: INodeNo,
    pub name: &'a OsStr,
    pub new_parent: INodeNo,
    pub new_name: &'a OsStr,
    /// As given to renameat2(2).
    pub flags: u32,
}

/// Space of a file that is reserved or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub fh: FileHandle,
    pub offset: u64,
    pub length: u64,
    /// As given to fallocate(2).
    pub mode: i32,
}

/// Where and how a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub fh: FileHandle,
    /// Of an append: where the kernel thinks that the file ends.
    pub offset: u64,
    pub flags: WriteFlags,
    /// Of the file that it goes to.
    pub open: OpenFlags,
}

/// A lock that is asked for, given back or asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedLock {
    pub fh: FileHandle,
    pub owner: LockOwner,
    pub start: u64,
    /// The last byte.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    pub pid: u32,
    pub flags: LockFlags,
}

impl AskedLock {
    pub(crate) const BYTES: usize = 48;

    pub(crate) fn parse(mut numbers: Numbers<'_>) -> Option<AskedLock> {
        Some(AskedLock {
            fh: FileHandle(numbers.u64()?),
            owner: LockOwner(numbers.u64()?),
            start: numbers.u64()?,
            end: numbers.u64()?,
            kind: numbers.i32()?,
            pid: numbers.u32()?,
            flags: LockFlags::from_bits_retain(numbers.u32()?),
        })
    }
}

/// A copy between files, or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    pub source: FileHandle,
    pub source_offset: u64,
    pub target_number: INodeNo,
    pub target: FileHandle,
    pub target_offset: u64,
    pub length: u64,
}

impl CopyRange {
    pub(crate) const BYTES: usize = 56;

    pub(crate) fn parse(mut numbers: Numbers<'_>) -> Option<CopyRange> {
        Some(CopyRange {
            source: FileHandle(numbers.u64()?),
            source_offset: numbers.u64()?,
            target_number: INodeNo(numbers.u64()?),
            target: FileHandle(numbers.u64()?),
            target_offset: numbers.u64()?,
            length: numbers.u64()?,
        })
    }
}
