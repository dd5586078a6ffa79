//! Copies from file to file that fail after their first bytes.

use tidefs_model::Ino;
use tidefs_store::{Fault, Operation, StoreError};

use super::bed::{ME, WRITE, Watched};
use crate::{Error, Handle};

const MIB: usize = 1 << 20;

fn gone() -> StoreError {
    StoreError::Unavailable { endpoint: "the node".into() }
}

/// A file of 3 MiB in the store, and an empty one.
fn two_files(watched: &Watched) -> (Handle, Handle) {
    let make =
        |name: &[u8]| watched.fs.create(ME, Ino::ROOT, name, 0o600, WRITE).expect("made").1.handle;
    let (source, target) = (make(b"source"), make(b"target"));
    watched.fs.write(source, 0, &vec![7; 3 * MIB], None, false).expect("written");
    watched.fs.fsync(source).expect("stored");
    watched.fs.fsync(target).expect("stored");
    (source, target)
}

#[test]
fn what_was_copied_before_a_read_failed_counts() {
    let watched = Watched::that_reads_nothing_ahead();
    let (source, target) = two_files(&watched);
    let reads = watched.store.count(Operation::Read);
    for nth in 2..=20 {
        watched.store.add(Fault::nth(Operation::Read, reads + nth, gone()));
    }
    let copied = watched.fs.copy_range(source, 0, target, 0, 3 * MIB as u64, false);
    let copied = copied.expect("the first bytes are copied") as usize;
    assert!((1..3 * MIB).contains(&copied), "{copied}");
    watched.store.heal();
    let back = watched.fs.read(target, 0, copied).expect("read");
    assert!(back.as_slice() == vec![7; copied]);
}

#[test]
fn who_copies_the_rest_is_told_why_it_was_cut_short() {
    let watched = Watched::new();
    let (source, target) = two_files(&watched);
    watched.store.add(Fault::every(Operation::Write, 1, gone()));
    let length = 3 * MIB as u64;
    let file = watched.fs.handles.file(target).expect("open");
    let copied = watched.fs.copy_range(source, 0, target, 0, length, false);
    // The failure of a stripe that was sent meanwhile is told here or at the next call, once.
    super::bed::eventually("the first stripe has failed", || !file.file.has_unsent());
    let again = watched.fs.copy_range(source, 0, target, 0, length, false);
    watched.store.heal();
    assert!(copied.is_ok(), "{copied:?}");
    assert_eq!(again, Err(Error::Store(gone())));
}
