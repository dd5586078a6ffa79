//! Answers that more than one request gives: entries, attributes, opened files, extended
//! attributes.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tidefs_fs::{
    AskedName, Attr, Entry, Error, Fs, Lifetimes, NAME_BYTES_MAX, OpenMode, Opened, Outgrown,
    Standing, StatFs,
};
use tidefs_model::Ino;
use tidefs_session::{
    BackingId, Errno, FileHandle, FopenFlags, INodeNo, ReplyAttr, ReplyCreate, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use tidefs_store::Store;

use super::Kernel;
use super::convert::{GENERATION, absence, file_attr, shorter};
use crate::errno;
use crate::misplaced::Misplaced;
use crate::passthrough::Backings;

/// What `statfs` counts in. Small, so that little files show.
const STATFS_BLOCK_BYTES: u32 = 4096;

/// What it takes to answer, also from a thread where a request has waited.
pub struct Answers<S: Store> {
    fs: Arc<Fs<S>>,
    kernel: Arc<Kernel>,
    misplaced: Arc<Misplaced>,
    backings: Arc<Backings>,
}

/// What an answer has that the kernel may keep.
#[derive(Debug)]
pub enum Kept {
    /// The attributes of an inode.
    Attributes(Ino),
    /// A name, with the attributes of the inode that it leads to, if it leads to one.
    Name(Name, Option<Ino>),
    /// Names and attributes of many, which are kept by a lone mount's kernel alone, and noted one by one.
    Listing,
    /// Nothing.
    Nothing,
}

/// A name that the kernel asks for, or makes.
#[derive(Debug)]
pub struct Name {
    parent: Ino,
    name: Vec<u8>,
    thread: u32,
    is_made: bool,
}

impl Name {
    pub fn looked_up(by: &Request, parent: Ino, name: &[u8]) -> Name {
        Name { parent, name: name.to_vec(), thread: by.pid(), is_made: false }
    }

    pub fn made(by: &Request, parent: Ino, name: &[u8]) -> Name {
        Name { is_made: true, ..Name::looked_up(by, parent, name) }
    }

    fn asked(&self) -> AskedName<'_> {
        let Name { parent, name, thread, is_made } = self;
        AskedName { parent: *parent, name, thread: *thread, is_locked: *is_made }
    }
}

impl<S: Store> Clone for Answers<S> {
    fn clone(&self) -> Answers<S> {
        let (fs, kernel) = (self.fs.clone(), self.kernel.clone());
        let (misplaced, backings) = (self.misplaced.clone(), self.backings.clone());
        Answers { fs, kernel, misplaced, backings }
    }
}

impl<S: Store> Answers<S> {
    pub fn new(fs: Arc<Fs<S>>, kernel: Arc<Kernel>, misplaced: Arc<Misplaced>) -> Answers<S> {
        Answers { fs, kernel, misplaced, backings: Arc::default() }
    }

    pub(super) fn fs(&self) -> Arc<Fs<S>> {
        Arc::clone(&self.fs)
    }

    /// Sends an answer that the kernel may keep, of what was read since `before`. No such answer is under way
    /// when [`Kernel::wait_for_answers`] returns.
    pub(super) fn answer(&self, before: Standing, kept: &Kept, send: impl FnOnce(&Lifetimes)) {
        let lifetimes = || match kept {
            Kept::Attributes(ino) => self.fs.lifetimes_of(*ino, before),
            Kept::Name(name, ino) => self.fs.lifetimes_of_name(&name.asked(), *ino, before),
            Kept::Listing => self.fs.lifetimes_since(before),
            Kept::Nothing => Lifetimes::default(),
        };
        self.kernel.answer(lifetimes, send);
    }

    /// As [`Answers::answer`], with the attributes of inodes. The kernel may have pages of them that are to be
    /// dropped before it learns how long the files are: then the answer waits for that elsewhere.
    pub(super) fn answer_of(
        &self,
        before: Standing,
        inos: impl IntoIterator<Item = Ino>,
        kept: Kept,
        send: impl FnOnce(&Lifetimes) + Send + 'static,
    ) {
        let outgrown = inos.into_iter().filter_map(|ino| Some((ino, self.fs.outgrown(ino)?)));
        let outgrown: Vec<_> = outgrown.collect();
        if outgrown.is_empty() {
            return self.answer(before, &kept, send);
        }
        let files: Vec<_> =
            outgrown.iter().map(|(ino, outgrown)| (INodeNo(ino.0), outgrown.from)).collect();
        let own = self.clone();
        let answer = move || {
            outgrown.into_iter().for_each(|(ino, outgrown)| own.has_dropped(ino, outgrown));
            own.answer(before, &kept, send);
        };
        self.misplaced.drop_before(&files, Box::new(answer));
    }

