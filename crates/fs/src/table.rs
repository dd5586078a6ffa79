//! The inodes that this mount's kernel knows: where their records live, and the open file of each.
//!
//! A node enters with its first look-up and leaves when the kernel has forgotten all of them and
//! no handle is open.

mod places;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidefs_model::{Ino, ShardKey};
use tidefs_store::Store;

use crate::attr::Kind;
use crate::counting_down::CountingDown;
use crate::data::{OpenFile, Stored};
use crate::directories::Memory;
use crate::entry::Reference;
use crate::error::Error;
use crate::inode::Inode;
use crate::keys;
use crate::known_records::KnownRecord;
use crate::layout::Layout;
use places::Places;

/// Beyond the bits of a mode.
const IS_LOCAL: u32 = 1 << 31;
const IS_CAPABLE: u32 = 1 << 30;
/// This part of the table is given up beyond what is too many, so that it is not done for each one.
const PRUNED_SHARE: usize = 16;
/// Inodes that the kernel is asked to give up in one go.
const PRUNED_AT_ONCE: usize = 4_096;
/// Locks over which the table is spread.
const STRIPES: usize = 64;

pub struct Table<S: Store> {
    stripes: Vec<Nodes<S>>,
}

type Nodes<S> = Mutex<HashMap<Ino, Arc<Node<S>>>>;

/// What a new entry of a directory takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    pub mode: u32,
    pub gid: u32,
    pub layout: Layout,
    /// Of a file: it lends capabilities.
    pub capable: bool,
}

/// An inode that the kernel knows.
pub struct Node<S: Store> {
    pub ino: Ino,
    pub home: ShardKey,
    pub kind: Kind,
    lookups: AtomicU64,
    /// Open handles; changed only with the slot locked.
    handles: AtomicU64,
    /// The directory through which the kernel came to it last.
    parent: AtomicU64,
    /// As last seen, for what a new entry inherits and what a write ends: mode (low 30 bits), whether it
    /// lends capabilities and whether the layout is local (a bit each), and group (high 32 bits).
    inherited: AtomicU64,
    slot: Mutex<Slot<S>>,
    /// Of a directory; most inodes are none.
    pub(crate) memory: OnceLock<Box<Mutex<Memory>>>,
    /// Of a directory: where the kernel may have it.
    pub(crate) places: OnceLock<Box<Mutex<Places>>>,
    /// The time of being alone, or the delegation, since which this mount knows that the inode has no extended
    /// attributes; 0 when it does not know.
    bare: AtomicU64,
    pub(crate) counting_down: CountingDown,
    /// Another mount has removed and freed it.
    gone: AtomicBool,
}

/// The open file of a node. Its lock orders open, release and unlink of one inode.
pub struct Slot<S: Store> {
    pub file: Option<Arc<OpenFile<S>>>,
    /// The last name is gone; the inode goes with the last handle.
    pub unlinked: bool,
    /// The last user sends what is left, before it leaves.
    pub is_left: bool,
    /// Counts the names that went, so that whoever opens the file by a record that was read before
    /// reads it again.
    pub removals: u64,
    /// The version of the bytes that the kernel may have cached.
    pub version_cached: Option<u64>,
    /// What the record said when the file was closed last.
    pub left: Option<Stored>,
    /// Up to where failed writes may have left something beyond its end then; 0 where nothing is.
    pub residue_end: u64,
    /// Of a sparse file: a version of it, and how many bytes were stored then.
    pub stored: Option<Box<(u64, u64)>>,
    /// The file's record, where it was read lately.
    pub known: Option<Box<KnownRecord>>,
}

impl<S: Store> Node<S> {
    fn new(reference: Reference) -> Node<S> {
        let slot = Slot {
            file: None,
            unlinked: false,
            is_left: false,
            removals: 0,
            version_cached: None,
            left: None,
            residue_end: 0,
            stored: None,
            known: None,
        };
        Node {
            ino: reference.ino,
            home: reference.home,
            kind: reference.kind,
            lookups: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            // The root's.
            parent: AtomicU64::new(reference.ino.0),
            inherited: AtomicU64::new(0),
            slot: Mutex::new(slot),
            memory: OnceLock::new(),
            places: OnceLock::new(),
            bare: AtomicU64::new(0),
            counting_down: CountingDown::default(),
            gone: AtomicBool::new(false),
        }
    }

