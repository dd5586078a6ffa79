//! Names that kernels are told where their mount is the writer, and when they have to look at them again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidefs_model::Ino;

use super::writer::Bed;
use super::{Company, Mount, look, make};
use crate::lifetimes::KernelCache;
use crate::tests::bed::SECOND;
use crate::{AskedName, Error, RenameMode};

const THREAD: u32 = 7;

/// A kernel that takes note of what it has to look at again, and for whom that waits.
#[derive(Default)]
struct Kernel {
    expired: Mutex<Vec<(Ino, Vec<u8>)>>,
    late: Mutex<Vec<u32>>,
    forgotten: Mutex<Vec<Ino>>,
    /// Somebody is at work in every directory.
    hangs: AtomicBool,
}

impl KernelCache for Kernel {
    fn wait_for_answers(&self) {}

    fn forget(&self, ino: Ino) -> bool {
        self.forgotten.lock().expect("no panic").push(ino);
        true
    }

    fn prune(&self, _: &[Ino]) {}

    fn expires_names(&self) -> bool {
        true
    }

    fn wait_until_taken_in(&self, threads: &[u32], _: Duration) {
        self.late.lock().expect("no panic").extend(threads);
    }

    fn expire_names(&self, names: Vec<(Ino, Box<[u8]>)>, at_most: Duration) -> bool {
        if self.hangs.load(Ordering::SeqCst) {
            std::thread::sleep(at_most);
            return false;
        }
        let names = names.into_iter().map(|(parent, name)| (parent, name.into_vec()));
        self.expired.lock().expect("no panic").extend(names);
        true
    }
}

impl Kernel {
    fn of(mount: &Mount) -> Arc<Kernel> {
        let kernel = Arc::new(Kernel::default());
        mount.set_kernel_cache(kernel.clone());
        kernel
    }

    fn take(&self) -> Vec<(Ino, Vec<u8>)> {
        let mut expired = std::mem::take(&mut *self.expired.lock().expect("no panic"));
        expired.sort();
        expired
    }
}

/// For how long a kernel may answer for a name that it asks for now.
fn lifetime(mount: &Mount, parent: Ino, name: &[u8]) -> Duration {
    let asked = AskedName { parent, name, thread: THREAD, is_locked: false };
    let before = mount.standing();
    let found = mount.lookup(parent, name);
    let lifetimes = match found {
        Ok(entry) => mount.lifetimes_of_name(&asked, Some(entry.attr.ino), before),
        Err(Error::NotFound) => mount.lifetimes_of_name(&asked, None, before),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(lifetimes.entry, lifetimes.negative);
    lifetimes.entry
}

/// A bed whose first mount has a kernel, and a file.
fn bed() -> (Bed, Arc<Kernel>) {
    let bed = Bed::new();
    let kernel = Kernel::of(bed.first());
    bed.close(bed.create(b"f").expect("made"));
    (bed, kernel)
}

#[test]
fn kernels_are_told_names_of_the_writer_alone() {
    let (bed, _kernel) = bed();
    let second = bed.second();
    let _other = Kernel::of(second);
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), SECOND);
    assert_eq!(lifetime(bed.first(), bed.directory, b"absent"), SECOND);
    assert_eq!(lifetime(bed.first(), bed.directory, b".."), Duration::ZERO);
    assert_eq!(lifetime(bed.first(), Ino::ROOT, b"d"), Duration::ZERO, "others look there");
    assert_eq!(bed.beside(|second| lifetime(second, bed.directory, b"f")), Duration::ZERO);
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), Duration::ZERO, "the other one looked");
    bed.company.clock.advance(Duration::from_millis(600));
    assert_eq!(lifetime(second, Ino::ROOT, b"d"), Duration::ZERO);
}

#[test]
fn no_name_is_told_for_longer_than_the_delegation_is_valid() {
    let (bed, _kernel) = bed();
    bed.company.clock.advance(Duration::from_millis(700));
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), Duration::from_millis(300));
    bed.company.clock.advance(Duration::from_millis(300));
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), Duration::ZERO);
}

#[test]
fn kernels_look_again_before_anybody_else_does() {
    let (bed, kernel) = bed();
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), SECOND);
    assert_eq!(lifetime(bed.first(), bed.directory, b"absent"), SECOND);
    assert_eq!(kernel.take(), []);
    let seen = bed.beside(|second| {
        assert_eq!(look(second, bed.directory, b"f"), Ok(Some(0o600)));
        kernel.take()
    });
    let both = [b"absent".to_vec(), b"f".to_vec()].map(|name| (bed.directory, name));
    assert_eq!(seen, both);
}

