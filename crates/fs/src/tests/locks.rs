//! Locks that programs of one mount and of two hold on one file.

use std::sync::Arc;
use std::time::Duration;

use tidefs_model::{Ino, MountId};
use tidefs_store::caller::{self, Caller};
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError, When};

use super::bed::{Bed, ME, WRITE};
use crate::LockKind::{Exclusive, Shared};
use crate::{Config, Error, Fs, Handle, Lock, LockFamily, LockKind, Taken, keys};

type Mount<S = Arc<Embedded>> = Fs<S>;

const ALONE: Result<Taken, Error> = Ok(Taken { with_company: false });
const TAKEN: Result<Taken, Error> = Ok(Taken { with_company: true });
const HELD: Result<Taken, Error> = Err(Error::WouldBlock);

fn range(owner: u64, kind: LockKind, start: u64, last: u64) -> Lock {
    Lock { family: LockFamily::Record, kind, owner, start, last, pid: 100 + owner as u32 }
}

fn whole(owner: u64, kind: LockKind) -> Lock {
    Lock { family: LockFamily::Whole, ..range(owner, kind, 0, u64::MAX) }
}

fn open<S: Store>(fs: &Mount<S>) -> Handle {
    match fs.lookup(Ino::ROOT, b"file") {
        Ok(entry) => fs.open(entry.attr.ino, WRITE).expect("opened").handle,
        Err(_) => fs.create(ME, Ino::ROOT, b"file", 0o600, WRITE).expect("made").1.handle,
    }
}

/// Two mounts with the same file open on each.
fn two() -> (Bed, (Mount, Handle), (Mount, Handle)) {
    let bed = Bed::new();
    let (first, second) = (bed.mount(1), bed.mount(2));
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let (mine, yours) = (open(&first), open(&second));
    (bed, (first, mine), (second, yours))
}

fn pass(bed: &Bed, seconds: u64, mounts: &[&Mount]) {
    bed.pass_with(seconds, mounts);
}

/// Whether the store has locks on the file.
fn is_in_store(bed: &Bed, fs: &Mount) -> bool {
    let reference = fs.table.get(fs.lookup(Ino::ROOT, b"file").expect("there").attr.ino);
    let reference = reference.expect("known").reference();
    let read = Batch::new().read(keys::locks(reference.ino));
    bed.store.batch(reference.home, &read).expect("read").take(0).is_some()
}

#[test]
fn a_lock_keeps_programs_of_every_mount_out() {
    let (bed, (first, mine), (second, yours)) = two();
    for (held, wanted) in [
        (range(1, Exclusive, 10, 19), range(1, Exclusive, 0, 10)),
        (whole(1, Exclusive), whole(1, Shared)),
    ] {
        assert_eq!(first.lock(mine, &held), TAKEN);
        assert_eq!(first.lock(mine, &Lock { owner: 2, ..wanted.clone() }), HELD);
        assert_eq!(second.lock(yours, &wanted), HELD, "owners of two mounts are two");
        first.unlock(mine, &held).expect("given back");
        assert_eq!(second.lock(yours, &wanted), TAKEN);
        second.unlock(yours, &wanted).expect("given back");
    }
    assert!(!is_in_store(&bed, &first), "nothing is left of it");
}

#[test]
fn shared_locks_and_other_ranges_go_together() {
    let (_bed, (first, mine), (second, yours)) = two();
    assert_eq!(first.lock(mine, &range(1, Shared, 0, 9)), TAKEN);
    assert_eq!(second.lock(yours, &range(2, Shared, 5, 20)), TAKEN);
    assert_eq!(second.lock(yours, &range(2, Exclusive, 30, 39)), TAKEN);
    assert_eq!(first.lock(mine, &range(1, Exclusive, 0, 9)), HELD, "an upgrade meets the other");
    assert_eq!(first.lock(mine, &range(1, Exclusive, 0, 4)), TAKEN);
    let holder = first.find_lock(mine, &range(1, Shared, 0, 100)).expect("asked");
    let holder = holder.expect("the exclusive one");
    assert_eq!((holder.kind, holder.start, holder.last), (Exclusive, 30, 39));
    assert_eq!(holder.pid, 0, "a process of another mount has no number here");
    let holder = second.find_lock(yours, &range(9, Exclusive, 30, 39)).expect("asked");
    assert_eq!(holder.map(|lock| lock.pid), Some(102));
}

