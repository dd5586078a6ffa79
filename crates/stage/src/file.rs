//! Copies one file. It is written beside its name and gets that when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::attributes;
use crate::contents::{self, Side};
use crate::error::StageError;
use crate::options::Options;
use crate::outcome::Done;
use crate::progress::Progress;

/// What a file is called until it is whole. The same file has the same one each time, so the next
/// transfer uses what one that was killed has left.
fn partial(destination: &Path) -> PathBuf {
    let name = destination.file_name().unwrap_or_default();
    let mut partial = OsString::from(".tidefs-part-");
    partial.push(format!("{:016x}", xxh3_64(name.as_bytes())));
    destination.with_file_name(partial)
}

/// Copies a file or a symbolic link with all that it has.
pub fn copy(
    source: &Path,
    destination: &Path,
    metadata: &Metadata,
    options: &Options,
    progress: &Progress,
) -> Result<Done, StageError> {
    if metadata.is_symlink() {
        copy_link(source, destination, metadata)
    } else if metadata.is_file() {
        copy_file(source, destination, options, progress)
    } else {
        let path = source.to_owned();
        Err(StageError::Unsupported { path, kind: kind(metadata) })
    }
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        "fifo"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

fn copy_file(
    source: &Path,
    destination: &Path,
    options: &Options,
    progress: &Progress,
) -> Result<Done, StageError> {
    let from = File::open(source).map_err(StageError::reading(source))?;
    let metadata = from.metadata().map_err(StageError::reading(source))?;
    let from = Side { file: &from, path: source };
    if is_there(from, destination, &metadata, options)? {
        progress.add_bytes(metadata.len());
        return Ok(Done::Unchanged);
    }
    let partial = partial(destination);
    let copied = write_whole(from, &partial, &metadata, options, progress).and_then(|bytes| {
        fs::rename(&partial, destination).map_err(StageError::writing(destination))?;
        Ok(Done::Copied { bytes })
    });
    if copied.is_err() {
        // What failed says why; a part that cannot be removed is used next time.
        let _ = fs::remove_file(&partial);
    }
    copied
}

fn write_whole(
    from: Side<'_>,
    partial: &Path,
    metadata: &Metadata,
    options: &Options,
    progress: &Progress,
) -> Result<u64, StageError> {
    let mut open = OpenOptions::new();
    open.read(options.checksum)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600 | metadata.mode() & 0o777);
    let to = open.open(partial).map_err(StageError::writing(partial))?;
    let to = Side { file: &to, path: partial };
    let length = metadata.len();
    let bytes = contents::copy(from, to, length, progress)?;
    if options.checksum && !contents::are_same(from, to, length)? {
        return Err(StageError::Different(partial.to_owned()));
    }
    let now = from.file.metadata().map_err(StageError::reading(from.path))?;
    let changed = |it: &Metadata| (it.ctime(), it.ctime_nsec());
    if !attributes::are_same(metadata, &now) || changed(metadata) != changed(&now) {
        return Err(StageError::Changed(from.path.to_owned()));
    }
    attributes::give(to.file, from.file, metadata, partial)?;
    if options.sync {
        to.file.sync_all().map_err(StageError::writing(partial))?;
    }
    Ok(bytes)
}

/// Whether the destination is what a transfer would make of the source.
fn is_there(
    from: Side<'_>,
    destination: &Path,
    metadata: &Metadata,
    options: &Options,
) -> Result<bool, StageError> {
    let Some(there) = metadata_of(destination)? else { return Ok(false) };
    if there.is_dir() {
        let path = destination.to_owned();
        return Err(StageError::InTheWay { path, wanted: "file" });
    }
    if !attributes::are_same(metadata, &there) {
        return Ok(false);
    }
    if !options.checksum {
        return Ok(true);
    }
    let file = File::open(destination).map_err(StageError::reading(destination))?;
    contents::are_same(from, Side { file: &file, path: destination }, metadata.len())
}

fn copy_link(source: &Path, destination: &Path, metadata: &Metadata) -> Result<Done, StageError> {
    let target = fs::read_link(source).map_err(StageError::reading(source))?;
    match metadata_of(destination)? {
        Some(there) if there.is_dir() => {
            let path = destination.to_owned();
            return Err(StageError::InTheWay { path, wanted: "link" });
        }
        Some(there) if there.is_symlink() => {
            let now = fs::read_link(destination).map_err(StageError::reading(destination))?;
            if now == target && attributes::are_same(metadata, &there) {
                return Ok(Done::Unchanged);
            }
        }
        _ => {}
    }
    let partial = free_partial(destination)?;
    symlink(&target, &partial).map_err(StageError::writing(&partial))?;
    attributes::give_to_link(&partial, metadata)?;
    fs::rename(&partial, destination).map_err(StageError::writing(destination))?;
    Ok(Done::Copied { bytes: 0 })
}

/// Gives a file that was copied another name: hard links stay links of one file.
pub fn link(first: &Path, destination: &Path) -> Result<Done, StageError> {
    let of_first = fs::symlink_metadata(first).map_err(StageError::reading(first))?;
    if let Some(there) = metadata_of(destination)?
        && (there.dev(), there.ino()) == (of_first.dev(), of_first.ino())
    {
        return Ok(Done::Unchanged);
    }
    let partial = free_partial(destination)?;
    fs::hard_link(first, &partial).map_err(StageError::writing(&partial))?;
    fs::rename(&partial, destination).map_err(StageError::writing(destination))?;
    Ok(Done::Copied { bytes: 0 })
}

/// The name of what is not whole yet, when nothing has it.
fn free_partial(destination: &Path) -> Result<PathBuf, StageError> {
    let partial = partial(destination);
    match fs::remove_file(&partial) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(StageError::writing(&partial)(cause))
        }
        _ => Ok(partial),
    }
}

/// `None` where nothing is.
pub fn metadata_of(path: &Path) -> Result<Option<Metadata>, StageError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(StageError::reading(path)(cause)),
    }
}
