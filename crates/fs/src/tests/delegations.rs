//! Mounts with company that answer from what they have read, and others that change it.

mod gone;
mod listing;
mod meanwhile;
mod named;
mod on_the_way;
mod sole;
mod story;
mod taken;
mod telling;
mod turns;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidefs_model::{ByteSize, Clock, Granted, Ino, ManualClock, MountId, StripeSize};
use tidefs_store::{Batch, Embedded, Fault, Faulty, Operation, Store, StoreError};

use super::bed::{Host, ME, WRITE};
use crate::{Config, Error, Format, Fs, Kind, RenameMode, SetAttr, keys};

type Mount = Fs<Faulty<Embedded>>;

/// More than a shard has to be looked at to be read-mostly, also after somebody changed it.
const LOOKS: usize = 105;

struct Company {
    store: Arc<Faulty<Embedded>>,
    clock: Arc<ManualClock>,
    /// Whose clocks are hours apart.
    hosts: Vec<Arc<Host>>,
    mounts: Vec<Mount>,
}

impl Company {
    fn of(mounts: u64) -> Company {
        let embedded = Embedded::in_heap(ByteSize::mib(64), StripeSize::DEFAULT);
        let store = Arc::new(Faulty::new(embedded, Vec::new()));
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_secs(1_700_000_000));
        Fs::format(&store, Format::default(), &*clock).expect("an empty store");
        let hosts: Vec<_> = [0, -5, 3].iter().map(|hours| Host::ahead(&clock, *hours)).collect();
        let mount = |id| {
            let config = Config { io_threads: 1, ..Config::new(MountId(id)) };
            let host = hosts[id as usize % hosts.len()].clone();
            Fs::mount(Arc::clone(&store), config, host).expect("mounted")
        };
        let mounts: Vec<_> = (1..=mounts).map(mount).collect();
        let company = Company { store, clock, hosts, mounts };
        company.answer_all_recalls();
        company
    }

    fn answer_all_recalls(&self) {
        for mount in &self.mounts {
            mount.answer_recalls().expect("the store answers");
        }
    }

    /// Looks at a name until its shards are read-mostly.
    fn rest(&self, mount: &Mount, directory: Ino, name: &[u8]) {
        for _ in 0..LOOKS {
            look(mount, directory, name).expect("an answer");
        }
        mount.readdir_all(directory);
    }

    /// Does something while mounts answer recalls, as their threads do.
    fn while_answering_recalls<T>(
        &self,
        answering_recalls: &[&Mount],
        work: impl FnOnce() -> T,
    ) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for mount in answering_recalls {
                scope.spawn(|| {
                    while !over.load(Ordering::SeqCst) {
                        mount.answer_recalls().expect("the store answers");
                        std::thread::sleep(Duration::from_micros(200));
                    }
                });
            }
            let _over = Over(&over);
            work()
        })
    }

    /// Does something while the clock goes on, a hundred times as fast as usual.
    fn while_time_passes<T>(&self, work: impl FnOnce() -> T) -> T {
        self.while_time_passes_by(Duration::from_millis(100), work)
    }

    /// The same, by so much each millisecond.
    fn while_time_passes_by<T>(&self, step: Duration, work: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    self.clock.advance(step);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let _over = Over(&over);
            work()
        })
    }

    fn calls(&self) -> u64 {
        self.store.count(Operation::Batch) + self.store.count(Operation::List)
    }

    /// How many calls of the store something takes.
    fn count<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.calls();
        let done = work();
        (done, self.calls() - before)
    }
}