#[test]
fn who_asks_is_told_of_the_first_lock_in_the_file_whoever_has_it() {
    let (_bed, (first, mine), (second, yours)) = two();
    let told = |wanted: Lock| {
        let found = first.find_lock(mine, &wanted).expect("asked").expect("held");
        (found.start, found.pid)
    };
    assert_eq!(first.lock(mine, &range(1, Exclusive, 60, 69)), TAKEN);
    assert_eq!(second.lock(yours, &range(1, Exclusive, 50, 59)), TAKEN);
    assert_eq!(second.lock(yours, &range(1, Exclusive, 20, 29)), TAKEN);
    assert_eq!(told(range(9, Exclusive, 0, 99)), (20, 0), "of another mount");
    assert_eq!(told(range(9, Exclusive, 30, 99)), (50, 0));
    assert_eq!(first.lock(mine, &range(1, Exclusive, 10, 14)), TAKEN);
    assert_eq!(told(range(9, Exclusive, 0, 99)), (10, 101), "of this one");
    assert_eq!(told(range(1, Exclusive, 0, 99)), (20, 0), "one's own is in nobody's way");
}

#[test]
fn a_lock_that_nobody_disputes_costs_a_round_and_so_does_its_end() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let (mine, yours) = (open(&first), open(&second));
    let lock = range(1, Exclusive, 0, 9);
    let rounds = |work: &dyn Fn()| {
        let calls =
            || [Operation::Batch, Operation::Read, Operation::Write].map(|it| store.count(it));
        let before = calls();
        work();
        calls().into_iter().zip(before).map(|(after, before)| after - before).sum::<u64>()
    };
    let take = || assert_eq!(first.lock(mine, &lock), TAKEN);
    let give = || first.unlock(mine, &lock).expect("given back");
    for _ in 0..3 {
        assert_eq!((rounds(&take), rounds(&give)), (1, 1));
        assert_eq!(first.old_pages(mine), None, "nobody changed the file");
        // Who had it meanwhile leaves no trace but what was written.
        assert_eq!(second.lock(yours, &lock), TAKEN);
        second.unlock(yours, &lock).expect("given back");
    }
    second.write(yours, 0, b"longer than it was", None, false).expect("written");
    assert_eq!(second.lock(yours, &lock), TAKEN);
    second.unlock(yours, &lock).expect("given back");
    assert_eq!(rounds(&take), 1);
    let old = first.old_pages(mine).expect("the second one changed it");
    assert_eq!(first.old_pages(mine), Some(old), "whoever comes while they are dropped waits, too");
    second.write(yours, 0, b"longer again than it was", None, false).expect("written");
    second.fsync(yours).expect("stored");
    let later = open(&first);
    first.has_dropped_old(mine, old);
    assert!(first.old_pages(mine).is_some(), "the later change is another matter");
    first.read(later, 0, 1).expect("read");
    assert_eq!(first.old_pages(mine), None, "the kernel dropped them when it opened the file");
    first.release(later).expect("closed");
    assert_eq!(first.read(mine, 0, 100).expect("read").as_slice(), b"longer again than it was");
}

#[test]
fn a_whole_lock_that_cannot_change_its_kind_is_lost_and_a_range_is_kept() {
    let (_bed, (first, mine), (second, yours)) = two();
    assert_eq!(first.lock(mine, &whole(1, Shared)), TAKEN);
    assert_eq!(second.lock(yours, &whole(2, Shared)), TAKEN);
    assert_eq!(first.lock(mine, &whole(1, Exclusive)), HELD);
    assert_eq!(second.lock(yours, &whole(2, Exclusive)), TAKEN);
    assert_eq!(first.lock(mine, &range(1, Shared, 0, 9)), TAKEN);
    assert_eq!(second.lock(yours, &range(2, Shared, 0, 9)), TAKEN);
    assert_eq!(first.lock(mine, &range(1, Exclusive, 0, 9)), HELD);
    assert_eq!(second.lock(yours, &range(2, Exclusive, 0, 9)), HELD);
}

