//! The open files and directories of a mount, by the number that the kernel holds for each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidefs_store::Store;

use crate::data::{ErrorCursor, OpenFile, ReadAhead};
use crate::error::Error;
use crate::listing::Listing;
use crate::ops::{Handle, OpenMode};
use crate::table::Node;

const STRIPES: usize = 16;

pub struct Handles<S: Store> {
    next: AtomicU64,
    files: [Mutex<HashMap<u64, Arc<FileHandle<S>>>>; STRIPES],
    directories: Mutex<HashMap<u64, Arc<DirectoryHandle<S>>>>,
    /// Handles that somebody went through, whatever they were.
    #[cfg(test)]
    pub gone_through: AtomicU64,
}

/// One open of a file.
pub struct FileHandle<S: Store> {
    pub node: Arc<Node<S>>,
    pub file: Arc<OpenFile<S>>,
    pub mode: OpenMode,
    pub reader: ReadAhead,
    pub errors: ErrorCursor,
    /// The term in which it was used last; what came with an earlier one may be lost.
    pub term: AtomicU64,
    /// Which [old pages](crate::OldPages) of the file the kernel drops while it is opened; 0 when it has, or need not.
    pub drops: AtomicU64,
    /// It was written to once while the file was new, and not closed or written to since.
    pub wrote_once: AtomicBool,
}

impl<S: Store> FileHandle<S> {
    /// To be called for each write and each close; `true`: it is the first one after the first write
    /// to a new file.
    pub fn is_written_or_closed(&self) -> bool {
        self.wrote_once.load(Ordering::Relaxed) && self.wrote_once.swap(false, Ordering::Relaxed)
    }
}

/// One open of a directory, with the entries as they were when reading began.
pub struct DirectoryHandle<S: Store> {
    pub node: Arc<Node<S>>,
    pub listing: Mutex<Option<Arc<Listing>>>,
    /// Why the listing lacks entries; told at its end.
    missed: Mutex<Option<Error>>,
}

impl<S: Store> DirectoryHandle<S> {
    pub fn miss(&self, why: Error) {
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// There is something to tell.
    pub fn has_missed(&self) -> bool {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The entries, where reading has begun.
    pub fn taken(&self) -> Option<Arc<Listing>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells once what was missed.
    pub fn tell(&self) -> Result<(), Error> {
        let missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner).take();
        missed.map_or(Ok(()), Err)
    }
}

impl<S: Store> Handles<S> {
    pub fn new() -> Handles<S> {
        Handles {
            next: AtomicU64::new(1),
            files: std::array::from_fn(|_| Mutex::new(HashMap::new())),
            directories: Mutex::new(HashMap::new()),
            #[cfg(test)]
            gone_through: AtomicU64::new(0),
        }
    }

    pub fn add_file(&self, file: FileHandle<S>) -> Handle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.stripe(number).insert(number, Arc::new(file));
        Handle(number)
    }

    pub fn file(&self, handle: Handle) -> Result<Arc<FileHandle<S>>, Error> {
        self.stripe(handle.0).get(&handle.0).cloned().ok_or(Error::BadHandle)
    }

    pub fn remove_file(&self, handle: Handle) -> Result<Arc<FileHandle<S>>, Error> {
        self.stripe(handle.0).remove(&handle.0).ok_or(Error::BadHandle)
    }

    /// Every open file, once for each of its handles; for what is rare, since they may be many.
    pub fn all_files(&self) -> Vec<Arc<FileHandle<S>>> {
        let stripes = self.files.iter();
        let all: Vec<_> = stripes
            .flat_map(|stripe| {
                let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
                stripe.values().cloned().collect::<Vec<_>>()
            })
            .collect();
        #[cfg(test)]
        self.gone_through.fetch_add(all.len() as u64, Ordering::Relaxed);
        all
    }

    /// Every open file by its number.
    pub fn files_by_number(&self) -> Vec<(Handle, Arc<FileHandle<S>>)> {
        let stripes = self.files.iter();
        let all = stripes.flat_map(|stripe| {
            let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            let each = stripe.iter().map(|(number, file)| (Handle(*number), file.clone()));
            each.collect::<Vec<_>>()
        });
        all.collect()
    }

    pub fn directories_by_number(&self) -> Vec<(Handle, Arc<DirectoryHandle<S>>)> {
        let directories = self.directories();
        directories.iter().map(|(number, open)| (Handle(*number), open.clone())).collect()
    }

    /// Of the next one; no handle has it, nor a higher one.
    pub fn next_number(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    pub fn begin_at(&self, number: u64) {
        self.next.store(number, Ordering::Relaxed);
    }

    /// One whose number the kernel has already.
    pub fn restore_file(&self, Handle(number): Handle, file: FileHandle<S>) {
        self.stripe(number).insert(number, Arc::new(file));
    }

    /// The same of a directory, with the entries that were read of it.
    pub fn restore_directory(
        &self,
        number: u64,
        node: Arc<Node<S>>,
        listing: Option<Arc<Listing>>,
    ) {
        let (listing, missed) = (Mutex::new(listing), Mutex::default());
        self.directories().insert(number, Arc::new(DirectoryHandle { node, listing, missed }));
    }

    pub fn add_directory(&self, node: Arc<Node<S>>) -> Handle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let directory =
            Arc::new(DirectoryHandle { node, listing: Mutex::default(), missed: Mutex::default() });
        self.directories().insert(number, directory);
        Handle(number)
    }

    pub fn directory(&self, handle: Handle) -> Result<Arc<DirectoryHandle<S>>, Error> {
        self.directories().get(&handle.0).cloned().ok_or(Error::BadHandle)
    }

    pub fn remove_directory(&self, handle: Handle) -> Result<(), Error> {
        self.directories().remove(&handle.0).map(|_| ()).ok_or(Error::BadHandle)
    }

    fn stripe(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Arc<FileHandle<S>>>> {
        let stripe = &self.files[number as usize % STRIPES];
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directories(&self) -> MutexGuard<'_, HashMap<u64, Arc<DirectoryHandle<S>>>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
