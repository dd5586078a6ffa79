//! Directories that get another parent: whatever mounts did before or do at the same instant, none
//! ends below itself, and every one is reached from the root.

use std::collections::BTreeMap;
use std::time::Duration;

use tidefs_model::Ino;
use tidefs_store::{Batch, Store};

use super::bed::{Bed, ME};
use super::stepping::Order;
use crate::{Error, Fs, Kind, RenameMode, keys};

/// Longer than any operation is waited for.
const SLOW: Duration = Duration::from_millis(900);

fn mkdir<S: Store>(fs: &Fs<S>, parent: Ino, name: &[u8]) -> Ino {
    fs.mkdir(ME, parent, name, 0o755).expect("made").attr.ino
}

fn find<S: Store>(fs: &Fs<S>, path: &str) -> Ino {
    path.split('/')
        .filter(|name| !name.is_empty())
        .fold(Ino::ROOT, |parent, name| fs.lookup(parent, name.as_bytes()).expect("found").attr.ino)
}

/// The path of every directory below the root.
fn tree<S: Store>(fs: &Fs<S>) -> BTreeMap<Ino, String> {
    let mut paths = BTreeMap::new();
    let mut next = vec![(Ino::ROOT, String::new())];
    while let Some((directory, path)) = next.pop() {
        let (listing, missed) = fs.listing(directory).expect("listed");
        assert_eq!(missed, None);
        for (name, reference) in listing.from(0).filter(|(_, it)| it.kind == Kind::Directory) {
            let below = format!("{path}/{}", String::from_utf8_lossy(name));
            let twice = paths.insert(reference.ino, below.clone());
            assert_eq!(twice, None, "a directory has one name");
            next.push((reference.ino, below));
        }
    }
    paths
}

#[test]
fn a_directory_that_another_mount_moved_below_is_no_new_parent() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    let (foo, y) = (mkdir(&first, Ino::ROOT, b"foo"), mkdir(&first, Ino::ROOT, b"y"));
    let there = find(&second, "foo");
    find(&second, "y");
    second.rename(Ino::ROOT, b"y", there, b"y", RenameMode::Replace).expect("moved");
    bed.pass(Duration::from_secs(5));
    // A program of the first mount is in y, and its kernel thinks that y is beside foo.
    for mode in [RenameMode::Replace, RenameMode::NoReplace] {
        assert_eq!(first.rename(Ino::ROOT, b"foo", y, b"foo", mode), Err(Error::Invalid));
    }
    first.mknod(ME, y, b"file", Kind::Fifo, 0o600, 0).expect("made");
    let exchange = first.rename(Ino::ROOT, b"foo", y, b"file", RenameMode::Exchange);
    assert_eq!(exchange, Err(Error::Invalid));
    let exchange = first.rename(y, b"file", Ino::ROOT, b"foo", RenameMode::Exchange);
    assert_eq!(exchange, Err(Error::Invalid));
    assert_eq!(tree(&second), [(foo, "/foo".into()), (y, "/foo/y".into())].into());
}

#[test]
fn no_directory_is_its_own_parent() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let d = mkdir(&fs, Ino::ROOT, b"d");
    let into_itself = fs.rename(Ino::ROOT, b"d", d, b"d", RenameMode::Replace);
    assert_eq!(into_itself, Err(Error::Invalid));
    assert_eq!(tree(&fs), [(d, "/d".into())].into());
}

/// Renames: from where, to where, how.
type Move = (&'static str, &'static str, RenameMode);

struct Swap {
    directories: &'static [&'static str],
    moves: [Move; 2],
}

const MOVE: RenameMode = RenameMode::Replace;

const SWAPS: [Swap; 4] = [
    Swap { directories: &["/a", "/b"], moves: [("/a", "/b/a", MOVE), ("/b", "/a/b", MOVE)] },
    Swap {
        directories: &["/a", "/a/x", "/b", "/b/y"],
        moves: [("/a", "/b/y/a", MOVE), ("/b", "/a/x/b", MOVE)],
    },
    Swap {
        directories: &["/a", "/a/x", "/a/x/z", "/b", "/b/y"],
        moves: [("/a/x", "/b/y", RenameMode::Exchange), ("/b/y", "/a/x/z", RenameMode::Exchange)],
    },
    Swap {
        directories: &["/a", "/b", "/b/e"],
        moves: [("/a", "/b/e", MOVE), ("/b", "/a/b", MOVE)],
    },
];

/// What happens besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// Each takes the other for dead.
    Patience,
    /// The lock goes when the second one begins.
    Lock,
}

/// Both renames in one order; answers how many calls each made.
fn play(swap: &Swap, lost: Lost, first: usize, plan: &[usize]) -> [usize; 2] {
    let per_call = if lost == Lost::Patience { SLOW } else { Duration::ZERO };
    let bed = Bed::new();
    let order = Order::new(&bed, per_call);
    let mounts = [order.mount(&bed, 0), order.mount(&bed, 1)];
    for mount in &mounts {
        assert_eq!(mount.is_admitted(), Ok(true));
    }
    for path in swap.directories {
        let (parent, name) = path.rsplit_once('/').expect("a path");
        mkdir(&mounts[0], find(&mounts[0], parent), name.as_bytes());
    }
    let before = tree(&mounts[0]);
    let [one, two] = swap.moves;
    // Kernels have looked the way up.
    let ways = [(0, one), (1, two)].map(|(number, (from, to, _))| {
        let parent = |path: &str| find(&mounts[number], path.rsplit_once('/').expect("a path").0);
        (parent(from), parent(to))
    });
    let name = |path: &'static str| path.rsplit_once('/').expect("a path").1.as_bytes();
    let go = |number: usize| {
        if number == 1 && lost == Lost::Lock {
            // The node that has it is given up, and others begin to count anew.
            let anew =
                Batch::new().delete(keys::RENAME_LOCK).put(keys::RENAME_TERM, 0_u64.to_be_bytes());
            bed.store.batch(keys::SUPERBLOCK, &anew).expect("lost");
        }
        let (from, to, mode) = swap.moves[number];
        let (parent, new_parent) = ways[number];
        mounts[number].rename(parent, name(from), new_parent, name(to), mode)
    };
    let (answers, made) = order.run(first, plan, [&|| go(0), &|| go(1)]);
    let what = format!("{:?}, {first} first, runs of {plan:?}: {answers:?}", swap.moves);
    let after = tree(&bed.mount(3));
    assert!(answers.iter().any(|answer| answer.is_ok()), "{what}");
    let mut replaced =
        before.keys().filter(|ino| !after.contains_key(ino)).map(|it| before[it].as_str());
    let is_replaced = |path| swap.moves.iter().any(|(_, to, mode)| *to == path && *mode == MOVE);
    assert!(replaced.all(is_replaced), "{what}: of {before:?} there are {after:?}");
    made
}

/// Every order in which each changes places with the other one at most once, or twice.
fn explore(lost: Lost) {
    for swap in &SWAPS {
        let most = play(swap, lost, 0, &[]);
        let most = most[0].max(most[1]) + 2;
        for first in [0, 1] {
            for run in 0..=most {
                for other in 0..=most {
                    play(swap, lost, first, &[run, other]);
                }
            }
        }
    }
}

#[test]
fn two_mounts_that_move_directories_below_each_other_make_no_loop() {
    explore(Lost::Nothing);
}

#[test]
fn nor_do_they_where_each_takes_the_other_for_dead() {
    explore(Lost::Patience);
}

#[test]
fn nor_do_they_where_the_lock_goes_with_its_node() {
    explore(Lost::Lock);
}
