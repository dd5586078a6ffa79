//! Housekeeping looks at what changed, not at all that is open.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tidefs_model::{Ino, MountId};

use tidefs_store::{Operation, Store};

use super::bed::{Bed, ME, SECOND, WRITE, Watched, eventually};
use crate::{Config, Fs, Handle, KernelCache};

const FILES: usize = 1_000;

fn open_many<S: Store>(fs: &Fs<S>) -> Vec<Handle> {
    let open = |number: usize| {
        let name = format!("f{number}");
        fs.create(ME, Ino::ROOT, name.as_bytes(), 0o644, WRITE).unwrap().1.handle
    };
    let handles: Vec<_> = (0..FILES).map(open).collect();
    fs.sync_directory().unwrap();
    handles
}

fn gone_through<S: Store>(fs: &Fs<S>) -> u64 {
    fs.handles.gone_through.load(Ordering::Relaxed)
}

#[test]
fn with_many_open_files_the_heartbeat_looks_at_those_written_alone() {
    let world = Watched::with(Config::new(MountId(1)));
    let handles = open_many(&world.fs);
    world.fs.tick().unwrap();
    let before = gone_through(&world.fs);
    for handle in [handles[7], handles[500]] {
        world.fs.write(handle, 0, b"bytes", None, false).unwrap();
    }
    let sent = world.store.count(Operation::Write);
    for _ in 0..100 {
        world.clock.advance(SECOND);
        world.fs.tick().unwrap();
    }
    eventually("what was written is sent for its age", || {
        world.store.count(Operation::Write) >= sent + 2
    });
    assert_eq!(gone_through(&world.fs), before, "handles gone through in 100 ticks");
}

#[test]
fn with_company_files_opened_and_closed_are_noted_without_a_look_at_all() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    bed.pass_with(20, &[&first, &second]);
    let handles = open_many(&first);
    bed.pass_with(2, &[&first, &second]);
    let before = gone_through(&first);
    // Removed elsewhere while it is open here: it keeps its bytes, so it is known to be open.
    let name = b"late";
    let late = first.create(ME, Ino::ROOT, name, 0o644, WRITE).unwrap().1.handle;
    first.write(late, 0, b"bytes", None, false).unwrap();
    first.flush(late).unwrap();
    bed.pass_with(2, &[&first, &second]);
    second.unlink(Ino::ROOT, name).unwrap();
    first.release(handles[3]).unwrap();
    second.unlink(Ino::ROOT, b"f3").unwrap();
    bed.pass_with(20, &[&first, &second]);
    assert_eq!(first.read(late, 0, 10).unwrap().as_slice(), b"bytes");
    assert_eq!(gone_through(&first), before, "handles gone through in 22 seconds");
}

/// A kernel that gives up what it is asked to.
#[derive(Default)]
struct Kernel(Mutex<Vec<Ino>>);

impl KernelCache for Kernel {
    fn wait_for_answers(&self) {}

    fn forget(&self, _ino: Ino) -> bool {
        true
    }

    fn prune(&self, inos: &[Ino]) {
        self.0.lock().unwrap().extend(inos);
    }
}

#[test]
fn the_kernel_is_asked_to_give_up_inodes_beyond_the_budget_and_none_that_is_open() {
    let world = Watched::with(Config { known_inodes_max: 100, ..Config::new(MountId(1)) });
    let kernel = Arc::new(Kernel::default());
    world.fs.set_kernel_cache(kernel.clone());
    let handles = open_many(&world.fs);
    world.fs.tick().unwrap();
    assert!(kernel.0.lock().unwrap().is_empty(), "all of them are open");
    for handle in &handles[..FILES - 20] {
        world.fs.release(*handle).unwrap();
    }
    let open: Vec<_> = (FILES - 20..FILES)
        .map(|n| world.fs.lookup(Ino::ROOT, format!("f{n}").as_bytes()).unwrap().attr.ino)
        .collect();
    for _ in 0..100 {
        world.fs.tick().unwrap();
        for ino in std::mem::take(&mut *kernel.0.lock().unwrap()) {
            assert!(!open.contains(&ino) && ino != Ino::ROOT);
            world.fs.forget(ino, 1);
        }
    }
    let known = world.fs.known_inodes().len();
    assert!((80..=100).contains(&known), "{known} are known");
    // What other mounts removed is not asked for again.
    world.fs.tick().unwrap();
    assert!(kernel.0.lock().unwrap().is_empty());
}

#[test]
fn names_that_are_gone_leave_no_hint() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    bed.pass_with(20, &[&first, &second]);
    for number in 0..50 {
        let name = format!("n{number}").into_bytes();
        first.mkdir(ME, Ino::ROOT, &name, 0o755).unwrap();
        second.lookup(Ino::ROOT, &name).unwrap();
        first.rmdir(Ino::ROOT, &name).unwrap();
        second.lookup(Ino::ROOT, &name).unwrap_err();
    }
    assert_eq!((first.hints.count(), second.hints.count()), (0, 0));
}
