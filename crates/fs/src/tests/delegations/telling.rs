//! What kernels are told to keep under delegations, and when they are made to forget.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidefs_model::{Ino, MountId, ShardKey};
use tidefs_store::{Batch, Embedded, Faulty, Store};

use super::{Company, LOOKS, Mount, chmod, look, make};
use crate::lifetimes::KernelCache;
use crate::tests::bed::{ME, SECOND};
use crate::{Lifetimes, OpenMode, keys};

/// A kernel that takes note of what it is told to forget, and of who could change it then.
struct Kernel {
    store: Arc<Faulty<Embedded>>,
    shard: ShardKey,
    mount: MountId,
    /// It does not have an inode when it is told the first times.
    misses: AtomicU32,
    forgotten: Mutex<Vec<Forgotten>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Forgotten {
    ino: Ino,
    /// The mount was on the shard's record of holders still.
    is_kept: bool,
    /// The store had a lease term of the mount.
    has_lease_term: bool,
}

impl Kernel {
    /// Of the second mount, with a look at the shard of a name in the root.
    fn of(company: &Company, name: &[u8]) -> Arc<Kernel> {
        let mount = &company.mounts[1];
        let kernel = Arc::new(Kernel {
            store: company.store.clone(),
            shard: mount.shard_of(Ino::ROOT, name),
            mount: MountId(2),
            misses: AtomicU32::new(0),
            forgotten: Mutex::default(),
        });
        mount.set_kernel_cache(kernel.clone());
        kernel
    }

    fn has(&self, shard: ShardKey, field: Vec<u8>) -> bool {
        let read = self.store.batch(shard, &Batch::new().read(field));
        read.expect("the store answers").values[0].is_some()
    }

    fn take(&self) -> Vec<Forgotten> {
        std::mem::take(&mut self.forgotten.lock().expect("no panic"))
    }
}

impl KernelCache for Kernel {
    fn wait_for_answers(&self) {}

    fn forget(&self, ino: Ino) -> bool {
        let is_kept = self.has(self.shard, keys::HOLDERS.to_vec());
        let has_lease_term = self.has(keys::SUPERBLOCK, keys::lease_term(self.mount));
        self.forgotten.lock().expect("no panic").push(Forgotten { ino, is_kept, has_lease_term });
        let misses = self.misses.load(Ordering::SeqCst);
        self.misses.store(misses.saturating_sub(1), Ordering::SeqCst);
        misses == 0
    }

    fn prune(&self, _inos: &[Ino]) {}
}

/// As when the kernel asks for attributes now.
fn lifetime(mount: &Mount, ino: Ino) -> Duration {
    let before = mount.standing();
    mount.getattr(ino, None).expect("it is there");
    let lifetimes = mount.lifetimes_of(ino, before);
    assert_eq!(lifetimes, Lifetimes { attr: lifetimes.attr, ..Lifetimes::default() });
    lifetimes.attr
}

/// A company of two whose second mount keeps a file.
fn at_rest() -> (Company, Arc<Kernel>, Ino) {
    let company = Company::of(2);
    let kernel = Kernel::of(&company, b"f");
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"f", 0o600).expect("made");
    let ino = second.lookup(Ino::ROOT, b"f").expect("found").attr.ino;
    assert_eq!(lifetime(second, ino), Duration::ZERO, "it is not read-mostly yet");
    company.rest(second, Ino::ROOT, b"f");
    (company, kernel, ino)
}

#[test]
fn kernels_keep_attributes_at_rest_and_forget_them_before_another_mount_changes_them() {
    let (company, kernel, ino) = at_rest();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    assert_eq!(lifetime(second, ino), SECOND);
    (0..LOOKS).for_each(|_| _ = lifetime(second, Ino::ROOT));
    assert!(!lifetime(second, Ino::ROOT).is_zero(), "a directory's come from all of its shards");
    company.while_answering_recalls(&[second], || {
        chmod(first, Ino::ROOT, b"f", 0o640).expect("changed");
        assert_eq!(lifetime(second, ino), Duration::ZERO);
    });
    let mut forgotten = kernel.take();
    forgotten.sort_by_key(|forgotten| forgotten.ino);
    let each = [Ino::ROOT, ino].map(|ino| Forgotten { ino, is_kept: true, has_lease_term: true });
    assert_eq!(forgotten, each);
}

#[test]
fn kernels_forget_before_this_mount_changes_what_it_keeps() {
    let (company, kernel, ino) = at_rest();
    let second = &company.mounts[1];
    assert!(!lifetime(second, ino).is_zero());
    chmod(second, Ino::ROOT, b"f", 0o640).expect("changed");
    assert_eq!(kernel.take(), [Forgotten { ino, is_kept: true, has_lease_term: true }]);
    assert_eq!(look(second, Ino::ROOT, b"f"), Ok(Some(0o640)));
    chmod(second, Ino::ROOT, b"f", 0o600).expect("changed");
    assert_eq!(kernel.take(), [], "it has forgotten");
}

