//! What can be seen of a tree: names, kinds, modes, bytes, targets, attributes, and which names
//! share an inode. Links are only compared where an inode could vanish too early.

use std::collections::BTreeMap;

use tidefs_oracle::{Fd, Kind, OpenFlags, Operations, Path};

/// Not among the descriptors of any scenario.
const OWN: Fd = Fd(1000);
const BYTES_MAX: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    kind: Kind,
    mode: u32,
    bytes: Vec<u8>,
    xattrs: Vec<(String, Vec<u8>)>,
    /// Names that the inode claims to have; 0 for a directory, whose subdirectories are counted
    /// when a rename has come to its end.
    links: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot(BTreeMap<Path, Seen>);

impl Snapshot {
    pub fn of(tree: &mut impl Operations) -> Snapshot {
        let root = look(tree, &Path::root(), Kind::Directory);
        let mut seen = BTreeMap::from([(Path::root(), root)]);
        let mut directories = vec![Path::root()];
        while let Some(directory) = directories.pop() {
            for (name, kind) in tree.readdir(&directory).expect("a listing") {
                let at = directory.join(&name);
                seen.insert(at.clone(), look(tree, &at, kind));
                if kind == Kind::Directory {
                    directories.push(at);
                }
            }
        }
        Snapshot(seen)
    }

    /// The same tree. Links may be more than there are names, and never less.
    pub fn is(&self, other: &Snapshot) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.into_iter().all(|((at, seen), (other_at, other))| {
                let same = Seen { links: other.links, ..seen.clone() } == *other;
                at == other_at && same && seen.links >= other.links
            })
    }

    /// The same names as the last or the last but one of the states, and no byte that none of
    /// them has at its place.
    pub fn lies_among(&self, states: &[Snapshot]) -> bool {
        let names = |snapshot: &Snapshot| snapshot.0.keys().cloned().collect::<Vec<_>>();
        let is_mix = |(at, seen): (&Path, &Seen)| {
            let of_state = |state: &Snapshot| state.0.get(at).map(|seen| seen.bytes.clone());
            is_mix(&seen.bytes, &states.iter().filter_map(of_state).collect::<Vec<_>>())
        };
        states.iter().rev().take(2).any(|state| names(state) == names(self))
            && self.0.iter().all(is_mix)
    }
}

fn is_mix(bytes: &[u8], states: &[Vec<u8>]) -> bool {
    let at = |bytes: &[u8], index: usize| bytes.get(index).copied().unwrap_or(0);
    let sizes = || states.iter().map(Vec::len);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    (least..=most).contains(&bytes.len())
        && (0..bytes.len()).all(|i| states.iter().any(|state| at(state, i) == bytes[i]))
}

fn look(tree: &mut impl Operations, at: &Path, kind: Kind) -> Seen {
    let facts = tree.stat(at).unwrap_or_else(|error| panic!("{at:?} is listed, but {error:?}"));
    assert_eq!(facts.kind, kind, "{at:?} is what its entry says");
    let bytes = match kind {
        Kind::File => read(tree, at),
        Kind::Symlink => tree.readlink(at).expect("a target").into_bytes(),
        Kind::Directory | Kind::Fifo => Vec::new(),
    };
    let names = tree.list_xattrs(at).expect("names of attributes");
    let value = |name: String| {
        let value = tree.get_xattr(at, &name).expect("an attribute that is listed");
        (name, value)
    };
    let xattrs = names.into_iter().map(value).collect();
    let links = if kind == Kind::Directory { 0 } else { facts.links };
    Seen { kind, mode: facts.mode, bytes, xattrs, links }
}

fn read(tree: &mut impl Operations, at: &Path) -> Vec<u8> {
    tree.open(OWN, at, OpenFlags::READ, 0).expect("a file opens");
    let bytes = tree.read(OWN, 0, BYTES_MAX).expect("a file is read");
    tree.close(OWN).expect("a file is closed");
    bytes
}

/// Without the bytes themselves, of which a sum says enough.
impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum: u64 = self.bytes.iter().map(|&byte| u64::from(byte)).sum();
        let Seen { kind, mode, bytes, xattrs, links } = self;
        let bytes = bytes.len();
        write!(f, "{kind:?} {mode:o}, {links} links, {bytes} bytes (sum {sum}), {xattrs:?}")
    }
}
