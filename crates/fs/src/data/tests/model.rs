//! Random operations on a file against a plain vector of bytes.

use proptest::prelude::*;

use super::rig::{Rig, STRIPE, append, new_end, pattern, rig};
use crate::data::{ErrorCursor, ReadAhead};
use crate::{Error, Seek, SpaceMode};

/// Sizes gather around stripe borders.
const PLACES: [u64; 10] =
    [0, 1, 100, STRIPE - 1, STRIPE, STRIPE + 1, 2 * STRIPE, 3 * STRIPE - 7, 9 * STRIPE, 20_000];
const LENGTHS: [u64; 8] = [1, 7, 100, STRIPE - 1, STRIPE, STRIPE + 1, 3 * STRIPE, 10 * STRIPE];
const HANDLES: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Read { handle: usize, offset: u64, length: u64 },
    ReadOn { handle: usize, length: u64 },
    Write { offset: u64, length: u64 },
    WriteOn { length: u64 },
    Append { length: u64, shared: bool },
    Flush,
    FlushAged,
    Truncate { size: u64 },
    Allocate { offset: u64, length: u64, mode: SpaceMode },
    Seek { offset: u64, seek: Seek },
    Reopen,
}

fn place() -> impl Strategy<Value = u64> {
    (prop::sample::select(&PLACES[..]), 0..3_u64).prop_map(|(place, more)| place + more)
}

fn length() -> impl Strategy<Value = u64> {
    prop::sample::select(&LENGTHS[..])
}

fn mode() -> impl Strategy<Value = SpaceMode> {
    prop::sample::select(vec![
        SpaceMode::Allocate,
        SpaceMode::AllocateKeepSize,
        SpaceMode::PunchHole,
        SpaceMode::Zero,
        SpaceMode::ZeroKeepSize,
    ])
}

fn op() -> impl Strategy<Value = Op> {
    let handle = 0..HANDLES;
    prop_oneof![
        5 => (handle.clone(), place(), length())
            .prop_map(|(handle, offset, length)| Op::Read { handle, offset, length }),
        5 => (handle, length()).prop_map(|(handle, length)| Op::ReadOn { handle, length }),
        6 => (place(), length()).prop_map(|(offset, length)| Op::Write { offset, length }),
        4 => length().prop_map(|length| Op::WriteOn { length }),
        2 => (length(), any::<bool>()).prop_map(|(length, shared)| Op::Append { length, shared }),
        1 => Just(Op::Flush),
        1 => Just(Op::FlushAged),
        2 => place().prop_map(|size| Op::Truncate { size }),
        2 => (place(), length(), mode())
            .prop_map(|(offset, length, mode)| Op::Allocate { offset, length, mode }),
        1 => (place(), prop::sample::select(vec![Seek::Data, Seek::Hole]))
            .prop_map(|(offset, seek)| Op::Seek { offset, seek }),
        1 => Just(Op::Reopen),
    ]
}

struct World {
    rig: Rig,
    bytes: Vec<u8>,
    readers: Vec<(ReadAhead, u64)>,
    errors: ErrorCursor,
    written_to: u64,
    round: u64,
}

