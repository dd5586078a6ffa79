//! From a request's number to the method that serves it.

use rustix::io::Errno;

use crate::answer::Answer;
use crate::arguments::{Body, Numbers, Rest};
use crate::filesystem::Filesystem;
use crate::flags::WriteFlags;
use crate::listing::{ReplyDirectory, ReplyDirectoryPlus};
use crate::operation as op;
use crate::reply::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};
use crate::request::{Allocation, AskedLock, Changes, CopyRange, Rename, Request, Write};
use crate::values::{FileHandle, INodeNo, LockOwner, OpenFlags};

/// An open file or directory, and where in it.
const READ_BYTES: usize = 40;
/// The same without a place.
const HANDLE_BYTES: usize = 24;
/// A handle, and how it is synchronized.
const SYNC_BYTES: usize = 16;

/// Has a request served, which answers it. A request whose arguments are too short fails.
pub(crate) fn dispatch<F: Filesystem>(layer: &F, by: &Request, body: Body<'_>, answer: Answer) {
    let Request { unique, opcode, node, .. } = *by;
    tracing::trace!(unique, opcode, node, thread = by.pid(), "a request");
    let mut answer = Some(answer);
    if !matches!(by.opcode, op::FORGET | op::BATCH_FORGET) {
        layer.asked(by);
    }
    let understood = match by.opcode {
        op::FORGET | op::BATCH_FORGET => {
            answer.take().into_iter().for_each(Answer::none);
            forget(layer, by, body)
        }
        op::LOOKUP
        | op::READLINK
        | op::SYMLINK
        | op::MKNOD
        | op::MKDIR
        | op::UNLINK
        | op::RMDIR
        | op::RENAME
        | op::RENAME2
        | op::LINK
        | op::CREATE => names(layer, by, body, &mut answer),
        op::OPEN
        | op::READ
        | op::WRITE
        | op::RELEASE
        | op::FSYNC
        | op::FLUSH
        | op::FALLOCATE
        | op::LSEEK
        | op::COPY_FILE_RANGE => files(layer, by, body, &mut answer),
        op::OPENDIR | op::READDIR | op::READDIRPLUS | op::RELEASEDIR | op::FSYNCDIR => {
            directories(layer, by, body, &mut answer)
        }
        op::GETATTR
        | op::SETATTR
        | op::STATFS
        | op::SETXATTR
        | op::GETXATTR
        | op::LISTXATTR
        | op::REMOVEXATTR
        | op::GETLK
        | op::SETLK
        | op::SETLKW
        | op::IOCTL
        | op::POLL => about(layer, by, body, &mut answer),
        _ => {
            // Interrupts are among them: told so, the kernel sends none any more.
            tracing::debug!(opcode = by.opcode, "a request that is not served");
            answer.take().into_iter().for_each(|answer| answer.error(Errno::NOSYS));
            Some(())
        }
    };
    if understood.is_none() {
        tracing::error!(opcode = by.opcode, "the arguments of a request are too short");
        answer.into_iter().for_each(|answer| answer.error(Errno::IO));
    }
}

fn forget<F: Filesystem>(layer: &F, by: &Request, body: Body<'_>) -> Option<()> {
    let (mut numbers, rest) = body.split(8)?;
    if by.opcode == op::FORGET {
        layer.forget(by, INodeNo(by.node), numbers.u64()?);
        return Some(());
    }
    let count = numbers.u32()?;
    let mut forgotten = Numbers(rest.0);
    for _ in 0..count {
        layer.forget(by, INodeNo(forgotten.u64()?), forgotten.u64()?);
    }
    Some(())
}

