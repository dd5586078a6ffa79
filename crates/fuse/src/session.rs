//! A mount from beginning to end: joining, mounting, serving, unmounting.
//!
//! Threads of the FUSE session serve requests; one more, the ticker, does the file system's
//! housekeeping and makes the kernel forget when another mount joins. Whatever ends the session,
//! be it [`Session::unmount`], a drop, or somebody else's `umount`, what was written is written
//! back before the file system is left.

mod hand_over;
mod ticker;
mod worker;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidefs_fs::{Error, Fs};
use tidefs_model::Ino;
use tidefs_session::{Filesystem, Options};
use tidefs_store::Store;

use crate::adapter::Adapter;
use crate::commands::CommandUse;
use crate::device;
use crate::error::{MountError, UnmountError};
use crate::kernel::{Kernel, forgets_attributes};
use crate::latency::Requests;
use crate::mounts::{self, Mount};
use crate::options::{MountOptions, Rings};
use crate::turns::Turns;
use crate::unmount::{self, Left, Switch};
use hand_over::{Givable, Reins};
pub use hand_over::{GiveError, Handed, TakenOver, kernel_sends_again};
use ticker::Ticker;
use worker::Worker;

/// Longer than a mount that died without a word holds others up.
const ADMISSION_WAIT: Duration = Duration::from_secs(30);
const ADMISSION_POLL: Duration = Duration::from_millis(10);
/// How long the server may take to notice that its mount is gone.
const SERVER_WAIT: Duration = Duration::from_secs(10);
/// The same for a mount that programs still use, before and after its connection is cut.
const DETACHED_WAIT: Duration = Duration::from_secs(1);
/// What was written waits so long for room while a mount ends.
const ROOM_WAIT: Duration = Duration::from_secs(120);
/// The ticker may be in the middle of a call to the store.
const TICKER_WAIT: Duration = Duration::from_secs(10);

/// What does not come by rings is short, and waits for nobody.
const THREADS_BESIDE_RINGS: usize = 2;

/// What a session serves, besides answering requests.
pub(crate) trait Served: Send + Sync {
    /// `true`: the kernel must forget names and attributes before the next call.
    fn beat(&self) -> Result<bool, Error>;
    /// Ends lifetimes of what the kernel was told, and answers how long until the others have lapsed.
    fn end_lifetimes(&self) -> Duration {
        Duration::ZERO
    }
    /// Another mount waits for the next calls.
    fn is_about_to_share(&self) -> bool {
        false
    }
    /// Housekeeping that may have to wait.
    fn keep_up(&self);
    /// Files of which the kernel is to drop its pages.
    fn take_stale_pages(&self) -> BTreeSet<Ino> {
        BTreeSet::new()
    }
    /// Lets go of what other mounts want to change. `true`: to be called again soon.
    fn answer_recalls(&self) -> Result<bool, Error> {
        Ok(false)
    }
    /// Another mount asked a moment ago for what this one kept.
    fn was_recalled_lately(&self) -> bool {
        false
    }
    /// What waits for room waits no longer.
    fn stop_waiting(&self) {}
    /// Writes everything back; nothing is served any more.
    fn leave(&self) -> Result<(), Error>;
}

impl<S: Store> Served for Fs<S> {
    fn beat(&self) -> Result<bool, Error> {
        Fs::beat(self)
    }

    fn end_lifetimes(&self) -> Duration {
        Fs::end_lifetimes(self)
    }

    fn is_about_to_share(&self) -> bool {
        Fs::is_about_to_share(self)
    }

    fn keep_up(&self) {
        Fs::keep_up(self);
    }

    fn take_stale_pages(&self) -> BTreeSet<Ino> {
        Fs::take_stale_pages(self)
    }

    fn answer_recalls(&self) -> Result<bool, Error> {
        Fs::answer_recalls(self)
    }

    fn was_recalled_lately(&self) -> bool {
        Fs::was_recalled_lately(self)
    }

    fn stop_waiting(&self) {
        Fs::stop_waiting(self);
    }

    fn leave(&self) -> Result<(), Error> {
        Fs::unmount(self)
    }
}

/// A file system that is mounted. Dropping it unmounts.
pub struct Session {
    mount: Mount,
    reins: Reins,
    busy_wait: Duration,
    by_rings: bool,
    kernel: Arc<Kernel>,
    served: Arc<dyn Served>,
    server: Worker,
    ticker: Ticker,
    ended: bool,
    /// Nobody waits for room any more.
    given_up: AtomicBool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("mount", &self.mount).finish_non_exhaustive()
    }
}

impl Session {
    /// Says early whether a mount could be made, without making one.
    pub fn check(options: &MountOptions) -> Result<(), MountError> {
        device::check_mountpoint(&options.mountpoint)?;
        device::check_means(options)
    }