#[test]
fn what_a_kernel_was_told_long_ago_has_lapsed() {
    let (bed, kernel) = bed();
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), SECOND);
    for _ in 0..4 {
        bed.company.clock.advance(Duration::from_millis(400));
        bed.company.answer_all_recalls();
    }
    bed.beside(|second| make(second, bed.directory, b"f", 0o600)).expect_err("it is there");
    assert_eq!(kernel.take(), []);
}

#[test]
fn who_looks_at_what_the_kernel_has_may_take_the_answer_in_late() {
    let (bed, kernel) = bed();
    let found = bed.first().lookup(bed.directory, b"f").expect("found");
    bed.first().forget(found.attr.ino, u64::MAX);
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), SECOND);
    bed.beside(|second| look(second, bed.directory, b"f")).expect("seen");
    assert_eq!(*kernel.late.lock().expect("no panic"), [0_u32; 0], "it was new to it");
    let (bed, kernel) = self::bed();
    (0..2).for_each(|_| _ = lifetime(bed.first(), bed.directory, b"f"));
    bed.beside(|second| look(second, bed.directory, b"f")).expect("seen");
    assert_eq!(*kernel.late.lock().expect("no panic"), [THREAD]);
}

#[test]
fn who_is_at_work_in_the_directory_delays_others_until_the_name_has_lapsed() {
    let (bed, kernel) = bed();
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), SECOND);
    kernel.hangs.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    bed.beside(|second| look(second, bed.directory, b"f")).expect("seen");
    assert!(begun.elapsed() >= SECOND);
}

#[test]
fn a_name_takes_what_the_kernel_has_of_it_along() {
    let (bed, kernel) = bed();
    assert_eq!(lifetime(bed.first(), bed.directory, b"f"), SECOND);
    let (first, directory, replace) = (bed.first(), bed.directory, RenameMode::Replace);
    first.rename(directory, b"f", directory, b"g", replace).expect("renamed");
    bed.beside(|second| look(second, directory, b"g")).expect("seen");
    assert_eq!(kernel.take(), [b"f", b"g"].map(|name| (directory, name.to_vec())));
}

#[test]
fn a_kernel_looks_again_at_a_name_that_goes_where_others_are() {
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        let (bed, _kernel) = bed();
        let (first, directory) = (bed.first(), bed.directory);
        make(first, Ino::ROOT, b"g", 0o600).expect("made");
        assert_eq!(lifetime(first, directory, b"f"), SECOND);
        let rename = || match mode {
            RenameMode::Exchange => first.rename(Ino::ROOT, b"g", directory, b"f", mode),
            _ => first.rename(directory, b"f", Ino::ROOT, b"g", mode),
        };
        let begun = Instant::now();
        assert_eq!(bed.beside(|_| rename()), Err(Error::Stale), "the kernel tries again");
        assert_eq!(lifetime(first, directory, b"f"), Duration::ZERO);
        assert_eq!(look(first, Ino::ROOT, b"g"), Ok(Some(0o600)), "nothing was done");
        assert_eq!(bed.beside(|_| rename()), Ok(()));
        assert!(begun.elapsed() < SECOND);
    }
}

#[test]
fn who_does_not_look_again_waits_until_the_name_has_lapsed() {
    let (bed, _kernel) = bed();
    let (first, directory, replace) = (bed.first(), bed.directory, RenameMode::Replace);
    assert_eq!(lifetime(first, directory, b"f"), SECOND);
    let rename = || bed.beside(|_| first.rename(directory, b"f", Ino::ROOT, b"g", replace));
    assert_eq!(rename(), Err(Error::Stale));
    let begun = Instant::now();
    assert_eq!(rename(), Ok(()));
    assert!(begun.elapsed() >= SECOND);
}

/// A mount that is alone, and its kernel.
fn alone() -> (Company, Arc<Kernel>) {
    let company = Company::of(1);
    let mount = &company.mounts[0];
    let kernel = Kernel::of(mount);
    assert_eq!(mount.is_admitted(), Ok(true));
    mount.tick().expect("housekeeping");
    assert!(mount.standing().is_alone());
    (company, kernel)
}

