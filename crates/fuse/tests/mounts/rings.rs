//! Mounts whose requests come by rings: who gets one, and what a request that waits does to others.

use std::fs::{self, File};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tidefs_fuse::{MountError, MountOptions, Rings, Session, UnmountError, null};
use tidefs_model::ByteSize;

use crate::support::{Switch, by_rings, empty_folder, heap, join, options};

#[test]
fn without_the_kernels_offer_a_mount_is_made_as_ever_unless_it_must_have_rings() {
    let Some(_off) = Switch::to(false) else { return };
    let mount = |rings, folder: &std::path::Path| {
        let options = MountOptions { rings, ..options(folder) };
        Session::mount(join(heap(ByteSize::mib(16)), false), &options)
    };
    let folder = empty_folder();
    assert!(matches!(mount(Rings::On, folder.path()), Err(MountError::NoRings)));
    let mut session = mount(Rings::Auto, folder.path()).expect("nothing is left of the first");
    assert!(!session.is_by_rings());
    fs::write(folder.path().join("file"), "bytes").unwrap();
    session.unmount().unwrap();
}

#[test]
fn the_kernels_offer_is_taken_unless_that_is_not_wanted() {
    let Some(_on) = Switch::to(true) else { return };
    for (rings, taken) in [(Rings::Auto, true), (Rings::On, true), (Rings::Off, false)] {
        let folder = empty_folder();
        let options = MountOptions { rings, ..options(folder.path()) };
        let mut session = null::mount(&options).unwrap();
        assert_eq!(session.is_by_rings(), taken, "{rings:?}");
        fs::write(folder.path().join("file"), "bytes").unwrap();
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), [0; 5], "of the null layer");
        session.unmount().unwrap();
    }
}

/// Has the calling thread stay on the first processor that it may use.
fn stay_on_one_processor() {
    let all = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|number| all.is_set(*number)).unwrap());
    sched_setaffinity(None, &one).unwrap();
}

/// More than a queue has threads at the start.
const WAITING: usize = 40;

#[test]
fn requests_that_wait_for_long_hold_up_no_others_of_their_processor() {
    let Some(mut mounted) = by_rings() else { return };
    let path = mounted.path().join("lock");
    let holder = File::create(&path).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    std::thread::scope(|scope| {
        let wait = || {
            stay_on_one_processor();
            let waits = File::open(&path).unwrap();
            flock(&waits, FlockOperation::LockExclusive).unwrap();
        };
        let waiting: Vec<_> = (0..WAITING).map(|_| scope.spawn(wait)).collect();
        let works = || {
            stay_on_one_processor();
            // Until all of them have asked.
            std::thread::sleep(Duration::from_millis(300));
            for number in 0..100 {
                fs::write(mounted.path().join(number.to_string()), "bytes").unwrap();
            }
        };
        scope.spawn(works).join().unwrap();
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        drop(holder);
    });
    assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 101);
    mounted.session.unmount().expect("nothing uses the mount any more");
}

#[test]
fn a_mount_ends_while_a_request_waits() {
    let Some(mut mounted) = by_rings() else { return };
    let path = mounted.path().join("lock");
    let holder = File::create(&path).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let waits = File::open(&path).unwrap();
    let thread = std::thread::spawn(move || flock(&waits, FlockOperation::LockExclusive));
    std::thread::sleep(Duration::from_millis(100));
    let ended = mounted.session.unmount();
    assert!(matches!(ended, Err(UnmountError::Busy { .. })), "{ended:?}");
    assert!(thread.join().unwrap().is_err(), "it lost its mount");
    assert!(mounted.session.wait(Duration::from_secs(20)), "no thread waits for its answer");
    drop(holder);
}
