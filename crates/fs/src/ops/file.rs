//! Opening files, and what goes through a handle.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use crate::attr::Kind;
use crate::data::{AppendedAt, ErrorCursor, OldPages, OpenFile, Outgrown, ReadAhead};
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::inode::{self, Inode};
use crate::keys;
use crate::known_records::Before;
use crate::names::ATTEMPTS;
use crate::ops::{Handle, OpenMode, Opened, ReadBytes};
use crate::table::{Node, Slot};

impl<S: Store> Fs<S> {
    pub fn open(&self, ino: Ino, mode: OpenMode) -> Result<Opened, Error> {
        let node = self.table.get(ino)?;
        match node.kind {
            Kind::File => {}
            Kind::Directory => return Err(Error::IsADirectory),
            _ => return Err(Error::NotPermitted),
        }
        let opened = match self.open_by_memory(&node, mode) {
            Some(opened) => opened,
            None => self.open_by_record(&node, mode)?,
        };
        self.wait_for_repair(ino);
        if mode.truncate {
            let handle = self.handles.file(opened.handle)?;
            let ended = self.end_capabilities(&handle.node);
            if let Err(error) = ended.and_then(|()| handle.file.truncate(0)) {
                self.release(opened.handle)?;
                return Err(error);
            }
        }
        Ok(opened)
    }

    fn open_by_record(&self, node: &Arc<Node<S>>, mode: OpenMode) -> Result<Opened, Error> {
        let before = self.before_reading();
        let (inode, mut slot) = self.read_and_lock(node)?;
        if inode.nlink == 0 && !node.is_open() {
            // Whoever opens it has it by another descriptor, or had found its name before that went.
            self.free_nameless();
            match self.data.keep(node.ino) {
                true => slot.unlinked = true,
                // What is left of it is about to be freed.
                false if self.is_alone() => return Err(Error::Stale),
                false => drop(self.record_as_stored(node)?.ok_or(Error::Stale)?),
            }
        }
        Ok(self.open_known(node, slot, &inode, before, mode))
    }

