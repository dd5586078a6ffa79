//! A mount made of what was handed over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidefs_model::{Clock, Ino};
use tidefs_store::Store;

use super::HandOverError;
use super::state::{Directory, File, State};
use crate::config::Config;
use crate::data::{ErrorCursor, OpenFile, ReadAhead};
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::inode::Inode;
use crate::listing::Listing;
use crate::membership::{Admission, Membership};
use crate::ops::Handle;
use crate::table::Node;

/// Records that are read in one round.
const READ_AT_ONCE: usize = 256;
/// No mount is ever in it, so whoever used a handle last in it looks what is left.
const NO_TERM: u64 = u64::MAX;

impl<S: Store> Fs<S> {
    /// Goes on with a mount of the same name that was handed over. It may serve when it was told that it is the only one
    /// ([`Fs::goes_on`]); until then the one that gave it may still call it off, and this value is dropped without leaving
    /// the file system.
    ///
    /// # Errors
    /// When the bytes are of a version that this program does not understand, or the store does not answer.
    pub fn take_over(
        store: Arc<S>,
        config: Config,
        clock: Arc<dyn Clock>,
        admission: Option<Arc<dyn Admission>>,
        handed_over: &[u8],
    ) -> Result<Fs<S>, HandOverError> {
        let state = State::decode(handed_over)?;
        let enter = |store: &Arc<S>, mount, now| Membership::go_on(store, mount, now);
        let fs = Fs::mount_by(store, config, clock, admission, enter)?;
        fs.restore(state)?;
        Ok(fs)
    }

    fn restore(&self, state: State) -> Result<(), HandOverError> {
        self.handles.begin_at(state.next_handle);
        self.transactions.store(state.transactions, Ordering::Relaxed);
        for node in state.nodes {
            let ino = node.reference.ino;
            self.table.restore(node.reference, node.lookups, node.parent, node.inherited);
            let node_here = self.table.get(ino)?;
            // What was answered a moment ago the kernel may not have dealt with yet.
            drop(node_here.counting_down.begin(&*self.clock));
            let mut slot = node_here.slot();
            (slot.version_cached, slot.unlinked) = (node.pages, node.is_unlinked);
            slot.residue_end = node.residue_end;
            drop(slot);
            node.removed.into_iter().for_each(|record| node_here.was_removed(record));
        }
        self.restore_files(&state.files)?;
        state.directories.into_iter().try_for_each(|it| self.restore_directory(it))?;
        state.locks.into_iter().for_each(|it| self.locks.restore(it.ino, it.home, it.held));
        for lost in state.files.iter().filter(|file| file.is_lost) {
            let home = self.table.get(lost.ino)?.home;
            self.locks.restore_lost(lost.ino, home, lost.handle);
        }
        self.opened.restore(state.opened);
        for removed in state.removed {
            let waits = removed.waits_for_kernel;
            self.data.free_later(removed.home, removed.ino, removed.size, waits);
        }
        Ok(self.go_on_standing_still()?)
    }

    fn restore_files(&self, files: &[File]) -> Result<(), HandOverError> {
        let inos: BTreeSet<Ino> = files.iter().map(|file| file.ino).collect();
        let nodes: Vec<_> =
            inos.iter().map(|ino| self.table.get(*ino)).collect::<Result<_, _>>()?;
        let mut open = BTreeMap::new();
        for nodes in nodes.chunks(READ_AT_ONCE) {
            let references: Vec<_> = nodes.iter().map(|node| node.reference()).collect();
            for (node, inode) in nodes.iter().zip(self.fetch_all(&references)) {
                let inode = inode?.ok_or(HandOverError::Gone { ino: node.ino.0 })?;
                open.insert(node.ino, self.restore_file(node, &inode));
            }
        }
        for file in files {
            let (node, open) = (self.table.get(file.ino)?, Arc::clone(&open[&file.ino]));
            self.restore_handle(file, &node, open);
        }
        Ok(())
    }

    /// The open file of a node as its record says, and as the kernel has pages of it.
    fn restore_file(&self, node: &Node<S>, inode: &Inode) -> Arc<OpenFile<S>> {
        let mut slot = node.slot();
        let file = OpenFile::new(self.data.clone(), node.ino, node.home, inode, None);
        if slot.version_cached != Some(inode.version) {
            // Others have changed it since, or had before: what the kernel has is dropped.
            file.doubt_pages();
            self.stale_pages().insert(node.ino);
        }
        file.has_residue(slot.residue_end);
        slot.file.insert(Arc::new(file)).clone()
    }

    fn restore_handle(&self, handed: &File, node: &Arc<Node<S>>, file: Arc<OpenFile<S>>) {
        let mode = handed.mode;
        node.add_handle(&node.slot());
        if mode.read && mode.write {
            file.may_be_mapped();
        }
        if mode.only_reads() {
            file.count_reader(true);
        }
        let errors = ErrorCursor::new(&file);
        let term = if handed.is_lost { NO_TERM } else { self.term() };
        self.handles.restore_file(
            handed.handle,
            FileHandle {
                node: node.clone(),
                file,
                mode,
                reader: ReadAhead::default(),
                errors,
                term: AtomicU64::new(term),
                // What it would have confirmed is dropped once more.
                drops: AtomicU64::new(0),
                wrote_once: AtomicBool::new(false),
            },
        );
    }

    fn restore_directory(&self, directory: Directory) -> Result<(), HandOverError> {
        let Directory { handle: Handle(number), ino, listing } = directory;
        let listing = listing.map(|names| Arc::new(Listing::of(names)));
        self.handles.restore_directory(number, self.table.get(ino)?, listing);
        Ok(())
    }
}