    /// Of an answer to what was asked before its pages were dropped the kernel believes nothing, and hands it
    /// on to the program all the same, which then must be able to read so far.
    fn has_dropped(&self, ino: Ino, outgrown: Outgrown) {
        self.fs.has_dropped(ino, outgrown);
        let last = outgrown.end.saturating_sub(1);
        if let Some(byte) = self.fs.byte_at(ino, last) {
            self.kernel.reaches(INodeNo(ino.0), last, byte);
        }
    }

    /// A handle was closed.
    pub(super) fn leave_backing(&self, ino: Ino) {
        if self.kernel.passes_through() {
            self.backings.leave(ino);
        }
    }

    /// `before`, here and below: how things stood before it was found out or made.
    pub(super) fn reply_entry(
        &self,
        reply: ReplyEntry,
        before: Standing,
        name: Name,
        result: Result<Entry, Errno>,
    ) {
        match result {
            Ok(Entry { attr, is_whole }) => {
                let kept = Kept::Name(name, Some(attr.ino));
                self.answer_of(before, [attr.ino], kept, move |lifetimes| {
                    let lifetime = if is_whole { lifetimes.attr } else { Duration::ZERO };
                    let attr = file_attr(&attr);
                    reply.entry_with_ttls(&lifetime, &lifetimes.entry, &attr, GENERATION);
                })
            }
            Err(error) => reply.error(error),
        }
    }

    /// As [`Adapter::reply_entry`], but the kernel may keep that there is no such name.
    pub(super) fn reply_looked_up(
        &self,
        reply: ReplyEntry,
        before: Standing,
        name: Name,
        result: Result<Entry, Errno>,
    ) {
        match result {
            Err(Errno::NOENT) => {
                self.answer(before, &Kept::Name(name, None), |lifetimes| {
                    if lifetimes.negative.is_zero() {
                        reply.error(Errno::NOENT);
                    } else {
                        reply.entry(&lifetimes.negative, &absence(), GENERATION);
                    }
                });
            }
            other => self.reply_entry(reply, before, name, other),
        }
    }

    pub(super) fn reply_attr(
        &self,
        reply: ReplyAttr,
        before: Standing,
        result: Result<Attr, Errno>,
    ) {
        match result {
            Ok(attr) => {
                self.answer_of(before, [attr.ino], Kept::Attributes(attr.ino), move |lifetimes| {
                    reply.attr(&lifetimes.attr, &file_attr(&attr));
                })
            }
            Err(error) => reply.error(error),
        }
    }

    /// `by`: the thread that opens.
    pub(super) fn reply_opened(
        &self,
        reply: ReplyOpen,
        by: u32,
        (ino, mode): (Ino, OpenMode),
        opened: Opened,
    ) {
        let handle = FileHandle(opened.handle.0);
        let backing = self.backing(ino, &opened, |file| reply.open_backing(file));
        self.note_opener(by, (ino, mode), handle, backing.is_some());
        let flags = match backing {
            Some(_) => passthrough_flags(mode, self.tells_closes(ino, mode)),
            None => self.own_flags(ino, mode, &opened),
        };
        reply.opened(handle, flags, backing.as_deref());
    }