/// Tells threads to end, also where what they go on beside fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The mode of what a name stands for.
fn look(mount: &Mount, directory: Ino, name: &[u8]) -> Result<Option<u32>, Error> {
    match mount.lookup(directory, name) {
        Ok(entry) => Ok(Some(mount.getattr(entry.attr.ino, None)?.mode)),
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn chmod(mount: &Mount, directory: Ino, name: &[u8], mode: u32) -> Result<(), Error> {
    let ino = mount.lookup(directory, name)?.attr.ino;
    mount.setattr(ino, None, &SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop)
}

fn make(mount: &Mount, directory: Ino, name: &[u8], mode: u32) -> Result<(), Error> {
    mount.mknod(ME, directory, name, Kind::File, mode, 0).map(drop)
}

#[test]
fn stat_of_what_is_at_rest_takes_no_call_and_a_change_elsewhere_is_seen_at_once() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    make(first, directory, b"f", 0o600).expect("made");
    second.lookup(Ino::ROOT, b"d").expect("found");
    company.rest(second, Ino::ROOT, b"d");
    company.rest(second, directory, b"f");
    company.rest(second, directory, b"absent");
    let (seen, calls) = company.count(|| {
        second.lookup(Ino::ROOT, b"d").expect("found");
        let seen = (look(second, directory, b"f"), look(second, directory, b"absent"));
        (seen, second.readdir_all(directory))
    });
    assert_eq!(calls, 0, "{seen:?}");
    assert_eq!(seen, ((Ok(Some(0o600)), Ok(None)), vec![(b"f".to_vec(), 0o600)]));
    company.while_answering_recalls(&[second], || {
        chmod(first, directory, b"f", 0o640).expect("changed");
        assert_eq!(look(second, directory, b"f"), Ok(Some(0o640)));
        make(first, directory, b"absent", 0o400).expect("made");
        assert_eq!(look(second, directory, b"absent"), Ok(Some(0o400)));
        let times = second.getattr(directory, None).expect("there").mtime;
        company.clock.advance(Duration::from_millis(1));
        first.rename(directory, b"f", directory, b"g", RenameMode::Replace).expect("renamed");
        assert_eq!(look(second, directory, b"f"), Ok(None));
        assert_eq!(look(second, directory, b"g"), Ok(Some(0o640)));
        assert!(second.getattr(directory, None).expect("there").mtime > times);
        assert_eq!(second.readdir_all(directory).len(), 2);
    });
}

#[test]
fn what_a_file_has_after_another_mount_closed_it_is_read_by_an_open() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let write = |bytes: &[u8]| {
        let (entry, opened) = first.create(ME, Ino::ROOT, b"f", 0o600, WRITE).expect("made");
        first.write(opened.handle, 0, bytes, None, false).expect("written");
        first.flush(opened.handle).expect("stored");
        first.release(opened.handle).expect("closed");
        entry.attr.ino
    };
    let ino = write(b"before");
    company.rest(second, Ino::ROOT, b"f");
    company.while_answering_recalls(&[second], || write(b"afterwards"));
    let opened = second.open(ino, crate::OpenMode { read: true, ..Default::default() });
    let bytes = second.read(opened.expect("opened").handle, 0, 100).expect("read");
    assert_eq!(bytes.as_slice(), b"afterwards");
}

#[test]
fn two_mounts_that_keep_the_same_shards_and_change_them_wait_for_each_other_shortly() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    for mount in [first, second] {
        company.rest(mount, Ino::ROOT, b"f");
        company.rest(mount, Ino::ROOT, b"g");
    }
    company.while_answering_recalls(&[first, second], || {
        std::thread::scope(|scope| {
            scope.spawn(|| chmod(first, Ino::ROOT, b"f", 0o640).expect("changed"));
            scope.spawn(|| make(second, Ino::ROOT, b"g", 0o400).expect("made"));
        });
    });
    for mount in [first, second] {
        assert_eq!(look(mount, Ino::ROOT, b"f"), Ok(Some(0o640)));
        assert_eq!(look(mount, Ino::ROOT, b"g"), Ok(Some(0o400)));
    }
}

#[test]
fn a_mount_that_stands_still_is_waited_for_until_what_it_keeps_is_over() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    make(first, Ino::ROOT, b"g", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    company.rest(second, Ino::ROOT, b"g");
    let begun = company.clock.steady();
    company.while_time_passes(|| chmod(first, Ino::ROOT, b"f", 0o640)).expect("changed");
    assert!(company.clock.steady() - begun >= crate::delegations::LAPSE);
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(Some(0o640)), "it was not told");
    // It was revoked as a whole, so that nobody waits for it again.
    let ((), calls) = company.count(|| chmod(first, Ino::ROOT, b"g", 0o640).expect("changed"));
    assert!(calls < 10, "{calls} calls");
    second.answer_recalls().expect("the store answers");
    assert_eq!(look(second, Ino::ROOT, b"g"), Ok(Some(0o640)));
    company.clock.advance(super::bed::SECOND / 2);
    second.answer_recalls().expect("the store answers");
    company.rest(second, Ino::ROOT, b"f");
    let (_, calls) = company.count(|| look(second, Ino::ROOT, b"f"));
    assert_eq!(calls, 0, "it keeps again what is read-mostly");
    company
        .while_answering_recalls(&[second], || chmod(first, Ino::ROOT, b"f", 0o600))
        .expect("changed");
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(Some(0o600)));
}

#[test]
fn what_is_kept_is_not_relied_on_when_time_has_passed_without_a_look() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    company.clock.advance(super::bed::SECOND);
    let (_, calls) = company.count(|| look(second, Ino::ROOT, b"f"));
    assert!(calls > 0);
    // Nor when there is a look again: others need not have asked meanwhile.
    second.answer_recalls().expect("the store answers");
    let (_, calls) = company.count(|| second.lookup(Ino::ROOT, b"f").expect("found"));
    assert!(calls > 0);
}

