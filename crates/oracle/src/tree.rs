//! The model: a POSIX file system as maps and byte vectors, without permissions.
//!
//! An inode lives while it has a name or an open descriptor. Times are not values but stamps, which
//! say at which step a time changed; what that means on a clock is for the comparison to know. Of
//! reading times the model only knows what was set by hand in the last step.

mod attributes;
mod bytes;
mod names;
mod operations;

use std::collections::BTreeMap;

use crate::{Errno, Facts, Fd, Kind, OpenFlags, Path};

const ROOT: u64 = 1;
const NAME_BYTES_MAX: usize = 255;

/// When a time of an inode changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// At this step.
    Step(u64),
    /// At this step, or else it is as before: implementations differ.
    Maybe(u64),
    /// Set by hand, in nanoseconds since 1970.
    Set(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    File(Vec<u8>),
    Directory(BTreeMap<String, u64>),
    Symlink(String),
    Fifo,
}

#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub body: Body,
    pub mode: u32,
    /// Names that it has.
    pub names: u64,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub mtime: Stamp,
    pub ctime: Stamp,
    /// Set by hand in this step.
    pub atime: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct OpenFile {
    ino: u64,
    flags: OpenFlags,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Tree {
    inodes: BTreeMap<u64, Inode>,
    open: BTreeMap<Fd, OpenFile>,
    next_ino: u64,
    next_fd: u32,
    step: u64,
}

impl Tree {
    /// An empty tree whose root has this mode.
    pub fn new(mode: u32) -> Tree {
        let mut tree = Tree {
            inodes: BTreeMap::new(),
            open: BTreeMap::new(),
            next_ino: ROOT + 1,
            next_fd: 0,
            step: 0,
        };
        let root = tree.fresh(Body::Directory(BTreeMap::new()), mode);
        tree.inodes.insert(ROOT, root);
        tree
    }

    /// Begins the next step. Whatever looked at the tree meanwhile has read all of it, so reading
    /// times that were set by hand may have moved.
    pub fn advance(&mut self) {
        self.step += 1;
        self.inodes.values_mut().for_each(|inode| inode.atime = None);
    }

    /// A number for the next descriptor to be opened.
    pub fn next_fd(&self) -> Fd {
        Fd(self.next_fd)
    }

    pub fn descriptors(&self) -> impl Iterator<Item = Fd> + '_ {
        self.open.keys().copied()
    }

    pub(crate) fn flags(&self, fd: Fd) -> OpenFlags {
        self.open[&fd].flags
    }

    pub(crate) fn ino_of(&self, fd: Fd) -> u64 {
        self.open[&fd].ino
    }

    /// Every path, the root first and each directory before what is in it.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = vec![Path::root()];
        let mut at = 0;
        while at < paths.len() {
            let directory = paths[at].clone();
            if let Some(Inode { body: Body::Directory(entries), .. }) = self.find(&directory) {
                paths.extend(entries.keys().map(|name| directory.join(name)));
            }
            at += 1;
        }
        paths
    }

    pub fn kind_at(&self, at: &Path) -> Option<Kind> {
        self.find(at).map(Inode::kind)
    }

    /// The inode of a path, if it has one.
    pub(crate) fn find(&self, at: &Path) -> Option<&Inode> {
        self.ino_at(at).ok().map(|ino| &self.inodes[&ino])
    }

    pub(crate) fn inode(&self, ino: u64) -> &Inode {
        &self.inodes[&ino]
    }

    pub(crate) fn ino_at(&self, at: &Path) -> Result<u64, Errno> {
        if at.is_root() {
            return Ok(ROOT);
        }
        self.entry(self.parent_of(at)?, at.name())?.ok_or(Errno::NotFound)
    }

    fn facts(&self, ino: u64) -> Facts {
        let inode = &self.inodes[&ino];
        let (links, size) = match &inode.body {
            Body::File(bytes) => (inode.names, bytes.len() as u64),
            Body::Symlink(target) => (inode.names, target.len() as u64),
            Body::Fifo => (inode.names, 0),
            Body::Directory(entries) => (2 + self.directories_in(entries), 0),
        };
        Facts { kind: inode.kind(), mode: inode.mode, links, size }
    }

    fn directories_in(&self, entries: &BTreeMap<String, u64>) -> u64 {
        let is_directory = |ino: &&u64| self.inodes[ino].kind() == Kind::Directory;
        entries.values().filter(is_directory).count() as u64
    }

    /// The directory that the last name of a path is in. No symbolic link is followed.
    fn parent_of(&self, at: &Path) -> Result<u64, Errno> {
        at.parent().names().try_fold(ROOT, |directory, name| {
            let ino = self.entry(directory, name)?.ok_or(Errno::NotFound)?;
            match self.inodes[&ino].kind() {
                Kind::Directory => Ok(ino),
                _ => Err(Errno::NotADirectory),
            }
        })
    }

    fn entry(&self, directory: u64, name: &str) -> Result<Option<u64>, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NameTooLong);
        }
        Ok(self.entries(directory).get(name).copied())
    }

    /// # Panics
    /// When the inode is no directory, which the caller has ruled out.
    fn entries(&self, directory: u64) -> &BTreeMap<String, u64> {
        match &self.inodes[&directory].body {
            Body::Directory(entries) => entries,
            other => panic!("inode {directory} is no directory but {other:?}"),
        }
    }

    fn inode_mut(&mut self, ino: u64) -> &mut Inode {
        self.inodes.get_mut(&ino).unwrap_or_else(|| panic!("inode {ino} is gone"))
    }

    fn fresh(&self, body: Body, mode: u32) -> Inode {
        let now = Stamp::Step(self.step);
        Inode { body, mode, names: 1, xattrs: BTreeMap::new(), mtime: now, ctime: now, atime: None }
    }

    /// The inode changed, but not what is in it.
    fn touch(&mut self, ino: u64) {
        let now = Stamp::Step(self.step);
        self.inode_mut(ino).ctime = now;
    }

    /// Implementations may or may not take this for a change of the inode.
    fn maybe_touch(&mut self, ino: u64) {
        let now = Stamp::Maybe(self.step);
        self.inode_mut(ino).ctime = now;
    }

    /// What is in the inode changed.
    fn modify(&mut self, ino: u64) {
        let now = Stamp::Step(self.step);
        let inode = self.inode_mut(ino);
        (inode.mtime, inode.ctime) = (now, now);
    }

    /// Implementations may or may not take this for a change of what is in the inode.
    fn maybe_modify(&mut self, ino: u64) {
        let now = Stamp::Maybe(self.step);
        let inode = self.inode_mut(ino);
        (inode.mtime, inode.ctime) = (now, now);
    }

    /// Removes an inode that neither a name nor a descriptor leads to.
    fn collect(&mut self, ino: u64) {
        let is_open = self.open.values().any(|file| file.ino == ino);
        if self.inodes[&ino].names == 0 && !is_open {
            self.inodes.remove(&ino);
        }
    }
}

impl Inode {
    pub fn kind(&self) -> Kind {
        match self.body {
            Body::File(_) => Kind::File,
            Body::Directory(_) => Kind::Directory,
            Body::Symlink(_) => Kind::Symlink,
            Body::Fifo => Kind::Fifo,
        }
    }
}
