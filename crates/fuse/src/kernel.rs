//! What this mount and the kernel agree on when they first meet, and what was agreed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use tidefs_fs::{KernelCache, Lifetimes};
use tidefs_model::Ino;
use tidefs_session::{Agreed, Errno, INodeNo, InitFlags, KernelConfig, Notifier};

use crate::commands::Commands;
use crate::expiring;
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
    /// To the thread that has it look at names again.
    expiring: OnceLock<SyncSender<expiring::Batch>>,
    /// How long each of them took.
    pub latencies: Latencies,
    /// Which command asked for them.
    pub commands: Commands,
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

    /// The way to tell the kernel something unasked, set before the first request.
    pub fn set_notifier(&self, notifier: Notifier) {
        // There is one session, hence one notifier.
        let _ = self.notifier.set(notifier);
    }

    /// What is to be done by the thread that has the kernel look at names again, and the way to the kernel; to be asked
    /// for once, before the first request.
    pub fn expired(&self) -> Option<(Receiver<expiring::Batch>, Notifier)> {
        let notifier = self.notifier.get()?.clone();
        let (thread, batches) = expiring::channel();
        self.expiring.set(thread).ok()?;
        Some((batches, notifier))
    }

    /// Has the kernel drop what it keeps of a file: bytes and attributes. Waits for reads of the
    /// file that are under way.
    pub fn drop_pages(&self, ino: INodeNo) {
        self.tell(ino, |notifier| notifier.drop_pages(ino));
    }

    /// Has the kernel drop what it keeps of a part of a file, and its attributes. Waits for whoever
    /// reads or writes there.
    pub fn drop_range(&self, ino: INodeNo, range: Range<u64>) {
        self.tell(ino, |notifier| notifier.drop_range(ino, range));
    }

    /// Has the kernel take zeros for a part of one page of a file.
    pub fn zero_page(&self, ino: INodeNo, part: Range<u64>) {
        let zeros = vec![0; (part.end - part.start) as usize];
        self.tell(ino, |notifier| notifier.store(ino, part.start, &zeros));
    }

    /// Has the kernel know that a file reaches so far, of which this is the last byte.
    pub fn reaches(&self, ino: INodeNo, offset: u64, byte: u8) {
        self.tell(ino, |notifier| notifier.store(ino, offset, &[byte]));
    }

    /// What a kernel has of no inode it need not be told.
    fn tell(&self, ino: INodeNo, notice: impl FnOnce(&Notifier) -> Result<(), Errno>) {
        match self.notifier.get().map(notice) {
            None | Some(Ok(()) | Err(Errno::NOENT)) => {}
            Some(Err(error)) => tracing::debug!(%error, %ino, "the kernel takes no notice"),
        }
    }

    /// Returns when all answers that the kernel may keep, and that were about to be handed to it, have been.
    pub fn wait_for_all_answers(&self) {
        drop(self.answers.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Has the kernel send all requests again that were read and not answered.
    pub fn send_again(&self) -> Result<(), Errno> {
        self.notifier.get().map_or(Ok(()), Notifier::resend)
    }

    /// No request is under way.
    pub fn is_idle(&self) -> bool {
        self.requests.load(Ordering::SeqCst) == 0
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
        self.wait_for_all_answers();
    }

    fn forget(&self, ino: Ino) -> bool {
        // A kernel that has let go of the mount has no inode of it any more, and does not say so.
        if self.over.load(Ordering::SeqCst) {
            return true;
        }
        let notifier = self.notifier.get();
        let forgotten = notifier.map(|notifier| notifier.forget_attributes(INodeNo(ino.0)));
        forgotten != Some(Err(Errno::NOENT))
    }

    fn prune(&self, inos: &[Ino]) {
        if kernel_release() < PRUNES_SINCE || self.over.load(Ordering::SeqCst) {
            return;
        }
        let numbers = inos.iter().map(|ino| INodeNo(ino.0));
        if let Some(notifier) = self.notifier.get()
            && let Err(error) = notifier.prune(numbers)
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

/// What is asked for where the kernel offers it, and why. Never the kernel's whole offer: some of
/// it (requests over io_uring) would go to queues that nobody reads.
const WANTED: [InitFlags; 8] = [
    // Look-ups and listings in one directory at the same time.
    InitFlags::PARALLEL_DIROPS,
    // Listings with attributes, while programs look at them.
    InitFlags::DO_READDIRPLUS.union(InitFlags::READDIRPLUS_AUTO),
    // Several requests of one direct read or write in flight.
    InitFlags::ASYNC_DIO,
    // One request opens and truncates.
    InitFlags::ATOMIC_O_TRUNC,
    // The file system clears set-user-id bits, so the kernel need not ask for
    // `security.capability` at each write.
    InitFlags::HANDLE_KILLPRIV_V2,
    // Locks come here, so that other mounts can be told.
    InitFlags::POSIX_LOCKS.union(InitFlags::FLOCK_LOCKS),
    // The mount can be handed over.
    InitFlags::HAS_RESEND,
    // A link's target never changes.
    InitFlags::CACHE_SYMLINKS,
];

/// Settles what was agreed on with somebody else, who served the mount before.
pub fn go_on(agreed: &Agreed, kernel: &Kernel) {
    let has = |flags| agreed.flags.contains(flags);
    let drops_written_pages = kernel_release() >= DROPS_WRITTEN_PAGES_SINCE;
    kernel.drops_written_pages.store(drops_written_pages, Ordering::Relaxed);
    kernel.maps_past_pages.store(has(InitFlags::DIRECT_IO_ALLOW_MMAP), Ordering::Relaxed);
    kernel.expires_names.store(has(InitFlags::HAS_EXPIRE_ONLY), Ordering::Relaxed);
}

/// Settles the connection. The writeback cache is not asked for: `docs/decisions/` says why.
pub fn negotiate(config: &mut KernelConfig, kernel: &Kernel, passthrough: bool) {
    for wanted in WANTED {
        if let Err(missing) = config.add_capabilities(wanted) {
            tracing::debug!(?missing, "the kernel does not offer a capability");
        }
    }
    let drops_written_pages = kernel_release() >= DROPS_WRITTEN_PAGES_SINCE;
    kernel.drops_written_pages.store(drops_written_pages, Ordering::Relaxed);
    let maps_past_pages = config.add_capabilities(InitFlags::DIRECT_IO_ALLOW_MMAP).is_ok();
    kernel.maps_past_pages.store(maps_past_pages, Ordering::Relaxed);
    let expires_names = config.add_capabilities(InitFlags::HAS_EXPIRE_ONLY).is_ok();
    kernel.expires_names.store(expires_names, Ordering::Relaxed);
    config.set_max_write(REQUEST_BYTES_MAX);
    config.set_max_background(BACKGROUND_REQUESTS_MAX);
    if passthrough && config.add_capabilities(InitFlags::PASSTHROUGH).is_ok() {
        // Depth 1: the files behind are on no stacked file system themselves.
        config.set_max_stack_depth(1);
        kernel.passthrough.store(true, Ordering::Relaxed);
    }
}
