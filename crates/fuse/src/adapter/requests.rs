//! One callback for each request of the kernel.

use std::ffi::OsStr;

use tidefs_fs::{Fs, Handle, SetAttr};
use tidefs_session::{
    Agreed, Allocation, AskedLock, Changes, CopyRange, FileHandle, Filesystem, INodeNo,
    KernelConfig, LockOwner, OpenFlags, Rename, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, Write,
};
use tidefs_store::Store;

use super::Adapter;
use super::convert::{ino, is_ordinary, open_mode, set_time, space_mode, time_of};
use crate::commands::Call;
use crate::errno;
use crate::kernel::{go_on as go_on_with, negotiate};

/// Of one request: until it is answered the program cannot be ended.
const COPY_BYTES_MAX: u64 = 16 << 20;

impl<S: Store> Filesystem for Adapter<S> {
    fn init(&mut self, config: &mut KernelConfig) {
        negotiate(config, &self.kernel, self.passthrough);
    }

    fn go_on(&mut self, agreed: &Agreed) {
        go_on_with(agreed, &self.kernel);
    }

    fn asked(&self, by: &Request) {
        let call = match (by.opens(), by.uses_an_open_file()) {
            (true, _) => Call::Opens,
            (_, true) => Call::Uses,
            _ => Call::Other,
        };
        self.kernel.commands.asked(by.pid(), call);
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
        fh: Option<FileHandle>,
        asked: &Changes,
        reply: ReplyAttr,
    ) {
        let _turn = self.turns.begin();
        let changes = SetAttr {
            mode: asked.mode.map(|mode| mode & 0o7777),
            uid: asked.uid,
            gid: asked.gid,
            size: asked.size,
            atime: asked.atime.map(set_time),
            mtime: asked.mtime.map(set_time),
            ctime: asked.ctime.map(time_of),
            clear_privileges: asked.size.is_some() && is_ordinary(by),
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
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        self.make_node(by, (ino(parent), name), (mode, rdev), reply);
    }

    fn mkdir(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, reply: ReplyEntry) {
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
        target: &OsStr,
        reply: ReplyEntry,
    ) {
        let _turn = self.turns.begin();
        self.make_symlink(by, (ino(parent), name), target, reply);
    }

    fn rename(&self, by: &Request, names: &Rename<'_>, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        let from = (ino(names.parent), names.name);
        let to = (ino(names.new_parent), names.new_name);
        self.rename_file(by, from, to, names.flags, reply);
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
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let _turn = self.turns.begin();
        self.create_file(by, (ino(parent), name), mode & 0o7777, open_mode(flags), reply);
    }

    fn read(
        &self,
        by: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        reply: ReplyData,
    ) {
        let _turn = self.turns.begin();
        self.read_file(by, handle(fh), offset, size as usize, reply);
    }

    fn write(&self, by: &Request, number: INodeNo, to: &Write, data: &[u8], reply: ReplyWrite) {
        let _turn = self.turns.begin();
        self.write_file(by, number, to, data, reply);
    }

    fn flush(&self, by: &Request, _: INodeNo, fh: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.flush_file(by, handle(fh), owner, reply);
    }

    fn getlk(&self, by: &Request, _: INodeNo, asked: &AskedLock, reply: ReplyLock) {
        let _turn = self.turns.begin();
        self.find_lock(by, asked, reply);
    }

    fn setlk(
        &self,
        by: &Request,
        number: INodeNo,
        asked: &AskedLock,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.turns.begin();
        self.set_lock(by, number, asked, waits, reply);
    }

    fn fsync(&self, by: &Request, _: INodeNo, fh: FileHandle, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.sync_file(by, handle(fh), reply);
    }

    fn release(&self, by: &Request, number: INodeNo, fh: FileHandle, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.answers.leave_backing(ino(number));
        self.release_file(by, handle(fh), reply);
    }

    fn fallocate(&self, by: &Request, number: INodeNo, space: &Allocation, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        let Allocation { fh, offset, length, mode } = *space;
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

    fn copy_file_range(&self, by: &Request, range: &CopyRange, reply: ReplyWrite) {
        let _turn = self.turns.begin();
        // The kernel hands the shorter copy on, and the program asks for the rest.
        let length = range.length.min(COPY_BYTES_MAX);
        let (from, to) = (range.source_offset, range.target_offset);
        let (source, target) = (handle(range.source), handle(range.target));
        let ordinary = is_ordinary(by);
        let copy = move |fs: &Fs<S>| fs.copy_range(source, from, target, to, length, ordinary);
        self.copy(by, (source, target), copy, reply);
    }

    fn opendir(&self, by: &Request, number: INodeNo, reply: ReplyOpen) {
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

    fn releasedir(&self, by: &Request, _: INodeNo, fh: FileHandle, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.serve_empty(by, "releasedir", reply, move |fs| fs.releasedir(handle(fh)));
    }

    fn fsyncdir(&self, by: &Request, _: INodeNo, _: FileHandle, reply: ReplyEmpty) {
        let _turn = self.turns.begin();
        self.serve_empty(by, "fsyncdir", reply, |fs| fs.sync_directory());
    }

    fn statfs(&self, by: &Request, reply: ReplyStatfs) {
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

    fn ioctl(&self, _: &Request, _: INodeNo, reply: ReplyEmpty) {
        reply.error(errno::NO_DEVICE_CONTROL);
    }

    fn poll(&self, _: &Request, _: INodeNo, reply: ReplyEmpty) {
        reply.error(errno::ALWAYS_READY);
    }
}

fn handle(number: FileHandle) -> Handle {
    Handle(number.0)
}