    pub fn set_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Another mount has freed the file, so what is missing of it is no hole. No inode comes back.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    pub fn is_there(&self) -> Result<(), Error> {
        if self.is_gone() { Err(Error::Stale) } else { Ok(()) }
    }

    pub fn slot(&self) -> MutexGuard<'_, Slot<S>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_bare(&self, era: Option<u64>) {
        self.bare.store(era.unwrap_or(0), Ordering::SeqCst);
    }

    /// The inode is known to have no extended attributes.
    pub fn is_bare(&self, era: Option<u64>) -> bool {
        era.is_some_and(|era| era == self.bare.load(Ordering::SeqCst))
    }

    /// It was looked up once only.
    pub fn was_just_found(&self) -> bool {
        self.lookups.load(Ordering::Relaxed) == 1
    }

    pub fn is_open(&self) -> bool {
        self.handles.load(Ordering::SeqCst) > 0
    }

    /// One handle more, for whoever holds the slot. `true`: it is the first.
    pub fn add_handle(&self, _slot: &Slot<S>) -> bool {
        self.handles.fetch_add(1, Ordering::SeqCst) == 0
    }

    pub fn has_one_handle(&self, _slot: &Slot<S>) -> bool {
        self.handles.load(Ordering::SeqCst) == 1
    }

    /// One handle less. `true`: it was the last.
    pub fn remove_handle(&self, _slot: &Slot<S>) -> bool {
        self.handles.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub fn reference(&self) -> Reference {
        Reference { kind: self.kind, ino: self.ino, home: self.home }
    }

    /// What `..` stands for, as far as this mount has seen.
    pub fn parent(&self) -> Ino {
        Ino(self.parent.load(Ordering::Relaxed))
    }

    /// How often the kernel was told of it, less what it has forgotten.
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// What [`Node::saw`] keeps, for [`Table::restore`].
    pub fn seen(&self) -> u64 {
        self.inherited.load(Ordering::Relaxed)
    }

    pub fn set_parent(&self, parent: Ino) {
        self.parent.store(parent.0, Ordering::Relaxed);
    }

    pub fn saw(&self, inode: &Inode) {
        let local = if inode.layout == Layout::Local { IS_LOCAL } else { 0 };
        let capable = if inode.capable { IS_CAPABLE } else { 0 };
        let mode = inode.mode & !(IS_LOCAL | IS_CAPABLE);
        let seen = u64::from(inode.gid) << 32 | u64::from(mode | local | capable);
        self.inherited.store(seen, Ordering::Relaxed);
    }

    /// The file lends capabilities from here on, or none.
    pub fn set_capable(&self, capable: bool) {
        match capable {
            true => self.inherited.fetch_or(IS_CAPABLE.into(), Ordering::Relaxed),
            false => self.inherited.fetch_and(!u64::from(IS_CAPABLE), Ordering::Relaxed),
        };
    }

    /// What was seen last of the directory.
    pub fn inherited(&self) -> Inherited {
        let seen = self.inherited.load(Ordering::Relaxed);
        let (low, gid) = (seen as u32, (seen >> 32) as u32);
        let layout = if low & IS_LOCAL == 0 { Layout::Striped } else { Layout::Local };
        let capable = low & IS_CAPABLE != 0;
        Inherited { mode: low & !(IS_LOCAL | IS_CAPABLE), gid, layout, capable }
    }
}

impl<S: Store> Table<S> {
    /// A table that knows the root.
    pub fn new() -> Table<S> {
        let table = Table { stripes: (0..STRIPES).map(|_| Mutex::new(HashMap::new())).collect() };
        let root = Reference { kind: Kind::Directory, ino: Ino::ROOT, home: keys::ROOT_HOME };
        table.look_up(root);
        table
    }

    pub fn get(&self, ino: Ino) -> Result<Arc<Node<S>>, Error> {
        self.stripe(ino).get(&ino).cloned().ok_or(Error::Stale)
    }

