//! A file whose bytes the kernel may write by itself; another handle on it stands for the kernel.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::MemfdFlags;
use tidefs_model::Time;
use tidefs_store::Pin;

use super::rig::{HOME, INO, Rig, STRIPE, TestStore, append, new_end, pattern, put_inode, rig};
use crate::data::{OpenFile, ReadAhead};
use crate::inode::Inode;
use crate::{Error, Seek, SpaceMode};

/// The rig's file again, pinned in a file of memory.
fn pinned() -> (Rig, Arc<File>) {
    let mut rig = rig(Vec::new());
    let memory = rustix::fs::memfd_create("tidefs-test", MemfdFlags::CLOEXEC).unwrap();
    let memory = Arc::new(File::from(memory));
    let inode = rig.inode();
    let kept = Some(Pin { file: Arc::clone(&memory), is_first: true });
    rig.file = OpenFile::new(Arc::clone(&rig.path), INO, HOME, &inode, kept);
    (rig, memory)
}

#[test]
fn reads_and_writes_act_on_the_file() {
    let (rig, memory) = pinned();
    rig.write(100, &pattern(100, 9000, 1)).unwrap();
    let mut wanted = vec![0; 100];
    wanted.extend(pattern(100, 9000, 1));
    assert_eq!(rig.all(), wanted);
    assert_eq!(rig.read(9090, 100), &wanted[9090..]);
    assert_eq!(rig.read(9100, 100), b"");
    let mut seen = vec![0; 9100];
    memory.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(seen, wanted);
    assert_eq!(append(&rig.file, &rig.cursor(), b"end", false, &new_end()), Ok(9100..9103));
    assert!(Arc::ptr_eq(&rig.file.pinned().unwrap(), &memory));
    assert_eq!(rig.stripes_stored(3), 0, "nothing goes through stripes");
}

#[test]
fn what_the_kernel_wrote_reaches_the_record_at_a_flush() {
    let (rig, memory) = pinned();
    assert!(!rig.file.is_dirty());
    memory.write_all_at(b"by the kernel", 0).unwrap();
    assert!(rig.file.is_dirty());
    let mut seen = rig.inode();
    rig.file.overlay(&mut seen);
    assert_eq!((seen.size, rig.inode().size), (13, 0));
    rig.flush();
    let stored = rig.inode();
    assert_eq!((stored.size, stored.mtime, stored.version), (13, seen.mtime, 1));
    assert!(!rig.file.is_dirty());
    rig.flush();
    assert_eq!(rig.inode().version, 1);
}

#[test]
fn a_write_within_a_tick_after_a_time_set_by_hand_is_dated_alike_before_and_after_a_flush() {
    let (rig, memory) = pinned();
    let now = Time::from_unix(1_000_000_000, 5_000_000);
    let last_tick = Time(now.0 - 3_000_000);
    rig.file.settle_times(None).unwrap();
    put_inode(&*rig.store, &Inode { mtime: now, ctime: now, ..rig.inode() });
    memory.write_all_at(b"by the kernel", 0).unwrap();
    memory.set_modified(last_tick.into()).unwrap();
    let mut seen = rig.inode();
    rig.file.overlay(&mut seen);
    assert_eq!(seen.mtime, now);
    rig.flush();
    assert_eq!((rig.inode().size, rig.inode().mtime), (13, now));
}

#[test]
fn truncation_holes_and_seeks_act_on_the_file() {
    let (rig, memory) = pinned();
    rig.write(0, &[1; 4 * STRIPE as usize]).unwrap();
    rig.file.truncate(3 * STRIPE).unwrap();
    assert_eq!((rig.inode().size, memory.metadata().unwrap().len()), (3 * STRIPE, 3 * STRIPE));
    rig.file.allocate(STRIPE, STRIPE, SpaceMode::PunchHole).unwrap();
    assert_eq!(rig.file.seek(0, Seek::Hole), Ok(STRIPE));
    assert_eq!(rig.file.seek(STRIPE, Seek::Data), Ok(2 * STRIPE));
    assert_eq!(rig.file.seek(3 * STRIPE, Seek::Data), Err(Error::NoSuchOffset));
    assert_eq!(rig.read(STRIPE, 4), [0; 4]);
    rig.file.allocate(3 * STRIPE, STRIPE, SpaceMode::Zero).unwrap();
    rig.file.allocate(4 * STRIPE, STRIPE, SpaceMode::Allocate).unwrap();
    rig.file.allocate(5 * STRIPE, STRIPE, SpaceMode::AllocateKeepSize).unwrap();
    assert_eq!(rig.file.size(), 5 * STRIPE);
    rig.file.discard(false);
    assert_eq!(memory.metadata().unwrap().len(), 5 * STRIPE, "it may be mapped still");
}

#[test]
fn a_pinned_file_gets_the_size_of_its_record() {
    let rig = rig(Vec::new());
    rig.file.truncate(10 * STRIPE).unwrap();
    let file = pinned_anew(&rig, true);
    assert_eq!(file.size(), 10 * STRIPE);
    let end = file.read(&ReadAhead::default(), 10 * STRIPE - 3, 10).unwrap();
    assert_eq!(end.as_slice(), [0; 3]);
}

#[test]
fn a_file_that_another_mount_has_pinned_keeps_the_size_that_it_has_there() {
    let rig = rig(Vec::new());
    rig.file.truncate(10 * STRIPE).unwrap();
    let file = pinned_anew(&rig, false);
    assert_eq!(file.size(), 0, "the other mount has cut it and has not said so yet");
    append(&file, &rig.cursor(), b"longer", true, &new_end()).unwrap();
    assert_eq!(file.size(), 6);
}

/// The rig's file, opened once more with an empty file behind it.
fn pinned_anew(rig: &Rig, is_first: bool) -> OpenFile<TestStore> {
    let memory = rustix::fs::memfd_create("tidefs-test", MemfdFlags::CLOEXEC).unwrap();
    let pin = Some(Pin { file: Arc::new(File::from(memory)), is_first });
    OpenFile::new(Arc::clone(&rig.path), INO, HOME, &rig.inode(), pin)
}
