//! A file system in memory for one run, and what must be true of it when the run is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidefs_fs::{Config, Format, Fs};
use tidefs_model::{ByteSize, Clock, ManualClock, MountId, StripeSize, Time};
use tidefs_oracle::{Checked, Difference, Driver, Failure, Kind, Path, compare};
use tidefs_sealed::{Cipher, Key, Sealing};
use tidefs_store::{Embedded, Store};

use crate::driver::FsDriver;
use crate::line::Line;

/// The smallest there is, so that little is written.
pub const STRIPE: u32 = 4096;
/// After it a dead mount counts as dead, and what it left half done is taken up.
pub const A_WHILE: Duration = Duration::from_secs(15);
/// Of a shard that holds nothing but the time of its last change.
const SHARD_BYTES_MAX: u64 = 512;
const CAPACITY: ByteSize = ByteSize::mib(256);

/// What varies from test to test.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub shards: u16,
    pub mounts: usize,
    /// Steps after which a kernel forgets what is not open.
    pub forget_every: usize,
}

pub struct World<S: Store> {
    pub store: Arc<S>,
    pub clock: Arc<ManualClock>,
    next_mount: u64,
    keys_of_an_empty_tree: u64,
    bytes_of_an_empty_tree: u64,
}

pub fn embedded() -> Embedded {
    Embedded::in_heap(CAPACITY, StripeSize::new(STRIPE).expect("a stripe size"))
}

impl<S: Store> World<S> {
    pub fn new(store: S, shards: u16) -> World<S> {
        World::made(store, shards, None)
    }

    /// With stripes that are sealed.
    pub fn sealed(store: S, shards: u16) -> World<S> {
        World::made(store, shards, Some(Cipher::of_this_processor()))
    }

    fn made(store: S, shards: u16, cipher: Option<Cipher>) -> World<S> {
        let stripe_size = StripeSize::new(STRIPE).expect("a stripe size");
        let clock = Arc::new(ManualClock::at(Time::from_unix(1_700_000_000, 0)));
        let format = Format { stripe_size, shards, cipher, ..Format::default() };
        Fs::format(&store, format, &*clock).expect("an empty store takes a file system");
        let mut world = World {
            store: Arc::new(store),
            clock,
            next_mount: 1,
            keys_of_an_empty_tree: 0,
            bytes_of_an_empty_tree: 0,
        };
        FsDriver::new(world.mounts(1), world.clock.clone(), 1).unmount();
        // A shard of the root that was used keeps the time of its last change.
        world.keys_of_an_empty_tree = world.keys() + u64::from(shards);
        world.bytes_of_an_empty_tree = world.used_bytes() + u64::from(shards) * SHARD_BYTES_MAX;
        world
    }

    /// New mounts that know of each other and are alone if there is one; after a while, if a mount
    /// died without a word.
    pub fn mounts(&mut self, count: usize) -> Vec<Fs<S>> {
        let mounts: Vec<_> = (0..count).map(|_| self.mount()).collect();
        for _ in 0..3 {
            mounts.iter().for_each(|fs| {
                fs.tick().expect("housekeeping");
            });
        }
        mounts.iter().for_each(|fs| self.wait_for_admission(fs, &mounts));
        mounts
    }

    pub fn mount(&mut self) -> Fs<S> {
        self.mount_over(self.store.clone())
    }

    /// Looks every second, as a mount has to that takes another one for dead.
    fn wait_for_admission<L: Store>(&self, mount: &Fs<L>, beside: &[Fs<L>]) {
        let give_up = self.clock.now() + A_WHILE;
        while !mount.is_admitted().expect("the store answers") {
            assert!(self.clock.now() < give_up, "a mount is admitted in the end");
            self.pass(Duration::from_secs(1));
            beside.iter().for_each(|fs| {
                fs.tick().expect("housekeeping");
            });
        }
    }

