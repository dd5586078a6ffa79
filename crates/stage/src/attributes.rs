//! Everything of a file but its bytes and its name.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown,
    fgetxattr, flistxattr, fsetxattr, fstat, futimens, utimensat,
};
use rustix::io::Errno;

use crate::error::StageError;

/// What the kernel lets an attribute have, xattr(7).
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Whether nothing but the bytes could differ: a file that was copied has size, time and mode of its
/// source.
pub fn are_same(source: &Metadata, destination: &Metadata) -> bool {
    // The kind of file is in the mode.
    let of = |it: &Metadata| (it.len(), it.mtime(), it.mtime_nsec(), it.mode());
    of(source) == of(destination)
}

/// Owner, extended attributes, mode and times, in the order in which none undoes another.
pub fn give(
    to: impl AsFd,
    from: impl AsFd,
    metadata: &Metadata,
    path: &Path,
) -> Result<(), StageError> {
    // A kernel knows what it has just made; what is right already costs no request.
    let now = fstat(&to).map_err(StageError::writing(path))?;
    let is_owned = (now.st_uid, now.st_gid) == (metadata.uid(), metadata.gid());
    if !is_owned {
        give_owner(fchown(&to, Some(owner(metadata)), Some(group(metadata))), path)?;
    }
    give_extended(&to, &from, path)?;
    // After the owner, whose change takes set-user-id away.
    if !is_owned || now.st_mode != metadata.mode() {
        let mode = Mode::from_raw_mode(metadata.mode() & 0o7777);
        fchmod(&to, mode).map_err(StageError::writing(path))?;
    }
    futimens(&to, &times(metadata)).map_err(StageError::writing(path))
}

/// What a symbolic link has: it has no mode of its own.
pub fn give_to_link(path: &Path, metadata: &Metadata) -> Result<(), StageError> {
    let itself = AtFlags::SYMLINK_NOFOLLOW;
    let given = chownat(CWD, path, Some(owner(metadata)), Some(group(metadata)), itself);
    give_owner(given, path)?;
    utimensat(CWD, path, &times(metadata), itself).map_err(StageError::writing(path))
}

fn owner(metadata: &Metadata) -> Uid {
    Uid::from_raw(metadata.uid())
}

fn group(metadata: &Metadata) -> Gid {
    Gid::from_raw(metadata.gid())
}

/// Only root gives files to others; what anybody else copies is theirs.
fn give_owner(given: Result<(), Errno>, path: &Path) -> Result<(), StageError> {
    match given {
        Err(Errno::PERM) => Ok(()),
        other => other.map_err(StageError::writing(path)),
    }
}

fn times(metadata: &Metadata) -> Timestamps {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    }
}

fn give_extended(to: impl AsFd, from: impl AsFd, path: &Path) -> Result<(), StageError> {
    let mut names = vec![0; VALUE_BYTES_MAX];
    let length = match flistxattr(&from, &mut names) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(cause) => return Err(StageError::reading(path)(cause)),
    };
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        let mut value = vec![0; VALUE_BYTES_MAX];
        let length = match fgetxattr(&from, name, &mut value) {
            Ok(length) => length,
            // Removed since, or of the kernel's own making.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => continue,
            Err(cause) => return Err(StageError::reading(path)(cause)),
        };
        match fsetxattr(&to, name, &value[..length], XattrFlags::empty()) {
            Ok(()) => {}
            // Names that this user may not give, or the other file system does not know.
            Err(Errno::PERM | Errno::OPNOTSUPP) if !name.as_bytes().starts_with(b"user.") => {}
            Err(cause) => return Err(StageError::writing(path)(cause)),
        }
    }
    Ok(())
}
