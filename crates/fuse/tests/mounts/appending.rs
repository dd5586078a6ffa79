//! Appends while the end of the file is elsewhere than the kernel of a mount thinks.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tidefs_model::ByteSize;

use crate::memory::Map;
use crate::support::{MountedSession, heap, is_wanted};

const BEGUN: &[u8] = b"0123456789";

/// A mount that has found out that it is alone.
fn alone() -> Option<(MountedSession, std::sync::Arc<tidefs_store::Embedded>)> {
    if !is_wanted("fuse") {
        return None;
    }
    let store = heap(ByteSize::mib(64));
    let first = MountedSession::over(store.clone(), false);
    std::thread::sleep(Duration::from_millis(1500));
    Some((first, store))
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// As many bytes as the kernel thinks that there are, so that it does not look again.
fn beginning(file: &File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_was_opened_to_append_alone_goes_past_pages_with_company() {
    let Some((first, store)) = alone() else { return };
    let path = first.path().join("log");
    let mut log = OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
    log.write_all(BEGUN).unwrap();
    assert_eq!(beginning(&log, BEGUN.len()), BEGUN);
    let reader = File::open(&path).unwrap();
    assert_eq!(beginning(&reader, BEGUN.len()), BEGUN);
    let second = MountedSession::over(store, false);
    append(&second.path().join("log"), b"second");
    log.write_all(b"first").unwrap();
    assert_eq!(beginning(&log, 15), b"0123456789secon");
    assert_eq!(beginning(&reader, 15), b"0123456789secon");
    assert_eq!(std::fs::read(&path).unwrap(), b"0123456789secondfirst");
}

/// The kernel writes to its pages here, which are right a moment later.
#[test]
fn what_is_made_to_append_later_leaves_no_page_that_is_wrong() {
    let Some((first, store)) = alone() else { return };
    let path = first.path().join("log");
    let mut log =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    log.write_all(BEGUN).unwrap();
    log.sync_all().unwrap();
    fcntl_setfl(&log, fcntl_getfl(&log).unwrap() | OFlags::APPEND).unwrap();
    assert_eq!(beginning(&log, BEGUN.len()), BEGUN);
    let second = MountedSession::over(store, false);
    append(&second.path().join("log"), b"second");
    log.write_all(b"first").unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while beginning(&log, 15) != b"0123456789secon" {
        assert!(Instant::now() < end, "the kernel has {:?}", beginning(&log, 15));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"0123456789secondfirst");
}

#[test]
fn what_appends_with_company_can_be_mapped() {
    if !is_wanted("fuse") {
        return;
    }
    let store = heap(ByteSize::mib(64));
    let mounts = [MountedSession::over(store.clone(), false), MountedSession::over(store, false)];
    let path = mounts[0].path().join("log");
    let mut log = OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
    log.write_all(BEGUN).unwrap();
    let map = Map::of(&log, BEGUN.len());
    assert_eq!(map.load(0, BEGUN.len()), BEGUN);
    map.store(3, b"map");
    map.sync();
    log.write_all(b"more").unwrap();
    drop((map, log));
    let there = std::fs::read(mounts[1].path().join("log")).unwrap();
    assert_eq!(there, b"012map6789more");
}
