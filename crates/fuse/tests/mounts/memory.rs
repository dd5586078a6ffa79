//! Shared memory maps of files.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use crate::support::{STRIPE, pattern};

/// Long enough for a close to have come through.
const SOME_TIME: Duration = Duration::from_millis(100);

/// A shared map of a whole file, for reading and writing.
pub struct Map {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Map {
    pub fn of(file: &File, length: usize) -> Map {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let hint = std::ptr::null_mut();
        // SAFETY: a new map is placed where nothing else is.
        let start = unsafe { mmap(hint, length, protection, MapFlags::SHARED, file, 0) }.unwrap();
        Map { start, length }
    }

    pub fn load(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.length);
        let mut bytes = vec![0; length];
        let from = self.start.cast::<u8>();
        // SAFETY: inside the map, which lives as long as `self`; others may change it at any time,
        // so it is copied through pointers and never referred to.
        unsafe { std::ptr::copy(from.add(at), bytes.as_mut_ptr(), length) };
        bytes
    }

    pub fn store(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        let to = self.start.cast::<u8>();
        // SAFETY: as in `load`.
        unsafe { std::ptr::copy(bytes.as_ptr(), to.add(at), bytes.len()) };
    }

    /// Whether a load at this place would succeed: the kernel is asked to read it for a pipe,
    /// which answers with an error number where a load would end the program.
    fn is_there(&self, at: usize) -> bool {
        assert!(at < self.length);
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let from = self.start.cast::<u8>();
        // SAFETY: one byte inside the map; only a system call reads it, which checks the address.
        unsafe { libc::write(writer.as_raw_fd(), from.add(at).cast(), 1) == 1 }
    }

    /// Lets the kernel forget that the pages are mapped, so that the next load asks for them.
    fn let_go(&self) {
        let advice = rustix::mm::Advice::LinuxDontNeed;
        // SAFETY: the whole of a shared map: its bytes stay in the file.
        unsafe { rustix::mm::madvise(self.start, self.length, advice) }.unwrap();
    }

    pub fn sync(&self) {
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
    let map = Map::of(&file, 2 * STRIPE);
    drop(file);
    // A file that the kernel maps by itself is released with its descriptor, some time later.
    std::thread::sleep(SOME_TIME);
    let bytes = pattern(STRIPE, 3);
    map.store(STRIPE / 2, &bytes);
    map.sync();
    drop(map);
    check_middle(&path, &bytes);
}

pub fn a_map_outlives_its_name(dir: &Path) {
    let path = dir.join("library");
    let bytes = pattern(3 * STRIPE, 5);
    fs::write(&path, &bytes).unwrap();
    let map = Map::of(&read_write(&path), 3 * STRIPE);
    std::thread::sleep(SOME_TIME);
    fs::remove_file(&path).unwrap();
    std::thread::sleep(SOME_TIME);
    // A test that touches what is gone dies by a signal, with all others; ask the kernel instead.
    let still_there = |at: usize| map.is_there(at);
    assert!((0..3 * STRIPE).step_by(STRIPE).all(still_there), "the map lost its file");
    assert!(map.load(0, 3 * STRIPE) == bytes);
}

/// The kernel writes a map's pages through the descriptor that was mapped.
pub fn a_map_of_a_descriptor_that_appends_stays_in_place(dir: &Path) {
    let path = dir.join("database");
    let file = OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
    file.set_len(2 * STRIPE as u64).unwrap();
    let map = Map::of(&file, 2 * STRIPE);
    let bytes = pattern(STRIPE, 3);
    map.store(STRIPE / 2, &bytes);
    map.sync();
    drop(map);
    check_middle(&path, &bytes);
}

fn only_writing(path: &Path) -> File {
    OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap()
}

/// Whichever comes first, the writer or the map.
pub fn readers_and_maps_see_what_a_descriptor_that_only_writes_wrote(dir: &Path) {
    let length = 2 * STRIPE;
    for writer_is_first in [true, false] {
        let path = dir.join(format!("file {writer_is_first}"));
        fs::write(&path, pattern(length, 1)).unwrap();
        let early = writer_is_first.then(|| only_writing(&path));
        let reader = read_write(&path);
        let map = Map::of(&reader, length);
        assert!(map.load(0, length) == pattern(length, 1));
        let writer = early.unwrap_or_else(|| only_writing(&path));
        for (round, at) in [0, 100, STRIPE - 3, length - 10].into_iter().enumerate() {
            let bytes = [round as u8 + 100; 10];
            writer.write_all_at(&bytes, at as u64).unwrap();
            assert_eq!(map.load(at, 10), bytes, "loaded at {at}, writer first: {writer_is_first}");
            let mut back = [0; 10];
            reader.read_exact_at(&mut back, at as u64).unwrap();
            assert_eq!(back, bytes, "read at {at}, writer first: {writer_is_first}");
            map.store(at, &[round as u8; 10]);
            reader.read_exact_at(&mut back, at as u64).unwrap();
            assert_eq!(back, [round as u8; 10], "stored at {at}, writer first: {writer_is_first}");
        }
        drop((map, reader, writer));
        let mut expected = pattern(length, 1);
        for (round, at) in [0, 100, STRIPE - 3, length - 10].into_iter().enumerate() {
            expected[at..at + 10].fill(round as u8);
        }
        assert!(fs::read(&path).unwrap() == expected, "writer first: {writer_is_first}");
    }
}

/// A page that a load brings in while a write passes it by must not stay as it was.
pub fn a_map_that_is_filled_while_others_write_is_right_afterwards(dir: &Path) {
    let path = dir.join("counter");
    let writer = only_writing(&path);
    writer.write_all_at(&[0; 4096], 0).unwrap();
    let map = Map::of(&read_write(&path), 4096);
    let ends = std::sync::atomic::AtomicBool::new(false);
    let other = Map::of(&read_write(&path), 4096);
    let (other, ends) = (&Shared(other), &ends);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                other.0.let_go();
                other.0.load(0, 8);
            }
        });
        let stale = (1..=3_000_u64).find(|number| {
            writer.write_all_at(&number.to_ne_bytes(), 0).unwrap();
            map.load(0, 8) != number.to_ne_bytes()
        });
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(stale, None, "a write was not seen after it had returned");
    });
}