/// Names of a directory, and what is made with one.
fn names<F: Filesystem>(
    layer: &F,
    by: &Request,
    body: Body<'_>,
    answer: &mut Option<Answer>,
) -> Option<()> {
    let parent = INodeNo(by.node);
    let split = |bytes| body.split(bytes);
    match by.opcode {
        op::LOOKUP => layer.lookup(by, parent, body.rest().name()?, ReplyEntry(answer.take()?)),
        op::READLINK => layer.readlink(by, parent, ReplyData(answer.take()?)),
        op::SYMLINK => {
            let mut rest = body.rest();
            let (name, target) = (rest.name()?, rest.name()?);
            layer.symlink(by, parent, name, target, ReplyEntry(answer.take()?));
        }
        op::MKNOD => {
            let (mut numbers, mut rest) = split(16)?;
            let (mode, rdev) = (numbers.u32()?, numbers.u32()?);
            layer.mknod(by, parent, rest.name()?, mode, rdev, ReplyEntry(answer.take()?));
        }
        op::MKDIR => {
            let (mut numbers, mut rest) = split(8)?;
            let (mode, name) = (numbers.u32()?, rest.name()?);
            layer.mkdir(by, parent, name, mode, ReplyEntry(answer.take()?));
        }
        op::UNLINK => layer.unlink(by, parent, body.rest().name()?, ReplyEmpty(answer.take()?)),
        op::RMDIR => layer.rmdir(by, parent, body.rest().name()?, ReplyEmpty(answer.take()?)),
        op::RENAME => rename(layer, by, (split(8)?, false), answer)?,
        op::RENAME2 => rename(layer, by, (split(16)?, true), answer)?,
        op::LINK => {
            let (mut numbers, mut rest) = split(8)?;
            let (number, name) = (INodeNo(numbers.u64()?), rest.name()?);
            layer.link(by, number, parent, name, ReplyEntry(answer.take()?));
        }
        _ => {
            let (mut numbers, mut rest) = split(16)?;
            let (flags, mode) = (OpenFlags(numbers.i32()?), numbers.u32()?);
            layer.create(by, parent, rest.name()?, mode, flags, ReplyCreate(answer.take()?));
        }
    }
    Some(())
}

fn rename<F: Filesystem>(
    layer: &F,
    by: &Request,
    ((mut numbers, mut rest), has_flags): ((Numbers<'_>, Rest<'_>), bool),
    answer: &mut Option<Answer>,
) -> Option<()> {
    let new_parent = INodeNo(numbers.u64()?);
    let flags = if has_flags { numbers.u32()? } else { 0 };
    let (parent, name, new_name) = (INodeNo(by.node), rest.name()?, rest.name()?);
    let names = Rename { parent, name, new_parent, new_name, flags };
    layer.rename(by, &names, ReplyEmpty(answer.take()?));
    Some(())
}

/// Open files.
fn files<F: Filesystem>(
    layer: &F,
    by: &Request,
    body: Body<'_>,
    answer: &mut Option<Answer>,
) -> Option<()> {
    let number = INodeNo(by.node);
    let handle = |bytes| handle(body, bytes);
    match by.opcode {
        op::OPEN => {
            let (mut numbers, _) = body.split(8)?;
            let flags = OpenFlags(numbers.i32()?);
            layer.open(by, number, flags, ReplyOpen(answer.take()?));
        }
        op::READ => {
            let (fh, mut numbers) = handle(READ_BYTES)?;
            let (offset, size) = (numbers.u64()?, numbers.u32()?);
            layer.read(by, number, fh, offset, size, ReplyData(answer.take()?));
        }
        op::WRITE => write(layer, by, body, answer)?,
        op::RELEASE => {
            layer.release(by, number, handle(HANDLE_BYTES)?.0, ReplyEmpty(answer.take()?))
        }
        op::FSYNC => layer.fsync(by, number, handle(SYNC_BYTES)?.0, ReplyEmpty(answer.take()?)),
        op::FLUSH => {
            let (fh, mut numbers) = handle(HANDLE_BYTES)?;
            let (_unused, owner) = (numbers.u64()?, LockOwner(numbers.u64()?));
            layer.flush(by, number, fh, owner, ReplyEmpty(answer.take()?));
        }
        op::FALLOCATE => {
            let (fh, mut numbers) = handle(32)?;
            let (offset, length) = (numbers.u64()?, numbers.u64()?);
            let space = Allocation { fh, offset, length, mode: numbers.i32()? };
            layer.fallocate(by, number, &space, ReplyEmpty(answer.take()?));
        }
        op::LSEEK => {
            let (fh, mut numbers) = handle(24)?;
            let (offset, whence) = (numbers.i64()?, numbers.i32()?);
            layer.lseek(by, number, fh, offset, whence, ReplyLseek(answer.take()?));
        }
        _ => {
            let range = CopyRange::parse(body.split(CopyRange::BYTES)?.0)?;
            layer.copy_file_range(by, &range, ReplyWrite(answer.take()?));
        }
    }
    Some(())
}

