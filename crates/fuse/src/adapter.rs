//! The session's callbacks over an [`Fs`]: each request is translated, carried out, and its
//! answer translated back. No cache and no policy lives here.
//!
//! The kernel checks permissions (`default_permissions`) and applies the umask. Locks on files come
//! here, those on directories hold between the programs of one mount. Device controls and polling
//! are not offered.
//!
//! A panic in a request is logged and answered with an input/output error; the mount lives on.

mod convert;
mod listing;
mod locks;
mod looking;
mod mapped;
mod names;
mod opening;
mod reply;
mod requests;
mod resting;
mod waiting;
mod writing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tidefs_fs::{Error, Fs};
use tidefs_model::Ino;
use tidefs_session::{Errno, Request};
use tidefs_store::Store;
use tidefs_store::caller::{self, Caller};

use crate::errno;
use crate::following::Following;
use crate::kernel::Kernel;
use crate::lock_waits::LockWaits;
use crate::misplaced::Misplaced;
use crate::options::MountOptions;
use crate::turns::Turns;
use crate::waiting_room::{WaitingRoom, begins_again, has_gone};

use reply::Answers;

pub use convert::{GENERATION, absence, open_mode};
pub use reply::served_flags;

/// What the session calls.
pub struct Adapter<S: Store> {
    fs: Arc<Fs<S>>,
    kernel: Arc<Kernel>,
    /// Passthrough was asked for when the mount was made.
    passthrough: bool,
    answers: Answers<S>,
    lock_waits: Arc<LockWaits<S>>,
    misplaced: Arc<Misplaced>,
    /// Where the mount may spin for it.
    following: Option<Following>,
    waiting_room: WaitingRoom,
    /// Where the kernel is told about its pages.
    page_room: WaitingRoom,
    /// Where requests go when the threads that serve are nearly all in use.
    crowd: WaitingRoom,
    /// Inodes that the kernel has forgotten meanwhile, with how often each was looked up.
    forgotten: Arc<Mutex<Vec<(Ino, u64)>>>,
    turns: Arc<Turns>,
}

impl<S: Store> Drop for Adapter<S> {
    fn drop(&mut self) {
        self.lock_waits.close();
    }
}

impl<S: Store> Adapter<S> {
    pub fn new(
        fs: Arc<Fs<S>>,
        kernel: Arc<Kernel>,
        turns: Arc<Turns>,
        options: &MountOptions,
    ) -> Adapter<S> {
        let lock_waits = LockWaits::new(fs.clone(), kernel.clone());
        let misplaced = Misplaced::new(kernel.clone());
        let answers = Answers::new(fs.clone(), kernel.clone(), misplaced.clone());
        Adapter {
            fs,
            kernel,
            passthrough: options.passthrough,
            answers,
            lock_waits,
            misplaced,
            following: options.spin.then(Following::new),
            waiting_room: WaitingRoom::default(),
            page_room: WaitingRoom::default(),
            crowd: WaitingRoom::for_crowds(),
            forgotten: Arc::default(),
            turns,
        }
    }

    /// Carries out one request that never waits for room: it looks, or frees memory. What fails by the
    /// store's or this program's doing is logged, because the program that asked learns only a number.
    fn run<T>(
        &self,
        request: &Request,
        name: &'static str,
        work: impl FnOnce(&Fs<S>) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        self.run_with_bytes(request, 0, name, work)
    }

    /// The same for a request that carries bytes, or asks for them.
    fn run_with_bytes<T>(
        &self,
        request: &Request,
        bytes: usize,
        name: &'static str,
        work: impl FnOnce(&Fs<S>) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let _under_way = self.kernel.begin().ok_or(errno::MOUNT_OVER)?;
        let begun = Instant::now();
        let following = self.following.as_ref();
        let _served = following.and_then(|it| it.serve(request.pid(), bytes, begun));
        let asked = Asked { begun, ..self.asked(request, name) };
        carry_out(&self.kernel, asked, name, || work(&self.fs))
    }

    fn asked(&self, request: &Request, name: &str) -> Asked {
        let term = if IN_ANY_CASE.contains(&name) { u64::MAX } else { self.fs.asked_term() };
        Asked { by: request.pid(), begun: Instant::now(), term }
    }
}

/// What is answered also where the mount was expelled meanwhile and lost what a program may have counted on: looks at
/// names and attributes, as they are then, and the end of a descriptor.
const IN_ANY_CASE: [&str; 13] = [
    "lookup",
    "getattr",
    "readlink",
    "lseek",
    "opendir",
    "readdir",
    "readdirplus",
    "statfs",
    "getxattr",
    "listxattr",
    "getlk",
    "release",
    "releasedir",
];

/// By whom and when something was asked for.
#[derive(Clone, Copy)]
struct Asked {
    /// A thread.
    by: u32,
    begun: Instant,
    /// The mount's term at that time, as programs knew it.
    term: u64,
}

/// Does what nobody waits for: a request without an answer, or what one leaves to be done after it.
/// Nobody is told what fails.
fn go_on<S: Store>(fs: &Fs<S>, kernel: &Kernel, work: impl FnOnce(&Fs<S>)) {
    let Some(_under_way) = kernel.begin() else { return };
    // It does not wait for room on a thread that serves: what finds none is left as it is.
    let nobody = Caller { number: 0, has_gone: |_| true, begins_again: || true };
    let work = AssertUnwindSafe(|| caller::serve(Some(nobody), || work(fs)));
    if catch_unwind(work).is_err() {
        tracing::error!("what nobody waits for panicked");
    }
}

/// Does what a thread of a program asked for, and takes note of how that went.
fn carry_out<T>(
    kernel: &Kernel,
    Asked { by, begun, term }: Asked,
    name: &'static str,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Errno> {
    let asker = Caller { number: by, has_gone, begins_again };
    let work = || caller::serve(Some(asker), || caller::asked_in(term, work));
    let done = catch_unwind(AssertUnwindSafe(work));
    let count = || kernel.latencies.count(begun, Instant::now());
    match done {
        Ok(Ok(answer)) => {
            count();
            Ok(answer)
        }
        Ok(Err(error)) => {
            let number = errno::of(&error);
            // What is begun again elsewhere ends there.
            if !(number == Errno::INTR && begins_again()) {
                count();
            }
            if matches!(number, Errno::IO | Errno::NOSPC) {
                kernel.latencies.failed();
            }
            if number == Errno::IO {
                tracing::warn!(request = name, %error, "a request failed");
            }
            Err(number)
        }
        Err(_) => {
            count();
            kernel.latencies.failed();
            tracing::error!(request = name, "a request panicked; it is answered with an I/O error");
            Err(errno::PANICKED)
        }
    }
}
