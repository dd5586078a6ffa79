//! Shared memory maps of files.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use crate::support::{STRIPE, pattern};

/// A shared map of a whole file, for reading and writing.
struct Map {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Map {
    fn of(file: &File, length: usize) -> Map {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: a new map is placed where nothing else is.
        let start = unsafe { mmap(hint, length, protection, MapFlags::SHARED, file, 0) }.unwrap();
        Map { start, length }
    }

    fn load(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.length);
        let mut bytes = vec![0; length];
        let from = self.start.cast::<u8>();
        // SAFETY: inside the map, which lives as long as `self`; others may change it at any time,
        // so it is copied through pointers and never referred to.
        unsafe { std::ptr::copy(from.add(at), bytes.as_mut_ptr(), length) };
        bytes
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        let to = self.start.cast::<u8>();
        // SAFETY: as in `load`.
        unsafe { std::ptr::copy(bytes.as_ptr(), to.add(at), bytes.len()) };
    }

    fn sync(&self) {
        // SAFETY: the whole of a map that is there.
        unsafe { msync(self.start, self.length, MsyncFlags::SYNC) }.unwrap();
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the whole of a map that nobody refers to.
        unsafe { munmap(self.start, self.length) }.unwrap();
    }
}

fn read_write(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

pub fn a_shared_map_and_the_file_are_the_same(dir: &Path) {
    let path = dir.join("file");
    let length = 3 * STRIPE;
    fs::write(&path, pattern(length, 1)).unwrap();
    let file = read_write(&path);
    let map = Map::of(&file, length);
    assert!(map.load(0, length) == pattern(length, 1), "the map shows the file");
    for (round, at) in [0, 100, STRIPE - 3, 2 * STRIPE, length - 10].into_iter().enumerate() {
        let bytes = [round as u8 + 100; 10];
        map.store(at, &bytes);
        let mut back = [0; 10];
        file.read_exact_at(&mut back, at as u64).unwrap();
        assert_eq!(back, bytes, "read after a store at {at}");
        let bytes = [round as u8 + 200; 7];
        file.write_all_at(&bytes, at as u64).unwrap();
        assert_eq!(map.load(at, 7), bytes, "load after a write at {at}");
    }
    map.sync();
    let other = File::open(&path).unwrap();
    let mut back = vec![0; length];
    other.read_exact_at(&mut back, 0).unwrap();
    assert!(back == map.load(0, length), "another descriptor sees the map's bytes");
}

pub fn a_map_outlives_its_descriptor(dir: &Path) {
    let path = dir.join("database");
    let file = read_write(&path);
    file.set_len(2 * STRIPE as u64).unwrap();
    // The kernel writes a map's pages through any writable descriptor, also one that appends.
    let appending = OpenOptions::new().append(true).open(&path).unwrap();
    let map = Map::of(&file, 2 * STRIPE);
    drop(file);
    let bytes = pattern(STRIPE, 3);
    map.store(STRIPE / 2, &bytes);
    map.sync();
    drop(map);
    drop(appending);
    let back = fs::read(&path).unwrap();
    assert_eq!(back.len(), 2 * STRIPE);
    assert!(back[STRIPE / 2..3 * STRIPE / 2] == bytes);
    assert!(back[..STRIPE / 2].iter().all(|&byte| byte == 0));
}