fn write<F: Filesystem>(
    layer: &F,
    by: &Request,
    body: Body<'_>,
    answer: &mut Option<Answer>,
) -> Option<()> {
    let (mut numbers, rest) = body.split(READ_BYTES)?;
    let (fh, offset) = (FileHandle(numbers.u64()?), numbers.u64()?);
    let (size, flags, _owner) = (numbers.u32()?, numbers.u32()?, numbers.u64()?);
    let (flags, open) = (WriteFlags::from_bits_retain(flags), OpenFlags(numbers.i32()?));
    let to = Write { fh, offset, flags, open };
    let data = rest.bytes(size)?;
    layer.write(by, INodeNo(by.node), &to, data, ReplyWrite(answer.take()?));
    Some(())
}

/// A handle, and the numbers behind it.
fn handle(body: Body<'_>, bytes: usize) -> Option<(FileHandle, Numbers<'_>)> {
    let (mut numbers, _) = body.split(bytes)?;
    Some((FileHandle(numbers.u64()?), numbers))
}

fn directories<F: Filesystem>(
    layer: &F,
    by: &Request,
    body: Body<'_>,
    answer: &mut Option<Answer>,
) -> Option<()> {
    let number = INodeNo(by.node);
    match by.opcode {
        op::OPENDIR => layer.opendir(by, number, ReplyOpen(answer.take()?)),
        op::RELEASEDIR => {
            let (fh, _) = handle(body, HANDLE_BYTES)?;
            layer.releasedir(by, number, fh, ReplyEmpty(answer.take()?));
        }
        op::FSYNCDIR => {
            let (fh, _) = handle(body, SYNC_BYTES)?;
            layer.fsyncdir(by, number, fh, ReplyEmpty(answer.take()?));
        }
        _ => {
            let (fh, mut numbers) = handle(body, READ_BYTES)?;
            let (offset, size, answer) = (numbers.u64()?, numbers.u32()?, answer.take()?);
            if by.opcode == op::READDIR {
                layer.readdir(by, number, fh, offset, ReplyDirectory::new(answer, size));
            } else {
                let reply = ReplyDirectoryPlus::new(answer, size);
                layer.readdirplus(by, number, fh, offset, reply);
            }
        }
    }
    Some(())
}

/// Attributes, locks, and the file system as a whole.
fn about<F: Filesystem>(
    layer: &F,
    by: &Request,
    body: Body<'_>,
    answer: &mut Option<Answer>,
) -> Option<()> {
    let number = INodeNo(by.node);
    match by.opcode {
        op::GETATTR => {
            const HAS_HANDLE: u32 = 1;
            let (mut numbers, _) = body.split(16)?;
            let (flags, _unused, fh) = (numbers.u32()?, numbers.u32()?, numbers.u64()?);
            let fh = (flags & HAS_HANDLE != 0).then_some(FileHandle(fh));
            layer.getattr(by, number, fh, ReplyAttr(answer.take()?));
        }
        op::SETATTR => {
            let (fh, changes) = Changes::parse(body.split(Changes::BYTES)?.0)?;
            layer.setattr(by, number, fh, &changes, ReplyAttr(answer.take()?));
        }
        op::STATFS => layer.statfs(by, ReplyStatfs(answer.take()?)),
        op::SETXATTR => {
            let (mut numbers, mut rest) = body.split(8)?;
            let (size, flags) = (numbers.u32()?, numbers.i32()?);
            let name = rest.name()?;
            let value = rest.bytes(size)?;
            layer.setxattr(by, number, name, value, flags, ReplyEmpty(answer.take()?));
        }
        op::GETXATTR => {
            let (mut numbers, mut rest) = body.split(8)?;
            let (size, name) = (numbers.u32()?, rest.name()?);
            layer.getxattr(by, number, name, size, ReplyXattr(answer.take()?));
        }
        op::LISTXATTR => {
            let size = body.split(8)?.0.u32()?;
            layer.listxattr(by, number, size, ReplyXattr(answer.take()?));
        }
        op::REMOVEXATTR => {
            layer.removexattr(by, number, body.rest().name()?, ReplyEmpty(answer.take()?))
        }
        op::GETLK => {
            let asked = AskedLock::parse(body.split(AskedLock::BYTES)?.0)?;
            layer.getlk(by, number, &asked, ReplyLock(answer.take()?));
        }
        op::SETLK | op::SETLKW => {
            let asked = AskedLock::parse(body.split(AskedLock::BYTES)?.0)?;
            let waits = by.opcode == op::SETLKW;
            layer.setlk(by, number, &asked, waits, ReplyEmpty(answer.take()?));
        }
        op::IOCTL => layer.ioctl(by, number, ReplyEmpty(answer.take()?)),
        _ => layer.poll(by, number, ReplyEmpty(answer.take()?)),
    }
    Some(())
}
