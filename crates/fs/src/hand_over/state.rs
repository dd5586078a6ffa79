//! What is handed over, and how it lies in bytes.

use tidefs_model::{Ino, ShardKey};

use super::HandOverError;
use super::bytes::{In, Out, Read};
use crate::entry::Reference;
use crate::locks::Held;
use crate::ops::{Handle, Lock, LockFamily, LockKind, OpenMode};

/// Of the layout below. One that a program does not know it refuses.
pub const VERSION: u32 = 2;
const MAGIC: &[u8] = b"tidefs hand-over";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Of the next handle; handles that the kernel has are below.
    pub next_handle: u64,
    /// How many operations over two shards were numbered.
    pub transactions: u64,
    pub nodes: Vec<Node>,
    pub files: Vec<File>,
    pub directories: Vec<Directory>,
    pub locks: Vec<Locks>,
    /// Files in whose records of openers this mount stands.
    pub opened: Vec<(Ino, ShardKey)>,
    pub removed: Vec<Removed>,
}

/// An inode that the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub reference: Reference,
    /// How often the kernel was told of it.
    pub lookups: u64,
    pub parent: Ino,
    pub inherited: u64,
    pub is_unlinked: bool,
    /// The version of the bytes that the kernel has pages of; `None`: it has none, or of several.
    pub pages: Option<u64>,
    /// Up to where failed writes may have left something behind its end; 0 where nothing is.
    pub residue_end: u64,
    /// Of a directory that was removed: its record.
    pub removed: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub handle: Handle,
    pub ino: Ino,
    pub mode: OpenMode,
    /// What it relied on was lost when the mount was expelled.
    pub is_lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub handle: Handle,
    pub ino: Ino,
    /// Names in their order, as they were when reading began.
    pub listing: Option<Vec<(Vec<u8>, Reference)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Locks {
    pub ino: Ino,
    pub home: ShardKey,
    pub held: Vec<Held>,
}

/// A file without a name that this mount is to free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    pub home: ShardKey,
    pub ino: Ino,
    pub size: u64,
    /// When the kernel lets go of it.
    pub waits_for_kernel: bool,
}

impl State {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(MAGIC.to_vec());
        out.u32(VERSION);
        out.u64(self.next_handle);
        out.u64(self.transactions);
        out.each(&self.nodes, put_node);
        out.each(&self.files, |out, file| {
            out.u64(file.handle.0);
            out.u64(file.ino.0);
            out.u8(mode_bits(&file.mode));
            out.u8(file.is_lost.into());
        });
        out.each(&self.directories, |out, directory| {
            out.u64(directory.handle.0);
            out.u64(directory.ino.0);
            out.some(directory.listing.as_deref(), |out, names| {
                out.each(names, |out, (name, reference)| {
                    out.bytes(name);
                    out.reference(reference);
                });
            });
        });
        out.each(&self.locks, |out, locks| {
            out.u64(locks.ino.0);
            out.shard(locks.home);
            out.each(&locks.held, put_held);
        });
        out.each(&self.opened, |out, (ino, home)| {
            out.u64(ino.0);
            out.shard(*home);
        });
        out.each(&self.removed, |out, removed| {
            out.shard(removed.home);
            out.u64(removed.ino.0);
            out.u64(removed.size);
            out.u8(removed.waits_for_kernel.into());
        });
        out.0
    }

    /// # Errors
    /// When the bytes are of another version, or none that this program wrote.
    pub fn decode(bytes: &[u8]) -> Result<State, HandOverError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(HandOverError::Damaged { at: 0 })?;
        let mut from = In::new(rest);
        let found = from.u32()?;
        if found != VERSION {
            return Err(HandOverError::Version { found });
        }
        let state = State {
            next_handle: from.u64()?,
            transactions: from.u64()?,
            nodes: from.each(read_node)?,
            files: from.each(|from| {
                let (handle, ino) = (Handle(from.u64()?), Ino(from.u64()?));
                let mode = mode_of(from.u8()?).ok_or_else(|| from.damaged())?;
                Ok(File { handle, ino, mode, is_lost: from.flag()? })
            })?,
            directories: from.each(|from| {
                let (handle, ino) = (Handle(from.u64()?), Ino(from.u64()?));
                let names =
                    |from: &mut In<'_>| from.each(|from| Ok((from.bytes()?, from.reference()?)));
                Ok(Directory { handle, ino, listing: from.some(names)? })
            })?,
            locks: from.each(|from| {
                let (ino, home) = (Ino(from.u64()?), from.shard()?);
                Ok(Locks { ino, home, held: from.each(read_held)? })
            })?,
            opened: from.each(|from| Ok((Ino(from.u64()?), from.shard()?)))?,
            removed: from.each(|from| {
                let (home, ino, size) = (from.shard()?, Ino(from.u64()?), from.u64()?);
                Ok(Removed { home, ino, size, waits_for_kernel: from.flag()? })
            })?,
        };
        from.end()?;
        Ok(state)
    }
}

