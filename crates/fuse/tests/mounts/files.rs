//! Reading and writing files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::support::{STRIPE, pattern, refusal};

fn read_write(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

pub fn what_is_written_is_read_back_around_stripe_borders(dir: &Path) {
    let path = dir.join("file");
    let file = read_write(&path);
    let mut expected = vec![0; 4 * STRIPE];
    let sizes = [1, 7, STRIPE - 1, STRIPE, STRIPE + 1, 2 * STRIPE];
    for (seed, (offset, size)) in
        [0, 1, STRIPE - 1, STRIPE, STRIPE + 1].into_iter().zip(sizes).enumerate()
    {
        let bytes = pattern(size, seed as u64);
        file.write_all_at(&bytes, offset as u64).unwrap();
        expected[offset..offset + size].copy_from_slice(&bytes);
        let mut back = vec![0; size];
        file.read_exact_at(&mut back, offset as u64).unwrap();
        assert!(back == bytes, "{size} bytes at {offset}");
    }
    let size = file.metadata().unwrap().len() as usize;
    drop(file);
    assert_eq!(fs::metadata(&path).unwrap().len() as usize, size);
    assert!(fs::read(&path).unwrap() == expected[..size], "the whole file");
}

pub fn a_file_is_reread_while_it_is_written(dir: &Path) {
    let mut file = read_write(&dir.join("mosaic"));
    let mut expected = Vec::new();
    for round in 0..200_u64 {
        let piece = pattern(1 + (round as usize * 769) % 5000, round);
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(&piece).unwrap();
        expected.extend(&piece);
        // Go back into what was written, overwrite some of it, and read across it.
        let at = (round as usize * 7919) % expected.len();
        file.write_at(&[round as u8], at as u64).unwrap();
        expected[at] = round as u8;
        let from = at.saturating_sub(100);
        let until = (at + 100).min(expected.len());
        let mut back = vec![0; until - from];
        file.read_exact_at(&mut back, from as u64).unwrap();
        assert!(back == expected[from..until], "round {round} at {at}");
    }
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert!(all == expected, "{} and {} bytes", all.len(), expected.len());
}

pub fn a_second_descriptor_sees_what_was_written(dir: &Path) {
    let path = dir.join("file");
    let writer = read_write(&path);
    let reader = File::open(&path).unwrap();
    for round in 0..20_u64 {
        let bytes = pattern(3 * STRIPE / 2, round);
        writer.write_all_at(&bytes, 0).unwrap();
        let mut back = vec![0; bytes.len()];
        reader.read_exact_at(&mut back, 0).unwrap();
        assert!(back == bytes, "round {round}");
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64);
    }
}

pub fn an_exclusive_create_has_one_winner(dir: &Path) {
    for round in 0..20 {
        let path = dir.join(format!("lock{round}"));
        let winners: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| match File::create_new(&path) {
                        Ok(_) => 1,
                        error => {
                            assert_eq!(refusal(error), Errno::EXIST);
                            0
                        }
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert_eq!(winners, 1, "round {round}");
    }
}

pub fn truncation_cuts_and_extends_with_zeros(dir: &Path) {
    let file = read_write(&dir.join("file"));
    let bytes = pattern(2 * STRIPE + 10, 1);
    file.write_all_at(&bytes, 0).unwrap();
    for (size, kept) in [(STRIPE + 5, STRIPE + 5), (3 * STRIPE, STRIPE + 5), (3, 3), (STRIPE, 3)] {
        file.set_len(size as u64).unwrap();
        assert_eq!(file.metadata().unwrap().len(), size as u64);
        let mut back = vec![1; size];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back[..kept] == bytes[..kept], "the first {kept} of {size} bytes are kept");
        assert!(back[kept..].iter().all(|&byte| byte == 0), "the rest of {size} bytes is zero");
        assert_eq!(file.read_at(&mut [0], size as u64).unwrap(), 0);
    }
}

