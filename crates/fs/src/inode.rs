//! The record of an inode, as it lies in its home shard.
//!
//! The layout is fixed and its numbers are big-endian, so that a batch can change one of them in
//! place: the offsets below are part of the format. A symbolic link's target follows the record, and a
//! directory's parent.

use tidefs_model::{Ino, ShardKey, Time};

use crate::attr::{Attr, Kind};
use crate::entry::{SHARD_BYTES, put_shard, shard_of};
use crate::error::Error;
use crate::layout::Layout;

pub const KIND: u32 = 0;
/// Of a file, 1 byte: 1 where something may never have been written before its end.
pub const SPARSE: u32 = 1;
/// 1 byte: 1 where it has the extended attribute that lends capabilities.
pub const CAPABLE: u32 = 2;
/// 1 byte: 1 where whoever removed the last name has begun to free the inode and what it holds.
pub const FREED: u32 = 3;
/// Permission bits, 4 bytes.
pub const MODE: u32 = 4;
pub const NLINK: u32 = 8;
pub const SIZE: u32 = 16;
/// Counts the changes of the file's bytes.
pub const VERSION: u32 = 24;
pub const MTIME: u32 = 32;
pub const CTIME: u32 = 40;
pub const ATIME: u32 = 48;
pub const BTIME: u32 = 56;
/// 4 bytes each.
pub const UID: u32 = 64;
pub const GID: u32 = 68;
pub const RDEV: u32 = 72;
/// Of a directory, 4 bytes.
pub const LAYOUT: u32 = 76;
/// One beyond the last place that an append was given: bytes are on their way up to there, and the size
/// follows when they have arrived. Never less than the size.
pub const APPENDS: u32 = 80;
/// Bytes of the fixed part.
pub const BYTES: usize = 88;
/// Of every directory but the root, behind the fixed part; its term comes first.
pub const PARENT: u32 = BYTES as u32;
const PARENT_BYTES: usize = 16 + SHARD_BYTES;
/// Of a file that was cut after a loss, behind the fixed part: 8 bytes each, where, and as of which loss.
pub const CUT_FROM: u32 = BYTES as u32;
pub const CUT_AS_OF: u32 = CUT_FROM + 8;
const CUT_BYTES: usize = 16;
/// Behind that, of a file in which holes were punched after a loss: 24 bytes each.
pub const HOLES: u32 = CUT_FROM + CUT_BYTES as u32;
pub const HOLE_BYTES: usize = 24;

/// Where a file was cut after a loss: what it lacks from there on is no loss, unless there came another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutAt {
    pub from: u64,
    /// How many numbers of inodes had been granted at the loss.
    pub as_of: u64,
}

/// What a file lacks from one byte up to another one is no loss either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub from: u64,
    pub to: u64,
    /// As of [`CutAt`].
    pub as_of: u64,
}

impl Hole {
    pub fn encode(self) -> [u8; HOLE_BYTES] {
        let mut record = [0; HOLE_BYTES];
        for (place, number) in record.chunks_exact_mut(8).zip([self.from, self.to, self.as_of]) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        record
    }

    fn decode(record: &[u8]) -> Hole {
        Hole { from: u64_at(record, 0), to: u64_at(record, 8), as_of: u64_at(record, 16) }
    }

    /// What is left of a longer list.
    pub fn is_nothing(self) -> bool {
        self.from >= self.to
    }
}

/// The directory in which a directory has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Counts the renames that gave any directory another parent: which of them gave it this one.
    pub term: u64,
    pub ino: Ino,
    /// Where its record lives.
    pub home: ShardKey,
}

impl Parent {
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(PARENT_BYTES);
        record.extend(self.term.to_be_bytes());
        record.extend(self.ino.0.to_be_bytes());
        put_shard(&mut record, self.home);
        record
    }

    fn decode(record: &[u8]) -> Option<Parent> {
        let home = shard_of(record.get(16..PARENT_BYTES)?);
        let ino = Ino(u64_at(record, 8));
        (record.len() == PARENT_BYTES).then(|| Parent { term: u64_at(record, 0), ino, home })
    }
}

