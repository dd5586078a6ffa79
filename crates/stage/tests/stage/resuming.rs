//! Transfers that are repeated, stopped, and whose source changes meanwhile.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::tempdir;
use tidefs_stage::{Progress, Selection, StageError, transfer};

use crate::{CHECKED, OPTIONS, stage, told};

fn names(directory: &Path) -> Vec<String> {
    let rows = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        rows.map(|row| row.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_there_is_not_copied_again() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for number in 0..50 {
        fs::write(from.path().join(number.to_string()), vec![number; 1000]).unwrap();
    }
    std::os::unix::fs::symlink("1", from.path().join("link")).unwrap();
    fs::hard_link(from.path().join("1"), from.path().join("one")).unwrap();
    assert_eq!(stage(from.path(), to.path()).copied, 52);
    fs::remove_file(to.path().join("7")).unwrap();
    fs::write(to.path().join("8"), b"cut short").unwrap();
    let again = stage(from.path(), to.path());
    assert_eq!((again.copied, again.unchanged, again.failed), (2, 50, 0));
    assert_eq!(fs::read(to.path().join("8")).unwrap(), vec![8; 1000]);
}

#[test]
fn checksums_find_what_size_and_time_do_not() {
    let folder = tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, b"right").unwrap();
    assert_eq!(stage(&from, &to).copied, 1);
    let time = fs::metadata(&to).unwrap().modified().unwrap();
    fs::write(&to, b"wrong").unwrap();
    File::options().write(true).open(&to).unwrap().set_modified(time).unwrap();
    assert_eq!(stage(&from, &to).unchanged, 1);
    let whole = Selection::whole(&from);
    let checked = transfer(&whole, &to, &CHECKED, &Progress::default()).unwrap();
    assert_eq!((checked.copied, checked.failed), (1, 0));
    assert_eq!(fs::read(&to).unwrap(), b"right");
}

#[test]
fn a_transfer_that_is_stopped_leaves_whole_files_and_names_the_rest() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for number in 0..200 {
        fs::write(from.path().join(number.to_string()), vec![1; 100_000]).unwrap();
    }
    let progress = Progress::default();
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            while progress.done().0 < 20 {
                thread::yield_now();
            }
            progress.stop();
        });
        transfer(&Selection::whole(from.path()), to.path(), &OPTIONS, &progress).unwrap()
    });
    assert!(outcome.failed > 0 && outcome.copied >= 20, "{outcome:?}");
    assert!(outcome.failures.iter().all(|it| matches!(it.error, StageError::Stopped(_))));
    for name in names(to.path()) {
        assert_eq!(fs::metadata(to.path().join(&name)).unwrap().len(), 100_000, "{name}");
    }
    let rest = stage(from.path(), to.path());
    assert_eq!((rest.unchanged, rest.copied), (outcome.copied, 200 - outcome.copied));
}

/// The part that a killed transfer has left is written over.
#[test]
fn nothing_is_left_of_a_transfer_that_was_killed() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("x"), b"bytes").unwrap();
    let whole = stage(from.path(), to.path());
    assert!(whole.is_whole());
    // Learn the name from a transfer that cannot end: its source grows all the time.
    let ended = AtomicBool::new(false);
    let partial = thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(from.path().join("x")).unwrap();
            while !ended.load(Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
                thread::yield_now();
            }
        });
        let mut failed = stage(from.path(), to.path());
        while failed.is_whole() {
            failed = stage(from.path(), to.path());
        }
        ended.store(true, Ordering::Relaxed);
        told(&failed).join("\n")
    });
    assert!(partial.contains("changed while it was copied"), "{partial}");
    assert_eq!(names(to.path()), ["x"], "what was not whole is gone");
}
