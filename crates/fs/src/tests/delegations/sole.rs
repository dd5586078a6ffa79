//! Directories that one mount made, and works in while others are there.

use std::time::Duration;

use tidefs_model::{Ino, MountId};
use tidefs_store::{Batch, Fault, Operation, Store, StoreError};

use super::{Company, Mount, chmod, look, make};
use crate::tests::bed::{ME, SECOND, WRITE};
use crate::{Error, Kind, RenameMode, SetAttr, keys};

fn name(number: usize) -> Vec<u8> {
    format!("f{number}").into_bytes()
}

/// Two mounts, and a directory that the first has made and taken, whose own record it keeps.
fn made() -> (Company, Ino) {
    let company = Company::of(2);
    let first = &company.mounts[0];
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    company.mounts[1].lookup(Ino::ROOT, b"d").expect("found");
    company.rest(first, Ino::ROOT, b"d");
    assert_eq!(first.lookup(directory, b"f0").map(drop), Err(Error::NotFound));
    // The first file of a mount pays for its range of inode numbers.
    make(first, Ino::ROOT, b"first", 0o600).expect("made");
    company.rest(first, Ino::ROOT, b"d");
    (company, directory)
}

fn is_kept(mount: &Mount, company: &Company, directory: Ino, name: &[u8]) -> bool {
    let read = Batch::new().read(keys::HOLDERS);
    let record = company.store.batch(mount.shard_of(directory, name), &read).expect("read").take(0);
    let holders = crate::delegations::holders_of(&record.unwrap_or_default());
    holders.iter().any(|holder| holder.mount == mount.me())
}

#[test]
fn a_small_file_beside_an_idle_mount_takes_a_call_for_each_change_and_none_for_looks() {
    let (company, directory) = made();
    let first = &company.mounts[0];
    let writes = || company.store.count(Operation::Write);
    let all = |work: &dyn Fn()| {
        let before = writes();
        let ((), calls) = company.count(work);
        calls + writes() - before
    };
    for number in 0..40 {
        let name = name(number);
        let absent = || assert_eq!(first.lookup(directory, &name).err(), Some(Error::NotFound));
        assert_eq!(all(&absent), 0, "a free name is known to be");
        let opened = std::cell::Cell::new(None);
        let create = || {
            let made = first.create(ME, directory, &name, 0o644, WRITE).expect("made");
            opened.set(Some((made.0.attr.ino, made.1.handle)));
        };
        assert_eq!(all(&create), 0, "it waits");
        let (ino, handle) = opened.get().expect("made");
        let between = || {
            let capability = first.getxattr(ino, b"security.capability");
            assert_eq!(capability, Err(Error::NoAttribute));
            first.write(handle, 0, &[7; 4096], None, false).expect("written");
            assert_eq!(first.getattr(directory, None).expect("attributes").nlink, 2);
        };
        assert_eq!(all(&between), 0, "what the kernel asks in between");
        let flush = || first.flush(handle).expect("flushed");
        assert_eq!(all(&flush), 2, "entry, inode and size, and at the same time the bytes");
        let look = || {
            first.release(handle).expect("closed");
            let entry = first.lookup(directory, &name).expect("found");
            assert_eq!(entry.attr.size, 4096);
            assert_eq!(first.getattr(ino, None), Ok(entry.attr));
            let opened = first.open(ino, WRITE).expect("opened");
            first.release(opened.handle).expect("closed");
        };
        assert_eq!(all(&look), 0, "it was made here");
    }
    for number in 0..40 {
        let unlink = || first.unlink(directory, &name(number)).expect("removed");
        assert_eq!(all(&unlink), 0, "it waits");
        assert_eq!(first.lookup(directory, &name(number)).err(), Some(Error::NotFound));
    }
    assert!(is_kept(first, &company, directory, b"f0"));
}