#[test]
fn closing_ends_locks_for_every_mount() {
    let (bed, (first, mine), (second, yours)) = two();
    let again = open(&first);
    assert_eq!(first.lock(mine, &range(1, Exclusive, 0, 9)), TAKEN);
    assert_eq!(first.lock(mine, &whole(7, Exclusive)), TAKEN);
    first.end_locks(again, 1).expect("any descriptor of the program ends its ranges");
    assert_eq!(second.lock(yours, &range(2, Exclusive, 0, 9)), TAKEN);
    assert_eq!(second.lock(yours, &whole(2, Exclusive)), HELD, "the other open file has it");
    first.release(mine).expect("closed");
    assert_eq!(second.lock(yours, &whole(2, Exclusive)), TAKEN);
    second.release(yours).expect("closed");
    first.release(again).expect("closed");
    assert!(!is_in_store(&bed, &first));
    assert!(first.locks.all_are_free() && second.locks.all_are_free());
}

#[test]
fn locks_from_a_time_of_being_alone_are_known_to_whoever_comes() {
    let bed = Bed::new();
    let first = bed.mount(1);
    assert_eq!(first.is_admitted(), Ok(true));
    let mine = open(&first);
    assert_eq!(first.lock(mine, &range(1, Exclusive, 0, 9)), ALONE);
    assert!(!is_in_store(&bed, &first));
    let second = bed.mount(2);
    assert_eq!(first.tick(), Ok(true));
    assert_eq!(second.is_admitted(), Ok(false));
    assert_eq!(first.tick(), Ok(false));
    assert_eq!(second.is_admitted(), Ok(true));
    let yours = open(&second);
    assert_eq!(second.lock(yours, &range(2, Shared, 9, 9)), HELD);
    first.unlock(mine, &range(1, Shared, 5, 9)).expect("given back");
    assert_eq!(second.lock(yours, &range(2, Shared, 9, 9)), TAKEN);
    second.unmount().expect("leaves");
    pass(&bed, 2, &[&first]);
    assert_eq!(first.lock(mine, &range(3, Exclusive, 9, 9)), ALONE, "what it had went with it");
    assert!(!is_in_store(&bed, &first), "alone, locks are not in the store");
    assert_eq!(first.lock(mine, &range(3, Exclusive, 4, 4)), HELD, "and are what they were");
}

/// The home of a lock may be slow, and the heart must not wait for it.
#[test]
fn a_heartbeat_asks_no_home_for_locks_and_lets_nobody_in_before_they_are_known() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    assert_eq!(first.is_admitted(), Ok(true));
    let made = first.create(ME, Ino::ROOT, b"file", 0o600, WRITE).expect("made");
    let handle = made.1.handle;
    first.fsync(handle).expect("stored");
    first.lock(handle, &whole(1, LockKind::Exclusive)).expect("taken");
    first.tick().expect("housekeeping");
    let second = bed.mount(2);
    assert_eq!(first.beat(), Ok(true));
    for _ in 0..3 {
        let before = store.count(Operation::Batch);
        first.beat().expect("a heartbeat");
        assert_eq!(store.count(Operation::Batch) - before, 1, "its own");
        assert!(!is_in_store(&bed, &second));
        assert_eq!(second.is_admitted(), Ok(false), "it would not find the lock");
    }
    first.keep_up();
    assert!(is_in_store(&bed, &second));
    assert_eq!(first.beat(), Ok(false));
    assert_eq!(second.is_admitted(), Ok(true));
}

