//! What is done before a mount is handed over, and what is collected then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Store, caller};

use super::HandOverError;
use super::state::{Directory, File, Locks, Node, Removed, State};
use crate::error::Error;
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::ops::Handle;
use crate::table;
use crate::terms::EXPELLED;

impl<S: Store> Fs<S> {
    /// The first part, while requests are served: the kernel is told nothing any more that it may keep, and the
    /// store gets what it lacks. Answers how long until what the kernel keeps already has lapsed. From here on
    /// no housekeeping may be done but [`Fs::stay`], until it is called off ([`Fs::keep`]) or somebody else does it.
    ///
    /// # Errors
    /// When the mount cannot be handed over now; also, with a call to [`Fs::keep`], it goes on.
    pub fn prepare_hand_over(&self) -> Result<Duration, HandOverError> {
        if self.config.passthrough {
            return Err(HandOverError::Pinned);
        }
        if self.membership.is_back() {
            return Err(HandOverError::Returning);
        }
        self.in_this_term(|| {
            self.store.end_delegations();
            self.membership.assume_company();
            let left = self.end_lifetimes();
            self.store_all()?;
            // Programs go on to remove files; what is being freed in the end counts.
            self.free_all();
            Ok(left)
        })
    }

    /// Says that the mount lives, in place of [`Fs::beat`], to be called each second between the first part and the
    /// second: others take one that is silent for dead.
    ///
    /// # Errors
    /// When the store does not answer, or the mount was expelled.
    pub fn stay(&self) -> Result<(), Error> {
        self.in_this_term(|| self.membership.stay(&self.store, self.steady()))
    }

    /// The second part, when nothing is under way any more and what the kernel kept has lapsed: what a mount
    /// has to know that goes on with this one. Until it does so, or has failed, nothing may be done here.
    ///
    /// # Errors
    /// As the first part.
    pub fn hand_over(&self) -> Result<Vec<u8>, HandOverError> {
        self.in_this_term(|| {
            // Requests that were under way may have taken some.
            self.store.end_delegations();
            self.store_all()?;
            if !self.free_all() {
                return Err(HandOverError::Freeing);
            }
            if !self.store.has_fenced_given_up() {
                return Err(HandOverError::GivenUp);
            }
            let handles = self.handles.files_by_number();
            let is_untold = |(_, it): &(Handle, Arc<FileHandle<S>>)| it.file.owes(&it.errors);
            let missed = self.handles.directories_by_number().iter().any(|(_, it)| it.has_missed());
            if missed || self.store.has_untold() || handles.iter().any(is_untold) {
                return Err(HandOverError::Untold);
            }
            // Others that start now count on finding everything there.
            self.membership.share(&self.store, self.steady())?;
            Ok(self.collect(handles)?.encode())
        })
    }

    /// The mount is not handed over after all, and goes on here.
    pub fn keep(&self) {
        self.store.resume_delegations(self.config.remembers());
    }

    /// Somebody else goes on with the mount: what it had threads for is over here.
    pub fn let_go(&self) {
        self.data.end_threads();
    }

    /// All that others would look for is in the store. Nothing waits for room here.
    fn store_all(&self) -> Result<(), HandOverError> {
        self.store.settle_all();
        let handles = self.handles.files_by_number();
        let files: BTreeMap<Ino, _> =
            handles.iter().map(|(_, handle)| (handle.node.ino, handle)).collect();
        for handle in files.values() {
            let settled = caller::without_waiting(|| handle.file.settle(&self.membership));
            settled.map_err(HandOverError::Unstored)?;
        }
        while !self.closed().is_empty() {
            self.clear_closed(Duration::ZERO)?;
        }
        self.store.tidy();
        self.publish_locks()?;
        Ok(())
    }

    /// Frees removed files. `false`: some are still being freed after a time.
    fn free_all(&self) -> bool {
        self.free_nameless();
        self.data.finish_freeing()
    }

    fn collect(&self, handles: Vec<(Handle, Arc<FileHandle<S>>)>) -> Result<State, HandOverError> {
        let file = |(number, handle): (Handle, Arc<FileHandle<S>>)| {
            let is_lost = match self.term_of(number, &handle) {
                Err(error) if error == EXPELLED => true,
                other => other.map(|_| false)?,
            };
            Ok(File { handle: number, ino: handle.node.ino, mode: handle.mode, is_lost })
        };
        let files = handles.into_iter().map(file).collect::<Result<_, HandOverError>>()?;
        let locks = self.locks.held_by_file().into_iter();
        let removed = self.data.to_be_freed().into_iter();
        Ok(State {
            next_handle: self.handles.next_number(),
            transactions: self.transactions.load(Ordering::Relaxed),
            nodes: self.table.all().iter().map(|node| node_of(node)).collect(),
            files,
            directories: self.directories_open(),
            locks: locks.map(|(ino, home, held)| Locks { ino, home, held }).collect(),
            opened: self.opened.all(),
            removed: removed
                .map(|(home, ino, size, waits_for_kernel)| Removed {
                    home,
                    ino,
                    size,
                    waits_for_kernel,
                })
                .collect(),
        })
    }

    fn directories_open(&self) -> Vec<Directory> {
        let open = self.handles.directories_by_number().into_iter();
        open.map(|(handle, directory)| {
            let listing = directory.taken().map(|listing| {
                let names = listing.from(0);
                names.map(|(name, reference)| (name.to_vec(), reference)).collect()
            });
            Directory { handle, ino: directory.node.ino, listing }
        })
        .collect()
    }
}

fn node_of<S: Store>(node: &table::Node<S>) -> Node {
    let slot = node.slot();
    let pages = match &slot.file {
        // Pages may have zeros behind the end as it was.
        Some(file) if file.outgrown().is_some() => None,
        Some(file) => file.version_kept(),
        None => slot.version_cached,
    };
    let residue_end = slot.file.as_ref().map_or(slot.residue_end, |file| file.residue_end());
    Node {
        reference: node.reference(),
        lookups: node.lookups(),
        parent: node.parent(),
        inherited: node.seen(),
        is_unlinked: slot.unlinked,
        pages,
        residue_end,
        removed: node.removed_record(),
    }
}
