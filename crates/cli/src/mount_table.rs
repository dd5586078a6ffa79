//! What the kernel's table of mounts says about paths and about mounts of Tidefs.

use std::path::Path;

use tidefs_fuse::mounts::{self, Mount};

/// What is mounted at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    Nothing,
    /// A file system that answers, or one whose process is there and too slow to say so.
    Live,
    /// A mount whose process is gone; all it does is answer errors.
    Stale,
}

/// Without the table nothing is known of mounts, and none is touched.
pub fn entries() -> Vec<Mount> {
    mounts::all().unwrap_or_default()
}

/// What is mounted on a path and not covered.
fn top(path: &Path) -> Option<Mount> {
    entries().into_iter().rfind(|entry| entry.point == path)
}

/// Asks only the kernel, not the mounted file system, whether `path` is a mount point.
pub fn is_mount_point(path: &Path) -> bool {
    top(path).is_some()
}

/// Whether the mount at `path` is one of Tidefs.
pub fn is_ours(path: &Path) -> bool {
    top(path).is_some_and(|entry| entry.is_ours())
}

/// Whether the mount with this number is on top at `path`: others may have been made there since.
pub fn has(path: &Path, number: u64) -> bool {
    top(path).is_some_and(|entry| entry.is(number))
}

/// Whether a path without symbolic links lies in a mount of Tidefs.
pub fn holds_ours(path: &Path) -> bool {
    let entries = entries();
    let above = entries.iter().filter(|entry| path.starts_with(&entry.point));
    // Of several at one place the last one hides the others.
    let deepest = above.max_by_key(|entry| entry.point.components().count());
    deepest.is_some_and(Mount::is_ours)
}

/// Asks the mounted file system too, for two seconds at most. The path must have no symbolic links in it.
pub fn at(path: &Path) -> Mounted {
    match top(path) {
        None => Mounted::Nothing,
        Some(_) if tidefs_fuse::is_abandoned(path) => Mounted::Stale,
        Some(_) => Mounted::Live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_mounted_and_lives() {
        assert_eq!(at(Path::new("/")), Mounted::Live);
        assert!(!holds_ours(Path::new("/")) && !holds_ours(Path::new("/proc/self")));
        assert!(!is_ours(Path::new("/")) && !has(Path::new("/"), 0));
        assert_eq!(at(Path::new("/no/such/place")), Mounted::Nothing);
    }
}