#[test]
fn a_mount_that_looks_there_sees_all_and_waits_for_the_writer_once() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let there = company.while_answering_recalls(&[first], || second.readdir_all(directory));
    assert_eq!(there, []);
    // The first answers no recall any more.
    company.while_answering_recalls(&[second], || {
        for number in 0..40 {
            assert_eq!(look(second, directory, &name(number)), Ok(None));
            make(first, directory, &name(number), 0o600).expect("made");
            assert_eq!(look(second, directory, &name(number)), Ok(Some(0o600)));
            chmod(first, directory, &name(number), 0o640).expect("changed");
            assert_eq!(look(second, directory, &name(number)), Ok(Some(0o640)));
            assert_eq!(second.readdir_all(directory).len(), number + 1);
        }
    });
}

#[test]
fn a_name_that_another_mount_makes_removes_or_moves_there_is_seen_at_once() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    for number in 0..20 {
        make(first, directory, &name(number), 0o600).expect("made");
    }
    company.while_answering_recalls(&[first, second], || {
        for number in 0..10 {
            let (there, free) = (name(number), name(100 + number));
            assert_eq!(look(first, directory, &free), Ok(None));
            make(second, directory, &free, 0o400).expect("made");
            assert_eq!(look(first, directory, &free), Ok(Some(0o400)));
            second.unlink(directory, &there).expect("removed");
            assert_eq!(look(first, directory, &there), Ok(None));
            let (from, to) = (name(10 + number), name(200 + number));
            let mode = RenameMode::Replace;
            second.rename(directory, &from, directory, &to, mode).expect("moved");
            assert_eq!(look(first, directory, &from), Ok(None));
            assert_eq!(look(first, directory, &to), Ok(Some(0o600)));
        }
    });
    assert_eq!(first.readdir_all(directory).len(), 20);
}

#[test]
fn another_mount_that_keeps_what_it_looked_at_is_asked_before_the_next_change() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, directory, b"f0", 0o600).expect("made");
    company.while_answering_recalls(&[first], || look(second, directory, b"f0")).expect("seen");
    company.rest(second, directory, b"f0");
    assert!(is_kept(first, &company, directory, b"f0"));
    assert!(is_kept(second, &company, directory, b"f0"), "both may look");
    company.while_answering_recalls(&[second], || {
        chmod(first, directory, b"f0", 0o640).expect("changed");
        assert_eq!(look(second, directory, b"f0"), Ok(Some(0o640)));
    });
}

#[test]
fn a_mount_that_stands_still_in_its_directory_answers_from_nothing_when_it_goes_on() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, directory, b"f0", 0o600).expect("made");
    let (there, free) = (name(0), name(1));
    company.while_time_passes(|| {
        make(second, directory, &free, 0o400).expect("made");
        second.unlink(directory, &there).expect("removed");
    });
    assert_eq!(look(first, directory, &free), Ok(Some(0o400)), "it has not heard of anything");
    assert_eq!(look(first, directory, &there), Ok(None));
    let again =
        company.while_answering_recalls(&[first, second], || make(first, directory, &free, 0o600));
    assert_eq!(again, Err(Error::Exists));
}

#[test]
fn a_directory_that_another_mount_removed_takes_no_name_whenever_it_is_taken() {
    for (is_taken, is_cleared) in [(false, false), (false, true), (true, false), (true, true)] {
        let company = Company::of(2);
        let [first, second] = &company.mounts[..] else { unreachable!() };
        let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
        second.lookup(Ino::ROOT, b"d").expect("found");
        if is_taken {
            assert_eq!(look(first, directory, b"f"), Ok(None));
        }
        company.while_answering_recalls(&[first, second], || {
            second.rmdir(Ino::ROOT, b"d").expect("removed");
            if is_cleared {
                company.clock.advance(Duration::from_secs(61));
                second.clear_closed(Duration::ZERO).expect("cleared");
            }
        });
        company.answer_all_recalls();
        for number in 0..20 {
            let made = company.while_answering_recalls(&[first, second], || {
                make(first, directory, &name(number), 0o600)
            });
            assert_eq!(made, Err(Error::NotFound), "{is_taken} {is_cleared}");
        }
    }
}

