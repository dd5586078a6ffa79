//! A small file system in memory with a clock that the test owns.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tidefs_model::{ByteSize, Clock, ManualClock, MountId, StripeSize, Time};
use tidefs_store::{Embedded, Faulty};

use crate::{Caller, Config, Format, Fs, OpenMode};

pub const ME: Caller = Caller { uid: 1, gid: 2 };
pub const WRITE: OpenMode = OpenMode {
    read: true,
    write: true,
    append: false,
    truncate: false,
    exclusive: false,
    sync: false,
};

/// The clocks of a host among others: its wall clock is as people have set it, and its steady clock began
/// at some time of its own.
pub struct Host {
    time: Arc<ManualClock>,
    begun: Duration,
    /// Nanoseconds by which the wall clock is ahead.
    ahead: AtomicI64,
}

impl Host {
    /// `hours` says how far its wall clock is ahead; less than zero: behind.
    pub fn ahead(time: &Arc<ManualClock>, hours: i64) -> Arc<Host> {
        let begun = Duration::from_secs(1_000 + 77 * hours.unsigned_abs());
        let host = Host { time: time.clone(), begun, ahead: AtomicI64::new(0) };
        host.step(hours);
        Arc::new(host)
    }

    /// Somebody sets the wall clock.
    pub fn step(&self, hours: i64) {
        self.ahead.fetch_add(hours * 3_600_000_000_000, Ordering::SeqCst);
    }
}

impl Clock for Host {
    fn now(&self) -> Time {
        Time(self.time.now().0.wrapping_add_signed(self.ahead.load(Ordering::SeqCst)))
    }

    fn steady(&self) -> Time {
        self.time.now() + self.begun
    }
}

pub const SECOND: Duration = Duration::from_secs(1);

pub struct Bed {
    pub store: Arc<Embedded>,
    pub clock: Arc<ManualClock>,
}

impl Bed {
    pub fn new() -> Bed {
        let stripe_size = StripeSize::new(4096).expect("a stripe size");
        let store = Arc::new(Embedded::in_heap(ByteSize::mib(64), stripe_size));
        let clock = Arc::new(ManualClock::at(Time::from_unix(1_000_000, 0)));
        let format = Format { stripe_size, ..Format::default() };
        Fs::format(&store, format, &*clock).expect("an empty store takes a file system");
        Bed { store, clock }
    }

    /// One more mount, whether it is admitted yet or not.
    pub fn mount(&self, id: u64) -> Fs<Arc<Embedded>> {
        let config = Config { io_threads: 1, ..Config::new(MountId(id)) };
        Fs::mount(Arc::new(self.store.clone()), config, self.clock.clone()).expect("mounted")
    }

    /// The same on a host whose wall clock differs by so many hours.
    pub fn mount_on(&self, host: &Arc<Host>, id: u64) -> Fs<Arc<Embedded>> {
        let config = Config { io_threads: 1, ..Config::new(MountId(id)) };
        Fs::mount(Arc::new(self.store.clone()), config, host.clone()).expect("mounted")
    }

    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// The same while mounts keep house, so that they look at the others.
    pub fn pass_with(&self, seconds: u64, mounts: &[&Fs<Arc<Embedded>>]) {
        for _ in 0..seconds {
            self.pass(Duration::from_secs(1));
            for mount in mounts {
                mount.tick().expect("housekeeping");
            }
        }
    }

    /// Time passes while a mount waits to be admitted.
    pub fn wait_outside(&self, seconds: u64, mount: &Fs<Arc<Embedded>>) {
        for _ in 0..seconds {
            self.pass(Duration::from_secs(1));
            mount.tick().expect("a heartbeat");
            mount.is_admitted().expect("the store answers");
        }
    }
}

/// A mount that is alone on a store that counts and fails, with stripes of the usual size.
pub struct Watched {
    pub store: Arc<Faulty<Embedded>>,
    pub clock: Arc<ManualClock>,
    pub fs: Fs<Faulty<Embedded>>,
}

impl Watched {
    pub fn new() -> Watched {
        Watched::with(Config::new(MountId(1)))
    }

    /// Stripes are read only when somebody asks for them: the order of reads is the caller's.
    pub fn that_reads_nothing_ahead() -> Watched {
        Watched::with(Config { read_ahead_bytes_max: ByteSize(0), ..Config::new(MountId(1)) })
    }

    pub fn with(config: Config) -> Watched {
        let embedded = Embedded::in_heap(ByteSize::mib(64), StripeSize::DEFAULT);
        let store = Arc::new(Faulty::new(embedded, Vec::new()));
        let clock = Arc::new(ManualClock::default());
        let format = Format { stripe_size: StripeSize::DEFAULT, ..Format::default() };
        Fs::format(&store, format, &*clock).expect("an empty store takes a file system");
        let config = Config { io_threads: 1, ..config };
        let fs = Fs::mount(Arc::clone(&store), config, clock.clone()).expect("mounted");
        assert_eq!(fs.is_admitted(), Ok(true));
        Watched { store, clock, fs }
    }
}

/// Waits for what threads do, with an end.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}: not within 30 seconds");
        std::thread::sleep(Duration::from_millis(1));
    }
}
