//! The kernel's table of mounts, as this process sees it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    pub path: PathBuf,
    /// `fuse.tidefs` for ours.
    pub kind: String,
}

/// What is mounted at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    Nothing,
    /// A file system that answers.
    Live,
    /// A mount whose process is gone; all it does is answer errors.
    Stale,
}

pub fn entries() -> Vec<MountEntry> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(parse).collect()
}

/// Asks only the kernel, not the mounted file system, whether `path` is a mount point.
pub fn is_mount_point(path: &Path) -> bool {
    entries().iter().any(|entry| entry.path == path)
}

/// Whether the mount at `path` is one of Tidefs.
pub fn is_ours(path: &Path) -> bool {
    entries().iter().any(|entry| entry.path == path && entry.kind == tidefs_fuse::FS_TYPE)
}

/// Whether a path without symbolic links lies in a mount of Tidefs.
pub fn holds_ours(path: &Path) -> bool {
    let entries = entries();
    let above = entries.iter().filter(|entry| path.starts_with(&entry.path));
    // Of several at one place the last one hides the others.
    let deepest = above.max_by_key(|entry| entry.path.components().count());
    deepest.is_some_and(|entry| entry.kind == tidefs_fuse::FS_TYPE)
}

/// Asks the mounted file system too. The path must have no symbolic links in it.
pub fn at(path: &Path) -> Mounted {
    if !is_mount_point(path) {
        return Mounted::Nothing;
    }
    // Attributes of the root may come from the kernel's cache; totals never do.
    match rustix::fs::statfs(path) {
        Err(rustix::io::Errno::NOTCONN) => Mounted::Stale,
        _ => Mounted::Live,
    }
}

/// A row is `id parent device root PATH options [tags] - KIND source options`.
fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let path = unescape(fields.nth(4)?);
    fields.find(|field| *field == b"-")?;
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(MountEntry { path: PathBuf::from(OsString::from_vec(path)), kind })
}

/// Space, tab, line feed and backslash appear as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            digits.iter().try_fold(0_u8, |code, digit| {
                let digit = digit.checked_sub(b'0').filter(|value| *value < 8)?;
                code.checked_mul(8)?.checked_add(digit)
            })
        });
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_optional_fields_and_odd_names() {
        let line =
            br"36 35 98:0 / /mnt/a\040b\134c rw,noatime shared:1 master:2 - fuse.tidefs tidefs rw";
        let entry = parse(line).unwrap();
        assert_eq!(entry.path, PathBuf::from(r"/mnt/a b\c"));
        assert_eq!(entry.kind, "fuse.tidefs");
        assert_eq!(parse(b"too short"), None);
        assert_eq!(unescape(br"\9x\04"), br"\9x\04");
    }

    #[test]
    fn the_root_is_mounted_and_lives() {
        assert_eq!(at(Path::new("/")), Mounted::Live);
        assert!(!holds_ours(Path::new("/")) && !holds_ours(Path::new("/proc/self")));
        assert_eq!(at(Path::new("/no/such/place")), Mounted::Nothing);
    }
}