#[test]
fn what_locks_from_before_say_of_a_mount_that_is_gone_does_not_count() {
    let (bed, (first, mine), (second, yours)) = two();
    assert_eq!(second.lock(yours, &whole(2, Exclusive)), TAKEN);
    assert_eq!(first.lock(mine, &whole(1, Exclusive)), HELD);
    // The second is silent from now on.
    pass(&bed, 11, &[&first]);
    assert_eq!(first.lock(mine, &whole(1, Exclusive)), HELD);
    pass(&bed, 2, &[&first]);
    assert!(first.lock(mine, &whole(1, Exclusive)).is_ok());
}

#[test]
fn a_mount_that_was_taken_for_dead_notices_that_its_locks_are_gone() {
    let (bed, (first, mine), (second, yours)) = two();
    let third = bed.mount(3);
    pass(&bed, 1, &[&first, &second, &third]);
    assert_eq!(third.is_admitted(), Ok(true));
    assert_eq!(second.lock(yours, &range(2, Exclusive, 0, 9)), TAKEN);
    assert_eq!(second.lock(yours, &range(2, Exclusive, 20, 29)), TAKEN);
    pass(&bed, 13, &[&first, &third]);
    assert_eq!(first.lock(mine, &range(1, Exclusive, 5, 5)), TAKEN);
    // It was only stopped, and goes on.
    pass(&bed, 2, &[&second, &first, &third]);
    assert_eq!(second.lock(yours, &range(3, Exclusive, 5, 5)), HELD);
    assert_eq!(second.lock(yours, &range(3, Exclusive, 6, 9)), TAKEN, "the range around is lost");
    assert_eq!(second.lock(yours, &range(3, Exclusive, 20, 20)), HELD, "what was free is its own");
    assert_eq!(first.lock(mine, &range(1, Exclusive, 20, 20)), HELD);
}

#[test]
fn locks_that_the_store_has_lost_are_put_back() {
    let (bed, (first, mine), (second, yours)) = two();
    assert_eq!(first.lock(mine, &whole(1, Exclusive)), TAKEN);
    let file = first.table.get(first.lookup(Ino::ROOT, b"file").expect("there").attr.ino);
    let reference = file.expect("known").reference();
    let lose = Batch::new().delete(keys::locks(reference.ino));
    bed.store.batch(reference.home, &lose).expect("lost with a node");
    pass(&bed, 1, &[&first]);
    assert_eq!(second.lock(yours, &whole(2, Exclusive)), HELD);
}

#[test]
fn a_lock_orders_bytes_between_mounts() {
    let (_bed, (first, mine), (second, yours)) = two();
    let read = |fs: &Mount, handle| fs.read(handle, 0, 8).expect("read").as_slice().to_vec();
    first.write(mine, 0, &0_u64.to_be_bytes(), None, false).expect("written");
    for step in 0..20_u64 {
        let (fs, handle) = if step % 2 == 0 { (&first, mine) } else { (&second, yours) };
        assert_eq!(fs.lock(handle, &range(1, Exclusive, 0, 7)), TAKEN);
        assert_eq!(read(fs, handle), step.to_be_bytes());
        fs.write(handle, 0, &(step + 1).to_be_bytes(), None, false).expect("written");
        fs.unlock(handle, &range(1, Shared, 0, 7)).expect("given back");
    }
}

#[test]
fn programs_that_wait_for_each_other_in_a_circle_are_told() {
    let bed = Bed::new();
    let fs = bed.mount(1);
    assert_eq!(fs.is_admitted(), Ok(true));
    let handle = open(&fs);
    let byte = |owner, at| range(owner, Exclusive, at, at);
    for owner in 1..=3 {
        assert_eq!(fs.lock(handle, &byte(owner, owner)), ALONE);
    }
    let one = fs.begin_to_wait(handle, &byte(1, 2)).expect("waits for the second");
    let two = fs.begin_to_wait(handle, &byte(2, 3)).expect("waits for the third");
    assert_eq!(fs.begin_to_wait(handle, &byte(3, 1)), Err(Error::Deadlock));
    fs.end_wait(two);
    let three = fs.begin_to_wait(handle, &byte(3, 1)).expect("the second waits no more");
    fs.unlock(handle, &byte(2, 2)).expect("given back");
    assert_eq!(fs.files_unlocked(Duration::ZERO).len(), 1);
    assert_eq!(fs.lock(handle, &byte(1, 2)), ALONE);
    fs.end_wait(one);
    fs.end_wait(three);
    fs.unlock(handle, &byte(1, 2)).expect("given back");
    assert!(fs.files_unlocked(Duration::ZERO).is_empty(), "nobody waits");
}

