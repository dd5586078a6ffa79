//! A mount that is alone, and what happens when it is no longer.

use std::time::Duration;

use tidefs_model::{Ino, MountId, Time};
use tidefs_store::{Fault, Faulty, Operation, Store, StoreError};

use super::bed::{Bed, ME};
use crate::membership::{LIFETIME_ALONE, Membership};
use crate::{Error, Kind, keys};

#[test]
fn a_first_mount_is_alone_and_lets_the_kernel_keep_what_it_knows() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    assert!(fs.lifetimes().entry > Duration::ZERO);
    assert_eq!(fs.tick(), Ok(false));
}

#[test]
fn a_second_mount_waits_until_the_first_has_made_its_kernel_forget() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let second = bed.mount(2);
    assert_eq!(second.is_admitted(), Ok(false));
    assert_eq!(first.tick(), Ok(true), "the first is told to make its kernel forget");
    assert_eq!(first.lifetimes().entry, Duration::ZERO);
    assert_eq!(second.is_admitted(), Ok(false), "it has not said yet that it did");
    assert_eq!(first.tick(), Ok(false));
    assert_eq!(second.is_admitted(), Ok(true));
    assert_eq!(second.lifetimes().entry, Duration::ZERO);
}

#[test]
fn a_mount_that_stays_behind_is_alone_again() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!(second.is_admitted(), Ok(true), "the first claimed nothing yet");
    second.unmount().expect("leaves");
    bed.pass(Duration::from_secs(2));
    assert_eq!(first.tick(), Ok(false));
    assert!(first.lifetimes().entry > Duration::ZERO);
}

#[test]
fn what_was_read_before_others_came_or_while_they_were_there_is_not_kept() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let alone = first.standing();
    assert_eq!(first.lifetimes_since(alone), first.lifetimes());
    assert!(first.lifetimes().entry > Duration::ZERO);
    let second = bed.mount(2);
    assert_eq!((first.tick(), first.tick()), (Ok(true), Ok(false)));
    assert_eq!(second.is_admitted(), Ok(true));
    let in_company = first.standing();
    second.mknod(ME, Ino::ROOT, b"made meanwhile", Kind::File, 0o600, 0).expect("made");
    second.unmount().expect("leaves");
    bed.pass(Duration::from_secs(2));
    first.tick().expect("housekeeping");
    assert!(first.lifetimes().entry > Duration::ZERO, "alone again");
    for before in [alone, in_company] {
        let lifetimes = first.lifetimes_since(before);
        assert_eq!([lifetimes.entry, lifetimes.attr, lifetimes.negative], [Duration::ZERO; 3]);
    }
    assert!(first.lifetimes_since(first.standing()).entry > Duration::ZERO);
}

#[test]
fn a_mount_that_was_taken_for_dead_knows_nothing_any_more() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let directory = first.mkdir(ME, Ino::ROOT, b"directory", 0o755).expect("made").attr.ino;
    first.mknod(ME, directory, b"old", Kind::Fifo, 0o644, 0).expect("made");
    assert!(first.lookup(directory, b"old").is_ok());
    let second = bed.mount(2);
    assert_eq!(second.is_admitted(), Ok(false));
    bed.wait_outside(13, &second);
    assert_eq!(second.is_admitted(), Ok(true));
    let there = second.lookup(Ino::ROOT, b"directory").expect("found").attr.ino;
    second.unlink(there, b"old").expect("removed");
    second.mknod(ME, there, b"new", Kind::Fifo, 0o644, 0).expect("made");
    second.unmount().expect("left");
    assert_eq!(first.tick(), Ok(true), "it was taken for dead");
    assert_eq!(first.lookup(directory, b"old").err(), Some(Error::NotFound));
    assert!(first.lookup(directory, b"new").is_ok());
}

#[test]
fn a_mount_that_died_holds_newcomers_up_for_a_bounded_time() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let second = bed.mount(2);
    assert_eq!(second.is_admitted(), Ok(false));
    bed.wait_outside(LIFETIME_ALONE.as_secs(), &second);
    assert_eq!(second.is_admitted(), Ok(false), "the first one may still take itself for alone");
    bed.wait_outside(3, &second);
    assert_eq!(second.is_admitted(), Ok(true));
}

#[test]
fn a_mount_whose_registration_was_lost_registers_again_and_keeps_nothing_for_a_while() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    assert!(first.lifetimes().entry > Duration::ZERO);
    bed.store.delete_shards(&[keys::MOUNTS]).expect("lost with a node");
    bed.pass(Duration::from_secs(2));
    assert_eq!(first.tick(), Ok(true), "it cannot know whether it is alone");
    assert_eq!(first.lifetimes().entry, Duration::ZERO);
    let second = bed.mount(2);
    assert_eq!(second.is_admitted(), Ok(false), "the first one's kernel has yet to forget");
    assert_eq!(first.tick(), Ok(false));
    assert_eq!(second.is_admitted(), Ok(true));
    second.unmount().expect("leaves");
    bed.pass_with(5, &[&first]);
    assert_eq!(first.lifetimes().entry, Duration::ZERO, "others may not have registered yet");
    bed.pass_with(10, &[&first]);
    assert!(first.lifetimes().entry > Duration::ZERO);
}