impl World {
    fn new() -> World {
        let rig = rig(Vec::new());
        let errors = rig.cursor();
        let readers = (0..HANDLES).map(|_| Default::default()).collect();
        World { rig, bytes: Vec::new(), readers, errors, written_to: 0, round: 0 }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Read { handle, offset, length } => self.read(handle, offset, length),
            Op::ReadOn { handle, length } => self.read(handle, self.readers[handle].1, length),
            Op::Write { offset, length } => self.write(offset, length),
            Op::WriteOn { length } if self.written_to < 60 * STRIPE => {
                self.write(self.written_to, length);
            }
            Op::WriteOn { .. } => self.written_to = 0,
            Op::Append { length, shared } => self.append(length, shared),
            Op::Flush => {
                self.rig.file.flush(&self.errors).unwrap();
                assert_eq!(self.rig.inode().size, self.bytes.len() as u64);
                assert!(!self.rig.file.is_dirty());
            }
            Op::FlushAged => self.rig.path.flush_aged(tidefs_model::Time::MAX),
            Op::Truncate { size } => {
                self.rig.file.truncate(size).unwrap();
                self.bytes.resize(size as usize, 0);
            }
            Op::Allocate { offset, length, mode } => self.allocate(offset, length, mode),
            Op::Seek { offset, seek } => self.seek(offset, seek),
            Op::Reopen => {
                self.rig.file.flush(&self.errors).unwrap();
                self.rig = self.rig.other_mount();
                self.errors = self.rig.cursor();
                self.readers = (0..HANDLES).map(|_| Default::default()).collect();
            }
        }
        assert_eq!(self.rig.file.size(), self.bytes.len() as u64, "size after {op:?}");
    }

    fn read(&mut self, handle: usize, offset: u64, length: u64) {
        let (reader, next) = &mut self.readers[handle];
        let read = self.rig.read_with(reader, offset, length as usize);
        let start = (offset as usize).min(self.bytes.len());
        let end = ((offset + length) as usize).min(self.bytes.len());
        assert_eq_bytes(&read, &self.bytes[start..end], offset);
        *next = if read.is_empty() { 0 } else { offset + read.len() as u64 };
    }

    fn write(&mut self, offset: u64, length: u64) {
        self.round += 1;
        let bytes = pattern(offset, length as usize, self.round);
        self.rig.file.write(&self.errors, offset, &bytes).unwrap();
        self.put(offset, &bytes);
    }

    fn append(&mut self, length: u64, shared: bool) {
        self.round += 1;
        let bytes = pattern(7, length as usize, self.round);
        let offset =
            append(&self.rig.file, &self.errors, &bytes, shared, &new_end()).unwrap().start;
        assert_eq!(offset, self.bytes.len() as u64);
        self.put(offset, &bytes);
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[start..end].copy_from_slice(bytes);
        self.written_to = offset + bytes.len() as u64;
    }

    fn allocate(&mut self, offset: u64, length: u64, mode: SpaceMode) {
        self.rig.file.allocate(offset, length, mode).unwrap();
        let end = (offset + length) as usize;
        if matches!(mode, SpaceMode::Allocate | SpaceMode::Zero) {
            self.bytes.resize(self.bytes.len().max(end), 0);
        }
        if !matches!(mode, SpaceMode::Allocate | SpaceMode::AllocateKeepSize) {
            let end = end.min(self.bytes.len());
            self.bytes[(offset as usize).min(end)..end].fill(0);
        }
    }

    /// What lies in a hole must be zeros; which zeros are holes is the store's affair.
    fn seek(&mut self, offset: u64, seek: Seek) {
        let size = self.bytes.len() as u64;
        let found = self.rig.file.seek(offset, seek);
        if offset >= size {
            assert_eq!(found, Err(Error::NoSuchOffset));
            return;
        }
        match (seek, found) {
            (Seek::Data, Ok(found)) => {
                assert!((offset..size).contains(&found));
                let hole = &self.bytes[offset as usize..found as usize];
                assert!(hole.iter().all(|&byte| byte == 0), "data in the hole before {found}");
            }
            (Seek::Data, found) => {
                assert_eq!(found, Err(Error::NoSuchOffset));
                assert!(self.bytes[offset as usize..].iter().all(|&byte| byte == 0));
            }
            (Seek::Hole, found) => {
                let found = found.unwrap();
                assert!((offset..=size).contains(&found));
                let data = self.rig.file.seek(found, Seek::Data);
                assert!(found == size || data != Ok(found), "{found} is a hole and data");
            }
        }
    }
}

fn assert_eq_bytes(read: &[u8], wanted: &[u8], offset: u64) {
    assert_eq!(read.len(), wanted.len(), "bytes read at {offset}");
    if let Some(at) = read.iter().zip(wanted).position(|(read, wanted)| read != wanted) {
        panic!("at {}: {} instead of {}", offset + at as u64, read[at], wanted[at]);
    }
}

proptest! {
    #[test]
    fn a_file_holds_what_a_vector_would(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
        }
        assert_eq_bytes(&world.rig.all(), &world.bytes, 0);
        world.rig.file.flush(&world.errors).unwrap();
        let elsewhere = world.rig.other_mount();
        assert_eq_bytes(&elsewhere.all(), &world.bytes, 0);
        world.rig.path.close();
    }
}
