//! How a mount is made.

use std::path::PathBuf;
use std::time::Duration;

/// Whether users other than the one who mounts may use the mount; the permissions of each file
/// are checked in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowOther {
    /// Where this user is allowed to allow it.
    #[default]
    Auto,
    Yes,
    No,
}

/// Whether requests come by a ring of each processor (FUSE over io_uring).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rings {
    /// Where the kernel offers it.
    #[default]
    Auto,
    /// Or there is no mount.
    On,
    Off,
}

/// Of one mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// An empty directory.
    pub mountpoint: PathBuf,
    /// What tells this mount from all others, of now and later; the mount table shows it.
    pub number: u64,
    pub allow_other: AllowOther,
    /// Threads that ask for requests.
    pub threads: usize,
    /// The same while all of those wait.
    pub threads_max: usize,
    /// Each thread reads requests from a descriptor of its own.
    pub descriptor_per_thread: bool,
    /// Hand open files to the kernel where the store pins them; see
    /// [`passthrough_available`](crate::passthrough_available).
    pub passthrough: bool,
    /// Honour set-user-id bits and device files. Only root may ask for it.
    pub suid_and_devices: bool,
    /// How long an unmount waits for programs to leave before it detaches the mount from them.
    pub busy_wait: Duration,
    /// Pages that the kernel reads ahead of a sequential reader; only root may raise it.
    pub read_ahead_kib: u32,
    /// Serve a program that makes one small call after the other on its processor and, on a machine of two,
    /// keep the other one busy meanwhile with a thread that spins, so that the program stays.
    pub spin: bool,
    pub rings: Rings,
}

impl MountOptions {
    /// No other mount may ever have the same number.
    pub fn new(mountpoint: impl Into<PathBuf>, number: u64) -> MountOptions {
        MountOptions {
            mountpoint: mountpoint.into(),
            number,
            allow_other: AllowOther::Auto,
            threads: threads_for_this_machine(),
            threads_max: THREADS_MAX,
            descriptor_per_thread: true,
            passthrough: false,
            suid_and_devices: false,
            busy_wait: Duration::from_secs(2),
            read_ahead_kib: 4096,
            spin: false,
            rings: Rings::Auto,
        }
    }
}

/// Each has a descriptor, and memory for the largest request that it was given.
const THREADS_MAX: usize = 64;

/// A request waits for the store on its thread, so more threads than processors are of use; the
/// embedded store does not wait, and loses about a tenth to switching with four on two processors.
fn threads_for_this_machine() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * processors).clamp(4, 16)
}
