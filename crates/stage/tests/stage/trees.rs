//! What a copy has of its source.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, utimensat};
use rustix::fs::{
    CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, getxattr, mknodat, setxattr,
};
use tempfile::tempdir;
use tidefs_stage::{Progress, Selection, StageError, transfer};

use crate::{OPTIONS, stage, told, try_stage};

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn time_of(path: &Path) -> (i64, i64) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec())
}

#[test]
fn a_tree_is_copied_with_all_that_it_has() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (from, to) = (from.path(), to.path().join("made/here"));
    fs::create_dir_all(from.join("a/empty")).unwrap();
    fs::write(from.join("a/x"), b"bytes").unwrap();
    fs::write(from.join("a/none"), b"").unwrap();
    symlink("x", from.join("a/link")).unwrap();
    fs::hard_link(from.join("a/x"), from.join("again")).unwrap();
    fs::set_permissions(from.join("a/x"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(from.join("a/empty"), fs::Permissions::from_mode(0o500)).unwrap();
    setxattr(from.join("a/x"), "user.kind", b"sample", XattrFlags::empty()).unwrap();
    setxattr(from.join("a"), "user.kind", b"folder", XattrFlags::empty()).unwrap();
    for (name, seconds) in
        [("a/x", 1_000_000_000), ("a/link", 2), ("a/empty", 3), ("a", 4), ("", 5)]
    {
        set_time(&from.join(name), seconds);
    }

    let outcome = stage(from, &to);
    assert_eq!((outcome.copied, outcome.bytes, outcome.failed), (4, 5, 0), "{:?}", told(&outcome));
    assert_eq!(fs::read(to.join("a/x")).unwrap(), b"bytes");
    assert_eq!(fs::read_link(to.join("a/link")).unwrap(), Path::new("x"));
    let ino = |name: &str| fs::metadata(to.join(name)).unwrap().ino();
    assert_eq!(ino("a/x"), ino("again"));
    for name in ["a/x", "a/none", "a/link", "a/empty", "a", "again", ""] {
        let mode = |root: &Path| fs::symlink_metadata(root.join(name)).unwrap().mode();
        assert_eq!(mode(from), mode(&to), "{name}");
        assert_eq!(time_of(&from.join(name)), time_of(&to.join(name)), "{name}");
    }
    let mut value = [0; 16];
    for (name, wanted) in [("a/x", &b"sample"[..]), ("a", b"folder")] {
        let length = getxattr(to.join(name), "user.kind", &mut value).unwrap();
        assert_eq!(&value[..length], wanted);
    }
    let names = fs::read_dir(to.join("a")).unwrap().count();
    assert_eq!(names, 4, "nothing else is left there");
}

#[test]
fn holes_stay_holes() {
    let folder = tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let file = File::create(&from).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(b"middle", 50 << 20).unwrap();
    file.set_len(100 << 20).unwrap();
    assert!(stage(&from, &to).is_whole());
    let metadata = fs::metadata(&to).unwrap();
    assert_eq!(metadata.len(), 100 << 20);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
    assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap());
}

#[test]
fn a_file_goes_into_a_directory_or_gets_a_name() {
    let folder = tempdir().unwrap();
    let from = folder.path().join("from");
    fs::write(&from, b"x").unwrap();
    fs::create_dir(folder.path().join("directory")).unwrap();
    assert!(stage(&from, &folder.path().join("directory")).is_whole());
    assert!(stage(&from, &folder.path().join("new/name")).is_whole());
    assert_eq!(fs::read(folder.path().join("directory/from")).unwrap(), b"x");
    assert_eq!(fs::read(folder.path().join("new/name")).unwrap(), b"x");
}

#[test]
fn of_a_selection_only_what_is_wanted_is_made() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for name in
        ["results/a/1.csv", "results/2.csv", "results/a/log", "results/b/log", "other/3.csv"]
    {
        let path = from.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let selection = Selection::parse("results/**/*.csv").unwrap().below(from.path());
    let outcome = transfer(&selection, to.path(), &OPTIONS, &Progress::default()).unwrap();
    assert_eq!((outcome.copied, outcome.failed), (2, 0));
    assert_eq!(fs::read(to.path().join("a/1.csv")).unwrap(), b"results/a/1.csv");
    assert!(to.path().join("2.csv").exists());
    assert!(!to.path().join("b").exists() && !to.path().join("a/log").exists());
    let nothing = Selection::parse("results/*.txt").unwrap().below(from.path());
    let refused = transfer(&nothing, to.path(), &OPTIONS, &Progress::default());
    assert!(matches!(refused, Err(StageError::NothingMatches(it)) if it == "results/*.txt"));
}

#[test]
fn what_cannot_be_copied_is_named_and_the_rest_goes_on() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    mknodat(CWD, from.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::write(from.path().join("in-the-way"), b"x").unwrap();
    fs::create_dir(to.path().join("in-the-way")).unwrap();
    fs::create_dir(from.path().join("folder")).unwrap();
    fs::write(from.path().join("folder/x"), b"x").unwrap();
    fs::write(to.path().join("folder"), b"mine").unwrap();
    fs::write(from.path().join("good"), b"x").unwrap();
    let outcome = stage(from.path(), to.path());
    assert_eq!((outcome.copied, outcome.failed), (1, 3), "{:?}", told(&outcome));
    let told = told(&outcome).join("\n");
    for part in ["is a fifo", "is no file", "is no directory"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(fs::read(to.path().join("folder")).unwrap(), b"mine", "it is not harmed");
    assert_eq!(fs::read(to.path().join("good")).unwrap(), b"x");
}

#[test]
fn what_can_never_end_or_is_not_there_is_refused() {
    let folder = tempdir().unwrap();
    let inside = folder.path().join("a/b");
    assert!(matches!(try_stage(folder.path(), &inside), Err(StageError::IntoItself { .. })));
    assert!(!inside.exists());
    let missing = folder.path().join("missing");
    assert!(matches!(try_stage(&missing, &inside), Err(StageError::Unreadable { .. })));
}
