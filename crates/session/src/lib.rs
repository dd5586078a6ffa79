//! A FUSE session: requests of the kernel in, answers and notices out.
//!
//! [`Session`] takes the kernel's connection of a mount that somebody else has made, agrees with the
//! kernel on what both can do, and hands each request to a [`Filesystem`] until the mount is gone. A request is
//! answered by the reply that comes with it, at once or later, on any thread; one that is dropped unanswered
//! is answered with an input/output error. What the kernel is told unasked goes through a [`Notifier`].
//!
//! Nothing here knows a file system, a path or a mount table. The layout of all messages is that of
//! `linux/fuse.h`; numbers are in the machine's own order of bytes.

mod agreement;
mod answer;
mod arguments;
mod backing;
mod device;
mod dispatch;
mod encode;
mod error;
mod filesystem;
mod flags;
mod halt;
mod listing;
mod notices;
mod operation;
mod reply;
mod request;
mod rings;
mod session;
mod values;

#[cfg(test)]
mod testing;

pub use agreement::{Agreed, KernelConfig};
pub use backing::BackingId;
pub use error::SessionError;
pub use filesystem::Filesystem;
pub use flags::{FopenFlags, InitFlags, LockFlags, WriteFlags};
pub use halt::Halt;
pub use listing::{ReplyDirectory, ReplyDirectoryPlus};
pub use notices::Notifier;
pub use reply::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};
pub use request::{Allocation, AskedLock, Changes, CopyRange, Rename, Request, Write};
pub use rustix::io::Errno;
pub use session::{Options, Session};
pub use values::{
    FileAttr, FileHandle, FileType, Generation, INodeNo, LockOwner, Moment, OpenFlags, StatFs,
    TimeOrNow,
};
