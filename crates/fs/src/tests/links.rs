//! The most names that a file may have.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, MountId};
use tidefs_store::{Faulty, Operation, Store, When};

use super::bed::{Bed, ME, SECOND};
use crate::{AskedName, Config, Error, Fs, Kind, LINKS_MAX, Lifetimes, RenameMode};

#[test]
fn the_last_name_is_refused_until_another_one_goes() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    let file = fs.mknod(ME, Ino::ROOT, b"0", Kind::File, 0o600, 0).expect("made").attr.ino;
    for number in 1..LINKS_MAX {
        fs.link(file, Ino::ROOT, number.to_string().as_bytes()).expect("linked");
    }
    assert_eq!(fs.link(file, Ino::ROOT, b"more").map(drop), Err(Error::TooManyLinks));
    assert_eq!(fs.lookup(Ino::ROOT, b"more").map(drop), Err(Error::NotFound));
    assert_eq!(fs.getattr(file, None).map(|attr| attr.nlink), Ok(LINKS_MAX));
    fs.unlink(Ino::ROOT, b"7").expect("unlinked");
    fs.link(file, Ino::ROOT, b"more").expect("linked");
    assert_eq!(fs.getattr(file, None).map(|attr| attr.nlink), Ok(LINKS_MAX));
}

/// Time in which a program may not yet have dealt with an answer, and in which it has.
const A_WHILE: Duration = Duration::from_secs(9);

/// How long the kernel may keep what it is told of a file, and of a name of it.
fn told<S: Store>(fs: &Fs<S>, file: Ino, name: &[u8]) -> [Lifetimes; 2] {
    let before = fs.standing();
    let asked = AskedName { parent: Ino::ROOT, name, thread: 1, is_locked: false };
    [fs.lifetimes_of(file, before), fs.lifetimes_of_name(&asked, Some(file), before)]
}

#[test]
fn a_kernel_may_have_to_lower_its_count_for_a_while_after_a_name_has_gone() {
    for is_alone in [false, true] {
        let bed = Bed::new();
        let fs = bed.mount(1);
        assert!(!is_alone || fs.is_admitted() == Ok(true));
        let make = |name: &[u8]| {
            fs.mknod(ME, Ino::ROOT, name, Kind::File, 0o600, 0).expect("made").attr.ino
        };
        let (file, other) = (make(b"stays"), make(b"other"));
        assert_eq!(is_alone, told(&fs, file, b"stays").iter().all(|it| !it.attr.is_zero()));
        type Gone<'a> = (&'a str, &'a dyn Fn() -> Result<(), Error>);
        let replaced = || fs.rename(Ino::ROOT, b"other", Ino::ROOT, b"goes", RenameMode::Replace);
        let ways: [Gone<'_>; 2] =
            [("unlink", &|| fs.unlink(Ino::ROOT, b"goes")), ("rename", &replaced)];
        for (way, goes) in ways {
            fs.link(file, Ino::ROOT, b"goes").expect("linked");
            assert!(!fs.counts_down(file), "{way}, alone: {is_alone}");
            goes().expect("it goes");
            assert!(fs.counts_down(file), "{way}, alone: {is_alone}");
            assert_eq!(told(&fs, file, b"stays"), [Lifetimes::default(); 2], "{way}");
            assert!(!fs.counts_down(other), "{way}, alone: {is_alone}");
            bed.pass(A_WHILE);
            assert!(fs.counts_down(file), "{way}, alone: {is_alone}");
            bed.pass(SECOND);
        }
        assert_eq!(fs.getattr(file, None).map(|attr| attr.nlink), Ok(1));
    }
}

#[test]
fn a_kernel_may_have_to_lower_its_count_as_long_as_a_removal_is_under_way() {
    let bed = Bed::new();
    let _other = bed.mount(2);
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let fs = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let file = fs.mknod(ME, Ino::ROOT, b"stays", Kind::File, 0o600, 0).expect("made").attr.ino;
    fs.link(file, Ino::ROOT, b"goes").expect("linked");
    fs.lookup(Ino::ROOT, b"goes").expect("found");
    let held = store.pause(Operation::Batch, When::After);
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| fs.unlink(Ino::ROOT, b"goes"));
        assert!(held.wait_until_held(1, Duration::from_secs(10)));
        for _ in 0..100 {
            assert!(fs.counts_down(file));
            bed.pass(SECOND);
        }
        drop(held);
        removing.join().expect("no panic").expect("removed");
    });
    assert!(fs.counts_down(file));
    assert_eq!(fs.getattr(file, None).map(|attr| attr.nlink), Ok(1));
}
