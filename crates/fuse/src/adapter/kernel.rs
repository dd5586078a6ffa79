//! What this mount and the kernel agree on when they first meet, and what was agreed.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use fuser::{INodeNo, InitFlags, KernelConfig, Notifier};
use rustix::io::Errno;
use tidefs_fs::{KernelCache, Lifetimes};
use tidefs_model::Ino;

use super::expiring;
use crate::latency::Latencies;
use crate::passthrough::kernel_release;

/// The largest request: one stripe of the default size, and the most pages (256) that a kernel
/// takes without a raised limit.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that nobody waits for (read-ahead above all) in flight at a time.
const BACKGROUND_REQUESTS_MAX: u16 = 64;
/// Before, pages were dropped in front of a write that went past them, but not behind it.
const DROPS_WRITTEN_PAGES_SINCE: (u32, u32) = (6, 18);

/// Before, a kernel that had given up an inode while it asked for it believed an old answer.
const DOUBTS_OLD_ATTRIBUTES_SINCE: (u32, u32) = (6, 13);

/// Before, a kernel could not be asked to give up inodes that nobody uses.
const PRUNES_SINCE: (u32, u32) = (6, 18);

/// Whether a kernel can be relied on to forget attributes.
pub fn forgets_attributes() -> bool {
    kernel_release() >= DOUBTS_OLD_ATTRIBUTES_SINCE
}

/// What the kernel of this mount can do. Shared by the adapter and the session.
#[derive(Debug, Default)]
pub struct Kernel {
    passthrough: AtomicBool,
    drops_written_pages: AtomicBool,
    maps_past_pages: AtomicBool,
    expires_names: AtomicBool,
    answers: RwLock<()>,
    over: AtomicBool,
    requests: AtomicUsize,
    notifier: OnceLock<Notifier>,
    connection: OnceLock<OwnedFd>,
    /// To the thread that has it look at names again.
    expiring: OnceLock<SyncSender<expiring::Batch>>,
    /// How long each of them took.
    pub latencies: Latencies,
}