#[test]
fn a_directory_removed_elsewhere_takes_no_entry() {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!(second.is_admitted(), Ok(true));
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("seen by the other mount");
    first.rmdir(Ino::ROOT, b"d").expect("removed");
    let late = |name: &[u8]| second.mkdir(ME, directory, name, 0o755).map(|_| ());
    assert_eq!(late(b"while-closed"), Err(Error::NotFound));
    bed.pass(Duration::from_secs(61));
    first.tick().expect("clears the shards");
    assert_eq!(late(b"when-cleared"), Err(Error::NotFound));
    assert_eq!(second.lookup(directory, b"when-cleared"), Err(Error::NotFound));
}

#[test]
fn a_mount_that_could_not_ask_for_a_while_still_lets_others_in() {
    let bed = Bed::new();
    let store = Faulty::new(bed.store.clone(), Vec::new());
    let now = Time::from_unix(1_000_000, 0);
    let first = Membership::join(&store, MountId(1), now).expect("joins");
    assert_eq!(first.is_acknowledged(&store, now), Ok(true));
    assert!(first.is_alone(now));
    let gone = StoreError::Unavailable { endpoint: "the node".into() };
    store.add(Fault::every(Operation::Batch, 1, gone));
    assert!(first.tick(&store, now).is_err());
    first.assume_company();
    store.heal();
    let second = Membership::join(&store, MountId(2), now).expect("joins");
    assert_eq!(second.is_acknowledged(&store, now), Ok(false), "its kernel may know something");
    let later = Time::from_unix(1_000_002, 0);
    assert_eq!(first.tick(&store, later), Ok(true));
    first.set_ready(first.times_alone());
    assert_eq!(first.tick(&store, later), Ok(false));
    assert_eq!(second.is_acknowledged(&store, later), Ok(true));
}

#[test]
fn a_newcomer_that_goes_again_is_not_acknowledged_afterwards() {
    let bed = Bed::new();
    let store = &bed.store;
    let at = |seconds: i64| Time::from_unix(1_000_000 + seconds, 0);
    let first = Membership::join(store, MountId(1), at(0)).expect("joins");
    assert_eq!(first.is_acknowledged(store, at(0)), Ok(true));
    let second = Membership::join(store, MountId(2), at(0)).expect("joins");
    assert_eq!(second.is_acknowledged(store, at(0)), Ok(false));
    assert_eq!(first.tick(store, at(1)), Ok(true));
    second.leave(store).expect("leaves");
    for seconds in 2..6 {
        assert_eq!(first.tick(store, at(seconds)), Ok(false));
    }
    assert!(first.is_alone(at(5)));
    if first.is_about_to_share() {
        first.set_ready(first.times_alone());
    }
    assert_eq!(first.tick(store, at(6)), Ok(false));
    let third = Membership::join(store, MountId(3), at(6)).expect("joins");
    assert_eq!(third.is_acknowledged(store, at(6)), Ok(false), "its kernel knows something");
    assert_eq!(first.tick(store, at(7)), Ok(true), "its kernel has to forget");
}

#[test]
fn a_newcomer_is_acknowledged_although_the_store_could_not_be_asked_meanwhile() {
    let bed = Bed::new();
    let store = &bed.store;
    let at = |seconds: i64| Time::from_unix(1_000_000 + seconds, 0);
    let first = Membership::join(store, MountId(1), at(0)).expect("joins");
    assert_eq!(first.is_acknowledged(store, at(0)), Ok(true));
    let second = Membership::join(store, MountId(2), at(0)).expect("joins");
    assert_eq!(first.tick(store, at(1)), Ok(true));
    first.could_not_ask(at(1));
    first.set_ready(first.times_alone());
    assert_eq!(first.tick(store, at(1)), Ok(false));
    assert_eq!(second.is_acknowledged(store, at(1)), Ok(true));
}

#[test]
fn who_relies_on_being_alone_may_ask_whether_it_is_while_that_is_about_to_change() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let fs = &fs;
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            fs.membership.while_alone(fs.steady(), |alone| {
                scope.spawn(|| fs.membership.assume_company());
                // Most often the other thread waits by now; either way this one must not.
                std::thread::sleep(Duration::from_millis(50));
                answer.send((alone, fs.is_alone())).expect("somebody listens");
            });
        });
        let answer = answered.recv_timeout(Duration::from_secs(30));
        assert_eq!(answer, Ok((true, true)), "it changes when nobody relies on it");
    });
    assert!(!fs.is_alone());
}