#[test]
fn what_was_read_before_a_delegation_or_is_over_soon_is_not_kept_longer() {
    let (company, _kernel, ino) = at_rest();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    make(first, Ino::ROOT, b"other", 0o600).expect("made");
    let other = second.lookup(Ino::ROOT, b"other").expect("found").attr.ino;
    let before = second.standing();
    company.rest(second, Ino::ROOT, b"other");
    assert_eq!(second.lifetimes_of(other, before), Lifetimes::default());
    assert!(!lifetime(second, other).is_zero());
    company.clock.advance(Duration::from_millis(400));
    assert_eq!(lifetime(second, ino), Duration::from_millis(600));
    company.clock.advance(Duration::from_millis(600));
    assert_eq!(lifetime(second, ino), Duration::ZERO);
}

#[test]
fn attributes_of_open_files_are_not_kept() {
    let (company, _kernel, ino) = at_rest();
    let second = &company.mounts[1];
    let read = OpenMode { read: true, ..OpenMode::default() };
    let opened = second.open(ino, read).expect("opened");
    assert_eq!(lifetime(second, ino), Duration::ZERO);
    second.release(opened.handle).expect("closed");
}

#[test]
fn an_inode_that_a_kernel_does_not_have_yet_is_told_again() {
    let (company, kernel, ino) = at_rest();
    let second = &company.mounts[1];
    assert!(!lifetime(second, ino).is_zero());
    kernel.misses.store(3, Ordering::SeqCst);
    chmod(second, Ino::ROOT, b"f", 0o640).expect("changed");
    assert_eq!(kernel.take().len(), 4);
}

#[test]
fn an_inode_that_a_kernel_has_given_up_is_not_waited_for() {
    let (company, kernel, ino) = at_rest();
    let second = &company.mounts[1];
    let home = second.lookup(Ino::ROOT, b"f").map(|_| second.shard_of(Ino::ROOT, b"f"));
    assert!(!lifetime(second, ino).is_zero());
    kernel.misses.store(u32::MAX, Ordering::SeqCst);
    second.forget(ino, u64::MAX);
    let first = &company.mounts[0];
    company
        .while_answering_recalls(&[second], || chmod(first, Ino::ROOT, b"f", 0o640))
        .expect("changed");
    assert_eq!(home, Ok(kernel.shard));
    assert_eq!(kernel.take().len(), 1);
}

#[test]
fn a_mount_that_was_revoked_makes_its_kernel_forget_before_it_begins_again() {
    let (company, kernel, ino) = at_rest();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    assert!(!lifetime(second, ino).is_zero());
    company.while_time_passes(|| chmod(first, Ino::ROOT, b"f", 0o640)).expect("changed");
    assert_eq!(kernel.take(), [], "it stands still");
    second.answer_recalls().expect("the store answers");
    let forgotten = kernel.take();
    assert_eq!(forgotten, [Forgotten { ino, is_kept: false, has_lease_term: false }]);
}

#[test]
fn a_delegation_has_room_for_so_many_inodes() {
    const FILES: usize = 6_000;
    let company = Company::of(2);
    let _kernel = Kernel::of(&company, b"0");
    let [first, second] = &company.mounts[..] else { unreachable!() };
    let directory = first.mkdir(ME, Ino::ROOT, b"d", 0o755).expect("made").attr.ino;
    second.lookup(Ino::ROOT, b"d").expect("found");
    let names: Vec<_> = (0..FILES).map(|number| number.to_string().into_bytes()).collect();
    names.iter().for_each(|name| make(first, directory, name, 0o600).expect("made"));
    let look_up = |name: &Vec<u8>| second.lookup(directory, name).expect("found").attr.ino;
    let inos: Vec<_> = names.iter().map(look_up).collect();
    names.iter().take(200).for_each(|name| _ = look_up(name));
    let kept = inos.iter().filter(|ino| !lifetime(second, **ino).is_zero()).count();
    let shards = usize::from(second.format_of().shards);
    assert_eq!(kept, shards * 256);
}

#[test]
fn nobody_goes_off_the_record_while_somebody_else_makes_the_kernel_forget() {
    let (company, kernel, ino) = at_rest();
    let [first, second] = &company.mounts[..] else { unreachable!() };
    assert!(!lifetime(second, ino).is_zero());
    kernel.misses.store(200, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| chmod(second, Ino::ROOT, b"f", 0o640).expect("changed"));
        while kernel.forgotten.lock().expect("no panic").is_empty() {
            std::thread::yield_now();
        }
        company
            .while_answering_recalls(&[second], || chmod(first, Ino::ROOT, b"f", 0o600))
            .expect("changed");
        assert_eq!(kernel.misses.load(Ordering::SeqCst), 0, "the kernel has forgotten");
    });
}
