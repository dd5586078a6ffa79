//! The set-user-id program by which whoever is not root mounts and unmounts: where it lies, and how it ends. What it is
//! told is its callers' matter.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long it may take.
pub const FUSERMOUNT_WAIT: Duration = Duration::from_secs(10);

pub fn fusermount() -> Command {
    Command::new(fusermount_path().unwrap_or_else(|| PathBuf::from("/usr/bin/fusermount3")))
}

/// On the user's path or where systems put it, which need not be on that path. Root's path may be
/// somebody else's, whose program root does not run.
pub fn fusermount_path() -> Option<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    let path = std::env::var_os("PATH").filter(|_| !root).unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join("fusermount3")).filter(|path| path.is_file()))
}

/// Waits for the program to end, for a bounded time, and returns what it complained about.
pub fn finish(child: &mut Child) -> String {
    let give_up = Instant::now() + FUSERMOUNT_WAIT;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= give_up {
            // It cannot be stopped if it is stuck in the kernel; then it is left to it.
            let _ = child.kill();
            return String::from("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut complaint = String::new();
    if let Some(stderr) = child.stderr.as_mut() {
        let mut limited = stderr.take(4096);
        // Without its words the caller still knows that it failed.
        let _ = limited.read_to_string(&mut complaint);
    }
    let complaint = complaint.trim();
    complaint.strip_prefix("fusermount3: ").unwrap_or(complaint).to_owned()
}
