//! The kernel's mount table, as this process sees it.
//!
//! The kernel uses numbers of mounts and devices again as soon as they are free, and anybody may mount on a
//! path again. So each mount of Tidefs bears a name of its own in the column of the table that is for the
//! device: whatever has that name is that mount.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The type under which every mount of Tidefs stands in the table.
pub const FS_TYPE: &str = "fuse.tidefs";

/// What the table shows as the device of the mount with this number, which no other mount ever has.
pub fn source(number: u64) -> String {
    format!("tidefs-{number:016x}")
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Used again once the mount is gone.
    pub id: u64,
    /// Major and minor number of the file system's device; used again as well.
    pub device: (u32, u32),
    pub point: PathBuf,
    pub fs_type: String,
    /// Of a mount of Tidefs, what tells it from all others.
    pub source: OsString,
    /// Who made it, where it is one of FUSE.
    pub user: Option<u32>,
}

impl Mount {
    pub fn is_ours(&self) -> bool {
        self.fs_type == FS_TYPE
    }

    /// It is the mount with this number.
    pub fn is(&self, number: u64) -> bool {
        self.is_ours() && self.source == *source(number)
    }
}

/// All mounts, in the order in which they were made: the last one on a path covers the others.
pub fn all() -> io::Result<Vec<Mount>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|&byte| byte == b'\n').filter_map(parse).collect())
}

/// What is mounted on a path, if it is a mount point. The path is absolute and has no links.
pub fn on(path: &Path) -> io::Result<Option<Mount>> {
    Ok(all()?.into_iter().rev().find(|mount| mount.point == path))
}

/// The absolute path without links. The mount point itself is not touched, since what is mounted
/// there may not answer.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let joined = parent.canonicalize()?.join(name);
            match std::fs::read_link(&joined) {
                Ok(_) => joined.canonicalize(),
                Err(_) => Ok(joined),
            }
        }
        _ => path.canonicalize(),
    }
}

/// Fields are separated by spaces: id, parent, device, root, point, options, optional fields up
/// to a lone dash, type, source, options.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = text(fields.next()?)?.parse().ok()?;
    let (major, minor) = text(fields.nth(1)?)?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = text(fields.next()?)?.to_owned();
    let source = OsString::from_vec(unescape(fields.next()?));
    let mut options = fields.next().unwrap_or_default().split(|&byte| byte == b',');
    let user = options.find_map(|it| text(it)?.strip_prefix("user_id=")?.parse().ok());
    Some(Mount { id, device, point, fs_type, source, user })
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// Space, tab, newline and backslash stand as a backslash with three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let escaped = (byte == b'\\').then(|| octal(tail)).flatten();
        if escaped.is_some() {
            rest = &tail[3..];
        }
        bytes.push(escaped.unwrap_or(byte));
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(text(digits.get(..3)?)?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes_and_optional_fields() {
        let line =
            br"95 28 0:52 / /mnt/a\040b\134 rw,nosuid shared:7 master:2 - fuse.tidefs tidefs rw,user_id=7,group_id=8";
        let mount = parse(line).unwrap();
        assert_eq!(mount.id, 95);
        assert_eq!((mount.device, mount.user), ((0, 52), Some(7)));
        assert_eq!(mount.point, Path::new(r"/mnt/a b\"));
        assert_eq!((&*mount.fs_type, mount.source.to_str()), (FS_TYPE, Some("tidefs")));
        assert_eq!(parse(b"what is this"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn the_root_is_mounted() {
        let root = on(Path::new("/")).unwrap().unwrap();
        assert_ne!(root.fs_type, FS_TYPE);
    }

    #[test]
    fn a_path_is_resolved_up_to_its_last_name() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("target")).unwrap();
        std::os::unix::fs::symlink(real.join("target"), real.join("link")).unwrap();
        assert_eq!(resolve(&real.join("link")).unwrap(), real.join("target"));
        assert_eq!(resolve(&real.join("missing")).unwrap(), real.join("missing"));
        assert!(resolve(&real.join("no/missing")).is_err());
    }
}