#[test]
fn what_a_lone_mount_told_its_kernel_can_be_ended() {
    let (company, kernel) = alone();
    let mount = &company.mounts[0];
    make(mount, Ino::ROOT, b"f", 0o600).expect("made");
    make(mount, Ino::ROOT, b"g", 0o600).expect("made");
    for name in [b"f".as_slice(), b"f", b"absent"] {
        assert_eq!(lifetime(mount, Ino::ROOT, name), SECOND);
    }
    mount.rename(Ino::ROOT, b"f", Ino::ROOT, b"moved", RenameMode::Replace).expect("renamed");
    let before = mount.standing();
    let ino = mount.lookup(Ino::ROOT, b"g").expect("found").attr.ino;
    assert_eq!(mount.lifetimes_of(ino, before).attr, SECOND);
    assert_eq!(mount.end_lifetimes(), Duration::ZERO);
    let names = [b"absent".as_slice(), b"f", b"moved"].map(|name| (Ino::ROOT, name.to_vec()));
    assert_eq!(kernel.take(), names);
    assert!(kernel.forgotten.lock().expect("no panic").contains(&ino));
    assert_eq!(*kernel.late.lock().expect("no panic"), [THREAD], "the second look at it");
    assert_eq!(mount.end_lifetimes(), Duration::ZERO);
    assert_eq!(kernel.take(), []);
}

#[test]
fn what_a_lone_mount_told_its_kernel_in_listings_can_be_ended() {
    let (company, kernel) = alone();
    let mount = &company.mounts[0];
    let before = mount.standing();
    assert_eq!(mount.lifetimes_since(before).entry, SECOND);
    mount.told_listing(Ino::ROOT, vec![(Ino(7), b"f".to_vec())]);
    // A name that moves takes along what a listing said of it.
    make(mount, Ino::ROOT, b"f", 0o600).expect("made");
    mount.rename(Ino::ROOT, b"f", Ino::ROOT, b"g", RenameMode::Replace).expect("renamed");
    assert_eq!(mount.end_lifetimes(), Duration::ZERO);
    assert_eq!(kernel.take(), [b"f", b"g"].map(|name| (Ino::ROOT, name.to_vec())));
    assert!(kernel.forgotten.lock().expect("no panic").contains(&Ino(7)));
}

#[test]
fn what_a_lone_mount_could_not_note_has_to_lapse() {
    let (company, _kernel) = alone();
    let mount = &company.mounts[0];
    let names = vec![(Ino(7), b"f".to_vec()); 1_000_000];
    mount.told_listing(Ino::ROOT, names);
    company.clock.advance(Duration::from_millis(300));
    assert_eq!(mount.end_lifetimes(), Duration::from_millis(1_200));
    company.clock.advance(Duration::from_millis(1_200));
    assert_eq!(mount.end_lifetimes(), Duration::ZERO);
}

#[test]
fn what_was_read_before_a_rename_is_not_told_after_it() {
    let ((bed, _kernel), (lone, _other)) = (bed(), alone());
    make(&lone.mounts[0], Ino::ROOT, b"f", 0o600).expect("made");
    for (mount, parent) in [(bed.first(), bed.directory), (&lone.mounts[0], Ino::ROOT)] {
        let asked = AskedName { parent, name: b"f", thread: THREAD, is_locked: false };
        let before = mount.standing();
        let ino = mount.lookup(parent, b"f").expect("found").attr.ino;
        mount.rename(parent, b"f", parent, b"g", RenameMode::Replace).expect("renamed");
        assert_eq!(mount.lifetimes_of_name(&asked, Some(ino), before).entry, Duration::ZERO);
        assert_eq!(lifetime(mount, parent, b"g"), SECOND);
    }
}

#[test]
fn a_name_that_moves_while_the_kernel_has_yet_to_look_again_is_looked_at_first() {
    let (bed, kernel) = bed();
    let (first, directory) = (bed.first(), bed.directory);
    assert_eq!(lifetime(first, directory, b"f"), SECOND);
    kernel.hangs.store(true, Ordering::SeqCst);
    let replace = RenameMode::Replace;
    bed.beside(|second| {
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| look(second, directory, b"f").expect("seen"));
            while lifetime(first, directory, b"absent") == SECOND {
                std::thread::yield_now();
            }
            let renamed = first.rename(directory, b"f", directory, b"g", replace);
            assert_eq!(renamed, Err(Error::Stale));
            looks.join().expect("no panic");
        });
    });
}
