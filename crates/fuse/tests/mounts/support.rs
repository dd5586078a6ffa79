//! Mounts that end with the test, also when it panics.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tempfile::TempDir;
use tidefs_fs::{Config, Format, Fs};
use tidefs_fuse::{
    MountError, MountOptions, Rings, Session, SystemClock, passthrough_available, unmount_stale,
};
use tidefs_model::{ByteSize, MountId, StripeSize};
use tidefs_store::{Embedded, Store};

/// Small, so that tests cross borders with few bytes.
pub const STRIPE: usize = 64 << 10;
const CAPACITY: ByteSize = ByteSize::mib(256);
const FOLDER_PREFIX: &str = "tidefs-test-";

/// A mounted file system. Dropping it unmounts.
pub struct MountedSession {
    pub session: Session,
    folder: TempDir,
}

impl MountedSession {
    /// One more mount of the file system in a store, which is made if there is none.
    pub fn over<S: Store>(store: Arc<S>, passthrough: bool) -> MountedSession {
        MountedSession::served(store, passthrough, Rings::Off)
    }

    pub fn served<S: Store>(store: Arc<S>, passthrough: bool, rings: Rings) -> MountedSession {
        let folder = empty_folder();
        let fs = join(store, passthrough);
        let options = MountOptions { passthrough, rings, ..options(folder.path()) };
        let session = Session::mount(fs, &options).unwrap_or_else(|error| explain(&error));
        MountedSession { session, folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Of a mount that is none of any other test's.
pub fn options(mountpoint: impl Into<PathBuf>) -> MountOptions {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = u64::from(std::process::id()) << 32;
    let number = process | NEXT.fetch_add(1, Ordering::Relaxed);
    MountOptions { rings: Rings::Off, ..MountOptions::new(mountpoint, number) }
}

/// A mount of its own for each caller.
pub fn join<S: Store>(store: Arc<S>, passthrough: bool) -> Arc<Fs<S>> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Fs::format(&*store, format_of_tests(), &SystemClock)
        .expect("an empty store takes a file system");
    let mut config = Config::new(MountId(NEXT.fetch_add(1, Ordering::Relaxed)));
    config.passthrough = passthrough;
    Arc::new(Fs::mount(store, config, Arc::new(SystemClock)).expect("the file system is there"))
}

pub fn format_of_tests() -> Format {
    Format {
        stripe_size: stripe_size(),
        root_uid: rustix::process::getuid().as_raw(),
        root_gid: rustix::process::getgid().as_raw(),
        ..Format::default()
    }
}

fn stripe_size() -> StripeSize {
    StripeSize::new(STRIPE as u32).expect("a power of two")
}

pub fn heap(capacity: ByteSize) -> Arc<Embedded> {
    Arc::new(Embedded::in_heap(capacity, stripe_size()))
}

pub fn in_heap() -> Option<MountedSession> {
    is_wanted("fuse").then(|| MountedSession::over(heap(CAPACITY), false))
}

/// Where the kernel reads and writes open files by itself.
pub fn passed_through() -> Option<MountedSession> {
    if !is_wanted("fuse") || !is_wanted("passthrough") {
        return None;
    }
    assert!(
        passthrough_available(),
        "passthrough needs root and Linux 6.9; TIDEFS_TEST_WITHOUT=passthrough leaves it out"
    );
    let store = Embedded::in_tmpfs(CAPACITY, stripe_size()).expect("root may make a tmpfs");
    let mounted = MountedSession::over(Arc::new(store), true);
    assert!(mounted.session.passes_through(), "the kernel grants passthrough");
    Some(mounted)
}

/// Where requests come by rings.
pub fn by_rings() -> Option<MountedSession> {
    let on = Switch::to(true)?;
    let mounted = MountedSession::served(heap(CAPACITY), false, Rings::On);
    drop(on);
    assert!(mounted.session.is_by_rings());
    Some(mounted)
}

/// The kernel's switch for rings, which counts when a mount is made. It is put back when this is dropped; meanwhile nobody
/// else who has one changes it.
pub struct Switch {
    before: String,
    _alone: File,
}

impl Switch {
    const PATH: &str = "/sys/module/fuse/parameters/enable_uring";

    /// `None`: the tests are asked to leave rings out.
    pub fn to(on: bool) -> Option<Switch> {
        if !is_wanted("fuse") || !is_wanted("rings") {
            return None;
        }
        let alone = File::create(std::env::temp_dir().join("tidefs-test-rings.lock"));
        let alone = alone.expect("a file to lock");
        rustix::fs::flock(&alone, FlockOperation::LockExclusive).expect("a lock");
        let before = std::fs::read_to_string(Switch::PATH);
        let switched = std::fs::write(Switch::PATH, if on { "Y" } else { "N" });
        assert!(
            before.is_ok() && switched.is_ok(),
            "rings need root and Linux 6.14; TIDEFS_TEST_WITHOUT=rings leaves them out"
        );
        Some(Switch { before: before.unwrap_or_default(), _alone: alone })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        std::fs::write(Switch::PATH, &self.before).expect("it was written to before");
    }
}

/// Runs a claim on a mount. What the caller names in `TIDEFS_TEST_WITHOUT` is left out aloud.
pub fn hold(mount: fn() -> Option<MountedSession>, claim: &str) {
    if let Some(mut mounted) = mount() {
        carry_out(claim, mounted.path());
        mounted.session.unmount().expect("nothing uses the mount any more");
    }
}

const CLAIM: &str = "TIDEFS_TEST_CLAIM";
const PLACE: &str = "TIDEFS_TEST_PLACE";

/// Runs a claim in a process of its own, as programs are: one that served the mount as well could not give up a
/// map, since the kernel keeps its memory from changing until the mount has taken what was stored there.
pub fn carry_out(claim: &str, place: &Path) {
    let program = std::env::current_exe().expect("this program");
    let done = Command::new(program)
        .args(["--exact", "a_program_of_its_own", "--ignored", "--nocapture"])
        .env(CLAIM, claim)
        .env(PLACE, place)
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{claim}:\n{said}");
}

/// In such a process: the claim, and where it is to hold.
pub fn told_claim() -> Option<(String, PathBuf)> {
    Some((std::env::var(CLAIM).ok()?, std::env::var_os(PLACE)?.into()))
}

pub fn is_wanted(what: &str) -> bool {
    let left_out = std::env::var("TIDEFS_TEST_WITHOUT").unwrap_or_default();
    let wanted = !left_out.split(',').any(|name| name.trim() == what);
    if !wanted {
        eprintln!("left out, as TIDEFS_TEST_WITHOUT asks: {what}");
    }
    wanted
}

/// A folder that is found again when a test is killed.
pub fn empty_folder() -> TempDir {
    static CLEARED: Once = Once::new();
    CLEARED.call_once(clear_what_killed_tests_left);
    tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir().expect("a temporary folder")
}

fn clear_what_killed_tests_left() {
    let Ok(folders) = std::env::temp_dir().read_dir() else { return };
    for folder in folders.flatten() {
        if folder.file_name().as_encoded_bytes().starts_with(FOLDER_PREFIX.as_bytes()) {
            // Another user's mount stays; it is in nobody's way.
            let _ = unmount_stale(&folder.path(), None);
        }
    }
}

fn explain(error: &MountError) -> ! {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = format!("{reason}: {cause}");
        source = cause.source();
    }
    panic!("{reason}\n(TIDEFS_TEST_WITHOUT=fuse leaves real mounts out)")
}

/// The error number of something that must fail.
pub fn refusal<T>(result: std::io::Result<T>) -> Errno {
    let error = result.err().expect("this must be refused");
    Errno::from_io_error(&error).unwrap_or_else(|| panic!("{error} has no number"))
}

/// Does something in a thread that has no privileges.
pub fn by_an_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let thread = || {
        if rustix::process::getuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(None, nobody, None).expect("root may be anybody");
        }
        work()
    };
    std::thread::scope(|scope| scope.spawn(thread).join().expect("it does not panic"))
}

/// Bytes that differ from place to place, so that a shift shows.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
