//! Directories that have new files stay near, and those that do not.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidefs_model::{Ino, MountId, Partition, Run, StripeKey};
use tidefs_store::{Embedded, Faulty, Operation, Store};

use super::bed::{ME, WRITE, Watched};
use crate::{Config, Error, Fs, Kind, PLACEMENT, RenameMode, SetAttr, XattrMode};

type Mount = Fs<Faulty<Embedded>>;

/// The partitions that are near in these tests.
const NEAR: std::ops::Range<u16> = 5_120..5_184;

fn near() -> Option<Run> {
    Run::around(Partition::new(NEAR.start), |partition| NEAR.contains(&partition.number()))
}

/// A mount near to a few partitions, and a directory in it.
fn bed() -> (Watched, Ino) {
    let bed = Watched::new();
    bed.store.set_near(near());
    let directory = make_directory(&bed.fs, Ino::ROOT, b"d");
    (bed, directory)
}

fn make_directory(fs: &Mount, parent: Ino, name: &[u8]) -> Ino {
    fs.mkdir(ME, parent, name, 0o755).expect("made").attr.ino
}

fn make(fs: &Mount, parent: Ino, name: &[u8]) -> Ino {
    let (entry, opened) = fs.create(ME, parent, name, 0o644, WRITE).expect("made");
    fs.write(opened.handle, 0, name, None, false).expect("written");
    fs.flush(opened.handle).expect("flushed");
    fs.release(opened.handle).expect("released");
    entry.attr.ino
}

fn read(fs: &Mount, ino: Ino) -> Vec<u8> {
    let handle = fs.open(ino, WRITE).expect("opened").handle;
    let bytes = fs.read(handle, 0, 100).expect("read").as_slice().to_vec();
    fs.release(handle).expect("released");
    bytes
}

fn set(fs: &Mount, ino: Ino, value: &[u8]) -> Result<(), Error> {
    fs.setxattr(ino, PLACEMENT, value, XattrMode::Any)
}

fn is_near(ino: Ino) -> bool {
    let partition = |index| StripeKey { ino, index }.partition().number();
    (0..200).all(|index| NEAR.contains(&partition(index)))
}

#[test]
fn files_of_a_local_directory_lie_near_and_others_everywhere() {
    let (bed, directory) = bed();
    let fs = &bed.fs;
    assert!(!is_near(make(fs, directory, b"before")));
    set(fs, directory, b"local").expect("set");
    let numbers: BTreeSet<_> =
        (0..50).map(|at| make(fs, directory, format!("f{at}").as_bytes())).collect();
    assert_eq!(numbers.len(), 50);
    assert!(numbers.iter().all(|&ino| is_near(ino)), "{numbers:?}");
    assert!(!is_near(make(fs, Ino::ROOT, b"beside")));
    for (at, ino) in (0..50).map(|at| (at, fs.lookup(directory, format!("f{at}").as_bytes()))) {
        assert_eq!(read(fs, ino.expect("there").attr.ino), format!("f{at}").as_bytes());
    }
    let link = fs.symlink(ME, directory, b"link", b"f0").expect("made").attr.ino;
    let fifo = fs.mknod(ME, directory, b"fifo", Kind::Fifo, 0o644, 0).expect("made").attr.ino;
    assert!(link.run().is_none() && fifo.run().is_none(), "what has no stripes");
    let node = fs.mknod(ME, directory, b"node", Kind::File, 0o644, 0).expect("made").attr.ino;
    assert!(is_near(node));
}

#[test]
fn subdirectories_that_are_made_later_inherit_it() {
    let (bed, directory) = bed();
    let fs = &bed.fs;
    let earlier = make_directory(fs, directory, b"earlier");
    set(fs, directory, b"local").expect("set");
    let later = make_directory(fs, directory, b"later");
    let deeper = make_directory(fs, later, b"deeper");
    assert_eq!(fs.getxattr(deeper, PLACEMENT).as_deref(), Ok(&b"local"[..]));
    assert_eq!(fs.getxattr(earlier, PLACEMENT).as_deref(), Ok(&b"striped"[..]));
    assert!(is_near(make(fs, deeper, b"f")) && !is_near(make(fs, earlier, b"f")));
    set(fs, directory, b"striped").expect("set");
    assert!(is_near(make(fs, later, b"f")) && !is_near(make(fs, directory, b"f")));
}

#[test]
fn a_name_of_no_placement_and_what_is_no_directory_are_refused() {
    let (bed, directory) = bed();
    let fs = &bed.fs;
    for wrong in [&b"near"[..], b"", b"Local", b"local ", b"local\0"] {
        assert_eq!(set(fs, directory, wrong), Err(Error::Invalid));
    }
    let file = make(fs, directory, b"f");
    assert_eq!(set(fs, file, b"local"), Err(Error::NotADirectory));
    assert_eq!(fs.getxattr(file, PLACEMENT), Err(Error::NoAttribute));
    assert_eq!(fs.removexattr(file, PLACEMENT), Err(Error::NoAttribute));
    assert_eq!(fs.listxattr(file).as_deref(), Ok(&b""[..]));
    assert!(!is_near(make(fs, directory, b"g")), "nothing was set");
}