/// An inode as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    pub kind: Kind,
    /// Less of the file may be stored than its size says.
    pub sparse: bool,
    /// It lends capabilities to whoever runs it.
    pub capable: bool,
    pub mode: u32,
    pub nlink: u64,
    pub size: u64,
    pub version: u64,
    pub mtime: Time,
    pub ctime: Time,
    pub atime: Time,
    pub btime: Time,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    /// Of a directory: where the stripes of files go that are made in it.
    pub layout: Layout,
    /// Of a directory; the root has none.
    pub parent: Option<Parent>,
    /// Of a file.
    pub cut: Option<CutAt>,
    /// Of a file: what was punched after a loss.
    pub holes: Vec<Hole>,
    /// Target of a symbolic link; empty for other kinds.
    pub target: Vec<u8>,
}

impl Inode {
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(BYTES + self.target.len());
        record.extend([kind_byte(self.kind), self.sparse.into(), self.capable.into(), 0]);
        record.extend(self.mode.to_be_bytes());
        let times = [self.mtime.0, self.ctime.0, self.atime.0, self.btime.0];
        for number in [self.nlink, self.size, self.version].into_iter().chain(times) {
            record.extend(number.to_be_bytes());
        }
        for number in [self.uid, self.gid, self.rdev, self.layout.number()] {
            record.extend(number.to_be_bytes());
        }
        record.extend(self.size.to_be_bytes());
        record.extend(self.parent.iter().flat_map(Parent::encode));
        if self.cut.is_some() || !self.holes.is_empty() {
            let cut = self.cut.map_or([0; 2], |cut| [cut.from, cut.as_of]);
            record.extend(cut.into_iter().flat_map(u64::to_be_bytes));
        }
        record.extend(self.holes.iter().flat_map(|hole| hole.encode()));
        record.extend(&self.target);
        record
    }

    pub fn decode(ino: Ino, record: &[u8]) -> Result<Inode, Error> {
        let corrupt = Error::Corrupt { what: "inode", ino: ino.0 };
        if record.len() < BYTES {
            return Err(corrupt);
        }
        let kind = kind_of_byte(record[KIND as usize]).ok_or(corrupt.clone())?;
        let layout = Layout::of_number(u32_at(record, LAYOUT)).ok_or(corrupt.clone())?;
        let rest = &record[BYTES..];
        let (mut parent, mut cut, mut holes, mut target) = (None, None, Vec::new(), Vec::new());
        match kind {
            _ if rest.is_empty() => {}
            Kind::Directory => parent = Some(Parent::decode(rest).ok_or(corrupt)?),
            Kind::File => {
                let (_, punched) = rest.split_at_checked(CUT_BYTES).ok_or(corrupt.clone())?;
                let (from, as_of) = (u64_at(record, CUT_FROM), u64_at(record, CUT_AS_OF));
                // No loss has this number.
                cut = (as_of > 0).then_some(CutAt { from, as_of });
                let punched = punched.chunks_exact(HOLE_BYTES);
                if !punched.remainder().is_empty() {
                    return Err(corrupt);
                }
                holes = punched.map(Hole::decode).filter(|hole| !hole.is_nothing()).collect();
            }
            _ => target = rest.to_vec(),
        }
        Ok(Inode {
            kind,
            sparse: record[SPARSE as usize] != 0,
            capable: record[CAPABLE as usize] != 0,
            mode: u32_at(record, MODE),
            nlink: u64_at(record, NLINK),
            size: u64_at(record, SIZE),
            version: u64_at(record, VERSION),
            mtime: Time(u64_at(record, MTIME)),
            ctime: Time(u64_at(record, CTIME)),
            atime: Time(u64_at(record, ATIME)),
            btime: Time(u64_at(record, BTIME)),
            uid: u32_at(record, UID),
            gid: u32_at(record, GID),
            rdev: u32_at(record, RDEV),
            layout,
            parent,
            cut,
            holes,
            target,
        })
    }

    /// Its space as if all of it were stored.
    pub fn attr(&self, ino: Ino) -> Attr {
        Attr {
            ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            blocks: self.size.div_ceil(512),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
        }
    }
}

const KINDS: [Kind; 7] = [
    Kind::File,
    Kind::Directory,
    Kind::Symlink,
    Kind::Fifo,
    Kind::Socket,
    Kind::CharDevice,
    Kind::BlockDevice,
];

