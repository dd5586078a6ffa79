//! Mounts that the owner of the file system expels, and that come back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidefs_model::{Clock, Ino, MountId};
use tidefs_store::{Embedded, Faulty, Operation, StoreError, When, caller};

use super::bed::{Bed, ME, SECOND, WRITE};
use crate::{
    Admission, Admitted, Config, Error, Fs, Handle, Lock, LockFamily, LockKind, Seek, SetAttr,
    SpaceMode,
};

type Store = Faulty<Arc<Embedded>>;
type Mount = Fs<Store>;
/// With its account.
type LetIn = (Mount, Arc<Account>);

const EXPELLED: Error = Error::Store(StoreError::Expelled);

/// The owner, and what it does with accounts.
struct Owner {
    bed: Bed,
    admitted: Arc<Mutex<Admitted<Embedded>>>,
}

/// The account of a mount: the store that refuses its earlier terms.
struct Account {
    store: Arc<Store>,
    admitted: Arc<Mutex<Admitted<Embedded>>>,
    mount: AtomicU64,
    term: AtomicU64,
}

impl Admission for Account {
    fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    fn begin_term(&self) -> Result<MountId, String> {
        let mount = MountId(self.mount.fetch_add(100, Ordering::SeqCst) + 100);
        self.admitted.lock().unwrap().let_in(mount).unwrap();
        self.term.fetch_add(1, Ordering::SeqCst);
        self.store.set_term(self.term(), false);
        Ok(mount)
    }

    fn open(&self, refuse_earlier: bool) {
        if refuse_earlier {
            self.store.refuse_asked_before(self.term());
        }
        self.store.set_term(self.term(), true);
    }
}

impl Owner {
    fn new() -> Owner {
        let bed = Bed::new();
        let admitted = Admitted::new(bed.store.clone(), bed.clock.steady());
        Owner { bed, admitted: Arc::new(Mutex::new(admitted)) }
    }

    fn mount(&self, id: u64) -> LetIn {
        let store = Arc::new(Faulty::new(self.bed.store.clone(), Vec::new()));
        store.set_term(0, true);
        self.admitted.lock().unwrap().let_in(MountId(id)).unwrap();
        let account = Arc::new(Account {
            store: store.clone(),
            admitted: self.admitted.clone(),
            mount: AtomicU64::new(id),
            term: AtomicU64::new(0),
        });
        let config = Config { io_threads: 1, ..Config::new(MountId(id)) };
        let clock = self.bed.clock.clone();
        (Fs::mount_let_in(store, config, clock, Some(account.clone())).expect("mounted"), account)
    }

    /// Two that know of each other.
    fn two() -> (Owner, LetIn, LetIn) {
        let owner = Owner::new();
        let (first, second) = (owner.mount(1), owner.mount(2));
        assert_eq!((first.0.is_admitted(), second.0.is_admitted()), (Ok(true), Ok(true)));
        owner.pass(1, &[&first.0, &second.0]);
        (owner, first, second)
    }

    /// Time passes while mounts keep house; answers those that the owner sees stand still.
    fn pass(&self, seconds: u64, mounts: &[&Mount]) -> Vec<MountId> {
        let mut silent = Vec::new();
        for _ in 0..seconds {
            self.bed.pass(SECOND);
            for mount in mounts {
                mount.tick().expect("housekeeping");
            }
            silent = self.admitted.lock().unwrap().silent(self.bed.clock.steady()).unwrap();
        }
        silent
    }

    /// Ends the account of a mount, and then has the others know.
    fn expel(&self, account: &Account) {
        account.store.set_term(account.term() + 1, false);
        let mount = MountId(account.mount.load(Ordering::SeqCst));
        self.admitted.lock().unwrap().expelled(mount).unwrap();
    }
}

fn whole(owner: u64) -> Lock {
    let (family, kind) = (LockFamily::Whole, LockKind::Exclusive);
    Lock { family, kind, owner, start: 0, last: u64::MAX, pid: 0 }
}

fn make(fs: &Mount, name: &str) -> (Ino, Handle) {
    let (entry, opened) = fs.create(ME, Ino::ROOT, name.as_bytes(), 0o600, WRITE).expect("made");
    fs.fsync(opened.handle).expect("stored");
    (entry.attr.ino, opened.handle)
}