#[test]
fn a_directory_that_is_kept_is_listed_again_now_and_then() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    make(first, directory, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"d");
    company.rest(second, directory, b"f");
    let lists = || {
        let before = company.store.count(Operation::List);
        second.readdir_all(directory);
        company.store.count(Operation::List) - before
    };
    assert_eq!(lists(), 0);
    // Whoever uses what it keeps goes on to keep it.
    for half_seconds in 1..120 {
        company.clock.advance(super::bed::SECOND / 2);
        company.answer_all_recalls();
        assert_eq!(lists(), 0, "{half_seconds}");
    }
    company.clock.advance(super::bed::SECOND / 2);
    company.answer_all_recalls();
    assert!(lists() > 0);
    assert_eq!(lists(), 0);
}

#[test]
fn a_mount_that_leaves_is_not_waited_for() {
    let mut company = Company::of(2);
    make(&company.mounts[0], Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(&company.mounts[1], Ino::ROOT, b"f");
    company.mounts.pop().expect("a mount").unmount().expect("left");
    let shard = company.mounts[0].shard_of(Ino::ROOT, b"f");
    let read = Batch::new().read(keys::HOLDERS);
    assert_eq!(company.store.batch(shard, &read).expect("read").values, [None]);
    let recalls = Batch::new().read(keys::lease_term(MountId(2)));
    assert_eq!(company.store.batch(keys::SUPERBLOCK, &recalls).expect("read").values, [None]);
    chmod(&company.mounts[0], Ino::ROOT, b"f", 0o640).expect("changed without a wait");
}

#[test]
fn records_that_were_lost_end_what_is_kept() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    let note_loss = || {
        let granted = Fs::granted(&company.store).expect("the store answers").expect("counted");
        Fs::note_loss(&company.store, granted, |_| ()).expect("said");
    };
    // The shard comes back empty.
    let lose = || company.store.delete_shards(&[first.shard_of(Ino::ROOT, b"f")]).expect("lost");
    note_loss();
    lose();
    second.answer_recalls().expect("the store answers");
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(None));
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    // No number was granted since.
    note_loss();
    lose();
    second.answer_recalls().expect("the store answers");
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(None));
}

#[test]
fn what_was_lost_comes_back_when_nobody_answers_from_it_any_more() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    for is_said in [true, false] {
        company.answer_all_recalls();
        company.rest(second, Ino::ROOT, b"f");
        let (_, calls) = company.count(|| second.lookup(Ino::ROOT, b"f").expect("found"));
        assert_eq!(calls, 0);
        if !is_said {
            let error = StoreError::Unavailable { endpoint: "a node".into() };
            company.store.add(Fault::every(Operation::Batch, 1, error));
        }
        let granted = Granted::default();
        let said = Fs::note_loss(&company.store, granted, |time| company.clock.advance(time));
        assert_eq!(said.is_ok(), is_said);
        company.store.heal();
        // It has not polled for recalls meanwhile.
        let (_, calls) = company.count(|| second.lookup(Ino::ROOT, b"f").expect("found"));
        assert!(calls > 0, "{is_said}");
    }
}

#[test]
fn a_file_in_a_directory_that_another_mount_removed_is_not_made() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    company.rest(second, directory, b"f");
    company.while_answering_recalls(&[second], || first.rmdir(Ino::ROOT, b"d")).expect("removed");
    assert_eq!(second.lookup(Ino::ROOT, b"d").map(drop), Err(Error::NotFound));
    assert_eq!(make(second, directory, b"f", 0o600), Err(Error::NotFound));
    // Its shards are gone, and somebody keeps that they have nothing.
    company.clock.advance(Duration::from_secs(61));
    company
        .while_answering_recalls(&[second], || first.clear_closed(Duration::ZERO))
        .expect("cleared");
    company.answer_all_recalls();
    for _ in 0..LOOKS {
        assert_eq!(second.lookup(directory, b"f").map(drop), Err(Error::NotFound));
    }
    let made =
        company.while_answering_recalls(&[first, second], || make(second, directory, b"f", 0o600));
    assert_eq!(made, Err(Error::NotFound));
    let made = company.while_answering_recalls(&[first, second], || {
        first.table.look_up(second.table.get(directory).expect("known").reference());
        make(first, directory, b"f", 0o600)
    });
    assert_eq!(made, Err(Error::NotFound));
}

