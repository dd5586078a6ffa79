//! Runs that failed once, as they were printed.

use tidefs_oracle::Action::*;
use tidefs_oracle::{Access, Fd, OpenFlags, Pattern, RenameMode, SetTime, Step, path, replay};

use crate::world::{Shape, World, embedded};

const CREATE: OpenFlags = OpenFlags { access: Access::ReadWrite, create: true, ..OpenFlags::READ };

/// On every shape, since what failed on one may fail on another.
fn agrees(steps: &[Step]) {
    for (shards, mounts, forget_every) in [(4, 1, 1), (1, 1, 1000), (4, 2, 1)] {
        let shape = Shape { shards, mounts, forget_every };
        let mut world = World::new(embedded(), shards);
        let mut driver = world.driver(shape);
        let outcome = replay(&mut driver, 1, steps.to_vec())
            .and_then(|checked| world.settle(driver, &checked));
        outcome.unwrap_or_else(|failure| panic!("{shape:?}: {failure}"));
    }
}

#[test]
fn regression_a_truncation_after_a_buffered_write_has_its_own_time() {
    agrees(&[
        Open { fd: Fd(0), at: path("a"), flags: CREATE, mode: 0o644 },
        Write { fd: Fd(0), offset: 0, bytes: Pattern { seed: 0, length: 4095 } },
        Resize { fd: Fd(0), size: 1 },
    ]);
}

#[test]
fn regression_an_exchange_changes_both_inodes() {
    agrees(&[
        Symlink { at: path("aa"), target: "a" },
        Open { fd: Fd(0), at: path("aaa"), flags: CREATE, mode: 0o644 },
        Rename { from: path("aa"), to: path("aaa"), mode: RenameMode::Exchange },
    ]);
}

#[test]
fn regression_an_entry_ends_a_time_in_the_future() {
    agrees(&[
        Mkdir { at: path("a"), mode: 0o755 },
        SetTimes {
            at: path("a"),
            atime: SetTime::Omit,
            mtime: SetTime::At(4_000_000_000_000_000_001),
        },
        Mkdir { at: path("a/b"), mode: 0o755 },
    ]);
}

#[test]
fn regression_a_removed_directory_leaves_no_closed_shard() {
    agrees(&[
        Mkdir { at: path("a"), mode: 0o755 },
        Rmdir { at: path("a") },
        Readdir { at: path("") },
    ]);
}