fn open(fs: &Mount, name: &str) -> Handle {
    let ino = fs.lookup(Ino::ROOT, name.as_bytes()).expect("there").attr.ino;
    fs.open(ino, WRITE).expect("opened").handle
}

fn write(fs: &Mount, handle: Handle, bytes: &[u8]) -> Result<usize, Error> {
    fs.write(handle, 0, bytes, None, false)
}

fn ino(fs: &Mount, name: &str) -> Ino {
    fs.lookup(Ino::ROOT, name.as_bytes()).map_or(Ino::ROOT, |found| found.attr.ino)
}

/// All else that changes or tells bytes through a handle.
fn changes_through(
    fs: &Mount,
    inos: &[Ino; 4],
    handle: Handle,
    other: Handle,
) -> [Result<(), Error>; 8] {
    let cut = SetAttr { size: Some(1), ..SetAttr::default() };
    let space = |mode| fs.allocate(handle, 0, 3, mode, false);
    [
        fs.setattr(inos[1], Some(handle), &cut).map(drop),
        space(SpaceMode::Allocate),
        space(SpaceMode::PunchHole),
        space(SpaceMode::Zero),
        space(SpaceMode::ZeroKeepSize),
        fs.copy_range(handle, 0, other, 0, 3, false).map(drop),
        fs.copy_range(other, 0, handle, 0, 3, false).map(drop),
        fs.seek(handle, 0, Seek::Data).map(drop),
    ]
}

fn read(fs: &Mount, handle: Handle) -> Result<Vec<u8>, Error> {
    fs.read(handle, 0, 100).map(|bytes| bytes.as_slice().to_vec())
}

/// As often as it takes until everybody is served again.
fn come_back(owner: &Owner, (first, account): &LetIn, second: &Mount) {
    let term = account.term() + 1;
    for _ in 0..5 {
        // A heartbeat may fail on the way.
        let _ = first.tick();
        second.tick().expect("housekeeping");
        owner.bed.pass(SECOND);
    }
    assert_eq!(account.term(), term);
    assert!(first.is_known_to_others());
}

#[test]
fn others_act_on_the_end_of_a_mount_when_its_owner_has_expelled_it_and_not_before() {
    let (owner, first, (second, _)) = Owner::two();
    let (_, mine) = make(&first.0, "file");
    first.0.lock(mine, &whole(1)).expect("taken");
    let yours = open(&second, "file");
    let silent = owner.pass(20, &[&second]);
    assert_eq!(silent, [MountId(1)]);
    assert_eq!(second.lock(yours, &whole(2)).err(), Some(Error::WouldBlock));
    assert!(!second.is_alone());
    owner.expel(&first.1);
    assert!(second.lock(yours, &whole(2)).is_ok());
    owner.pass(2, &[&second]);
    assert!(second.is_alone());
}

#[test]
fn a_newcomer_waits_until_the_silent_are_expelled() {
    let owner = Owner::new();
    let first = owner.mount(1);
    assert_eq!(first.0.is_admitted(), Ok(true));
    assert_eq!(owner.pass(20, &[]), [], "nobody wants what it has");
    let second = owner.mount(2);
    let wait = |seconds| {
        (0..seconds).for_each(|_| {
            owner.pass(1, &[&second.0]);
            second.0.is_admitted().expect("the store answers");
        });
    };
    wait(20);
    assert_eq!(second.0.is_admitted(), Ok(false));
    assert_eq!(owner.pass(1, &[&second.0]), [MountId(1)]);
    owner.expel(&first.1);
    assert_eq!(second.0.is_admitted(), Ok(true));
}