fn put_node(out: &mut Out, node: &Node) {
    out.reference(&node.reference);
    out.u64(node.lookups);
    out.u64(node.parent.0);
    out.u64(node.inherited);
    out.u8(node.is_unlinked.into());
    out.some(node.pages, Out::u64);
    out.u64(node.residue_end);
    out.some(node.removed.as_deref(), Out::bytes);
}

fn read_node(from: &mut In<'_>) -> Read<Node> {
    Ok(Node {
        reference: from.reference()?,
        lookups: from.u64()?,
        parent: Ino(from.u64()?),
        inherited: from.u64()?,
        is_unlinked: from.flag()?,
        pages: from.some(In::u64)?,
        residue_end: from.u64()?,
        removed: from.some(In::bytes)?,
    })
}

fn put_held(out: &mut Out, held: &Held) {
    let Lock { family, kind, owner, start, last, pid } = held.lock;
    out.u8((family == LockFamily::Whole).into());
    out.u8((kind == LockKind::Exclusive).into());
    [owner, start, last, held.handle.0].into_iter().for_each(|number| out.u64(number));
    out.u32(pid);
    out.u8(held.may_be_over.into());
}

fn read_held(from: &mut In<'_>) -> Read<Held> {
    let family = if from.flag()? { LockFamily::Whole } else { LockFamily::Record };
    let kind = if from.flag()? { LockKind::Exclusive } else { LockKind::Shared };
    let (owner, start, last) = (from.u64()?, from.u64()?, from.u64()?);
    let (handle, pid) = (Handle(from.u64()?), from.u32()?);
    let lock = Lock { family, kind, owner, start, last, pid };
    Ok(Held { lock, handle, may_be_over: from.flag()? })
}

fn mode_bits(mode: &OpenMode) -> u8 {
    let OpenMode { read, write, append, truncate, exclusive, sync } = *mode;
    let flags = [read, write, append, truncate, exclusive, sync];
    flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag))
}

fn mode_of(bits: u8) -> Option<OpenMode> {
    let has = |bit: u8| bits & 1 << bit != 0;
    (bits < 1 << 6).then(|| OpenMode {
        read: has(0),
        write: has(1),
        append: has(2),
        truncate: has(3),
        exclusive: has(4),
        sync: has(5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Kind;

    fn state() -> State {
        let home = ShardKey { directory: Ino(1), index: 7 };
        let reference = Reference { kind: Kind::File, ino: Ino(9), home };
        let (handle, ino) = (Handle(3), Ino(9));
        let lock = Lock {
            family: LockFamily::Whole,
            kind: LockKind::Exclusive,
            owner: 5,
            start: 0,
            last: u64::MAX,
            pid: 77,
        };
        let mode = OpenMode { write: true, append: true, sync: true, ..OpenMode::default() };
        let node = Node {
            reference,
            lookups: 2,
            parent: Ino(1),
            inherited: 3,
            is_unlinked: true,
            pages: Some(4),
            residue_end: 5,
            removed: None,
        };
        State {
            next_handle: 11,
            transactions: 12,
            nodes: vec![
                node.clone(),
                Node { pages: None, removed: Some(b"record".to_vec()), ..node },
            ],
            files: vec![File { handle, ino, mode, is_lost: true }],
            directories: vec![
                Directory { handle, ino, listing: Some(vec![(b"name".to_vec(), reference)]) },
                Directory { handle: Handle(4), ino, listing: None },
            ],
            locks: vec![Locks { ino, home, held: vec![Held { lock, handle, may_be_over: true }] }],
            opened: vec![(ino, home)],
            removed: vec![Removed { home, ino, size: 8, waits_for_kernel: true }],
        }
    }

    #[test]
    fn what_is_handed_over_arrives() {
        assert_eq!(State::decode(&state().encode()), Ok(state()));
        assert_eq!(State::decode(&State::default().encode()), Ok(State::default()));
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let mut bytes = state().encode();
        bytes[MAGIC.len() + 3] += 1;
        assert_eq!(State::decode(&bytes), Err(HandOverError::Version { found: VERSION + 1 }));
    }

    #[test]
    fn what_is_cut_or_longer_is_damaged() {
        let bytes = state().encode();
        for length in 0..bytes.len() {
            let cut = State::decode(&bytes[..length]);
            assert!(matches!(cut, Err(HandOverError::Damaged { .. })), "{length}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(matches!(State::decode(&longer), Err(HandOverError::Damaged { .. })));
    }

    #[test]
    fn any_bytes_are_a_state_or_damaged() {
        let seeds = vec![state().encode()];
        tidefs_fuzz::run(&seeds, 20_000, |bytes| {
            if let Ok(state) = State::decode(bytes) {
                assert_eq!(State::decode(&state.encode()), Ok(state));
            }
        });
    }
}