    /// Mounts a file system and serves it. When it cannot be mounted it is left again.
    pub fn mount<S: Store>(fs: Arc<Fs<S>>, options: &MountOptions) -> Result<Session, MountError> {
        let kernel = Arc::new(Kernel::default());
        let (adapter, turns) = adapter(&fs, &kernel, options);
        let givable = Givable { fs: fs.clone(), rests: adapter.quiet() };
        let mounted = wait_for_admission(&*fs).and_then(|()| {
            Session::start(adapter, Some(turns), fs.clone(), kernel, (options, Some(givable)))
        });
        if mounted.is_err()
            && let Err(error) = fs.unmount()
        {
            tracing::warn!(%error, "the file system was not left in order");
        }
        mounted
    }

    pub(crate) fn start(
        layer: impl Filesystem,
        turns: Option<Arc<Turns>>,
        served: Arc<dyn Served>,
        kernel: Arc<Kernel>,
        (options, givable): (&MountOptions, Option<Givable>),
    ) -> Result<Session, MountError> {
        let point = device::check_mountpoint(&options.mountpoint)?;
        let connection = device::mount(&point, options)?;
        // Somebody may have taken it away by now, and mounted something else; or moved what is below it.
        let place = point.place();
        let mount = mounts::on(&place)
            .and_then(|top| {
                let ours = top.filter(|mount| mount.is(options.number));
                ours.ok_or_else(|| std::io::ErrorKind::NotFound.into())
            })
            .map_err(|source| MountError::Refused { path: place.clone(), source })?;
        let mut undo = DetachOnDrop(Some(&mount));
        if place != point.path {
            return Err(MountError::Moved { path: point.path });
        }
        let rings = options.rings != Rings::Off;
        let session = tidefs_session::Session::begin(layer, connection, rings)
            .map_err(|source| MountError::Handshake { source })?;
        if options.rings == Rings::On && !session.is_by_rings() {
            return Err(MountError::NoRings);
        }
        kernel.set_notifier(session.notifier());
        let served =
            Session::serve(session, turns, served, kernel, mount.clone(), (options, givable));
        if served.is_ok() {
            undo.0 = None;
        }
        served
    }

    /// Serves what was agreed on with the kernel. On failure nobody serves the mount.
    fn serve(
        session: tidefs_session::Session<impl Filesystem>,
        turns: Option<Arc<Turns>>,
        served: Arc<dyn Served>,
        kernel: Arc<Kernel>,
        mount: Mount,
        (options, givable): (&MountOptions, Option<Givable>),
    ) -> Result<Session, MountError> {
        keep_stripes_in_heaps();
        let connection = || session.connection().map_err(|source| MountError::Handshake { source });
        let (watched, by_rings) = (connection()?, session.is_by_rings());
        let (halt, agreed) = (session.halt(), session.agreed());
        let reins = Reins { halt, connection: connection()?, agreed, givable };
        let threads = match turns {
            Some(_) => options.threads_max.max(options.threads),
            None => options.threads,
        };
        match turns {
            Some(turns) if by_rings => turns.never_rest(),
            Some(turns) => {
                turns.watch(watched).map_err(|source| MountError::Thread { source })?;
            }
            None => {}
        }
        let served_by = Options {
            threads,
            descriptor_per_thread: options.descriptor_per_thread,
            threads_beside_rings: THREADS_BESIDE_RINGS,
        };
        let server = Worker::spawn("tidefs-fuse", move || {
            if let Err(error) = session.run(served_by) {
                tracing::error!(%error, "the mount ends");
            }
        })
        .map_err(|source| MountError::Thread { source })?;
        raise_read_ahead(&mount, options.read_ahead_kib);
        let ticker = Ticker::start(served.clone(), kernel.clone())
            .map_err(|source| MountError::Thread { source })?;
        Ok(Session {
            mount,
            reins,
            busy_wait: options.busy_wait,
            by_rings,
            kernel,
            served,
            server,
            ticker,
            ended: false,
            given_up: AtomicBool::new(false),
        })
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mount.point
    }

    /// The kernel reads and writes pinned files by itself.
    pub fn passes_through(&self) -> bool {
        self.kernel.passes_through()
    }

    /// Requests come by a ring of each processor.
    pub fn is_by_rings(&self) -> bool {
        self.by_rings
    }

    /// The requests that were served until now, and how long they took.
    pub fn requests(&self) -> Requests {
        self.kernel.latencies.snapshot()
    }

    /// Which commands asked for them, and for how many bytes.
    pub fn commands(&self) -> Vec<CommandUse> {
        self.kernel.commands.snapshot()
    }

    /// The mount is gone, by whoever's doing.
    pub fn is_over(&self) -> bool {
        self.server.is_over()
    }

    /// Says whether the mount is gone, without the session.
    pub fn watcher(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let server = self.server.clone();
        move || server.is_over()
    }