/// The byte that stands for a kind in inode and entry records.
pub fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Symlink => 2,
        Kind::Fifo => 3,
        Kind::Socket => 4,
        Kind::CharDevice => 5,
        Kind::BlockDevice => 6,
    }
}

pub fn kind_of_byte(byte: u8) -> Option<Kind> {
    KINDS.get(usize::from(byte)).copied()
}

/// Some of the inode may be gone already.
pub fn is_being_freed(record: &[u8]) -> bool {
    record.get(FREED as usize).is_some_and(|byte| *byte != 0)
}

/// The big-endian number at an offset of a record that is long enough.
pub fn u64_at(record: &[u8], at: u32) -> u64 {
    let at = at as usize;
    u64::from_be_bytes(record[at..at + 8].try_into().expect("8 bytes"))
}

pub fn u32_at(record: &[u8], at: u32) -> u32 {
    let at = at as usize;
    u32::from_be_bytes(record[at..at + 4].try_into().expect("4 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_decodes_to_what_was_encoded() {
        let inode = Inode {
            kind: Kind::Symlink,
            sparse: true,
            capable: true,
            mode: 0o777,
            nlink: 2,
            size: 5,
            version: 9,
            mtime: Time(11),
            ctime: Time(12),
            atime: Time(13),
            btime: Time(14),
            uid: 1000,
            gid: 100,
            rdev: 0x0102,
            layout: Layout::Local,
            parent: None,
            cut: None,
            holes: Vec::new(),
            target: b"a/b/c".to_vec(),
        };
        let record = inode.encode();
        assert_eq!(record.len(), BYTES + 5);
        assert_eq!(u64_at(&record, NLINK), 2);
        assert_eq!(u64_at(&record, CTIME), 12);
        assert_eq!(u32_at(&record, GID), 100);
        assert_eq!(Inode::decode(Ino(3), &record), Ok(inode.clone()));
        let home = ShardKey { directory: Ino(5), index: 2 };
        let parent = Some(Parent { term: 77, ino: Ino(6), home });
        let cut = Some(CutAt { from: 10, as_of: 4_097 });
        let file = Inode { kind: Kind::File, cut, target: Vec::new(), ..inode.clone() };
        let record = file.encode();
        assert_eq!(u64_at(&record, CUT_AS_OF), 4_097);
        assert_eq!(Inode::decode(Ino(3), &record), Ok(file));
        let holes = vec![Hole { from: 7, to: 9, as_of: 4_097 }, Hole { from: 1, to: 2, as_of: 8 }];
        for cut in [cut, None] {
            let punched = Inode { kind: Kind::File, cut, holes: holes.clone(), ..inode.clone() };
            let punched = Inode { target: Vec::new(), ..punched };
            let mut record = punched.encode();
            assert_eq!(record.len(), HOLES as usize + 2 * HOLE_BYTES);
            assert_eq!(Inode::decode(Ino(3), &record), Ok(punched.clone()));
            // Where there were more before.
            record.extend([0; HOLE_BYTES]);
            assert_eq!(Inode::decode(Ino(3), &record), Ok(punched));
            assert!(Inode::decode(Ino(3), &record[..record.len() - 8]).is_err());
        }
        let half = Inode::decode(Ino(3), &record[..record.len() - 8]);
        assert_eq!(half, Err(Error::Corrupt { what: "inode", ino: 3 }));
        let directory = Inode { kind: Kind::Directory, parent, target: Vec::new(), ..inode };
        let record = directory.encode();
        assert_eq!(u64_at(&record, PARENT), 77);
        assert_eq!(Inode::decode(Ino(3), &record), Ok(directory));
        let cut = Inode::decode(Ino(3), &record[..record.len() - 1]);
        assert_eq!(cut, Err(Error::Corrupt { what: "inode", ino: 3 }));
    }

    #[test]
    fn a_record_that_is_short_or_of_no_kind_is_corrupt() {
        let corrupt = Err(Error::Corrupt { what: "inode", ino: 3 });
        assert_eq!(Inode::decode(Ino(3), &[0; BYTES - 1]), corrupt);
        assert_eq!(Inode::decode(Ino(3), &[7; BYTES]), corrupt);
        let mut strange = [0; BYTES];
        strange[LAYOUT as usize + 3] = 2;
        assert_eq!(Inode::decode(Ino(3), &strange), corrupt);
    }
}
