//! Mounts that change one directory at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidefs_model::{Ino, MountId, ShardKey};
use tidefs_store::{Batch, Fault, Operation, Store, StoreError};

use super::{Company, LOOKS, Mount, look, make};
use crate::tests::bed::{ME, WRITE};
use crate::{Error, OpenMode, keys};

/// A directory that all mounts have changed in turns, one after the other.
fn disputed(company: &Company) -> Ino {
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    let directory = mounts[0].mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    company.while_answering_recalls(&mounts, || {
        for (round, mount) in mounts.iter().cycle().take(2 * mounts.len()).enumerate() {
            mount.lookup(Ino::ROOT, b"d").expect("found");
            // With a clock that stands still nobody waits for long enough to find it out.
            mount.store.delegations.dispute(directory);
            make(mount, directory, format!("before-{round}").as_bytes(), 0o600).expect("made");
        }
    });
    directory
}

fn write(mount: &Mount, directory: Ino, name: &[u8]) {
    assert_eq!(mount.lookup(directory, name).err(), Some(Error::NotFound));
    let (_, opened) = mount.create(ME, directory, name, 0o600, WRITE).expect("made");
    mount.write(opened.handle, 0, b"bytes", None, false).expect("written");
    mount.flush(opened.handle).and(mount.release(opened.handle)).expect("closed");
}

/// Another mount wants to change a shard that the first one may keep.
fn recall(company: &Company, shard: ShardKey) {
    let first = MountId(1);
    let recalled = Batch::new().add(keys::lease_term(first), keys::lease_term::RECALLS, 1);
    let recalled = recalled.put(keys::recall(first, shard), b"");
    company.store.batch(keys::SUPERBLOCK, &recalled).expect("recalled");
}

#[test]
fn a_file_costs_few_calls_in_a_turn() {
    let company = Company::of(2);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    for (turn, mount) in mounts.iter().cycle().take(4).enumerate() {
        company.while_answering_recalls(&mounts, || {
            write(mount, directory, format!("first-{turn}").as_bytes());
        });
        let ((), calls) = company.count(|| {
            for number in 0..10 {
                write(mount, directory, format!("{turn}-{number}").as_bytes());
            }
        });
        assert!(calls <= 30, "{calls} calls for ten files in turn {turn}");
    }
    company.while_answering_recalls(&mounts, || {
        for mount in &mounts {
            assert_eq!(mount.readdir_all(directory).len(), 4 + 4 * 11);
            assert_eq!(look(mount, directory, b"0-9"), Ok(Some(0o600)));
        }
    });
}

#[test]
fn what_a_kernel_asks_of_the_directory_is_read_once_a_turn() {
    let company = Company::of(2);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    // The directory's record is read-mostly, so that it can be kept as well.
    for mount in &mounts {
        for _ in 0..LOOKS {
            mount.lookup_on_the_way(Ino::ROOT, b"d").expect("found");
        }
    }
    for turn in 0..8 {
        let mount = mounts[turn % mounts.len()];
        let attributes = || mount.getattr(directory, None).expect("attributes");
        let before = company.while_answering_recalls(&mounts, attributes);
        let (again, calls) = company.count(attributes);
        assert_eq!((again, calls), (before, 0), "the turn began with the first question");
        let ((), calls) = company.count(|| write(mount, directory, format!("{turn}").as_bytes()));
        // With its first file a mount may ask for numbers of inodes.
        assert!(
            turn < 2 || calls == 2,
            "{calls}: whether the name is free, and the file: turn {turn}"
        );
    }
}

#[test]
fn who_keeps_nothing_asks_seldom_what_others_want_of_it() {
    let company = Company::of(2);
    let polls = |times: usize| {
        let poll = || company.mounts[0].answer_recalls().expect("the store answers");
        company.count(|| assert!((0..times).all(|_| !poll()), "it keeps something")).1
    };
    assert_eq!(polls(5), 5, "nobody has asked it");
    recall(&company, ShardKey { directory: Ino::ROOT, index: 0 });
    assert!(polls(1) > 0);
    assert_eq!(polls(5), 0, "it has asked a moment ago");
    assert!(polls(100) <= 10);
    company.clock.advance(Duration::from_millis(10));
    assert_eq!((polls(1), polls(5)), (1, 0));
}