/// A map that another thread may use.
struct Shared(Map);

// SAFETY: the map is used through system calls and copies only.
unsafe impl Sync for Shared {}

fn check_middle(path: &Path, bytes: &[u8]) {
    let back = fs::read(path).unwrap();
    assert_eq!(back.len(), 2 * STRIPE);
    assert!(back[STRIPE / 2..3 * STRIPE / 2] == *bytes);
    assert!(back[..STRIPE / 2].iter().all(|&byte| byte == 0));
}

const LONG_AGO: SystemTime = UNIX_EPOCH;

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// A time that is set by hand is the file's until more is stored, whenever the kernel writes what was.
pub fn a_time_that_is_set_covers_what_was_stored_before_and_nothing_later(dir: &Path) {
    for closes_first in [true, false] {
        let path = dir.join(format!("closed {closes_first}"));
        let file = read_write(&path);
        file.set_len(3 * 4096).unwrap();
        let map = Map::of(&file, 3 * 4096);
        map.store(4096, b"before");
        let mut file = Some(file).filter(|_| !closes_first);
        File::open(&path).unwrap().set_modified(LONG_AGO).unwrap();
        assert_eq!(modified(&path), LONG_AGO);
        map.sync();
        drop((map, file.take()));
        std::thread::sleep(SOME_TIME);
        assert_eq!(modified(&path), LONG_AGO, "closed first: {closes_first}");
        let map = Map::of(&read_write(&path), 3 * 4096);
        map.load(0, 3 * 4096);
        map.sync();
        drop(map);
        assert_eq!(modified(&path), LONG_AGO, "a load dates nothing");
        // Where the kernel serves the file by itself it does not date a store into what was loaded, nor
        // one after the last close.
        let file = read_write(&path);
        let map = Map::of(&file, 3 * 4096);
        map.store(0, b"after");
        map.sync();
        drop((map, file));
        assert!(modified(&path) > LONG_AGO, "closed first: {closes_first}");
    }
}

/// The last page of a file is mapped whole.
pub fn what_is_stored_behind_the_end_is_no_part_of_the_file_when_it_grows(dir: &Path) {
    type Growth = fn(&File, u64);
    let growths: [(&str, Growth); 2] = [
        ("cut to more", |file, size| file.set_len(size).unwrap()),
        ("allocated", |file, size| {
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
        }),
    ];
    for (how, grow) in growths {
        for size in [300, 4096, 9000] {
            let path = dir.join(format!("{how} {size}"));
            let file = read_write(&path);
            file.set_len(4096).unwrap();
            let map = Map::of(&file, 4096);
            map.store(0, b"inside");
            file.set_len(100).unwrap();
            map.store(200, b"behind");
            grow(&file, size);
            assert_eq!(map.load(0, 6), b"inside", "{how} to {size}");
            let mut back = vec![1; size as usize];
            file.read_exact_at(&mut back, 0).unwrap();
            assert!(back[100..].iter().all(|&byte| byte == 0), "{how} to {size}");
            map.store(200, b"inside");
            map.sync();
            drop((map, file));
            let back = fs::read(&path).unwrap();
            assert_eq!((back.len() as u64, &back[200..206]), (size, &b"inside"[..]), "{how}");
            assert!(back[206..].iter().all(|&byte| byte == 0), "{how} to {size}");
        }
    }
}
