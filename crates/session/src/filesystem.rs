//! What a file system implements to be served: a method for each request.
//!
//! What it does not implement the kernel is told so (`ENOSYS`), and it does not ask again where it
//! can do without. Names are single components. The thread that calls serves other requests only when the method
//! has returned; the answer may come later.

use std::ffi::OsStr;

use rustix::io::Errno;

use crate::agreement::{Agreed, KernelConfig};
use crate::listing::{ReplyDirectory, ReplyDirectoryPlus};
use crate::reply::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};
use crate::request::{Allocation, AskedLock, Changes, CopyRange, Rename, Request, Write};
use crate::values::{FileHandle, INodeNo, LockOwner, OpenFlags};

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) -> $reply:ty;)+) => {
        $($(#[$doc])*
        #[allow(unused_variables)]
        fn $name(&self, by: &Request, $($argument: $kind,)* reply: $reply) {
            reply.error(Errno::NOSYS);
        })+
    };
}

/// Called by several threads at once.
pub trait Filesystem: Send + Sync + 'static {
    /// Before the first request: what is asked of the kernel.
    fn init(&mut self, config: &mut KernelConfig) {
        let _ = config;
    }

    /// Instead of [`Filesystem::init`], where somebody else has begun the session and agreed with the kernel.
    fn go_on(&mut self, agreed: &Agreed) {
        let _ = agreed;
    }

    /// A request has come that is to be answered; before its own method is called.
    fn asked(&self, by: &Request) {
        let _ = by;
    }

    /// The kernel has dropped an inode that it was told of so many times. It has no answer.
    fn forget(&self, by: &Request, number: INodeNo, lookups: u64) {
        let _ = (by, number, lookups);
    }

    requests! {
        lookup(parent: INodeNo, name: &OsStr) -> ReplyEntry;
        getattr(number: INodeNo, fh: Option<FileHandle>) -> ReplyAttr;
        setattr(number: INodeNo, fh: Option<FileHandle>, changes: &Changes) -> ReplyAttr;
        readlink(number: INodeNo) -> ReplyData;
        /// The mode has the kind of file.
        mknod(parent: INodeNo, name: &OsStr, mode: u32, rdev: u32) -> ReplyEntry;
        mkdir(parent: INodeNo, name: &OsStr, mode: u32) -> ReplyEntry;
        symlink(parent: INodeNo, name: &OsStr, target: &OsStr) -> ReplyEntry;
        link(number: INodeNo, parent: INodeNo, name: &OsStr) -> ReplyEntry;
        unlink(parent: INodeNo, name: &OsStr) -> ReplyEmpty;
        rmdir(parent: INodeNo, name: &OsStr) -> ReplyEmpty;
        rename(names: &Rename<'_>) -> ReplyEmpty;
        create(parent: INodeNo, name: &OsStr, mode: u32, flags: OpenFlags) -> ReplyCreate;
        open(number: INodeNo, flags: OpenFlags) -> ReplyOpen;
        read(number: INodeNo, fh: FileHandle, offset: u64, size: u32) -> ReplyData;
        write(number: INodeNo, to: &Write, data: &[u8]) -> ReplyWrite;
        /// A descriptor was closed.
        flush(number: INodeNo, fh: FileHandle, owner: LockOwner) -> ReplyEmpty;
        fsync(number: INodeNo, fh: FileHandle) -> ReplyEmpty;
        /// The last descriptor was closed.
        release(number: INodeNo, fh: FileHandle) -> ReplyEmpty;
        fallocate(number: INodeNo, space: &Allocation) -> ReplyEmpty;
        lseek(number: INodeNo, fh: FileHandle, offset: i64, whence: i32) -> ReplyLseek;
        copy_file_range(range: &CopyRange) -> ReplyWrite;
        getlk(number: INodeNo, asked: &AskedLock) -> ReplyLock;
        /// `waits`: until it can be had.
        setlk(number: INodeNo, asked: &AskedLock, waits: bool) -> ReplyEmpty;
        opendir(number: INodeNo) -> ReplyOpen;
        readdir(number: INodeNo, fh: FileHandle, offset: u64) -> ReplyDirectory;
        readdirplus(number: INodeNo, fh: FileHandle, offset: u64) -> ReplyDirectoryPlus;
        releasedir(number: INodeNo, fh: FileHandle) -> ReplyEmpty;
        fsyncdir(number: INodeNo, fh: FileHandle) -> ReplyEmpty;
        statfs() -> ReplyStatfs;
        /// The flags are those of setxattr(2).
        setxattr(number: INodeNo, name: &OsStr, value: &[u8], flags: i32) -> ReplyEmpty;
        getxattr(number: INodeNo, name: &OsStr, size: u32) -> ReplyXattr;
        listxattr(number: INodeNo, size: u32) -> ReplyXattr;
        removexattr(number: INodeNo, name: &OsStr) -> ReplyEmpty;
        /// A device control, whose arguments are not passed on.
        ioctl(number: INodeNo) -> ReplyEmpty;
        /// A question which of a file's events have come, which is not passed on.
        poll(number: INodeNo) -> ReplyEmpty;
    }
}