    /// Waits until the mount is gone; `false` when it is still there after `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        self.server.wait(at_most)
    }

    /// What was written and waits for room waits no longer: nobody will read it.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.served.stop_waiting();
    }

    /// Unmounts, writes back and leaves the file system. A mount that is busy is detached from
    /// those who use it after a while, and their requests then fail. Does nothing when called
    /// again.
    pub fn unmount(&mut self) -> Result<(), UnmountError> {
        if self.ended {
            return Ok(());
        }
        let switch = Switch::of(&self.mount);
        let left = unmount::end(&self.mount, self.busy_wait)?;
        self.ended = true;
        let served_to_the_end = match left {
            Left::Clean => self.server.wait(SERVER_WAIT),
            Left::Detached => self.server.wait(DETACHED_WAIT),
        };
        if !served_to_the_end {
            // Whoever wrote has lost the mount, and a full store would hold up its end.
            self.give_up();
            if switch.is_some_and(|switch| switch.abort()) {
                self.server.wait(DETACHED_WAIT);
            }
        }
        self.finish();
        self.ticker.stop(TICKER_WAIT);
        self.leave()?;
        match left {
            Left::Detached if !served_to_the_end => {
                Err(UnmountError::Busy { path: self.mount.point.clone() })
            }
            Left::Clean | Left::Detached => Ok(()),
        }
    }
}

impl Session {
    /// Lets no request in, and waits for those under way: for a program that was killed, bytes may still
    /// wait for room.
    fn finish(&self) {
        if self.kernel.finish(SERVER_WAIT) {
            return;
        }
        let finished = !self.given_up.load(Ordering::Acquire) && {
            tracing::info!("waiting up to {} s for what was written", ROOM_WAIT.as_secs());
            self.kernel.finish(ROOM_WAIT) || {
                self.give_up();
                self.kernel.finish(SERVER_WAIT)
            }
        };
        if !finished {
            tracing::warn!("requests hang; what they write may be lost");
        }
    }

    /// Leaves the file system; what finds no room in time is given up, and told.
    fn leave(&self) -> Result<(), Error> {
        let (left, leaves) = channel::<()>();
        let served = self.served.clone();
        let guard = std::thread::Builder::new().name("tidefs-leaves".to_owned()).spawn(move || {
            if leaves.recv_timeout(ROOM_WAIT) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("there is no room for all that was written; it is given up");
                served.stop_waiting();
            }
        });
        let done = self.served.leave();
        drop(left);
        // Without it the store ends the wait.
        let _ = guard.map(JoinHandle::join);
        done
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            tracing::warn!(%error, "the mount did not end in order");
        }
    }
}

/// What translates for the kernel of one mount, and the threads that have turns at it.
fn adapter<S: Store>(
    fs: &Arc<Fs<S>>,
    kernel: &Arc<Kernel>,
    options: &MountOptions,
) -> (Adapter<S>, Arc<Turns>) {
    if forgets_attributes() {
        fs.set_kernel_cache(kernel.clone());
    }
    let counting = kernel.clone();
    fs.watch_growth(Box::new(move |ino, bytes| counting.commands.grew(ino, bytes)));
    fs.keep_what_kernel_has();
    let threads = options.threads_max.max(options.threads);
    let turns = Arc::new(Turns::new(threads, options.threads));
    let adapter = Adapter::new(fs.clone(), kernel.clone(), turns.clone(), options);
    (adapter, turns)
}

/// Takes a mount away that is not served after all.
struct DetachOnDrop<'a>(Option<&'a Mount>);

impl Drop for DetachOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(mount) = self.0
            && let Err(error) = unmount::take_away(mount)
        {
            tracing::warn!(%error, "a mount that failed is left behind");
        }
    }
}

fn wait_for_admission<S: Store>(fs: &Fs<S>) -> Result<(), MountError> {
    let give_up = Instant::now() + ADMISSION_WAIT;
    while !fs.is_admitted()? {
        if Instant::now() >= give_up {
            return Err(MountError::NotAdmitted { seconds: ADMISSION_WAIT.as_secs() });
        }
        std::thread::sleep(ADMISSION_POLL);
        // Nothing is kept by a kernel yet, so there is nothing to drop; the beat is what counts.
        fs.tick()?;
    }
    Ok(())
}

/// Stripes come and go, and what the C library takes from the kernel for each of them is cleared each time. So
/// they come from its heaps, which keep what was given back up to a bound.
#[cfg(target_env = "gnu")]
fn keep_stripes_in_heaps() {
    const APART_FROM: libc::c_int = 8 << 20;
    const KEPT_MOST: libc::c_int = 32 << 20;
    // SAFETY: both are settings that may be changed at any time (mallopt(3)).
    let set = unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, APART_FROM)
            & libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_MOST)
    };
    if set == 0 {
        tracing::debug!("the C library keeps its own rule for large buffers");
    }
}

#[cfg(not(target_env = "gnu"))]
fn keep_stripes_in_heaps() {}

/// The kernel's own default of 128 KiB keeps one request in flight; only root may change it.
fn raise_read_ahead(mount: &Mount, kib: u32) {
    let (major, minor) = mount.device;
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&setting, kib.to_string()) {
        tracing::debug!(%setting, %error, "the kernel's read-ahead stays as it is");
    }
}