#[test]
fn who_knows_that_others_wait_for_the_end_of_its_turn_asks_seldom_until_then() {
    let company = Company::of(2);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    company.while_answering_recalls(&mounts, || write(mounts[0], directory, b"first"));
    let poll = || {
        mounts[0].answer_recalls().expect("the store answers");
    };
    poll();
    let (_, calls) = company.count(poll);
    assert_eq!(calls, 1, "nobody waits");
    let first = ShardKey { directory, index: 0 };
    recall(&company, first);
    mounts[0].create(ME, directory, b"next", 0o600, WRITE).expect("made");
    poll();
    let ((), calls) = company.count(|| (0..5).for_each(|_| poll()));
    assert_eq!(calls, 0, "it knows who waits");
    company.clock.advance(Duration::from_millis(5));
    mounts[0].create(ME, directory, b"another", 0o600, WRITE).expect("made");
    let ((), calls) = company.count(|| (0..5).for_each(|_| poll()));
    assert!((1..=2).contains(&calls), "{calls} calls: others may want more");
    company.clock.advance(Duration::from_millis(20));
    poll();
    let holders = company.store.batch(first, &Batch::new().read(keys::HOLDERS)).expect("read");
    assert_eq!(holders.values, [None], "the turn is over");
}

#[test]
fn each_name_is_made_by_one_of_several_mounts() {
    const NAMES: usize = 300;
    let company = Company::of(3);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    let exclusive = OpenMode { exclusive: true, ..WRITE };
    let won = AtomicUsize::new(0);
    let race = |mount: &Mount| {
        for number in 0..NAMES {
            let name = format!("race-{number}");
            match mount.create(ME, directory, name.as_bytes(), 0o600, exclusive) {
                Ok((_, opened)) => {
                    mount.write(opened.handle, 0, b"mine", None, false).expect("written");
                    mount.flush(opened.handle).and(mount.release(opened.handle)).expect("closed");
                    won.fetch_add(1, Ordering::SeqCst);
                }
                Err(Error::Exists) => {}
                Err(error) => panic!("{name}: {error}"),
            }
            assert!(matches!(look(mount, directory, name.as_bytes()), Ok(Some(_))), "{name}");
        }
    };
    company.while_time_passes_by(Duration::from_millis(1), || {
        company.while_answering_recalls(&mounts, || {
            std::thread::scope(|scope| {
                mounts.iter().for_each(|mount| drop(scope.spawn(|| race(mount))));
            });
        });
    });
    assert_eq!(won.load(Ordering::SeqCst), NAMES);
    company.while_answering_recalls(&mounts, || {
        assert_eq!(mounts[2].readdir_all(directory).len(), NAMES + 6);
    });
}

#[test]
fn who_only_looks_waits_for_the_end_of_a_turn_and_sees_what_was_made_in_it() {
    let company = Company::of(3);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    company.while_answering_recalls(&mounts, || {
        write(mounts[0], directory, b"made");
        let listed = mounts[2].readdir_all(directory);
        assert!(listed.iter().any(|(name, _)| name == b"made"));
        assert_eq!(look(mounts[1], directory, b"made"), Ok(Some(0o600)));
        mounts[1].unlink(directory, b"made").expect("removed");
        assert_eq!(look(mounts[0], directory, b"made"), Ok(None));
    });
}

#[test]
fn no_file_is_made_in_a_directory_that_another_mount_has_removed() {
    let company = Company::of(2);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    company.while_answering_recalls(&mounts, || {
        for (name, _) in mounts[1].readdir_all(directory) {
            mounts[1].unlink(directory, &name).expect("removed");
        }
        mounts[1].rmdir(Ino::ROOT, b"d").expect("removed");
        mounts[1].clear_closed(Duration::ZERO).expect("cleared");
        // A program of the first mount is in it.
        assert_eq!(look(mounts[0], directory, b"late"), Ok(None));
        let made = mounts[0].create(ME, directory, b"late", 0o600, WRITE);
        assert_eq!(made.map(drop), Err(Error::NotFound));
    });
}

#[test]
fn a_name_that_may_be_made_yet_is_not_taken_for_free() {
    let company = Company::of(2);
    let directory = disputed(&company);
    let mounts: Vec<&Mount> = company.mounts.iter().collect();
    company.while_answering_recalls(&mounts, || write(mounts[0], directory, b"first"));
    assert_eq!(look(mounts[0], directory, b"doubtful"), Ok(None));
    let lost = StoreError::Indeterminate { endpoint: "a node".into() };
    company.store.add(Fault::nth(
        Operation::Batch,
        company.store.count(Operation::Batch) + 1,
        lost,
    ));
    assert!(make(mounts[0], directory, b"doubtful", 0o600).is_err());
    assert_eq!(look(mounts[0], directory, b"doubtful"), Ok(None));
    let (made, calls) =
        company.count(|| mounts[0].create(ME, directory, b"doubtful", 0o600, WRITE));
    assert!(made.is_ok() && calls > 0, "{calls} calls");
}
