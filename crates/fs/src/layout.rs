//! Where the stripes of files go that are made in a directory: what programs read and set as the
//! extended attribute `user.tidefs.placement`.
//!
//! The directory's record says it, so whoever makes something in the directory knows it from what
//! was read to get there; a file's own layout is told by its inode's number alone.

use std::sync::atomic::Ordering;

use tidefs_model::{Ino, Run};
use tidefs_store::{Batch, Store};

use crate::attr::Kind;
use crate::error::Error;
use crate::fs::Fs;
use crate::ops::XattrMode;
use crate::{inode, keys};

/// The attribute by which programs see it.
pub const PLACEMENT: &[u8] = b"user.tidefs.placement";

/// Multiples of it, as a part of 2^64, divide a circle evenly: it is the golden ratio of that.
const CHANCE_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the stripes of new files go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// To all nodes.
    #[default]
    Striped,
    /// To the node of the host on which the file is made, where there is one.
    Local,
}

impl Layout {
    /// The values that the attribute may have.
    pub const NAMES: [&str; 2] = ["local", "striped"];

    pub fn name(self) -> &'static str {
        match self {
            Layout::Local => Layout::NAMES[0],
            Layout::Striped => Layout::NAMES[1],
        }
    }

    pub fn of_name(name: &[u8]) -> Option<Layout> {
        [Layout::Local, Layout::Striped].into_iter().find(|layout| layout.name().as_bytes() == name)
    }

    /// What stands for it in records.
    pub(crate) fn number(self) -> u32 {
        match self {
            Layout::Striped => 0,
            Layout::Local => 1,
        }
    }

    pub(crate) fn of_number(number: u32) -> Option<Layout> {
        [Layout::Striped, Layout::Local].into_iter().find(|layout| layout.number() == number)
    }
}

impl<S: Store> Fs<S> {
    /// The number of an inode that is to be made in a directory whose layout is this.
    pub(crate) fn new_ino(&self, kind: Kind, layout: Layout) -> Result<Ino, Error> {
        let near = match (kind, layout) {
            (Kind::File, Layout::Local) => self.near(),
            _ => None,
        };
        let local = match near {
            Some(run) => Ino::local(run, self.serials.next(&self.store)?),
            None => None,
        };
        // Without a node nearby, or serial numbers, the file is striped.
        let ino = match local {
            Some(ino) => ino,
            None => Ino(self.inos.next(&self.store)?),
        };
        self.store.note_new(ino);
        Ok(ino)
    }

    /// Each file has its own run of the nearest node's partitions, so that they fill evenly and what
    /// has to move can move in small pieces.
    fn near(&self) -> Option<Run> {
        let mount = self.me().0;
        let count = self.local_files.fetch_add(1, Ordering::Relaxed);
        self.store.near(mount, mount.wrapping_add(count.wrapping_mul(CHANCE_STEP)))
    }

    /// The value of the attribute, which each directory has.
    pub(crate) fn placement(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        let node = self.table.get(ino)?;
        match node.kind {
            Kind::Directory => Ok(self.fetch(node.reference())?.layout.name().into()),
            _ => Err(Error::NoAttribute),
        }
    }

    /// Whether the attribute is to be listed: where somebody asked for something.
    pub(crate) fn has_placement(&self, ino: Ino) -> Result<bool, Error> {
        let node = self.table.get(ino)?;
        let is_directory = node.kind == Kind::Directory;
        Ok(is_directory && self.fetch(node.reference())?.layout != Layout::default())
    }

    pub(crate) fn set_placement(
        &self,
        ino: Ino,
        name: &[u8],
        mode: XattrMode,
    ) -> Result<(), Error> {
        let layout = Layout::of_name(name).ok_or(Error::Invalid)?;
        if self.table.get(ino)?.kind != Kind::Directory {
            return Err(Error::NotADirectory);
        }
        match (mode, self.has_placement(ino)?) {
            (XattrMode::Create, true) => Err(Error::Exists),
            (XattrMode::Replace, false) => Err(Error::NoAttribute),
            _ => self.set_layout(ino, layout),
        }
    }

    /// Files that are made from now on are striped again.
    pub(crate) fn remove_placement(&self, ino: Ino) -> Result<(), Error> {
        match self.has_placement(ino)? {
            true => self.set_layout(ino, Layout::Striped),
            false => Err(Error::NoAttribute),
        }
    }

    fn set_layout(&self, ino: Ino, layout: Layout) -> Result<(), Error> {
        let node = self.table.get(ino)?;
        let record = keys::inode(ino);
        let batch = Batch::new()
            .present(record.clone())
            .patch(record.clone(), inode::LAYOUT, layout.number().to_be_bytes())
            .max(record, inode::CTIME, self.now().0)
            .reclaims();
        let set = self.store.batch(node.home, &batch);
        self.forget_directory(ino);
        self.record_of_changed(ino);
        match set?.applied() {
            // What is made next in the directory inherits it.
            true => {
                self.record_of_directory_changed(ino, &batch);
                self.fetch(node.reference()).map(drop)
            }
            false => Err(Error::Stale),
        }
    }
}
