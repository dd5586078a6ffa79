//! One callback for each request of the kernel.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use tidefs_fs::{Fs, Handle, SetAttr};
use tidefs_store::Store;

use super::Adapter;
use super::convert::{ino, is_ordinary, open_mode, set_time, space_mode};
use super::kernel::negotiate;
use super::locks::Asked;
use super::writing::Write;
use crate::errno;

/// Of one request: until it is answered the program cannot be ended.
const COPY_BYTES_MAX: u64 = 16 << 20;

impl<S: Store> Filesystem for Adapter<S> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config, &self.kernel, self.passthrough);
        Ok(())
    }

    fn lookup(&self, by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turns.begin();
        self.look_up(by, ino(parent), name, reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        let _turn = self.turns.begin();
        self.forget_inode(ino(number), lookups);
    }

    fn getattr(&self, by: &Request, number: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.turns.begin();
        self.tell_attributes(by, ino(number), fh.map(handle), reply);
    }

    fn setattr(
        &self,
        by: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.turns.begin();
        let clear_privileges = size.is_some() && is_ordinary(by);
        let changes = SetAttr {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(Into::into),
            clear_privileges,
        };
        self.change_attributes(by, ino(number), fh, changes, reply);
    }

    fn readlink(&self, by: &Request, number: INodeNo, reply: ReplyData) {
        let _turn = self.turns.begin();
        self.read_link(by, ino(number), reply);
    }

    fn mknod(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        self.make_node(by, (ino(parent), name), (mode, rdev), reply);
    }

    fn mkdir(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        self.make_directory(by, (ino(parent), name), mode & 0o7777, reply);
    }

    fn unlink(&self, by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.remove_file(by, ino(parent), name, reply);
    }

    fn rmdir(&self, by: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.remove_directory(by, ino(parent), name, reply);
    }

    fn symlink(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        self.make_symlink(by, (ino(parent), name), target.as_os_str(), reply);
    }

    fn rename(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        self.rename_file(by, (ino(parent), name), (ino(new_parent), new_name), flags, reply);
    }

    fn link(
        &self,
        by: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        self.link_file(by, ino(number), (ino(new_parent), new_name), reply);
    }

    fn open(&self, by: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _turn = self.turns.begin();
        self.open_file(by, number, open_mode(flags), reply);
    }

    fn create(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.turns.begin();
        self.create_file(
            by,
            (ino(parent), name),
            mode & 0o7777,
            open_mode(OpenFlags(flags)),
            reply,
        );
    }

    fn read(
        &self,
        by: &Request,
        _number: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.turns.begin();
        self.read_file(by, handle(fh), offset, size as usize, reply);
    }

    fn write(
        &self,
        by: &Request,
        number: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.begin();
        let asked = Write { number, fh, offset, write_flags, flags };
        self.write_file(by, &asked, data, reply);
    }

    fn flush(&self, by: &Request, _: INodeNo, fh: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.flush_file(by, handle(fh), owner, reply);
    }

    fn getlk(
        &self,
        by: &Request,
        _number: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let _turn = self.turns.begin();
        self.find_lock(by, fh, &Asked { owner, start, end, kind, pid }, reply);
    }

    fn setlk(
        &self,
        by: &Request,
        number: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        let asked = Asked { owner, start, end, kind, pid };
        self.set_lock(by, number, fh, &asked, waits, reply);
    }

    fn fsync(&self, by: &Request, _: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.sync_file(by, handle(fh), reply);
    }

    fn release(
        &self,
        by: &Request,
        number: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        self.answers.leave_backing(ino(number));
        self.release_file(by, handle(fh), reply);
    }

    fn fallocate(
        &self,
        by: &Request,
        number: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        let ordinary = is_ordinary(by);
        let allocate =
            move |fs: &Fs<S>| fs.allocate(handle(fh), offset, length, space_mode(mode)?, ordinary);
        let may_grow = mode & libc::FALLOC_FL_KEEP_SIZE == 0;
        let growth = may_grow.then(|| offset.saturating_add(length));
        self.allocate(by, ino(number), growth, allocate, reply);
    }

    fn lseek(
        &self,
        by: &Request,
        _number: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _turn = self.turns.begin();
        self.find_data_or_hole(by, handle(fh), (offset, whence), reply);
    }

    fn copy_file_range(
        &self,
        by: &Request,
        _source: INodeNo,
        source: FileHandle,
        source_offset: u64,
        _target: INodeNo,
        target: FileHandle,
        target_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.turns.begin();
        // The kernel hands the shorter copy on, and the program asks for the rest.
        let length = length.min(COPY_BYTES_MAX);
        let (source, target) = (handle(source), handle(target));
        let ordinary = is_ordinary(by);
        let copy = move |fs: &Fs<S>| {
            fs.copy_range(source, source_offset, target, target_offset, length, ordinary)
        };
        self.copy(by, copy, reply);
    }

    fn opendir(&self, by: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.turns.begin();
        self.open_directory(by, ino(number), reply);
    }

    fn readdir(
        &self,
        by: &Request,
        _number: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let _turn = self.turns.begin();
        self.list(by, handle(fh), offset, reply);
    }

    fn readdirplus(
        &self,
        by: &Request,
        number: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.turns.begin();
        self.list_with_attributes(by, ino(number), (handle(fh), offset), reply);
    }

    fn releasedir(
        &self,
        by: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        self.serve_empty(by, "releasedir", reply, move |fs| fs.releasedir(handle(fh)));
    }

    fn fsyncdir(&self, by: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.serve_empty(by, "fsyncdir", reply, |fs| fs.sync_directory());
    }

    fn statfs(&self, by: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _turn = self.turns.begin();
        self.tell_totals(by, reply);
    }

    fn setxattr(
        &self,
        by: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        self.set_attribute(by, ino(number), (name, value), flags, reply);
    }

    fn getxattr(&self, by: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.turns.begin();
        self.tell_attribute(by, ino(number), name, size, reply);
    }

    fn listxattr(&self, by: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.turns.begin();
        self.list_attributes(by, ino(number), size, reply);
    }

    fn removexattr(&self, by: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.remove_attribute(by, ino(number), name, reply);
    }

    fn ioctl(
        &self,
        _: &Request,
        _number: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _output_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(errno::NO_DEVICE_CONTROL);
    }

    fn poll(
        &self,
        _: &Request,
        _number: INodeNo,
        _fh: FileHandle,
        _notifier: PollNotifier,
        _events: PollEvents,
        _flags: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(errno::ALWAYS_READY);
    }
}

fn handle(number: FileHandle) -> Handle {
    Handle(number.0)
}
