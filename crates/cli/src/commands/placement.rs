//! `tidefs placement`: where the bytes of a directory's new files go. A mount is asked like by any
//! program, by an extended attribute; it may be another host's file system, or another user's.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use tidefs_fs::Layout;

use crate::arguments::placement::Placement;
use crate::failure::Failure;
use crate::mount_table;

/// Longer than the value of any directory.
const VALUE_BYTES_MAX: usize = 64;

pub fn placement(options: &Placement) -> anyhow::Result<()> {
    let path = directory(&options.directory)?;
    let unusable = |cause| Failure::PlacementRefused { path: path.clone(), cause };
    let name = OsStr::from_bytes(tidefs_fs::PLACEMENT);
    match options.wanted {
        Some(wanted) => {
            let value = Layout::from(wanted).name().as_bytes();
            let set = setxattr(&path, name, value, XattrFlags::empty());
            set.map_err(|cause| unusable(cause.into()))?;
        }
        None => {
            let mut value = [0; VALUE_BYTES_MAX];
            let length =
                getxattr(&path, name, &mut value).map_err(|cause| unusable(cause.into()))?;
            println!("{}", String::from_utf8_lossy(&value[..length]));
        }
    }
    Ok(())
}

/// Whatever leads to it.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let unusable = |cause: io::Error| Failure::PlacementRefused { path: path.to_owned(), cause };
    let real = fs::canonicalize(path).map_err(unusable)?;
    if !fs::metadata(&real).map_err(unusable)?.is_dir() {
        return Err(Failure::PlacementOfFile(path.to_owned()));
    }
    match mount_table::holds_ours(&real) {
        true => Ok(real),
        false => Err(Failure::PlacementElsewhere(path.to_owned())),
    }
}
