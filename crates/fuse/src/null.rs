//! A layer with no file system behind it: names and sizes in one table, reads answer zeros, and
//! what is written is dropped. Mounted as every session is, it shows what the kernel, the FUSE
//! library and the system calls cost by themselves: the floor that benches compare with.
//!
//! It keeps no permissions, times, links or attributes, and serves nothing else well.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, UNIX_EPOCH};

use tidefs_fs::{Error, LIFETIME_MAX};
use tidefs_session::{
    Changes, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, StatFs, Write,
};

use crate::adapter::{GENERATION, absence, open_mode, served_flags};
use crate::errno;
use crate::error::MountError;
use crate::kernel::{Kernel, negotiate};
use crate::options::MountOptions;
use crate::session::{Served, Session};

/// As long as a file system's mount lets the kernel keep names, and that there is none.
const LIFETIME: Duration = LIFETIME_MAX;
/// What every read is answered from; as large as the largest request.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Mounts the layer.
pub fn mount(options: &MountOptions) -> Result<Session, MountError> {
    let kernel = Arc::new(Kernel::default());
    let layer =
        Layer { kernel: kernel.clone(), tree: RwLock::new(Tree::new()), listed: Mutex::default() };
    Session::start(layer, None, Arc::new(Nothing), kernel, (options, None))
}

struct Nothing;

impl Served for Nothing {
    fn beat(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn keep_up(&self) {}

    fn leave(&self) -> Result<(), Error> {
        Ok(())
    }
}

struct Layer {
    kernel: Arc<Kernel>,
    tree: RwLock<Tree>,
    listed: Mutex<Listed>,
}

/// A directory's names as its last listing found them when it began: each is handed out at the cost of
/// itself, however many there are. One for all programs.
#[derive(Default)]
struct Listed {
    directory: u64,
    names: Vec<(OsString, u64)>,
}

struct Tree {
    names: HashMap<(u64, OsString), u64>,
    inodes: HashMap<u64, Inode>,
    next: u64,
}

#[derive(Clone, Copy)]
struct Inode {
    kind: FileType,
    size: u64,
}

impl Tree {
    fn new() -> Tree {
        let root = Inode { kind: FileType::Directory, size: 0 };
        Tree { names: HashMap::new(), inodes: HashMap::from([(1, root)]), next: 2 }
    }