    /// A file's record, and its slot. The file has not lost a name since it was read, or is open.
    fn read_and_lock<'n>(
        &self,
        node: &'n Node<S>,
    ) -> Result<(Inode, MutexGuard<'n, Slot<S>>), Error> {
        for _ in 0..ATTEMPTS {
            let removals = node.slot().removals;
            let inode = self.fetch(node.reference())?;
            let slot = node.slot();
            if slot.removals == removals || slot.file.is_some() {
                return Ok((inode, slot));
            }
        }
        Err(Error::Contended)
    }

    /// Opens a file that was made just now.
    pub(crate) fn open_new(
        &self,
        reference: Reference,
        inode: &Inode,
        mode: OpenMode,
    ) -> Result<Opened, Error> {
        let node = self.table.get(reference.ino)?;
        let mut slot = node.slot();
        let alone = self.time_alone();
        let file = self.file_in(&node, &mut slot, inode);
        Ok(self.open_file(&node, slot, file, alone, mode))
    }

    /// Opens a file whose record is known, or that is open already and nobody else's to change.
    fn open_by_memory(&self, node: &Arc<Node<S>>, mode: OpenMode) -> Option<Opened> {
        let alone = self.time_alone();
        let mut slot = node.slot();
        if self.config.passthrough || !self.is_record_known(&slot, alone) {
            return None;
        }
        let inode = slot.known.as_ref()?.inode.clone();
        let file = match &slot.file {
            Some(file) => file.clone(),
            None => self.file_in(node, &mut slot, &inode),
        };
        Some(self.open_file(node, slot, file, alone, mode))
    }

    /// `before`: how things stood before the record was read.
    fn open_known(
        &self,
        node: &Arc<Node<S>>,
        mut slot: MutexGuard<'_, Slot<S>>,
        inode: &Inode,
        before: Before,
        mode: OpenMode,
    ) -> Opened {
        if slot.file.is_none() {
            self.keep_record_in(&mut slot, inode, before);
        }
        if self.data.keep(node.ino) {
            // Its last name went after this open had found it.
            slot.unlinked = true;
        }
        let file = self.file_in(node, &mut slot, inode);
        self.open_file(node, slot, file, before.alone, mode)
    }

    /// `alone`: the time of being alone in which the record was read.
    fn open_file(
        &self,
        node: &Arc<Node<S>>,
        slot: MutexGuard<'_, Slot<S>>,
        file: Arc<OpenFile<S>>,
        alone: Option<u64>,
        mode: OpenMode,
    ) -> Opened {
        if node.add_handle(&slot) {
            self.opened.changed(node.ino, node.home);
        }
        file.set_as_of(alone);
        if mode.read && mode.write {
            file.may_be_mapped();
        }
        if mode.only_reads() {
            file.count_reader(true);
        }
        let keep_cache = file.version_kept().is_some_and(|kept| slot.version_cached == Some(kept));
        // The kernel drops its pages when it is answered, and until it has, others are to drop them, too.
        let drops = match keep_cache {
            true => None,
            false => {
                file.doubt_pages();
                file.old_pages().or(Some(OldPages::FIRST))
            }
        };
        // The kernel does not end what a file lends when it writes by itself.
        let pinned = file.pinned().filter(|_| !node.inherited().lends_anything());
        drop(slot);
        let errors = ErrorCursor::new(&file);
        let node = node.clone();
        let handle = self.handles.add_file(FileHandle {
            node,
            file,
            mode,
            reader: ReadAhead::default(),
            errors,
            term: AtomicU64::new(self.term()),
            drops: AtomicU64::new(OldPages::to_number(drops)),
            wrote_once: AtomicBool::new(false),
        });
        let uncached = mode.append && !self.is_alone();
        Opened { handle, keep_cache, uncached, pinned }
    }

    /// The open file of a node, made if there is none.
    fn file_in(&self, node: &Node<S>, slot: &mut Slot<S>, inode: &Inode) -> Arc<OpenFile<S>> {
        if let Some(file) = &slot.file {
            file.refresh(inode);
            return file.clone();
        }
        let version_cached = slot.version_cached;
        let pinned = if self.config.passthrough { self.store.pin(node.ino) } else { None };
        // Another mount may have changed the file and let go of it since its record was read.
        let again = pinned.as_ref().filter(|pin| pin.is_first && !self.is_alone());
        let again = again.and_then(|_| self.record_as_stored(node).ok()?);
        let inode = again.as_ref().unwrap_or(inode);
        let file = OpenFile::new(self.data.clone(), node.ino, node.home, inode, pinned);
        if version_cached != Some(inode.version) {
            file.doubt_pages();
        }
        file.has_residue(slot.residue_end);
        slot.file.insert(Arc::new(file)).clone()
    }

    /// The record without what this mount knows; `None` where there is none any more, or the file is being freed.
    pub(crate) fn record_as_stored(&self, node: &Node<S>) -> Result<Option<Inode>, Error> {
        let read = Batch::new().read(keys::inode(node.ino));
        let record = self.store.batch(node.home, &read)?.take(0);
        let record = record.filter(|record| !inode::is_being_freed(record));
        record.map(|record| Inode::decode(node.ino, &record)).transpose()
    }

    /// Where a file ends, as far as is known here, that programs may have mapped for writing through
    /// pages that the kernel sends here.
    pub fn mapped_size(&self, ino: Ino) -> Option<u64> {
        let node = self.table.find(ino)?;
        let file = node.slot().file.clone()?;
        file.mapped_size()
    }

    /// Does something to a file that may have no handle.
    pub(crate) fn with_file<T>(
        &self,
        ino: Ino,
        work: impl FnOnce(&OpenFile<S>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let node = self.table.get(ino)?;
        let file = {
            let (inode, mut slot) = self.read_and_lock(&node)?;
            node.add_handle(&slot);
            self.file_in(&node, &mut slot, &inode)
        };
        self.wait_for_repair(ino);
        let done = work(&file);
        let errors = ErrorCursor::new(&file);
        let left = self.leave(&node, &file).and(errors.report(&file));
        done.and_then(|done| left.map(|()| done))
    }

    pub fn read(&self, number: Handle, offset: u64, length: usize) -> Result<ReadBytes, Error> {
        let handle = self.handles.file(number)?;
        if !handle.mode.read {
            return Err(Error::BadHandle);
        }
        let term = self.term_of(number, &handle)?;
        self.is_open(&handle);
        let mut bytes = self.read_what_is_there(&handle, offset, length)?;
        if bytes.as_slice().is_empty() && length > 0 && !self.is_alone() {
            // Whoever follows a file that grows elsewhere, and whose kernel does not ask where it ends.
            self.look_again(&handle)?;
            bytes = self.read_what_is_there(&handle, offset, length)?;
        }
        if self.term() != term {
            // The mount was expelled meanwhile, and the bytes are those that others wrote.
            self.term_of(number, &handle)?;
        }
        self.counters.read(bytes.as_slice().len());
        Ok(bytes)
    }

    /// The offset is ignored where the write appends (`append`), which a map's bytes of an appending
    /// handle do not. `clear_privileges`: the kernel asks that set-user-id and set-group-id go.
    pub fn write(
        &self,
        number: Handle,
        offset: u64,
        bytes: &[u8],
        append: Option<&AppendedAt>,
        clear_privileges: bool,
    ) -> Result<usize, Error> {
        self.through(number, |handle| {
            if !handle.mode.write {
                return Err(Error::BadHandle);
            }
            self.write_on(handle, offset, bytes, append, clear_privileges)
        })
    }

    fn write_on(
        &self,
        handle: &FileHandle<S>,
        offset: u64,
        bytes: &[u8],
        append: Option<&AppendedAt>,
        clear_privileges: bool,
    ) -> Result<usize, Error> {
        handle.node.is_there()?;
        self.end_capabilities(&handle.node)?;
        if clear_privileges {
            self.clear_privileges(handle.node.ino)?;
        }
        if handle.is_written_or_closed() {
            self.close_predictor.was_written_again();
        }
        let written = if let Some(at) = append {
            if self.is_alone() {
                self.catch_up(handle)?;
            }
            self.membership.while_alone(self.steady(), |alone| {
                if alone {
                    handle.file.place_alone(bytes.len(), at);
                }
            });
            let taken = handle.file.append(&handle.errors, bytes, at)?;
            (taken.end - taken.start) as usize
        } else {
            handle.file.write(&handle.errors, offset, bytes)?
        };
        if handle.mode.sync {
            handle.file.flush_at_once(&handle.errors, &self.membership)?;
        }
        self.counters.wrote(written);
        Ok(written)
    }

    /// At each close of a descriptor: everything written has reached the store, or the reason why
    /// not is reported here.
    pub fn flush(&self, handle: Handle) -> Result<(), Error> {
        let handle = self.handles.file(handle)?;
        self.is_open(&handle);
        if handle.is_written_or_closed() {
            self.close_predictor.was_closed();
        }
        self.write_back(&handle)
    }

    /// A program has closed a descriptor: as [`Fs::flush`], and then all its record locks on the file
    /// end, also where bytes were lost. Where they only wait, since nobody waits for them any more, the
    /// locks stay: whoever gets one is to see the bytes.
    pub fn close(&self, handle: Handle, owner: u64) -> Result<(), Error> {
        let flushed = self.flush(handle);
        if flushed.as_ref().is_err_and(Error::is_interruption) {
            return flushed;
        }
        let ended = self.end_locks(handle, owner);
        flushed.and(ended)
    }

    pub fn fsync(&self, handle: Handle) -> Result<(), Error> {
        let handle = self.handles.file(handle)?;
        self.write_back(&handle)
    }

    fn write_back(&self, handle: &FileHandle<S>) -> Result<(), Error> {
        // Nobody else can open it any more, but other mounts may have it open.
        if handle.node.slot().unlinked && self.is_alone() {
            return handle.errors.report(&handle.file);
        }
        handle.file.flush_at_once(&handle.errors, &self.membership)?;
        let mut slot = handle.node.slot();
        slot.version_cached = handle.file.version_kept();
        Ok(())
    }

    /// A program uses the descriptor of a handle, so the kernel has done what it does at an open. What it writes
    /// from maps through any handle of a file is no use of that one.
    pub(crate) fn is_open(&self, handle: &FileHandle<S>) {
        if handle.drops.load(Ordering::Relaxed) != 0
            && let Some(old) = OldPages::from_number(handle.drops.swap(0, Ordering::Relaxed))
        {
            self.pages_dropped(handle, old);
        }
    }

    /// The kernel has dropped pages of a file.
    pub(crate) fn pages_dropped(&self, handle: &FileHandle<S>, old: OldPages) {
        let mut slot = handle.node.slot();
        handle.file.pages_dropped(old);
        slot.version_cached = handle.file.version_kept();
    }

    /// What the kernel is to drop of an open file before it is told how long that is. To be asked when
    /// its attributes have been read.
    pub fn outgrown(&self, ino: Ino) -> Option<Outgrown> {
        let node = self.table.find(ino).filter(|node| node.is_open())?;
        let slot = node.slot();
        slot.file.as_ref()?.outgrown()
    }

    /// One byte of an open file, if it has that and can be read.
    pub fn byte_at(&self, ino: Ino, offset: u64) -> Option<u8> {
        let node = self.table.find(ino)?;
        let file = node.slot().file.clone()?;
        let bytes = file.read(&ReadAhead::default(), offset, 1).ok()?;
        if bytes.has_gaps {
            self.make_sure_of(&node, &file).ok()?;
        }
        bytes.as_slice().first().copied()
    }

    /// The kernel has dropped it.
    pub fn has_dropped(&self, ino: Ino, outgrown: Outgrown) {
        let Some(node) = self.table.find(ino) else { return };
        node.slot().file.iter().for_each(|file| file.dropped(outgrown));
    }

    /// Something was written, through this handle or another one, that is not in the store yet.
    pub fn has_unsent(&self, handle: Handle) -> bool {
        self.handles.file(handle).is_ok_and(|handle| handle.file.has_unsent())
    }

    /// When the last descriptor of an open is closed.
    pub fn release(&self, handle: Handle) -> Result<(), Error> {
        let closing = self.handles.file(handle)?;
        // Known until then: a mount that comes waits until the store knows of what was appended.
        if closing.mode.only_reads() {
            closing.file.count_reader(false);
        }
        let left = self.leave(&closing.node, &closing.file);
        // Bytes first: whoever gets a lock then sees them.
        let ended = self.end_locks_through(handle);
        self.handles.remove_file(handle)?;
        left.and(ended)
    }

    /// One user less of an open file; the last one writes it back, or removes it if it has no name.
    fn leave(&self, node: &Arc<Node<S>>, file: &Arc<OpenFile<S>>) -> Result<(), Error> {
        let left = self.send_and_leave(node, file);
        self.data.expect_removed_no_longer(node.ino);
        left
    }

    fn send_and_leave(&self, node: &Arc<Node<S>>, file: &Arc<OpenFile<S>>) -> Result<(), Error> {
        let mut sent = Ok(());
        let mut slot = node.slot();
        if node.has_one_handle(&slot) && !node.is_gone() && file.has_unsent() {
            // What waits for room keeps nobody from removing the file meanwhile.
            let unlinked = slot.unlinked;
            slot.is_left = true;
            drop(slot);
            if !unlinked || self.is_open_elsewhere(node) {
                sent = file.settle(&self.membership);
            }
            slot = node.slot();
            slot.is_left = false;
        }
        if !node.remove_handle(&slot) {
            return sent;
        }
        let done = match slot.unlinked {
            // What was written to it since it was freed.
            _ if node.is_gone() => {
                file.discard(true);
                Ok(())
            }
            true if self.stays_for_kernel(node, file) => Ok(()),
            true => {
                file.discard(!self.is_alone());
                self.remove_inode(node.reference())
            }
            false => sent.and(file.settle(&self.membership)),
        };
        slot.version_cached = file.version_kept();
        slot.left = file.stored();
        slot.residue_end = file.residue_end();
        slot.file = None;
        self.store.give_up(node.ino);
        let version_known = slot.known.as_ref().map(|known| known.inode.version);
        // One without a name is listed among those that wait for the kernel: who opens it takes it off that list.
        let is_known = version_known == Some(file.version()) && !slot.unlinked;
        if !is_known || file.is_record_doubtful() || done.is_err() {
            self.record_changed(Some(&mut slot));
        }
        if file.pinned().is_some() {
            self.store.unpin(node.ino);
        }
        drop(slot);
        self.opened.changed(node.ino, node.home);
        self.forget(node.ino, 0);
        done
    }

    /// Keeps a file without a name until the kernel lets go of it, unless bytes of it would have to be sent first. The
    /// kernel tells of a close when it has gone on: the file may have been closed before it was removed, and be held by
    /// a descriptor that opens nothing.
    fn stays_for_kernel(&self, node: &Node<S>, file: &OpenFile<S>) -> bool {
        if node.lookups() == 0 || file.has_unsent() || file.settle(&self.membership).is_err() {
            return false;
        }
        let size = file.size().max(file.residue_end());
        self.data.keep_for_kernel(node.home, node.ino, size, !self.is_alone())
    }
}