    pub(super) fn reply_created(
        &self,
        reply: ReplyCreate,
        before: Standing,
        name: Name,
        mode: OpenMode,
        result: Result<(Entry, Opened), Errno>,
    ) {
        let (entry, opened) = match result {
            Ok(created) => created,
            Err(error) => return reply.error(error),
        };
        let handle = FileHandle(opened.handle.0);
        let attr = file_attr(&entry.attr);
        let by = name.thread;
        // One lifetime is told of both, and beside other mounts attributes of open files have none.
        let kept = match before.is_alone() {
            true => Kept::Name(name, Some(entry.attr.ino)),
            false => Kept::Nothing,
        };
        let backing = self.backing(entry.attr.ino, &opened, |file| reply.open_backing(file));
        self.note_opener(by, (entry.attr.ino, mode), handle, backing.is_some());
        let flags = match backing {
            Some(_) => passthrough_flags(mode, mode.write),
            None => self.own_flags(entry.attr.ino, mode, &opened),
        };
        self.answer(before, &kept, |lifetimes| {
            let lifetime = shorter(lifetimes);
            reply.created(&lifetime, &attr, GENERATION, handle, flags, backing.as_deref());
        });
    }

    /// Bytes that nobody asks for themselves are counted for whoever opened the file.
    fn note_opener(
        &self,
        by: u32,
        (ino, mode): (Ino, OpenMode),
        handle: FileHandle,
        passes_through: bool,
    ) {
        // Appends come as requests.
        let grows_unseen = mode.write && !mode.append && passes_through;
        self.kernel.commands.opened(by, handle.0, grows_unseen.then_some(ino));
    }

    fn own_flags(&self, ino: Ino, mode: OpenMode, opened: &Opened) -> FopenFlags {
        let mut flags = served_flags(&self.kernel, mode, self.tells_closes(ino, mode));
        flags.set(FopenFlags::KEEP_CACHE, opened.keep_cache);
        flags |= if opened.uncached { FopenFlags::DIRECT_IO } else { FopenFlags::empty() };
        flags
    }

    /// Whether each close of a descriptor is of interest: what was written must be stored, and a
    /// program's record locks end with any descriptor that it closes.
    fn tells_closes(&self, ino: Ino, mode: OpenMode) -> bool {
        mode.write || self.fs.has_locks(ino)
    }

    /// What the kernel is given to read and write by itself, where it does so at all.
    fn backing(
        &self,
        ino: Ino,
        opened: &Opened,
        register: impl FnOnce(&File) -> Result<BackingId, Errno>,
    ) -> Option<Arc<BackingId>> {
        if !self.kernel.passes_through() {
            return None;
        }
        self.backings.enter(ino, opened.pinned.as_deref(), register)
    }
}

/// How the kernel treats a handle whose reads and writes come here. One that only writes gains
/// nothing from pages: its bytes would be copied once more and take memory twice. One that appends
/// would put its bytes into the page where the kernel thinks the end of the file is.
pub fn served_flags(kernel: &Kernel, mode: OpenMode, tells_closes: bool) -> FopenFlags {
    let drops = kernel.drops_written_pages();
    let past_pages = mode.write && !mode.read && drops;
    let appends = mode.append && drops && kernel.maps_past_pages();
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::NOFLUSH, !tells_closes);
    flags.set(FopenFlags::DIRECT_IO, past_pages || appends);
    flags
}

/// A handle that has nothing to tell at a close needs no request for it. The kernel would append
/// where it thinks the end of the file is, which another mount may have moved, so appending writes
/// come here also where it serves the file by itself.
fn passthrough_flags(mode: OpenMode, tells_closes: bool) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::NOFLUSH, !tells_closes);
    flags.set(FopenFlags::DIRECT_IO, mode.append);
    flags
}

pub fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// A size of 0 asks how long the value is.
pub fn reply_xattr(reply: ReplyXattr, size: u32, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => {
            reply.error(errno::of(&Error::RangeTooSmall));
        }
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}

pub(super) fn reply_statfs(reply: ReplyStatfs, totals: Result<StatFs, Errno>) {
    let totals = match totals {
        Ok(totals) => totals,
        Err(error) => return reply.error(error),
    };
    let block = u64::from(STATFS_BLOCK_BYTES);
    let free = totals.capacity_bytes.saturating_sub(totals.used_bytes) / block;
    reply.statfs(&tidefs_session::StatFs {
        blocks: totals.capacity_bytes / block,
        blocks_free: free,
        blocks_available: free,
        files: totals.inodes,
        files_free: totals.inodes_free,
        transfer_bytes: STATFS_BLOCK_BYTES,
        name_bytes_max: NAME_BYTES_MAX as u32,
        block_bytes: STATFS_BLOCK_BYTES,
    });
}
