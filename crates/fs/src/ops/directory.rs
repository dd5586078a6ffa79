//! Reading directories. A listing is taken when reading begins, or begins again from the start;
//! attributes are read afresh for each batch of entries, since the kernel keeps them.

use std::sync::{Arc, PoisonError};

use tidefs_model::Ino;
use tidefs_store::Store;

use crate::attr::{Attr, Kind};
use crate::entry::Reference;
use crate::error::Error;
use crate::fs::Fs;
use crate::handles::DirectoryHandle;
use crate::inode::Inode;
use crate::listing::{DOTS, Listing};
use crate::ops::{DirectoryEntry, Handle};
use crate::table::Node;

/// Entries whose attributes are read at a time.
const ATTRS_PER_ROUND: usize = 128;

impl<S: Store> Fs<S> {
    pub fn opendir(&self, ino: Ino) -> Result<Handle, Error> {
        let node = self.table.get(ino)?;
        match node.kind {
            Kind::Directory => Ok(self.handles.add_directory(node)),
            _ => Err(Error::NotADirectory),
        }
    }

    pub fn releasedir(&self, handle: Handle) -> Result<(), Error> {
        self.handles.remove_directory(handle)
    }

    /// Hands out entries, "." and ".." first, from `offset` on until `sink` answers false. Where
    /// nodes do not answer, what the others have is handed out first and the failure told last.
    pub fn readdir(
        &self,
        handle: Handle,
        offset: u64,
        sink: &mut dyn FnMut(&DirectoryEntry) -> bool,
    ) -> Result<(), Error> {
        let directory = self.handles.directory(handle)?;
        let listing = self.listing_of(&directory, offset)?;
        for dot in dots(&directory.node, offset) {
            if !sink(&dot) {
                return Ok(());
            }
        }
        let mut handed_out = offset < DOTS.len() as u64;
        for (position, (name, reference)) in entries_from(&listing, offset) {
            if !sink(&entry(position, name, reference)) {
                return Ok(());
            }
            handed_out = true;
        }
        if handed_out { Ok(()) } else { directory.tell() }
    }

    /// The same with attributes. Each entry that the sink takes, except "." and "..", counts as a
    /// look-up. An entry whose inode has gone meanwhile shows what its name stands for now, and is
    /// left out if that is nothing.
    pub fn readdir_plus(
        &self,
        handle: Handle,
        offset: u64,
        sink: &mut dyn FnMut(&DirectoryEntry, &Attr) -> bool,
    ) -> Result<(), Error> {
        let directory = self.handles.directory(handle)?;
        let listing = self.listing_of(&directory, offset)?;
        let mut dots = dots(&directory.node, offset).peekable();
        if dots.peek().is_some() {
            let own = self.fetch(directory.node.reference())?.attr(directory.node.ino);
            for dot in dots {
                let attr = Attr { ino: dot.ino, ..own.clone() };
                if !sink(&dot, &attr) {
                    return Ok(());
                }
            }
        }
        let mut handed_out = offset < DOTS.len() as u64;
        let mut rest = entries_from(&listing, offset);
        loop {
            // Never all that follow: the kernel asks again for each few hundred entries.
            let chunk: Vec<_> = rest.by_ref().take(ATTRS_PER_ROUND).collect();
            if chunk.is_empty() {
                break;
            }
            let references: Vec<_> = chunk.iter().map(|(_, (_, reference))| *reference).collect();
            let inodes = self.fetch_all(&references);
            for ((position, (name, reference)), inode) in chunk.into_iter().zip(inodes) {
                let there = match inode {
                    Ok(Some(inode)) if inode.nlink > 0 => Ok(Some((reference, inode))),
                    Ok(_) => self.listed_now(directory.node.ino, name),
                    Err(why) => Err(why),
                };
                let there = there.unwrap_or_else(|why| {
                    directory.miss(why);
                    None
                });
                let Some((reference, inode)) = there else { continue };
                let attr = self.attr_of(reference, &inode);
                if !sink(&entry(position, name, reference), &attr) {
                    return Ok(());
                }
                let node = self.table.look_up(reference);
                node.saw(&inode);
                match reference.kind {
                    Kind::Directory => _ = node.may_be_at(&self.place(directory.node.ino, name)),
                    _ => node.set_parent(directory.node.ino),
                }
                handed_out = true;
            }
        }
        if handed_out { Ok(()) } else { directory.tell() }
    }

    /// What a name stands for whose file was replaced, or removed, since it was listed.
    fn listed_now(&self, directory: Ino, name: &[u8]) -> Result<Option<(Reference, Inode)>, Error> {
        let found = self.find_now(&self.place(directory, name))?;
        Ok(found.map(|seen| (seen.reference, seen.inode)))
    }

    fn listing_of(
        &self,
        directory: &DirectoryHandle<S>,
        offset: u64,
    ) -> Result<Arc<Listing>, Error> {
        let mut listing = directory.listing.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listing {
            Some(taken) if offset > 0 => Ok(taken.clone()),
            _ => {
                let (taken, missed) = self.listing(directory.node.ino)?;
                missed.into_iter().for_each(|why| directory.miss(why));
                let taken = listing.insert(Arc::new(taken));
                if self.config.remembers() {
                    self.listed.saw(directory.node.ino, taken, self.steady());
                }
                Ok(taken.clone())
            }
        }
    }
}

fn dots<S: Store>(directory: &Node<S>, offset: u64) -> impl Iterator<Item = DirectoryEntry> {
    let inos = [directory.ino, directory.parent()];
    DOTS.iter().zip(inos).zip(1..).skip(offset as usize).map(|(((name, kind), ino), next)| {
        DirectoryEntry { name: name.to_vec(), ino, kind: *kind, next }
    })
}

/// Entries of the listing from an offset on, each with its position.
fn entries_from(listing: &Listing, offset: u64) -> impl Iterator<Item = (u64, (&[u8], Reference))> {
    let first = usize::try_from(offset).unwrap_or(usize::MAX).saturating_sub(DOTS.len());
    let entries = listing.from(first).zip((first + DOTS.len()) as u64..);
    entries.map(|(entry, position)| (position, entry))
}

fn entry(position: u64, name: &[u8], reference: Reference) -> DirectoryEntry {
    DirectoryEntry {
        name: name.to_vec(),
        ino: reference.ino,
        kind: reference.kind,
        next: position + 1,
    }
}