    fn attr(&self, ino: u64) -> Option<FileAttr> {
        let inode = self.inodes.get(&ino)?;
        Some(FileAttr {
            ino: INodeNo(ino),
            size: inode.size,
            blocks: inode.size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            kind: inode.kind,
            perm: 0o777,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 64 << 10,
        })
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Option<FileAttr> {
        self.attr(*self.names.get(&(parent.0, name.to_owned()))?)
    }

    fn make(&mut self, parent: INodeNo, name: &OsStr, kind: FileType) -> Option<FileAttr> {
        let ino = self.next;
        self.next += 1;
        self.names.insert((parent.0, name.to_owned()), ino);
        self.inodes.insert(ino, Inode { kind, size: 0 });
        self.attr(ino)
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let key = (parent.0, name.to_owned());
        let ino = self.names.remove(&key).ok_or(errno::of(&Error::NotFound))?;
        self.inodes.remove(&ino);
        Ok(())
    }

    fn names_of(&self, directory: INodeNo) -> Vec<(OsString, u64)> {
        let here = self.names.iter().filter(|((parent, _), _)| *parent == directory.0);
        here.map(|((_, name), ino)| (name.clone(), *ino)).collect()
    }

    fn resize(&mut self, ino: INodeNo, size: impl FnOnce(u64) -> u64) {
        if let Some(inode) = self.inodes.get_mut(&ino.0) {
            inode.size = size(inode.size);
        }
    }
}

impl Layer {
    fn look(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a file system's handle that nobody else has changed, on which nobody has locks.
    fn flags(&self, flags: OpenFlags) -> FopenFlags {
        let mode = open_mode(flags);
        served_flags(&self.kernel, mode, mode.write) | FopenFlags::KEEP_CACHE
    }

    /// Hands out the names of a directory from `offset` on until `is_full`.
    fn list(
        &self,
        directory: INodeNo,
        offset: u64,
        mut is_full: impl FnMut(u64, &OsStr, &FileAttr) -> bool,
    ) {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let tree = self.look();
        if offset == 0 || listed.directory != directory.0 {
            *listed = Listed { directory: directory.0, names: tree.names_of(directory) };
        }
        for (next, (name, ino)) in (1..).zip(&listed.names).skip(offset as usize) {
            let Some(attr) = tree.attr(*ino) else { continue };
            if is_full(next, name, &attr) {
                break;
            }
        }
    }
}

fn reply_entry(reply: ReplyEntry, found: Option<FileAttr>) {
    match found {
        Some(attr) => reply.entry(&LIFETIME, &attr, GENERATION),
        None => reply.error(errno::of(&Error::NotFound)),
    }
}

fn reply_attr(reply: ReplyAttr, found: Option<FileAttr>) {
    match found {
        Some(attr) => reply.attr(&LIFETIME, &attr),
        None => reply.error(errno::of(&Error::NotFound)),
    }
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Layer {
    fn init(&mut self, config: &mut KernelConfig) {
        negotiate(config, &self.kernel, false);
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look().find(parent, name);
        reply.entry(&LIFETIME, &found.unwrap_or_else(absence), GENERATION);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.look().attr(ino.0);
        reply_attr(reply, found);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<FileHandle>,
        changes: &Changes,
        reply: ReplyAttr,
    ) {
        let mut tree = self.change();
        tree.resize(ino, |old| changes.size.unwrap_or(old));
        let found = tree.attr(ino.0);
        drop(tree);
        reply_attr(reply, found);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, reply: ReplyEntry) {
        let made = self.change().make(parent, name, FileType::Directory);
        reply_entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.change().remove(parent, name);
        reply_empty(reply, removed);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.change().remove(parent, name);
        reply_empty(reply, removed);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let made = self.change().make(parent, name, FileType::RegularFile);
        match made {
            Some(attr) => {
                let flags = self.flags(flags);
                reply.created(&LIFETIME, &attr, GENERATION, FileHandle(0), flags, None);
            }
            None => reply.error(errno::of(&Error::NotFound)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.0 & libc::O_TRUNC != 0 {
            self.change().resize(ino, |_| 0);
        }
        reply.opened(FileHandle(0), self.flags(flags), None);
    }

    fn opendir(&self, _: &Request, _: INodeNo, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty(), None);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, _: FileHandle, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(&self, _: &Request, _: INodeNo, _: FileHandle, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        reply: ReplyData,
    ) {
        let end = self.look().inodes.get(&ino.0).map_or(0, |inode| inode.size);
        let length = end.saturating_sub(offset).min(u64::from(size)) as usize;
        reply.data(&ZEROS[..length.min(ZEROS.len())]);
    }

    fn write(&self, _: &Request, ino: INodeNo, to: &Write, data: &[u8], reply: ReplyWrite) {
        let end = to.offset + data.len() as u64;
        self.change().resize(ino, |old| old.max(end));
        reply.written(data.len() as u32);
    }

    fn statfs(&self, _: &Request, reply: ReplyStatfs) {
        let (transfer_bytes, name_bytes_max) = (512, 255);
        reply.statfs(&StatFs { transfer_bytes, name_bytes_max, ..StatFs::default() });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        directory: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.list(directory, offset, |next, name, attr| reply.add(attr.ino, next, attr.kind, name));
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        directory: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.list(directory, offset, |next, name, attr| {
            reply.add(attr.ino, next, name, &LIFETIME, attr, GENERATION)
        });
        reply.ok();
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(errno::of(&Error::NoAttribute));
    }
}
