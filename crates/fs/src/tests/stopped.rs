//! Mounts that are stopped for a while and go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId, Time};
use tidefs_store::{Embedded, Fault, Faulty, Operation, Store, StoreError};

use super::bed::{Bed, ME, WRITE};
use crate::membership::Membership;
use crate::{Config, Error, Fs, Kind, Lock, LockFamily, LockKind, keys};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn who_was_stopped_takes_nobody_for_dead_that_was_stopped_too() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    bed.pass_with(2, &[&first, &second]);
    for _ in 0..3 {
        bed.pass(HOUR);
        assert_eq!(first.tick(), Ok(false));
        assert_eq!(first.lifetimes().entry, Duration::ZERO, "the other one may go on as well");
        assert_eq!(second.tick(), Ok(false));
    }
    assert_eq!(first.membership.others(first.steady()), [MountId(2)]);
}

#[test]
fn what_could_not_be_asked_is_no_silence() {
    let bed = Bed::new();
    let at = |seconds| Time::from_unix(seconds, 0);
    let first = Membership::join(&bed.store, MountId(1), at(0)).expect("joins");
    let _second = Membership::join(&bed.store, MountId(2), at(0)).expect("joins");
    for seconds in [1, 2, 20, 38] {
        assert_eq!(first.tick(&bed.store, at(seconds)), Ok(false));
    }
    assert!(first.silence_of(MountId(2), at(38)) < Some(Duration::from_secs(6)));
}

type Mount = Fs<Arc<Embedded>>;

/// A mount that was alone, or not, is stopped until another one is alone; then it goes on.
fn stopped(was_alone: bool) -> (Bed, Mount, Mount) {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    if !was_alone {
        let second = bed.mount(2);
        bed.pass_with(1, &[&first, &second]);
        bed.pass_with(1, &[&first, &second]);
        assert_eq!((first.is_alone(), second.is_admitted()), (false, Ok(true)));
        bed.pass_with(13, &[&second]);
        return (bed, first, second);
    }
    let second = bed.mount(2);
    bed.wait_outside(13, &second);
    assert_eq!(second.is_admitted(), Ok(true));
    (bed, first, second)
}

#[test]
fn who_goes_on_has_the_others_know_before_it_serves() {
    for was_alone in [false, true] {
        let (bed, first, second) = stopped(was_alone);
        assert!(second.lifetimes().entry > Duration::ZERO, "it is alone");
        assert!(!first.is_known_to_others() && !first.is_alone());
        assert_eq!(first.lifetimes().entry, Duration::ZERO);
        assert_eq!(first.tick(), Ok(was_alone));
        assert!(!first.is_known_to_others(), "the second one's kernel may know something");
        assert_eq!(second.tick(), Ok(true));
        first.tick().expect("housekeeping");
        assert!(!first.is_known_to_others(), "it has yet to forget that");
        assert_eq!(second.tick(), Ok(false));
        assert_eq!(second.lifetimes().entry, Duration::ZERO);
        first.tick().expect("housekeeping");
        assert!(first.is_known_to_others());
        first.mknod(ME, Ino::ROOT, b"x", Kind::File, 0o600, 0).expect("made");
        bed.pass_with(2, &[&first, &second]);
        let lifetimes = [&first, &second].map(|mount| mount.lifetimes().entry);
        assert_eq!(lifetimes, [Duration::ZERO; 2]);
        assert!(second.lookup(Ino::ROOT, b"x").is_ok());
    }
}

#[test]
fn a_newcomer_beside_others_has_the_silent_ones_know() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    bed.pass_with(1, &[&first, &second]);
    let third = bed.mount(3);
    bed.pass_with(13, &[&second, &third]);
    assert_eq!(third.is_admitted(), Ok(true));
    assert!(!first.is_known_to_others());
    assert_eq!(first.tick(), Ok(false));
    let count = first.membership.others(first.steady()).len();
    assert_eq!((count, first.membership.is_alone(first.steady())), (2, false));
    first.tick().expect("housekeeping");
    assert!(first.is_known_to_others());
}

#[test]
fn the_kernel_keeps_nothing_for_longer_than_others_wait() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    bed.pass(Duration::from_millis(9_400));
    assert_eq!(fs.lifetimes().entry, Duration::from_millis(600));
    assert!(fs.is_known_to_others());
    assert_eq!(fs.tick(), Ok(false));
    assert_eq!(fs.lifetimes().entry, crate::LIFETIME_MAX);
}