/// A request under way.
pub struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Kernel {
    /// Open files may be handed to the kernel.
    pub fn passes_through(&self) -> bool {
        self.passthrough.load(Ordering::Relaxed)
    }

    /// A write that goes past the kernel's pages drops those that others fill meanwhile.
    pub fn drops_written_pages(&self) -> bool {
        self.drops_written_pages.load(Ordering::Relaxed)
    }

    /// A handle whose reads and writes go past the kernel's pages can be mapped all the same.
    pub fn maps_past_pages(&self) -> bool {
        self.maps_past_pages.load(Ordering::Relaxed)
    }

    /// Sends an answer that the kernel may keep. Nothing that waits may be done in it.
    pub fn answer(&self, lifetimes: impl FnOnce() -> Lifetimes, send: impl FnOnce(&Lifetimes)) {
        let _answering = self.answering();
        send(&lifetimes());
    }

    /// Held while an answer that the kernel may keep is made and sent.
    pub fn answering(&self) -> RwLockReadGuard<'_, ()> {
        self.answers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ways to tell the kernel something unasked, set before the first request.
    pub fn set_notifier(&self, notifier: Notifier, connection: OwnedFd) {
        // There is one session, hence one notifier.
        let _ = self.notifier.set(notifier);
        let _ = self.connection.set(connection);
    }

    /// What is to be done by the thread that has the kernel look at names again, and the way to the kernel; to be asked
    /// for once, before the first request.
    pub fn expired(&self) -> Option<(Receiver<expiring::Batch>, OwnedFd)> {
        let connection = self.connection.get()?.try_clone().ok()?;
        let (thread, batches) = expiring::channel();
        self.expiring.set(thread).ok()?;
        Some((batches, connection))
    }

    /// Has the kernel drop what it keeps of a file: bytes and attributes. Waits for reads of the
    /// file that are under way.
    pub fn drop_pages(&self, ino: INodeNo) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.inval_inode(ino, 0, 0)
        {
            tracing::debug!(%error, %ino, "the kernel does not drop a file's pages");
        }
    }

    /// Has the kernel drop what it keeps of a part of a file, and its attributes. Waits for whoever
    /// reads or writes there.
    pub fn drop_range(&self, ino: INodeNo, range: Range<u64>) {
        // Files end long before the numbers do.
        let (start, length) = (range.start as i64, (range.end - range.start) as i64);
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.inval_inode(ino, start, length)
        {
            tracing::debug!(%error, %ino, "the kernel does not drop pages of a file");
        }
    }

    /// Has the kernel take zeros for a part of one page of a file.
    pub fn zero_page(&self, ino: INodeNo, part: Range<u64>) {
        let zeros = vec![0; (part.end - part.start) as usize];
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.store(ino, part.start, &zeros)
        {
            tracing::debug!(%error, %ino, "the kernel keeps what lies behind the end of a file");
        }
    }

    /// Has the kernel know that a file reaches so far, of which this is the last byte.
    pub fn reaches(&self, ino: INodeNo, offset: u64, byte: u8) {
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.store(ino, offset, &[byte])
        {
            tracing::debug!(%error, %ino, "the kernel takes no byte of a file");
        }
    }

    /// Lets a request in. `None` once the mount is over: what is being left serves nobody.
    pub fn begin(&self) -> Option<UnderWay<'_>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(&self.requests);
        (!self.over.load(Ordering::SeqCst)).then_some(under_way)
    }

    /// Lets no request in any more, and waits for those under way. `false`: after `at_most`
    /// some still are.
    pub fn finish(&self, at_most: Duration) -> bool {
        self.over.store(true, Ordering::SeqCst);
        let give_up = Instant::now() + at_most;
        while self.requests.load(Ordering::SeqCst) > 0 {
            if Instant::now() >= give_up {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl KernelCache for Kernel {
    fn wait_for_answers(&self) {
        drop(self.answers.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn forget(&self, ino: Ino) -> bool {
        // A kernel that has let go of the mount has no inode of it any more, and does not say so.
        if self.over.load(Ordering::SeqCst) {
            return true;
        }
        let forgotten = self.connection.get().map(|connection| forget_attributes(connection, ino));
        forgotten != Some(Err(Errno::NOENT))
    }

    fn prune(&self, inos: &[Ino]) {
        if kernel_release() < PRUNES_SINCE || self.over.load(Ordering::SeqCst) {
            return;
        }
        if let Some(connection) = self.connection.get()
            && let Err(error) = prune_inodes(connection, inos)
        {
            tracing::debug!(%error, "the kernel gives up no inodes");
        }
    }

    fn expires_names(&self) -> bool {
        self.expires_names.load(Ordering::Relaxed) && self.expiring.get().is_some()
    }

    fn wait_until_taken_in(&self, threads: &[u32], at_most: Duration) {
        expiring::wait_until_taken_in(threads, at_most);
    }

    fn expire_names(&self, names: Vec<(Ino, Box<[u8]>)>, at_most: Duration) -> bool {
        if self.over.load(Ordering::SeqCst) {
            return true;
        }
        let thread = self.expiring.get();
        thread.is_some_and(|thread| expiring::expire(thread, names, at_most))
    }
}

/// Asks the kernel to give up inodes, as far as nobody uses them.
fn prune_inodes(connection: &OwnedFd, inos: &[Ino]) -> Result<(), Errno> {
    /// FUSE_NOTIFY_PRUNE.
    const PRUNE: i32 = 9;
    const HEAD_BYTES: usize = 32;
    let bytes = HEAD_BYTES + 8 * inos.len();
    let mut notice = Vec::with_capacity(bytes);
    notice.extend((bytes as u32).to_ne_bytes());
    notice.extend(PRUNE.to_ne_bytes());
    notice.extend(0_u64.to_ne_bytes());
    notice.extend((inos.len() as u32).to_ne_bytes());
    notice.extend([0; 12]);
    inos.iter().for_each(|ino| notice.extend(ino.0.to_ne_bytes()));
    rustix::io::write(connection, &notice).map(drop)
}

/// Tells the kernel that the attributes that it has of an inode are out of date. The library's notice does
/// not say that the kernel has no such inode.
fn forget_attributes(connection: &OwnedFd, ino: Ino) -> Result<(), Errno> {
    /// FUSE_NOTIFY_INVAL_INODE; a notice has it where an answer has its error.
    const INVALIDATE_INODE: i32 = 2;
    const NOTICE_BYTES: u32 = 40;
    /// Before a file's bytes, whose pages stay.
    const OFFSET: i64 = -1;
    let mut notice = Vec::with_capacity(NOTICE_BYTES as usize);
    notice.extend(NOTICE_BYTES.to_ne_bytes());
    notice.extend(INVALIDATE_INODE.to_ne_bytes());
    notice.extend(0_u64.to_ne_bytes());
    notice.extend(ino.0.to_ne_bytes());
    notice.extend(OFFSET.to_ne_bytes());
    notice.extend(0_i64.to_ne_bytes());
    rustix::io::write(connection, &notice).map(drop)
}

/// What is asked for where the kernel offers it, and why. Never the kernel's whole offer: some of
/// it (requests over io_uring) would go to queues that nobody reads.
const WANTED: [InitFlags; 7] = [
    // Look-ups and listings in one directory at the same time.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Listings with attributes, while programs look at them.
    InitFlags::FUSE_DO_READDIRPLUS.union(InitFlags::FUSE_READDIRPLUS_AUTO),
    // Several requests of one direct read or write in flight.
    InitFlags::FUSE_ASYNC_DIO,
    // One request opens and truncates.
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    // The file system clears set-user-id bits, so the kernel need not ask for
    // `security.capability` at each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // Locks come here, so that other mounts can be told.
    InitFlags::FUSE_POSIX_LOCKS.union(InitFlags::FUSE_FLOCK_LOCKS),
    // A link's target never changes.
    InitFlags::FUSE_CACHE_SYMLINKS,
];

/// Settles the connection. The writeback cache is not asked for: `docs/decisions/` says why.
pub fn negotiate(config: &mut KernelConfig, kernel: &Kernel, passthrough: bool) {
    for wanted in WANTED {
        if let Err(missing) = config.add_capabilities(wanted) {
            tracing::debug!(?missing, "the kernel does not offer a capability");
        }
    }
    let drops_written_pages = kernel_release() >= DROPS_WRITTEN_PAGES_SINCE;
    kernel.drops_written_pages.store(drops_written_pages, Ordering::Relaxed);
    let maps_past_pages = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
    kernel.maps_past_pages.store(maps_past_pages, Ordering::Relaxed);
    let expires_names = config.add_capabilities(InitFlags::FUSE_HAS_EXPIRE_ONLY).is_ok();
    kernel.expires_names.store(expires_names, Ordering::Relaxed);
    keep_default_if_refused(config.set_max_write(REQUEST_BYTES_MAX));
    keep_default_if_refused(config.set_max_background(BACKGROUND_REQUESTS_MAX));
    if passthrough && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok() {
        // Depth 1: the files behind are on no stacked file system themselves.
        keep_default_if_refused(config.set_max_stack_depth(1));
        kernel.passthrough.store(true, Ordering::Relaxed);
    }
}

/// The library refuses a number out of its range; its own default then stays.
fn keep_default_if_refused<T: std::fmt::Debug>(result: Result<T, T>) {
    if let Err(nearest) = result {
        tracing::debug!(?nearest, "a setting of the connection is out of range");
    }
}