    pub fn find(&self, ino: Ino) -> Option<Arc<Node<S>>> {
        self.stripe(ino).get(&ino).cloned()
    }

    /// The node of an inode that the kernel is about to hear of; counts as one look-up.
    pub fn look_up(&self, reference: Reference) -> Arc<Node<S>> {
        let mut stripe = self.stripe(reference.ino);
        let node = stripe.entry(reference.ino).or_insert_with(|| Arc::new(Node::new(reference)));
        node.lookups.fetch_add(1, Ordering::Relaxed);
        node.clone()
    }

    /// An inode that the kernel knows already, as somebody else has seen it.
    pub fn restore(&self, reference: Reference, lookups: u64, parent: Ino, seen: u64) {
        let node = Node::new(reference);
        node.lookups.store(lookups, Ordering::Relaxed);
        node.inherited.store(seen, Ordering::Relaxed);
        node.set_parent(parent);
        self.stripe(reference.ino).insert(reference.ino, Arc::new(node));
    }

    /// The nodes of all inodes that the kernel knows now.
    pub fn all(&self) -> Vec<Arc<Node<S>>> {
        let stripes = self.stripes.iter();
        stripes.flat_map(|stripe| lock(stripe).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// The kernel gave up some look-ups. `true`: it has the inode no more.
    pub fn forget(&self, ino: Ino, lookups: u64) -> bool {
        let mut stripe = self.stripe(ino);
        let Some(node) = stripe.get(&ino) else { return false };
        let before = node.lookups.load(Ordering::Relaxed);
        let left = before.saturating_sub(lookups);
        node.lookups.store(left, Ordering::Relaxed);
        let is_gone = left == 0 && ino != Ino::ROOT && !node.is_open();
        if is_gone {
            stripe.remove(&ino);
        }
        is_gone
    }

    /// Some of those that the kernel could do without, where it knows more than `most`: down to a little less
    /// than that, and no more than it is told of at once. `turn`: which, another one each time.
    pub fn surplus(&self, most: usize, turn: usize) -> Vec<Ino> {
        let known: usize = self.stripes.iter().map(|stripe| lock(stripe).len()).sum();
        let Some(beyond) = known.checked_sub(most).filter(|beyond| *beyond > 0) else {
            return Vec::new();
        };
        let wanted = (beyond + most / PRUNED_SHARE).min(PRUNED_AT_ONCE);
        let each = wanted.div_ceil(STRIPES);
        let stripes = self.stripes.iter().cycle().skip(turn % STRIPES).take(STRIPES);
        let some = stripes.flat_map(|stripe| {
            let stripe = lock(stripe);
            let unused = stripe.values().filter(|node| node.ino != Ino::ROOT && !node.is_open());
            unused.map(|node| node.ino).take(each).collect::<Vec<_>>()
        });
        some.take(wanted).collect()
    }

    /// A directory behind all that the kernel knows below it, the deepest first; not many more than `most`.
    pub fn with_all_below(&self, directory: Ino, most: usize) -> Vec<Ino> {
        let (mut all, mut level) = (vec![directory], HashSet::from([directory]));
        let mut seen = level.clone();
        while !level.is_empty() && all.len() < most {
            let mut next = HashSet::new();
            for stripe in &self.stripes {
                let stripe = lock(stripe);
                let below = stripe.values().filter(|node| level.contains(&node.parent()));
                let room = most.saturating_sub(all.len() + next.len());
                next.extend(below.map(|node| node.ino).filter(|ino| seen.insert(*ino)).take(room));
            }
            all.extend(&next);
            level = next;
        }
        all.reverse();
        all
    }

    /// All inodes that the kernel knows now.
    pub fn inos(&self) -> Vec<Ino> {
        let stripes = self.stripes.iter();
        stripes.flat_map(|stripe| lock(stripe).keys().copied().collect::<Vec<_>>()).collect()
    }

    fn stripe(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Arc<Node<S>>>> {
        lock(&self.stripes[ino.0 as usize % STRIPES])
    }
}

fn lock<S: Store>(stripe: &Nodes<S>) -> MutexGuard<'_, HashMap<Ino, Arc<Node<S>>>> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}
