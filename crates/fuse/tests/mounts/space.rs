//! Holes and space.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use tidefs_fs::FILE_BYTES_MAX;

use crate::support::{STRIPE, pattern, refusal};

fn new_file(dir: &Path) -> File {
    OpenOptions::new().read(true).write(true).create_new(true).open(dir.join("file")).unwrap()
}

fn read(file: &File, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![1; length];
    file.read_exact_at(&mut bytes, offset as u64).unwrap();
    bytes
}

pub fn holes_read_as_zeros_and_are_found(dir: &Path) {
    let file = new_file(dir);
    file.write_all_at(&[7; 4096], 10 * STRIPE as u64).unwrap();
    file.set_len(20 * STRIPE as u64).unwrap();
    assert!(read(&file, 0, 10 * STRIPE).iter().all(|&byte| byte == 0));
    assert!(read(&file, 10 * STRIPE, 4096).iter().all(|&byte| byte == 7));
    let data = seek(&file, SeekFrom::Data(0)).unwrap();
    assert!(data > 0 && data <= 10 * STRIPE as u64, "data at {data}");
    let hole = seek(&file, SeekFrom::Hole(10 * STRIPE as u64)).unwrap();
    assert!((10 * STRIPE as u64 + 4096..=11 * STRIPE as u64).contains(&hole), "hole at {hole}");
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(&file, SeekFrom::Data(hole)), Err(Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Data(20 * STRIPE as u64)), Err(Errno::NXIO));
    // The end of a file counts as a hole.
    let full = File::create(dir.join("full")).unwrap();
    full.write_all_at(&pattern(2 * STRIPE, 1), 0).unwrap();
    assert_eq!(seek(&full, SeekFrom::Hole(0)), Ok(2 * STRIPE as u64));
    assert_eq!(seek(&full, SeekFrom::Data(5)), Ok(5));
}

pub fn space_is_allocated_punched_and_zeroed(dir: &Path) {
    let file = new_file(dir);
    let bytes = pattern(4 * STRIPE, 1);
    file.write_all_at(&bytes, 0).unwrap();
    let size = || file.metadata().unwrap().len() as usize;
    let keep = FallocateFlags::KEEP_SIZE;
    let stripe = STRIPE as u64;

    fallocate(&file, FallocateFlags::empty(), 0, 5 * stripe).unwrap();
    assert_eq!(size(), 5 * STRIPE);
    assert!(read(&file, 0, 4 * STRIPE) == bytes, "an allocation changes no bytes");
    assert!(read(&file, 4 * STRIPE, STRIPE).iter().all(|&byte| byte == 0));
    fallocate(&file, keep, 0, 9 * stripe).unwrap();
    assert_eq!(size(), 5 * STRIPE);

    fallocate(&file, FallocateFlags::PUNCH_HOLE | keep, stripe / 2, 2 * stripe).unwrap();
    let back = read(&file, 0, 4 * STRIPE);
    assert!(back[..STRIPE / 2] == bytes[..STRIPE / 2]);
    assert!(back[STRIPE / 2..5 * STRIPE / 2].iter().all(|&byte| byte == 0));
    assert!(back[5 * STRIPE / 2..] == bytes[5 * STRIPE / 2..]);

    fallocate(&file, FallocateFlags::ZERO_RANGE | keep, 3 * stripe, 9 * stripe).unwrap();
    assert_eq!(size(), 5 * STRIPE);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 3 * stripe + 1, 3 * stripe).unwrap();
    assert_eq!(size(), 6 * STRIPE + 1);
    assert!(read(&file, 3 * STRIPE, 3 * STRIPE + 1).iter().all(|&byte| byte == 0));

    let collapse = fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, stripe);
    assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, 0), Err(Errno::INVAL));
}

pub fn a_file_has_a_largest_size(dir: &Path) {
    let file = new_file(dir);
    assert_eq!(refusal(file.set_len(FILE_BYTES_MAX + 1)), Errno::FBIG);
    assert_eq!(file.metadata().unwrap().len(), 0);
    file.set_len(FILE_BYTES_MAX).unwrap();
    file.write_all_at(b"x", FILE_BYTES_MAX - 1).unwrap();
    assert_eq!(read(&file, FILE_BYTES_MAX as usize - 2, 2), [0, b'x']);
}

/// A file that the kernel writes by itself is bounded by the file behind it.
pub fn a_write_beyond_the_largest_size_is_refused(dir: &Path) {
    let file = new_file(dir);
    assert_eq!(refusal(file.write_at(b"x", FILE_BYTES_MAX)), Errno::FBIG);
    assert_eq!(file.metadata().unwrap().len(), 0);
}

/// What two looks at a file say that it takes: through a descriptor, and by its path.
fn space(file: &File, dir: &Path) -> [u64; 2] {
    let by_path = std::fs::metadata(dir.join("file")).unwrap();
    [file.metadata().unwrap(), by_path].map(|metadata| metadata.blocks() * 512)
}

pub fn a_file_takes_the_space_that_was_written(dir: &Path) {
    let file = new_file(dir);
    let stripe = STRIPE as u64;
    file.set_len(1 << 40).unwrap();
    assert_eq!(space(&file, dir), [0, 0]);
    file.write_all_at(&pattern(STRIPE, 1), 5_000_000 * stripe).unwrap();
    file.write_all_at(&pattern(STRIPE, 1), 0).unwrap();
    assert_eq!(space(&file, dir), [2 * stripe; 2]);
    file.sync_all().unwrap();
    assert_eq!(space(&file, dir), [2 * stripe; 2], "it is stored");
    let again = File::open(dir.join("file")).unwrap();
    drop(file);
    assert_eq!(space(&again, dir), [2 * stripe; 2]);
    drop(again);
    let file = OpenOptions::new().write(true).open(dir.join("file")).unwrap();
    // What is full again counts as full.
    file.set_len(0).unwrap();
    file.write_all_at(&pattern(4 * STRIPE, 1), 0).unwrap();
    assert_eq!(space(&file, dir), [4 * stripe; 2]);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, stripe, 2 * stripe).unwrap();
    assert_eq!(space(&file, dir), [2 * stripe; 2]);
    drop(file);
    let closed = std::fs::metadata(dir.join("file")).unwrap();
    assert_eq!(closed.blocks() * 512, 2 * stripe);
}

/// `cp` and `tar` look for holes where a file takes less space than it has bytes.
pub fn a_copy_of_a_sparse_file_is_sparse(dir: &Path) {
    let file = new_file(dir);
    for place in [3 << 20, 5 << 30, (1 << 40) + 77] {
        file.write_all_at(b"mark", place).unwrap();
    }
    drop(file);
    let mut copying = std::process::Command::new("cp");
    copying.args(["--sparse=auto", "file", "copy"]).current_dir(dir);
    assert!(copying.status().unwrap().success());
    let copy = File::open(dir.join("copy")).unwrap();
    let metadata = copy.metadata().unwrap();
    assert_eq!(metadata.len(), (1 << 40) + 81);
    assert!(metadata.blocks() * 512 <= 3 * STRIPE as u64, "{} blocks", metadata.blocks());
    assert_eq!(read(&copy, (1 << 40) + 77, 4), b"mark");
}