#[test]
fn a_delegation_whose_reply_was_lost_is_none() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    let lost = StoreError::Indeterminate { endpoint: "a node".into() };
    for after in 1..60 {
        let nth = company.store.count(Operation::Batch) + after;
        company.store.add(Fault::nth(Operation::Batch, nth, lost.clone()).after());
        for _ in 0..15 {
            // A plain look may fail, too.
            let _ = look(second, Ino::ROOT, b"f");
        }
        company.store.heal();
        let mode = 0o600 + after as u32 % 8;
        company
            .while_answering_recalls(&[second], || chmod(first, Ino::ROOT, b"f", mode))
            .expect("changed");
        assert_eq!(look(second, Ino::ROOT, b"f"), Ok(Some(mode)));
    }
}

#[test]
fn a_batch_that_left_a_record_and_comes_late_takes_nobody_off_who_came_again() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    let shard = first.shard_of(Ino::ROOT, b"f");
    let holders = || {
        let read = Batch::new().read(keys::HOLDERS);
        company.store.batch(shard, &read).expect("read").take(0)
    };
    company.rest(second, Ino::ROOT, b"f");
    let record = holders().expect("a holder");
    let leaves = Batch::new().equals(keys::HOLDERS, record).delete(keys::HOLDERS);
    company
        .while_answering_recalls(&[second], || chmod(first, Ino::ROOT, b"f", 0o640))
        .expect("changed");
    assert_eq!(holders(), None);
    company.clock.advance(super::bed::SECOND / 2);
    company.answer_all_recalls();
    company.rest(second, Ino::ROOT, b"f");
    company.rest(second, Ino::ROOT, b"f");
    assert!(holders().is_some(), "it keeps again what is read-mostly");
    assert!(!company.store.batch(shard, &leaves).expect("answered").applied());
    company
        .while_answering_recalls(&[second], || chmod(first, Ino::ROOT, b"f", 0o600))
        .expect("changed");
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(Some(0o600)));
}

#[test]
fn a_file_whose_first_directory_is_gone_is_kept_and_changed_like_others() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    make(first, directory, b"f", 0o600).expect("made");
    first.rename(directory, b"f", Ino::ROOT, b"f", RenameMode::Replace).expect("renamed");
    company.rest(second, Ino::ROOT, b"f");
    company.while_answering_recalls(&[second], || {
        first.rmdir(Ino::ROOT, b"d").expect("removed");
        first.clear_closed(Duration::ZERO).expect("cleared");
        chmod(first, Ino::ROOT, b"f", 0o640).expect("changed");
    });
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(Some(0o640)));
}

#[test]
fn a_mount_that_stands_on_a_record_without_knowing_it_goes_when_it_must() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    let shard = first.shard_of(Ino::ROOT, b"f");
    let lease_term = Batch::new().read(keys::lease_term(MountId(1)));
    let lease_term = company.store.batch(keys::SUPERBLOCK, &lease_term).expect("read").take(0);
    let holder =
        [&1_u64.to_be_bytes()[..], &lease_term.expect("a lease_term")[..8], &[9; 8]].concat();
    let stand = Batch::new().put(keys::HOLDERS, holder);
    company.store.batch(shard, &stand).expect("put");
    let (_, calls) = company.count(|| chmod(first, Ino::ROOT, b"f", 0o640).expect("changed"));
    assert!(calls < 10, "{calls} calls");
    company.store.batch(shard, &stand).expect("put");
    // The clock stands still, so nobody is revoked.
    company
        .while_answering_recalls(&[first], || chmod(second, Ino::ROOT, b"f", 0o600))
        .expect("changed");
    assert_eq!(look(first, Ino::ROOT, b"f"), Ok(Some(0o600)));
}

#[test]
fn a_change_gives_up_where_nobody_can_tell_a_holder_that_is_dead() {
    let company = Company::of(2);
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    company.rest(second, Ino::ROOT, b"f");
    let ino = first.lookup(Ino::ROOT, b"f").expect("found").attr.ino;
    let home = first.table.get(ino).expect("known").home;
    let batch = Batch::new().patch(keys::inode(ino), 0, b"").read(keys::HEADER);
    let begun = company.clock.steady();
    let silent = company.while_time_passes(|| {
        let count = company.store.count(Operation::Batch);
        for nth in (2..400).step_by(2) {
            let error = StoreError::Unavailable { endpoint: "a node".into() };
            // Every other call is a recall.
            company.store.add(Fault::nth(Operation::Batch, count + nth, error));
        }
        first.store.batch(home, &batch)
    });
    company.store.heal();
    assert!(matches!(silent, Err(StoreError::Unavailable { .. })));
    assert!(company.clock.steady() - begun < Duration::from_secs(120));
}