    /// A mount that reaches the same store in its own way.
    pub fn mount_over<L: Store>(&mut self, line: Arc<L>) -> Fs<L> {
        let mut config = Config::new(MountId(self.next_mount));
        self.next_mount += 1;
        // Where nothing is sealed it is not looked at.
        let mut salt = [0; 12];
        salt[..8].copy_from_slice(&config.mount.0.to_be_bytes());
        config.sealing = Some(Sealing { key: Key([7; 32]), salt, fresh: || 0 });
        // Few, so that buffers run out and are waited for.
        config.dirty_bytes_max = ByteSize(8 * u64::from(STRIPE));
        config.read_ahead_bytes_max = ByteSize(8 * u64::from(STRIPE));
        config.io_threads = 2;
        Fs::mount(line, config, self.clock.clone()).expect("mounted")
    }

    /// A mount whose line to the store can be cut; after a while, if another one died.
    pub fn driver_on_a_line(&mut self) -> (Arc<Line<S>>, FsDriver<Line<S>>) {
        let line = Arc::new(Line::new(self.store.clone()));
        let mount = self.mount_over(line.clone());
        self.wait_for_admission(&mount, &[]);
        (line, FsDriver::new(vec![mount], self.clock.clone(), 1).syncing_names())
    }

    /// One more mount beside one that lives.
    pub fn driver_beside<L: Store>(&mut self, first: &mut FsDriver<L>) -> FsDriver<S> {
        let second = self.mount();
        for _ in 0..3 {
            first.fs().tick().expect("housekeeping");
            second.tick().expect("housekeeping");
        }
        assert_eq!(second.is_admitted(), Ok(true));
        FsDriver::new(vec![second], self.clock.clone(), 1)
    }

    /// Time passes while somebody works, and not only between two calls.
    pub fn while_time_passes(&self, work: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    self.clock.advance(Duration::from_millis(50));
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let _over = Over(&is_over);
            work();
        });
    }

    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub fn driver(&mut self, shape: Shape) -> FsDriver<S> {
        let mounts = self.mounts(shape.mounts);
        FsDriver::new(mounts, self.clock.clone(), shape.forget_every)
    }

    /// Leaves, and has a new mount find the same tree; then removes all of it, and nothing is
    /// left in the store.
    pub fn settle(&mut self, driver: FsDriver<S>, checked: &Checked) -> Result<(), Failure> {
        driver.unmount();
        let mut second = self.driver(Shape { shards: 0, mounts: 1, forget_every: 3 });
        compare(checked, &mut second)?;
        empty(&mut second);
        second.unmount();
        let (keys, at_most) = (self.keys(), self.keys_of_an_empty_tree);
        match keys <= at_most {
            true => Ok(()),
            false => Err(checked.failure(Difference::Left { keys, at_most })),
        }
    }

    /// Removes what a run left that failed; what nobody can reach is counted from now on.
    pub fn clear(&mut self) {
        let mut driver = self.driver(Shape { shards: 0, mounts: 1, forget_every: 3 });
        empty(&mut driver);
        driver.unmount();
        self.keys_of_an_empty_tree = self.keys_of_an_empty_tree.max(self.keys());
    }

    /// Nothing is left of anything that there was.
    pub fn assert_empty(&self, what: &str) {
        let (keys, bytes) = (self.keys(), self.used_bytes());
        assert!(keys <= self.keys_of_an_empty_tree, "{what}: {keys} keys are left");
        assert!(bytes <= self.bytes_of_an_empty_tree, "{what}: {bytes} bytes are in use");
    }

    fn used_bytes(&self) -> u64 {
        let overview = self.store.overview().expect("the store answers");
        overview.nodes.iter().map(|node| node.memory_used_bytes).sum()
    }

    fn keys(&self) -> u64 {
        let overview = self.store.overview().expect("the store answers");
        overview.nodes.iter().map(|node| node.keys).sum()
    }
}

/// Leaves the root as it was made, but for its times and mode.
fn empty(driver: &mut impl Driver) {
    let root = Path::root();
    for name in driver.list_xattrs(&root).expect("listed") {
        driver.remove_xattr(&root, &name).expect("an attribute is removed");
    }
    remove_all(driver, &root);
}

/// Says that something is over, however it ended.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub fn remove_all(driver: &mut impl Driver, directory: &Path) {
    for (name, kind) in driver.readdir(directory).expect("listed") {
        let at = directory.join(&name);
        match kind {
            Kind::Directory => {
                remove_all(driver, &at);
                driver.rmdir(&at).expect("an empty directory is removed");
            }
            _ => driver.unlink(&at).expect("a name is removed"),
        }
        driver.end();
    }
}
