//! The bytes of a file, without what its source does not store.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{SeekFrom, copy_file_range, seek};
use rustix::io::{Errno, pread, pwrite};
use xxhash_rust::xxh3::Xxh3;

use crate::error::StageError;
use crate::progress::Progress;

/// Bytes moved by one call within the kernel: some stripes.
const PIECE_BYTES: usize = 4 << 20;

/// Bytes that are in memory between a read and a write: the largest request of a mount, and few enough
/// for a processor's cache. A stop is noticed after each: over a slow link a file takes long to come.
const MEMORY_BYTES: usize = 1 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A part of a file that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
}

/// One file as a source or as a destination.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub file: &'a File,
    pub path: &'a Path,
}

/// Copies what is stored, and makes the file as long as its source. Answers how many bytes there were.
pub fn copy(
    from: Side<'_>,
    to: Side<'_>,
    length: u64,
    progress: &Progress,
) -> Result<u64, StageError> {
    let (mut copied, mut at) = (0, 0);
    while let Some(extent) = next_extent(from, at, length)? {
        for piece in pieces(extent) {
            if progress.is_stopped() {
                return Err(StageError::Stopped(from.path.to_owned()));
            }
            copy_piece(from, to, piece, progress)?;
            progress.add_bytes(piece.end - piece.start);
        }
        copied += extent.end - extent.start;
        at = extent.end;
    }
    if at < length {
        to.file.set_len(length).map_err(StageError::writing(to.path))?;
    }
    // Holes are counted as done.
    progress.add_bytes(length - copied);
    Ok(copied)
}

/// Whether both files hold the same bytes up to `length`. Holes are zeros.
pub fn are_same(one: Side<'_>, other: Side<'_>, length: u64) -> Result<bool, StageError> {
    Ok(digest(one, length)? == digest(other, length)?)
}

fn digest(side: Side<'_>, length: u64) -> Result<u128, StageError> {
    let (mut hash, mut buffer, mut at) = (Xxh3::new(), vec![0; PIECE_BYTES], 0);
    while at < length {
        let wanted = buffer.len().min((length - at) as usize);
        let read = read_at(side, &mut buffer[..wanted], at)?;
        if read == 0 {
            // It is shorter now, so it is not the same.
            break;
        }
        hash.update(&buffer[..read]);
        at += read as u64;
    }
    Ok(hash.digest128())
}

/// The next part that is stored; a file system that knows no holes has one part.
fn next_extent(side: Side<'_>, at: u64, length: u64) -> Result<Option<Extent>, StageError> {
    if at >= length {
        return Ok(None);
    }
    let start = match seek(side.file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some(Extent { start: at, end: length })),
        Err(cause) => return Err(StageError::reading(side.path)(cause)),
    };
    let end = seek(side.file, SeekFrom::Hole(start)).map_err(StageError::reading(side.path))?;
    Ok((start < length).then_some(Extent { start, end: end.min(length) }))
}

fn pieces(extent: Extent) -> impl Iterator<Item = Extent> {
    let starts = (extent.start..extent.end).step_by(PIECE_BYTES);
    starts.map(move |start| Extent { start, end: extent.end.min(start + PIECE_BYTES as u64) })
}

/// Within the kernel where both file systems allow it.
fn copy_piece(
    from: Side<'_>,
    to: Side<'_>,
    piece: Extent,
    progress: &Progress,
) -> Result<(), StageError> {
    let (mut read, mut written) = (piece.start, piece.start);
    while read < piece.end {
        let left = (piece.end - read) as usize;
        match copy_file_range(from.file, Some(&mut read), to.file, Some(&mut written), left) {
            Ok(0) => return Err(StageError::Changed(from.path.to_owned())),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return copy_through_memory(from, to, Extent { start: read, ..piece }, progress);
            }
            // The kernel does not say of which side it is.
            Err(cause) => return Err(StageError::writing(to.path)(cause)),
        }
    }
    Ok(())
}

fn copy_through_memory(
    from: Side<'_>,
    to: Side<'_>,
    piece: Extent,
    progress: &Progress,
) -> Result<(), StageError> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(MEMORY_BYTES, 0);
        let mut at = piece.start;
        while at < piece.end {
            if progress.is_stopped() {
                return Err(StageError::Stopped(from.path.to_owned()));
            }
            let wanted = MEMORY_BYTES.min((piece.end - at) as usize);
            let read = read_at(from, &mut buffer[..wanted], at)?;
            if read == 0 {
                return Err(StageError::Changed(from.path.to_owned()));
            }
            write_at(to, &buffer[..read], at)?;
            at += read as u64;
        }
        Ok(())
    })
}

fn read_at(side: Side<'_>, buffer: &mut [u8], at: u64) -> Result<usize, StageError> {
    loop {
        match pread(side.file.as_fd(), &mut *buffer, at) {
            Err(Errno::INTR) => {}
            other => return other.map_err(StageError::reading(side.path)),
        }
    }
}

fn write_at(side: Side<'_>, mut bytes: &[u8], mut at: u64) -> Result<(), StageError> {
    while !bytes.is_empty() {
        match pwrite(side.file.as_fd(), bytes, at) {
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(cause) => return Err(StageError::writing(side.path)(cause)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_noticed_within_a_piece() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        std::fs::write(&one, vec![7; 3 * MEMORY_BYTES]).unwrap();
        let (source, copy) = (File::open(&one).unwrap(), File::create(&other).unwrap());
        let (from, to) = (Side { file: &source, path: &one }, Side { file: &copy, path: &other });
        let (piece, progress) = (Extent { start: 0, end: 3 << 20 }, Progress::default());
        copy_through_memory(from, to, piece, &progress).unwrap();
        assert_eq!(copy.metadata().unwrap().len(), 3 << 20);
        copy.set_len(0).unwrap();
        progress.stop();
        let stopped = copy_through_memory(from, to, piece, &progress);
        assert!(matches!(stopped, Err(StageError::Stopped(path)) if path == one));
        assert_eq!(copy.metadata().unwrap().len(), 0, "it went on");
    }
}