#[test]
fn who_comes_back_has_lost_what_it_had_not_stored_and_its_locks_and_is_told() {
    let (owner, first, (second, _)) = Owner::two();
    let fs = &first.0;
    let names = ["unsent", "locked", "gone", "fine"];
    let [(_, unsent), (_, locked), (_, gone), (_, fine)] = names.map(|name| {
        let made = make(fs, name);
        write(fs, made.1, b"before").expect("taken");
        fs.fsync(made.1).expect("stored");
        made
    });
    let again = open(fs, "unsent");
    fs.lock(locked, &whole(1)).expect("taken");
    owner.pass(1, &[fs, &second]);
    write(fs, unsent, b"unsent").expect("taken");
    owner.pass(13, &[&second]);
    owner.expel(&first.1);
    let theirs = names.map(|name| open(&second, name));
    second.lock(theirs[1], &whole(2)).expect("taken");
    for handle in theirs {
        write(&second, handle, b"theirs").expect("taken");
        second.fsync(handle).expect("stored");
    }
    second.unlink(Ino::ROOT, b"gone").expect("removed");
    come_back(&owner, &first, &second);
    let is = |handle, bytes: &[u8]| assert_eq!(read(fs, handle), Ok(bytes.to_vec()));
    // Told once to each handle; then it goes on, with what the store has.
    for handle in [unsent, again] {
        assert_eq!(fs.fsync(handle), Err(EXPELLED));
        assert_eq!(fs.fsync(handle), Ok(()));
        is(handle, b"theirs");
    }
    fs.take_stale_pages();
    for _ in 0..2 {
        assert_eq!(read(fs, locked), Err(EXPELLED));
        assert_eq!(write(fs, locked, b"late"), Err(EXPELLED));
        // It may come from a map, whose pages the kernel keeps.
        assert!(fs.take_stale_pages().contains(&ino(fs, "locked")));
        assert_eq!(fs.lock(locked, &whole(1)).err(), Some(EXPELLED));
        for changed in changes_through(fs, &names.map(|name| ino(fs, name)), locked, fine) {
            assert_eq!(changed, Err(EXPELLED));
        }
        assert_eq!(read(fs, gone), Err(EXPELLED));
    }
    is(open(fs, "locked"), b"theirs");
    is(fine, b"theirs");
    assert_eq!(write(fs, fine, b"after!"), Ok(6));
    fs.fsync(fine).expect("stored");
    assert_eq!(read(&second, open(&second, "fine")), Ok(b"after!".to_vec()));
    assert_eq!(read(&second, theirs[1]), Ok(b"theirs".to_vec()));
    assert_eq!(second.lock(theirs[1], &whole(3)).err(), Some(Error::WouldBlock));
    for handle in [unsent, again, locked, gone, fine] {
        fs.release(handle).expect("closed");
    }
    assert!(fs.locks.all_are_free());
}

#[test]
fn a_send_that_was_stopped_on_its_way_does_not_arrive_when_the_mount_is_back() {
    let (owner, first, (second, _)) = Owner::two();
    let (fs, store) = (&first.0, &first.1.store);
    let (_, mine) = make(fs, "file");
    write(fs, mine, b"old").expect("taken");
    let stopped = store.pause(Operation::Write, When::Before);
    std::thread::scope(|scope| {
        let sync = scope.spawn(|| fs.fsync(mine));
        assert!(stopped.wait_until_held(1, Duration::from_secs(30)), "it is on its way");
        owner.pass(13, &[&second]);
        owner.expel(&first.1);
        let yours = open(&second, "file");
        write(&second, yours, b"new").expect("taken");
        second.fsync(yours).expect("stored");
        come_back(&owner, &first, &second);
        drop(stopped);
        assert_eq!(sync.join().unwrap(), Err(EXPELLED));
    });
    assert_eq!(read(&second, open(&second, "file")), Ok(b"new".to_vec()));
    assert_eq!(read(fs, mine), Ok(b"new".to_vec()));
}

/// A call of a program that waits in the middle while its mount is expelled and comes back.
fn asked_before(
    lock: Option<&Lock>,
    call: impl Fn(&Mount, Handle) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    let (owner, first, (second, _)) = Owner::two();
    let (fs, store) = (&first.0, &first.1.store);
    let (_, other) = make(fs, "other");
    let (_, locked) = make(fs, "locked");
    if let Some(lock) = lock {
        fs.lock(locked, lock).expect("taken");
    }
    let held = store.pause_at_most(Operation::Batch, When::Before, 1);
    std::thread::scope(|scope| {
        let asked = fs.asked_term();
        let called = scope.spawn(move || caller::asked_in(asked, || call(fs, other)));
        assert!(held.wait_until_held(1, Duration::from_secs(30)), "it is on its way");
        owner.pass(13, &[&second]);
        owner.expel(&first.1);
        come_back(&owner, &first, &second);
        drop(held);
        let done = called.join().unwrap();
        // Whoever asks now knows, or may know.
        let again = caller::asked_in(fs.asked_term(), || fs.mkdir(ME, Ino::ROOT, b"again", 0o700));
        assert!(again.is_ok());
        done
    })
}