#[test]
fn who_goes_on_has_lost_the_locks_that_others_took_and_takes_none_of_theirs() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let (made, opened) = first.create(ME, Ino::ROOT, b"file", 0o600, WRITE).expect("made");
    let (mine, lock) = (opened.handle, whole(1));
    first.fsync(mine).expect("stored");
    first.lock(mine, &lock).expect("taken");
    let second = bed.mount(2);
    bed.wait_outside(13, &second);
    assert_eq!(second.lookup(Ino::ROOT, b"file").map(|entry| entry.attr.ino), Ok(made.attr.ino));
    let yours = second.open(made.attr.ino, WRITE).expect("opened").handle;
    second.lock(yours, &whole(2)).expect("taken");
    for _ in 0..3 {
        first.tick().expect("housekeeping");
        second.tick().expect("housekeeping");
    }
    assert!(first.is_known_to_others());
    bed.pass_with(2, &[&first, &second]);
    assert_eq!(first.lock(mine, &lock).err(), Some(Error::WouldBlock));
    let third = bed.mount(3);
    bed.pass_with(1, &[&first, &second, &third]);
    third.lookup(Ino::ROOT, b"file").expect("found");
    let theirs = third.open(made.attr.ino, WRITE).expect("opened").handle;
    assert_eq!(third.lock(theirs, &whole(3)).err(), Some(Error::WouldBlock));
    second.unlock(yours, &whole(2)).expect("given back");
    third.lock(theirs, &whole(3)).expect("nobody else has it");
}

fn whole(owner: u64) -> Lock {
    let (family, kind) = (LockFamily::Whole, LockKind::Exclusive);
    Lock { family, kind, owner, start: 0, last: u64::MAX, pid: 0 }
}

/// The store does not answer for a while, and has lost the list of mounts when it does.
#[test]
fn whose_registration_is_lost_after_an_error_lets_nobody_in_before_its_kernel_forgot() {
    let bed = Bed::new();
    let store = Faulty::new(bed.store.clone(), Vec::new());
    let at = |seconds| Time::from_unix(seconds, 0);
    let first = Membership::join(&store, MountId(1), at(0)).expect("joins");
    assert_eq!(first.is_acknowledged(&store, at(0)), Ok(true));
    let gone = StoreError::Unavailable { endpoint: "the node".into() };
    store.add(Fault::every(Operation::Batch, 1, gone));
    assert!(first.tick(&store, at(1)).is_err());
    first.could_not_ask(at(1));
    store.heal();
    store.delete_shards(&[keys::MOUNTS]).expect("lost with a node");
    let second = Membership::join(&store, MountId(2), at(2)).expect("joins");
    assert_eq!(first.tick(&store, at(2)), Ok(true), "its kernel may still know something");
    assert_eq!(second.is_acknowledged(&store, at(2)), Ok(false));
    first.set_ready(first.times_alone());
    assert_eq!(first.tick(&store, at(3)), Ok(false));
    assert_eq!(second.is_acknowledged(&store, at(3)), Ok(true));
}

/// A clock that somebody sets back, while the steady one goes on.
struct SetBack(AtomicU64);

impl Clock for SetBack {
    fn now(&self) -> Time {
        Time::from_unix(1_000_000 - self.0.load(Ordering::SeqCst) as i64, 0)
    }

    fn steady(&self) -> Time {
        Time::from_unix(self.0.load(Ordering::SeqCst) as i64, 0)
    }
}

#[test]
fn a_heart_beats_on_while_the_clock_goes_back() {
    let bed = Bed::new();
    let clock = Arc::new(SetBack(AtomicU64::new(100)));
    let store = Arc::new(bed.store.clone());
    let first = Fs::mount(store, Config::new(MountId(1)), clock.clone()).expect("mounted");
    let second = bed.mount(2);
    for _ in 0..20 {
        clock.0.fetch_add(1, Ordering::SeqCst);
        first.tick().expect("a heartbeat");
        bed.pass_with(1, &[&second]);
    }
    assert_eq!(second.membership.others(second.steady()), [MountId(1)]);
}
