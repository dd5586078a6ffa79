//! Directories that another mount moved, and what the kernel is asked then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::Embedded;
use tidefs_store::caller::{self, Caller};

use super::bed::{Bed, ME};
use crate::lifetimes::KernelCache;
use crate::{Error, Fs, Kind, RenameMode};

/// A kernel that takes note of what it has to give up.
#[derive(Default)]
struct Kernel {
    pruned: Mutex<Vec<Ino>>,
    /// Programs are in every directory.
    is_in_use: AtomicBool,
}

impl KernelCache for Kernel {
    fn wait_for_answers(&self) {}

    fn forget(&self, _: Ino) -> bool {
        self.is_in_use.load(Ordering::SeqCst)
    }

    fn prune(&self, inos: &[Ino]) {
        self.pruned.lock().expect("no panic").extend(inos);
    }
}

/// Two mounts, of which the kernel of the first has `old/d`, and `new`.
struct Moved {
    bed: Bed,
    first: Fs<Arc<Embedded>>,
    second: Fs<Arc<Embedded>>,
    kernel: Arc<Kernel>,
    old: Ino,
    new: Ino,
    d: Ino,
}

fn mkdir(fs: &Fs<Arc<Embedded>>, parent: Ino, name: &[u8]) -> Ino {
    fs.mkdir(ME, parent, name, 0o755).expect("made").attr.ino
}

impl Moved {
    fn new() -> Moved {
        let bed = Bed::new();
        let (first, second) = (bed.mount(1), bed.mount(2));
        let kernel = Arc::new(Kernel::default());
        first.set_kernel_cache(kernel.clone());
        let (old, new) = (mkdir(&first, Ino::ROOT, b"old"), mkdir(&first, Ino::ROOT, b"new"));
        let d = mkdir(&first, old, b"d");
        Moved { bed, first, second, kernel, old, new, d }
    }

    /// Through the second mount.
    fn renames(&self, from: &str, to: &str) {
        let find = |parent, name: &str| {
            self.second.lookup(parent, name.as_bytes()).expect("found").attr.ino
        };
        let split = |path: &str| match path.rsplit_once('/') {
            Some((way, name)) => (way.split('/').fold(Ino::ROOT, find), name.as_bytes().to_vec()),
            None => (Ino::ROOT, path.as_bytes().to_vec()),
        };
        let ((parent, name), (new_parent, new_name)) = (split(from), split(to));
        let renamed = self.second.rename(parent, &name, new_parent, &new_name, RenameMode::Replace);
        renamed.expect("moved");
    }

    /// A look-up of the first mount's kernel for a thread.
    fn looks(&self, thread: u32, parent: Ino, name: &[u8]) -> Result<Ino, Error> {
        let asker = Caller { number: thread, has_gone: |_| false, begins_again: || false };
        let found = caller::serve(Some(asker), || self.first.lookup_on_the_way(parent, name));
        found.map(|entry| entry.attr.ino)
    }

    fn pruned(&self) -> Vec<Ino> {
        std::mem::take(&mut *self.kernel.pruned.lock().expect("no panic"))
    }
}

#[test]
fn a_directory_that_is_found_elsewhere_is_given_up_by_the_kernel_once() {
    let it = Moved::new();
    assert_eq!(it.looks(1, it.old, b"d"), Ok(it.d));
    assert_eq!(it.pruned(), [], "it is where it was");
    it.renames("old/d", "new/e");
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [it.d]);
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [], "there is nothing to move any more");
}

#[test]
fn what_is_below_is_given_up_where_the_same_thread_looks_again() {
    let it = Moved::new();
    let below = mkdir(&it.first, it.d, b"below");
    let file = it.first.mknod(ME, below, b"file", Kind::Fifo, 0o600, 0).expect("made").attr.ino;
    it.kernel.is_in_use.store(true, Ordering::SeqCst);
    it.renames("old/d", "new/e");
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [it.d], "the kernel may move it");
    assert_eq!(it.looks(2, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [it.d], "another thread");
    assert_eq!(it.looks(1, Ino::ROOT, b"new"), Ok(it.new));
    it.kernel.is_in_use.store(false, Ordering::SeqCst);
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [file, below, it.d]);
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [], "there is nothing to move any more");
}

#[test]
fn who_goes_on_below_it_or_comes_later_had_no_error() {
    let it = Moved::new();
    let below = mkdir(&it.first, it.d, b"below");
    it.kernel.is_in_use.store(true, Ordering::SeqCst);
    it.renames("old/d", "new/e");
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [it.d]);
    assert_eq!(it.looks(1, it.d, b"below"), Ok(below));
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    assert_eq!(it.pruned(), [], "it has been moved");
    it.renames("new/e", "old/d");
    for _ in 0..2 {
        assert_eq!(it.looks(1, it.old, b"d"), Ok(it.d));
        assert_eq!(it.pruned(), [it.d]);
        it.bed.pass(Duration::from_secs(2));
    }
}

#[test]
fn what_this_mount_moves_is_where_it_was_put() {
    let it = Moved::new();
    it.first.rename(it.old, b"d", it.new, b"e", RenameMode::Replace).expect("moved");
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.d));
    it.first.rename(it.new, b"e", Ino::ROOT, b"old", RenameMode::Exchange).expect("exchanged");
    assert_eq!(it.looks(1, it.new, b"e"), Ok(it.old));
    assert_eq!(it.looks(1, Ino::ROOT, b"old"), Ok(it.d));
    assert_eq!(it.pruned(), []);
}

#[test]
fn what_the_kernel_would_take_for_a_loop_is_stale_until_it_knows_the_way() {
    let it = Moved::new();
    it.kernel.is_in_use.store(true, Ordering::SeqCst);
    it.renames("old/d", "d");
    it.renames("old", "d/old");
    assert_eq!(it.looks(1, it.d, b"old"), Err(Error::Stale), "it has d in old");
    assert_eq!(it.looks(1, Ino::ROOT, b"d"), Ok(it.d));
    assert_eq!(it.looks(1, it.d, b"old"), Ok(it.old));
}