#[test]
fn a_call_that_waited_is_not_carried_out_where_its_program_may_have_lost_a_lock() {
    let make = |fs: &Mount, _| fs.mkdir(ME, Ino::ROOT, b"made", 0o700).map(drop);
    let look = |fs: &Mount, other| read(fs, other).map(drop);
    assert_eq!(asked_before(Some(&whole(1)), make), Err(EXPELLED));
    assert_eq!(asked_before(Some(&whole(1)), look), Err(EXPELLED));
    assert_eq!(asked_before(None, make), Ok(()));
}

/// Nobody but this mount hears of such a write, since it is answered from memory.
#[test]
fn a_write_that_was_asked_for_before_a_lock_was_lost_is_not_taken_in_memory() {
    let late = |lock: Option<&Lock>| {
        let (owner, first, (second, _)) = Owner::two();
        let fs = &first.0;
        let (_, other) = make(fs, "other");
        let (_, locked) = make(fs, "locked");
        if let Some(lock) = lock {
            fs.lock(locked, lock).expect("taken");
        }
        let asked = fs.asked_term();
        owner.pass(13, &[&second]);
        owner.expel(&first.1);
        come_back(&owner, &first, &second);
        // Somebody who knows uses the handle first.
        let now = || caller::asked_in(fs.asked_term(), || write(fs, other, b"known"));
        assert_eq!(now(), Ok(5));
        let late = caller::asked_in(asked, || write(fs, other, b"late"));
        assert_eq!(now(), Ok(5));
        late
    };
    assert_eq!(late(Some(&whole(1))), Err(EXPELLED));
    assert_eq!(late(None), Ok(4));
}

#[test]
fn a_name_that_was_answered_and_not_made_is_not_made_later() {
    let owner = Owner::new();
    let first = owner.mount(1);
    assert_eq!(first.0.is_admitted(), Ok(true));
    let (_, kept) = make(&first.0, "kept");
    first.0.release(kept).expect("closed");
    first.0.unlink(Ino::ROOT, b"kept").expect("answered");
    let made = first.0.create(ME, Ino::ROOT, b"made", 0o600, WRITE).expect("answered").1.handle;
    let second = owner.mount(2);
    (0..13).for_each(|_| {
        owner.pass(1, &[&second.0]);
        second.0.is_admitted().expect("the store answers");
    });
    owner.expel(&first.1);
    assert_eq!(second.0.is_admitted(), Ok(true));
    assert!(second.0.lookup(Ino::ROOT, b"kept").is_ok(), "it was never removed");
    let was_made = second.0.lookup(Ino::ROOT, b"made").is_ok();
    come_back(&owner, &first, &second.0);
    owner.pass(2, &[&first.0, &second.0]);
    assert!(second.0.lookup(Ino::ROOT, b"kept").is_ok());
    assert_eq!(second.0.lookup(Ino::ROOT, b"made").is_ok(), was_made);
    assert_eq!(first.0.fsync(made).is_ok(), was_made);
}

/// Where the list of mounts was lost with a node nobody counts as expelled until it is there again.
#[test]
fn a_list_that_was_lost_expels_nobody() {
    let (owner, first, (second, _)) = Owner::two();
    let (_, mine) = make(&first.0, "file");
    first.0.lock(mine, &whole(1)).expect("taken");
    let yours = open(&second, "file");
    tidefs_store::Store::delete_shards(&*owner.bed.store, &[crate::keys::MOUNTS]).unwrap();
    second.tick().expect("housekeeping");
    assert_eq!(second.lock(yours, &whole(2)).err(), Some(Error::WouldBlock));
    owner.pass(3, &[&first.0, &second]);
    assert_eq!(second.lock(yours, &whole(2)).err(), Some(Error::WouldBlock));
    owner.pass(13, &[&second]);
    owner.expel(&first.1);
    assert!(second.lock(yours, &whole(2)).is_ok());
}