#[test]
fn a_file_without_a_record_is_locked_here() {
    let (bed, (first, mine), _) = two();
    let reference = first.handles.file(mine).expect("open").node.reference();
    let lose = Batch::new().delete(keys::inode(reference.ino));
    bed.store.batch(reference.home, &lose).expect("lost with a node");
    assert_eq!(first.lock(mine, &whole(1, Exclusive)), TAKEN);
    assert_eq!(first.lock(mine, &whole(2, Exclusive)), HELD);
    first.unlock(mine, &whole(1, Exclusive)).expect("given back");
    assert_eq!(first.lock(mine, &whole(2, Exclusive)), TAKEN);
}

#[test]
fn a_change_whose_answer_is_lost_is_made_once() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(tidefs_model::MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let (mine, yours) = (open(&first), open(&second));
    let endpoint: Box<str> = "node".into();
    let lost = || StoreError::Indeterminate { endpoint: endpoint.clone() };
    // The change of the record is the first batch.
    let next = || store.count(Operation::Batch) + 1;
    store.add(Fault::nth(Operation::Batch, next(), lost()).after());
    assert_eq!(first.lock(mine, &range(1, Exclusive, 0, 9)), TAKEN);
    assert_eq!(second.lock(yours, &range(2, Exclusive, 0, 9)), HELD);
    store.add(Fault::nth(Operation::Batch, next(), lost()));
    first.unlock(mine, &range(1, Exclusive, 0, 4)).expect("given back");
    assert_eq!(second.lock(yours, &range(2, Exclusive, 0, 4)), TAKEN);
    assert_eq!(second.lock(yours, &range(2, Exclusive, 5, 9)), HELD);
    // The store does not answer: the lock is free here, and elsewhere when that is found out.
    let gone = || StoreError::Unavailable { endpoint: endpoint.clone() };
    store.add(Fault::every(Operation::Batch, 1, gone()));
    first.unlock(mine, &range(1, Exclusive, 5, 9)).expect("given back");
    store.heal();
    assert_eq!(second.lock(yours, &range(2, Exclusive, 5, 9)), HELD);
    bed.pass(Duration::from_secs(1));
    first.tick().expect("housekeeping");
    assert_eq!(second.lock(yours, &range(2, Exclusive, 5, 9)), TAKEN);
}

/// The node may carry the write out when it goes on, and then nobody else may have written since.
#[test]
fn a_lock_is_given_to_others_when_what_was_given_up_under_it_cannot_arrive_any_more() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let (mine, yours) = (open(&first), open(&second));
    let lock = |owner| whole(owner, Exclusive);
    assert_eq!(first.lock(mine, &lock(1)), TAKEN);
    let gone = || StoreError::Unavailable { endpoint: "a node".into() };
    for operation in [Operation::Write, Operation::Fence] {
        store.add(Fault::every(operation, 1, gone()));
    }
    assert_eq!(first.write(mine, 0, b"late", None, false), Ok(4));
    assert!(first.fsync(mine).is_err());
    first.unlock(mine, &lock(1)).expect("its own program is not held up");
    assert_eq!(second.lock(yours, &lock(2)), HELD);
    for _ in 0..3 {
        bed.pass(Duration::from_secs(1));
        first.tick().expect("housekeeping");
        second.tick().expect("housekeeping");
    }
    assert_eq!(second.lock(yours, &lock(2)), HELD);
    store.heal();
    bed.pass(Duration::from_secs(1));
    first.tick().expect("housekeeping");
    assert_eq!(second.lock(yours, &lock(2)), TAKEN);
}