pub fn opening_with_truncation_empties_a_file(dir: &Path) {
    let path = dir.join("file");
    fs::write(&path, pattern(2 * STRIPE, 1)).unwrap();
    let reader = File::open(&path).unwrap();
    let writer = File::create(&path).unwrap();
    assert_eq!(reader.metadata().unwrap().len(), 0);
    assert_eq!(reader.read_at(&mut [0; 10], 0).unwrap(), 0);
    writer.write_all_at(b"new", 0).unwrap();
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

pub fn appends_of_many_writers_are_all_kept(dir: &Path) {
    const RECORDS: usize = 200;
    let path = dir.join("log");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
                for record in 0..RECORDS {
                    log.write_all(format!("{writer} {record:5}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let log = fs::read_to_string(&path).unwrap();
    for writer in 0..4 {
        let name = format!("{writer} ");
        let records: Vec<_> = log.lines().filter_map(|line| line.strip_prefix(&name)).collect();
        let expected: Vec<_> = (0..RECORDS).map(|record| format!("{record:5}")).collect();
        assert_eq!(records, expected, "writer {writer}");
    }
}

/// As container tools and service managers hold files that they may open later.
pub fn a_file_without_a_name_is_opened_through_a_descriptor_that_opened_nothing(dir: &Path) {
    use std::os::fd::AsRawFd;
    type Loss = fn(&Path);
    let losses: [(&str, Loss); 2] = [
        ("removed", |path| fs::remove_file(path).unwrap()),
        ("replaced", |path| {
            let other = path.with_extension("other");
            fs::write(&other, b"other").unwrap();
            fs::rename(&other, path).unwrap();
        }),
    ];
    for (name, lose) in losses {
        let path = dir.join(name);
        fs::write(&path, b"kept").unwrap();
        let held = rustix::fs::open(&path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let held = held.unwrap();
        lose(&path);
        // Long enough for it to go if nothing kept it.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(rustix::fs::fstat(&held).unwrap().st_nlink, 0, "{name}");
        let mut file = File::open(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap();
        let mut bytes = String::new();
        std::io::Read::read_to_string(&mut file, &mut bytes).unwrap();
        assert_eq!(bytes, "kept", "{name}");
        assert_eq!(file.metadata().unwrap().nlink(), 0, "{name}");
    }
}

pub fn a_file_without_a_name_lives_while_it_is_open(dir: &Path) {
    let path = dir.join("scratch");
    let bytes = pattern(STRIPE + 100, 1);
    let file = read_write(&path);
    file.write_all_at(&bytes, 0).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 0).unwrap();
    assert!(back == bytes);
    file.write_all_at(b"still", 2 * STRIPE as u64).unwrap();
    file.read_exact_at(&mut back[..5], 2 * STRIPE as u64).unwrap();
    assert_eq!(&back[..5], b"still");
    // A new file of that name is another one.
    fs::write(&path, "other").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"other");
    assert_eq!(file.metadata().unwrap().len(), 2 * STRIPE as u64 + 5);
}

pub fn ranges_are_copied_inside_the_file_system(dir: &Path) {
    let bytes = pattern(3 * STRIPE, 1);
    fs::write(dir.join("source"), &bytes).unwrap();
    let source = File::open(dir.join("source")).unwrap();
    let target = read_write(&dir.join("target"));
    let (mut from, mut to) = (100, 50);
    let mut left = 2 * STRIPE;
    while left > 0 {
        let copied =
            rustix::fs::copy_file_range(&source, Some(&mut from), &target, Some(&mut to), left)
                .unwrap();
        assert!(copied > 0);
        left -= copied;
    }
    let mut back = vec![0; 2 * STRIPE];
    target.read_exact_at(&mut back, 50).unwrap();
    assert!(back == bytes[100..100 + 2 * STRIPE]);
    assert_eq!(target.metadata().unwrap().len(), 2 * STRIPE as u64 + 50);
    let mut end = 3 * STRIPE as u64;
    let nothing =
        rustix::fs::copy_file_range(&source, Some(&mut end), &target, Some(&mut to), 10).unwrap();
    assert_eq!(nothing, 0, "behind the end");
}

pub fn a_descriptor_serves_only_what_it_was_opened_for(dir: &Path) {
    let path = dir.join("file");
    fs::write(&path, "text").unwrap();
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    assert_eq!(refusal(writer.read_at(&mut [0], 0)), Errno::BADF);
    let reader = File::open(&path).unwrap();
    assert_eq!(refusal(reader.write_at(&[0], 0)), Errno::BADF);
    assert_eq!(refusal(OpenOptions::new().write(true).open(dir)), Errno::ISDIR);
    assert_eq!(refusal(File::open(path.join("below"))), Errno::NOTDIR);
    writer.sync_all().unwrap();
    writer.sync_data().unwrap();
    File::open(dir).unwrap().sync_all().unwrap();
}

pub fn direct_and_synchronous_writes_are_read_back(dir: &Path) {
    for (name, flag) in
        [("direct", OFlags::DIRECT), ("sync", OFlags::SYNC), ("dsync", OFlags::DSYNC)]
    {
        let path = dir.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.custom_flags(flag.bits() as i32).open(&path).unwrap();
        // Direct transfers want whole blocks of memory that is aligned to them.
        let mut memory = vec![0; 3 * 4096 + 4096];
        let start = memory.as_ptr().align_offset(4096);
        let block = &mut memory[start..start + 3 * 4096];
        block.copy_from_slice(&pattern(3 * 4096, 1));
        file.write_all_at(block, 4096).unwrap();
        block.fill(0);
        file.read_exact_at(block, 4096).unwrap();
        assert!(*block == pattern(3 * 4096, 1), "{name}");
        assert_eq!(fs::read(&path).unwrap().len(), 4 * 4096, "{name}");
    }
}