#[test]
fn the_attribute_is_listed_where_it_is_set_and_removed_like_others() {
    let (bed, directory) = bed();
    let fs = &bed.fs;
    let set_as = |value: &[u8], mode| fs.setxattr(directory, PLACEMENT, value, mode);
    let listed = || fs.listxattr(directory).expect("listed");
    assert_eq!((listed(), fs.removexattr(directory, PLACEMENT)), (vec![], Err(Error::NoAttribute)));
    assert_eq!(set_as(b"local", XattrMode::Replace), Err(Error::NoAttribute));
    fs.setxattr(directory, b"user.other", b"x", XattrMode::Any).expect("set");
    assert_eq!(set_as(b"local", XattrMode::Create), Ok(()));
    assert_eq!(set_as(b"striped", XattrMode::Create), Err(Error::Exists));
    assert_eq!(listed(), b"user.tidefs.placement\0user.other\0");
    assert_eq!(fs.getxattr(directory, PLACEMENT).as_deref(), Ok(&b"local"[..]));
    assert_eq!(fs.getxattr(directory, b"user.other").as_deref(), Ok(&b"x"[..]));
    assert_eq!(fs.removexattr(directory, PLACEMENT), Ok(()));
    assert_eq!(listed(), b"user.other\0");
    assert_eq!(fs.getxattr(directory, PLACEMENT).as_deref(), Ok(&b"striped"[..]));
    assert!(!is_near(make(fs, directory, b"f")));
}

#[test]
fn setting_it_changes_the_time_of_the_directory_and_nothing_else() {
    let (bed, directory) = bed();
    bed.clock.advance(std::time::Duration::from_secs(5));
    let before = bed.fs.getattr(directory, None).expect("attributes");
    set(&bed.fs, directory, b"local").expect("set");
    let after = bed.fs.getattr(directory, None).expect("attributes");
    assert!(after.ctime > before.ctime);
    assert_eq!(crate::Attr { ctime: before.ctime, ..after }, before);
    let mode = SetAttr { mode: Some(0o2_750), ..SetAttr::default() };
    bed.fs.setattr(directory, None, &mode).expect("changed");
    assert_eq!(bed.fs.getxattr(directory, PLACEMENT).as_deref(), Ok(&b"local"[..]), "chmod");
}

#[test]
fn a_file_keeps_its_place_under_other_names() {
    let (bed, directory) = bed();
    let fs = &bed.fs;
    set(fs, directory, b"local").expect("set");
    let (local, striped) = (make(fs, directory, b"local"), make(fs, Ino::ROOT, b"striped"));
    fs.link(local, Ino::ROOT, b"linked").expect("linked");
    fs.rename(Ino::ROOT, b"striped", directory, b"moved", RenameMode::Replace).expect("renamed");
    fs.rename(directory, b"local", Ino::ROOT, b"away", RenameMode::Replace).expect("renamed");
    let number = |parent, name| fs.lookup(parent, name).expect("there").attr.ino;
    assert_eq!((number(Ino::ROOT, b"linked"), number(Ino::ROOT, b"away")), (local, local));
    assert_eq!(number(directory, b"moved"), striped);
    assert_eq!((read(fs, local), read(fs, striped)), (b"local".to_vec(), b"striped".to_vec()));
    assert!(is_near(local) && !is_near(striped));
}

#[test]
fn without_a_node_nearby_files_are_striped() {
    let (bed, directory) = bed();
    set(&bed.fs, directory, b"local").expect("set");
    bed.store.set_near(None);
    let ino = make(&bed.fs, directory, b"f");
    assert_eq!((ino.run(), read(&bed.fs, ino)), (None, b"f".to_vec()));
    bed.store.set_near(near());
    assert!(is_near(make(&bed.fs, directory, b"g")));
}

#[test]
fn a_local_file_takes_no_more_calls_than_another_one() {
    let (bed, directory) = bed();
    set(&bed.fs, directory, b"local").expect("set");
    let striped = make_directory(&bed.fs, Ino::ROOT, b"striped");
    // The first ones pay for the numbers.
    make(&bed.fs, directory, b"first");
    make(&bed.fs, striped, b"first");
    let all = [Operation::Batch, Operation::Read, Operation::Write, Operation::Lengths];
    let calls = || all.map(|operation| bed.store.count(operation)).iter().sum::<u64>();
    let cost = |parent| {
        let before = calls();
        make(&bed.fs, parent, b"second");
        calls() - before
    };
    assert_eq!(cost(directory), cost(striped));
}

#[test]
fn another_mount_sees_what_was_set_and_reads_what_was_written() {
    let (bed, directory) = bed();
    let config = Config { io_threads: 1, ..Config::new(MountId(2)) };
    let other = Fs::mount(Arc::clone(&bed.store), config, bed.clock.clone()).expect("mounted");
    for _ in 0..100 {
        bed.fs.tick().expect("housekeeping");
        other.tick().expect("housekeeping");
        bed.clock.advance(std::time::Duration::from_millis(500));
    }
    assert_eq!(other.is_admitted(), Ok(true));
    assert_eq!(other.lookup(Ino::ROOT, b"d").expect("there").attr.ino, directory);
    set(&bed.fs, directory, b"local").expect("set");
    let ino = make(&bed.fs, directory, b"f");
    // The kernel looks a name up again before it is used, when there are several mounts.
    other.lookup(Ino::ROOT, b"d").expect("there");
    assert_eq!(other.getxattr(directory, PLACEMENT).as_deref(), Ok(&b"local"[..]));
    assert_eq!(other.lookup(directory, b"f").expect("there").attr.ino, ino);
    assert_eq!(read(&other, ino), b"f");
    assert!(is_near(make(&other, directory, b"g")));
}

#[test]
fn bytes_of_a_local_file_go_with_it() {
    let (bed, directory) = bed();
    set(&bed.fs, directory, b"local").expect("set");
    let ino = make(&bed.fs, directory, b"f");
    let key = StripeKey { ino, index: 0 };
    assert_eq!(bed.store.lengths(&[key]), Ok(vec![1]));
    bed.fs.unlink(directory, b"f").expect("removed");
    bed.fs.forget(ino, 1);
    super::bed::eventually("the stripe is gone", || {
        bed.fs.tick().expect("housekeeping");
        bed.store.lengths(&[key]) == Ok(vec![0])
    });
}
