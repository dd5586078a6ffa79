//! What lies in the directories of the mount, by the memory that it takes: JSON below `/tree/`, one directory at a time, for which
//! all below it is looked at, within bounds.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::Serialize;

use crate::apart;

/// A walk ends with so many entries, or after so long, and says that there is more.
const ENTRIES_MOST: u64 = 100_000;
const WALK_MOST: Duration = Duration::from_secs(2);
/// A mount that does not answer within this holds up one thread, and nobody who asks.
const WAIT_MOST: Duration = Duration::from_secs(4);
/// Those that take the most are shown.
const SHOWN_MOST: usize = 200;
const BLOCK_BYTES: u64 = 512;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untold {
    #[error("no such directory in the mount")]
    Missing,
    #[error("another directory is being looked at; ask again in a moment")]
    Busy,
    #[error("the mount does not answer")]
    Silent,
    #[error("the directory cannot be read: {0}")]
    Unreadable(Errno),
}

#[derive(Debug, Default, Serialize, PartialEq)]
struct Listed {
    entries: Vec<Entry>,
    /// Smaller ones, which are not among the entries.
    left_out: usize,
    bytes: u64,
    files: u64,
    /// All below was looked at.
    complete: bool,
}

#[derive(Debug, Serialize, PartialEq)]
struct Entry {
    /// As text, and as a part of a path to ask for.
    name: String,
    part: String,
    kind: &'static str,
    /// Memory of all below, and how many are no directories.
    bytes: u64,
    files: u64,
    /// All below was looked at.
    complete: bool,
}

/// The directories of one mount; looks at one at a time.
#[derive(Debug)]
pub struct Tree {
    mount: PathBuf,
    walking: Arc<AtomicBool>,
}

impl Tree {
    pub fn of(mount: &Path) -> Tree {
        Tree { mount: mount.to_owned(), walking: Arc::default() }
    }

    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// `asked` is a path from the mount, percent-encoded.
    pub fn json(&self, asked: &str) -> Result<String, Untold> {
        let below = decoded(asked).ok_or(Untold::Missing)?;
        if self.walking.swap(true, Ordering::AcqRel) {
            return Err(Untold::Busy);
        }
        let walking = Walking(Arc::clone(&self.walking));
        let (tell, told) = mpsc::sync_channel(1);
        let mount = self.mount.clone();
        let walk = move || {
            // This process serves the mount.
            apart::begin();
            let listed = list(&mount, &below);
            // Whoever is answered may ask for the next one at once.
            drop(walking);
            let _ = tell.send(listed);
        };
        let thread = thread::Builder::new().name("tree".to_owned()).spawn(walk);
        thread.map_err(|_| Untold::Busy)?;
        let listed = told.recv_timeout(WAIT_MOST).map_err(|_| Untold::Silent)??;
        Ok(serde_json::to_string(&listed).expect("plain fields become JSON"))
    }
}

struct Walking(Arc<AtomicBool>);

impl Drop for Walking {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A path below the mount, `.` for the mount itself.
fn decoded(asked: &str) -> Option<PathBuf> {
    let mut below = PathBuf::from(".");
    for part in asked.split('/').filter(|part| !part.is_empty()) {
        let name: Vec<u8> = percent_decode_str(part).collect();
        if name == b".." || name == b"." || name.contains(&b'/') || name.contains(&0) {
            return None;
        }
        below.push(OsString::from_vec(name));
    }
    Some(below)
}

/// Never through a symbolic link or into another file system: whoever may make those in the mount would have others'
/// directories read.
fn open(base: &OwnedFd, below: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOATIME;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let plain = flags.difference(OFlags::NOATIME);
    rustix::fs::openat2(base, below, flags, Mode::empty(), within).or_else(|errno| match errno {
        // Of another user.
        Errno::PERM => rustix::fs::openat2(base, below, plain, Mode::empty(), within),
        errno => Err(errno),
    })
}

fn list(mount: &Path, below: &Path) -> Result<Listed, Untold> {
    let base =
        rustix::fs::open(mount, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let base = base.map_err(Untold::Unreadable)?;
    let mut walk = Walk::from(base, Instant::now() + WALK_MOST, ENTRIES_MOST);
    let mut entries = walk.entries(below).map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Untold::Missing,
        errno => Untold::Unreadable(errno),
    })?;
    for entry in entries.iter_mut().filter(|entry| entry.1.kind == DIRECTORY) {
        let (bytes, files, complete) = walk.sum(below.join(&entry.0));
        entry.1.bytes += bytes;
        entry.1.files += files;
        entry.1.complete = complete;
    }
    let mut entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
    let (bytes, files) =
        entries.iter().fold((0, 0), |sum, it| (sum.0 + it.bytes, sum.1 + it.files));
    entries.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
    let left_out = entries.len().saturating_sub(SHOWN_MOST);
    entries.truncate(SHOWN_MOST);
    Ok(Listed { entries, left_out, bytes, files, complete: walk.complete })
}

const DIRECTORY: &str = "directory";

struct Walk {
    base: OwnedFd,
    until: Instant,
    left: u64,
    complete: bool,
    /// Files with several names, of which one was met: their memory counts there. No more than entries.
    met: BTreeSet<u64>,
}

impl Walk {
    fn from(base: OwnedFd, until: Instant, left: u64) -> Walk {
        Walk { base, until, left, complete: true, met: BTreeSet::new() }
    }

    /// What is in a directory; each directory with nothing of what is in it.
    fn entries(&mut self, below: &Path) -> Result<Vec<(OsString, Entry)>, Errno> {
        let directory = open(&self.base, below)?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.left == 0 || Instant::now() > self.until {
                self.complete = false;
                break;
            }
            self.left -= 1;
            // One that has gone meanwhile is not there.
            if let Ok(status) =
                rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            {
                let kind = kind(FileType::from_raw_mode(status.st_mode));
                let is_file = u64::from(kind != DIRECTORY);
                let name = OsStr::from_bytes(name).to_owned();
                let shown = name.to_string_lossy().into_owned();
                let part = percent_encode(name.as_bytes(), NON_ALPHANUMERIC).to_string();
                // All is in one file system.
                let is_met = is_file == 1 && status.st_nlink > 1 && !self.met.insert(status.st_ino);
                let bytes = if is_met { 0 } else { status.st_blocks as u64 * BLOCK_BYTES };
                found.push((
                    name,
                    Entry { name: shown, part, kind, bytes, files: is_file, complete: true },
                ));
            }
        }
        Ok(found)
    }

    /// Memory and number of files of all below; what cannot be read is left out.
    fn sum(&mut self, below: PathBuf) -> (u64, u64, bool) {
        let (mut bytes, mut files, mut complete) = (0, 0, true);
        let mut todo = vec![below];
        while let Some(below) = todo.pop() {
            if self.left == 0 || Instant::now() > self.until {
                complete = false;
                break;
            }
            let was_complete = std::mem::replace(&mut self.complete, true);
            let entries = self.entries(&below);
            complete &= entries.is_ok() && self.complete;
            self.complete &= was_complete;
            let Ok(entries) = entries else { continue };
            for (name, entry) in entries {
                bytes += entry.bytes;
                files += entry.files;
                if entry.kind == DIRECTORY {
                    todo.push(below.join(name));
                }
            }
        }
        self.complete &= complete;
        (bytes, files, complete)
    }
}

fn kind(of: FileType) -> &'static str {
    match of {
        FileType::Directory => DIRECTORY,
        FileType::RegularFile => "file",
        FileType::Symlink => "link",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
