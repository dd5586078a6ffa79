//! Housekeeping looks at what changed, not at all that is open.

use std::sync::atomic::Ordering;

use tidefs_model::{Ino, MountId};

use tidefs_store::{Operation, Store};

use super::bed::{Bed, ME, SECOND, WRITE, Watched, eventually};
use crate::{Config, Fs, Handle};

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