/// As long as bytes may arrive late, a file that lost its name elsewhere is not freed under them.
#[test]
fn a_file_counts_as_open_until_what_was_given_up_cannot_arrive_any_more() {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let mine = open(&first);
    let node = first.handles.file(mine).expect("open").node.reference();
    let is_marked = || {
        let read = Batch::new().read(keys::openers(node.ino));
        bed.store.batch(node.home, &read).expect("read").take(0).is_some()
    };
    let house = || {
        bed.pass(Duration::from_secs(1));
        first.tick().expect("housekeeping");
        second.tick().expect("housekeeping");
    };
    house();
    assert!(is_marked());
    let gone = || StoreError::Unavailable { endpoint: "a node".into() };
    for operation in [Operation::Write, Operation::Fence] {
        store.add(Fault::every(operation, 1, gone()));
    }
    assert_eq!(first.write(mine, 0, b"late", None, false), Ok(4));
    assert!(first.fsync(mine).is_err());
    first.release(mine).expect("closed");
    (0..3).for_each(|_| house());
    assert!(is_marked());
    store.heal();
    house();
    assert!(!is_marked());
}

type Line = Faulty<Arc<Embedded>>;
/// The store, and each mount with its handle.
type TwoOnALine = (Arc<Line>, (Mount<Line>, Handle), (Mount, Handle));

/// Two mounts with a file on a store that the first one meets failing or standing still.
fn two_on_a_line() -> TwoOnALine {
    let bed = Bed::new();
    let store = Arc::new(Faulty::new(bed.store.clone(), Vec::new()));
    let config = Config { io_threads: 1, ..Config::new(MountId(1)) };
    let first = Fs::mount(store.clone(), config, bed.clock.clone()).expect("mounted");
    let second = bed.mount(2);
    assert_eq!((first.is_admitted(), second.is_admitted()), (Ok(true), Ok(true)));
    let (mine, yours) = (open(&first), open(&second));
    (store, (first, mine), (second, yours))
}

#[test]
fn a_lock_stays_while_bytes_wait_that_were_written_under_it() {
    let (store, (first, mine), (second, yours)) = two_on_a_line();
    let held = range(1, Exclusive, 0, 9);
    assert_eq!(first.lock(mine, &held), TAKEN);
    assert_eq!(first.write(mine, 0, b"bytes", None, false), Ok(5));
    let waits = StoreError::Interrupted { endpoint: "the store".into() };
    store.add(Fault::every(Operation::Write, 1, waits.clone()));
    // It goes to wait elsewhere, and is killed there.
    let whether: [fn() -> bool; 2] = [|| true, || false];
    for begins_again in whether {
        let gone = Some(Caller { number: 1, has_gone: |_| true, begins_again });
        let waits = Err(Error::Store(waits.clone()));
        assert_eq!(caller::serve(gone, || first.close(mine, 1)), waits);
        assert_eq!(caller::serve(gone, || first.unlock(mine, &held)), waits);
        assert_eq!(second.lock(yours, &range(2, Shared, 0, 9)), HELD);
    }
    store.heal();
    assert_eq!(first.close(mine, 1), Ok(()));
    assert_eq!(second.lock(yours, &range(2, Shared, 0, 9)), TAKEN);
    assert_eq!(second.read(yours, 0, 9).expect("read").as_slice(), b"bytes");
}

#[test]
fn a_lock_that_ends_with_the_last_descriptor_ends_after_its_bytes_arrived() {
    let (store, (first, mine), (second, yours)) = two_on_a_line();
    assert_eq!(first.lock(mine, &whole(1, Exclusive)), TAKEN);
    assert_eq!(first.write(mine, 0, b"bytes", None, false), Ok(5));
    let pause = store.pause(Operation::Write, When::Before);
    std::thread::scope(|scope| {
        let closed = scope.spawn(|| first.release(mine));
        assert!(pause.wait_until_held(1, Duration::from_secs(20)));
        assert_eq!(second.lock(yours, &whole(2, Exclusive)), HELD);
        drop(pause);
        assert_eq!(closed.join().expect("ended"), Ok(()));
    });
    assert_eq!(second.lock(yours, &whole(2, Exclusive)), TAKEN);
}