#[test]
fn a_change_whose_reply_was_lost_is_known_as_it_is() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let lost = StoreError::Indeterminate { endpoint: "a node".into() };
    for after in [false, true] {
        for number in 0..10 {
            let name = name(10 * number + usize::from(after));
            let nth = company.store.count(Operation::Batch) + 1;
            let fault = Fault::nth(Operation::Batch, nth, lost.clone());
            company.store.add(if after { fault.after() } else { fault });
            let made = make(first, directory, &name, 0o600);
            company.store.heal();
            let there =
                company.while_answering_recalls(&[first], || look(second, directory, &name));
            let there = there.expect("an answer");
            assert_eq!(there.is_some(), after);
            assert!(made.is_err() || there.is_some());
            assert_eq!(look(first, directory, &name), Ok(there));
        }
    }
}

#[test]
fn a_removed_directory_leaves_nothing_in_the_store() {
    let (company, directory) = made();
    let first = &company.mounts[0];
    make(first, directory, b"f0", 0o600).expect("made");
    first.unlink(directory, b"f0").expect("removed");
    first.rmdir(Ino::ROOT, b"d").expect("removed");
    company.clock.advance(SECOND * 3);
    company.answer_all_recalls();
    first.tick().expect("housekeeping");
    first.clear_closed(Duration::ZERO).expect("cleared");
    for shard in first.shards_of(directory) {
        let read = Batch::new().read(keys::HOLDERS).read(keys::HEADER);
        assert_eq!(company.store.batch(shard, &read).expect("read").values, [None, None]);
    }
}

#[test]
fn what_is_made_in_any_way_is_known() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let mut made = vec![b"link".to_vec(), b"moved".to_vec(), b"symlink".to_vec(), b"sub".to_vec()];
    make(first, directory, b"f0", 0o600).expect("made");
    let ino = first.lookup(directory, b"f0").expect("found").attr.ino;
    first.link(ino, directory, b"link").expect("linked");
    make(first, Ino::ROOT, b"elsewhere", 0o600).expect("made");
    let mode = RenameMode::Replace;
    company.while_answering_recalls(&[first, second], || {
        first.rename(Ino::ROOT, b"elsewhere", directory, b"moved", mode).expect("moved");
    });
    first.symlink(ME, directory, b"symlink", b"target").expect("made");
    first.mkdir(ME, directory, b"sub", 0o755).expect("made");
    first.mknod(ME, directory, b"fifo", Kind::Fifo, 0o600, 0).expect("made");
    made.extend([b"f0".to_vec(), b"fifo".to_vec()]);
    for name in &made {
        assert!(first.lookup(directory, name).is_ok(), "{name:?}");
        assert_eq!(first.mknod(ME, directory, name, Kind::File, 0, 0).err(), Some(Error::Exists));
    }
    let changes = SetAttr { size: Some(10), ..SetAttr::default() };
    first.setattr(ino, None, &changes).expect("set");
    assert_eq!(first.getattr(ino, None).map(|attr| (attr.size, attr.nlink)), Ok((10, 2)));
    first.rename(directory, b"f0", directory, b"fifo", mode).expect("renamed");
    assert_eq!(first.lookup(directory, b"f0").err(), Some(Error::NotFound));
    assert_eq!(first.lookup(directory, b"fifo").map(|entry| entry.attr.ino), Ok(ino));
    let there = company.while_answering_recalls(&[first], || second.readdir_all(directory));
    assert_eq!(there.len(), made.len() - 1);
}

#[test]
fn a_mount_that_was_revoked_changes_what_it_still_stands_for_in_the_store() {
    let (company, directory) = made();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let lease_term = Batch::new().delete(keys::lease_term(MountId(1)));
    company.store.batch(keys::SUPERBLOCK, &lease_term).expect("revoked");
    make(first, directory, b"f0", 0o600).expect("made");
    company.while_time_passes(|| assert_eq!(look(second, directory, b"f0"), Ok(Some(0o600))));
    company.answer_all_recalls();
    assert!(!is_kept(first, &company, directory, b"f0"), "all that it kept has ended");
    company
        .while_answering_recalls(&[first], || make(second, directory, b"f1", 0o600))
        .expect("made");
    assert_eq!(look(first, directory, b"f1"), Ok(Some(0o600)));
}
