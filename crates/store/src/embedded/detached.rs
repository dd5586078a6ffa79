//! A tmpfs that was made but attached nowhere, and the division of a capacity between its files
//! and the shards beside it.
//!
//! The tmpfs is as large as the capacity less the shards' part. The part grows by steps while the
//! kernel agrees that the files leave room, so the sum stays within the capacity at all times, and
//! nothing has to be asked of the kernel for most batches.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, SeekFrom, fstatvfs, openat, seek, unlinkat};
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, fsconfig_create, fsconfig_reconfigure,
    fsconfig_set_string, fsmount, fsopen, fspick,
};
use rustix::path::DecInt;
use tidefs_model::Ino;

use super::budget::Budget;

/// Steps that a capacity has; one of them is idle at most.
const STEPS: u64 = 256;
const STEP_BYTES_MIN: u64 = 64 << 10;
/// A tmpfs of size 0 would be one without a limit.
const TMPFS_BYTES_MIN: u64 = 64 << 10;

pub struct Detached {
    root: OwnedFd,
    /// Held by whoever divides the capacity anew.
    division: Mutex<()>,
    capacity_bytes: u64,
    step_bytes: u64,
}

impl Detached {
    /// Sets the budget's limit to the shards' first part.
    pub fn new(capacity_bytes: u64, budget: &Budget) -> std::io::Result<Detached> {
        let step_bytes = (capacity_bytes / STEPS).max(STEP_BYTES_MIN);
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        set_bytes(&context, capacity_bytes.saturating_sub(step_bytes))?;
        // As many files as fit; pages of 4 KiB, so that a small file takes no more.
        for (name, value) in [("nr_inodes", "0"), ("mode", "0700"), ("huge", "never")] {
            set(&context, name, value)?;
        }
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        budget.set_limit_bytes(step_bytes.min(capacity_bytes));
        Ok(Detached { root, division: Mutex::new(()), capacity_bytes, step_bytes })
    }

    /// `None` where there is no such file.
    pub fn open(&self, ino: Ino) -> Result<Option<File>> {
        self.open_as(ino, OFlags::empty(), Errno::NOENT)
    }

    /// `None` where the file is there already.
    pub fn make(&self, ino: Ino) -> Result<Option<File>> {
        self.open_as(ino, OFlags::CREATE | OFlags::EXCL, Errno::EXIST)
    }

    fn open_as(&self, ino: Ino, how: OFlags, expected: Errno) -> Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | how;
        match openat(&self.root, DecInt::new(ino.0), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(error) if error == expected => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `false`: there was no such file.
    pub fn unlink(&self, ino: Ino) -> Result<bool> {
        match unlinkat(&self.root, DecInt::new(ino.0), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The inodes that have a file.
    pub fn inos(&self) -> Result<Vec<Ino>> {
        let mut inos = Vec::new();
        // The root is a mere path, which cannot be read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(openat(&self.root, c".", flags, Mode::empty())?)? {
            let entry = entry?;
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            inos.extend(number.map(Ino));
        }
        Ok(inos)
    }

    /// Memory in use by the files' pages.
    pub fn used_bytes(&self) -> Result<u64> {
        let status = fstatvfs(&self.root)?;
        Ok((status.f_blocks - status.f_bfree.min(status.f_blocks)) * status.f_frsize)
    }

    /// Raises the budget's limit so that `bytes` more fit, if the files leave room for that.
    pub fn cede(&self, budget: &Budget, bytes: u64) -> bool {
        let _division = self.division();
        let needed = budget.used_bytes().saturating_add(bytes);
        if needed <= budget.limit_bytes() {
            return true;
        }
        // The tmpfs shrinks before the limit rises; it refuses to be smaller than its files.
        let part = self.whole_steps(needed);
        let ceded = self.divide(part);
        if ceded {
            budget.set_limit_bytes(part);
        }
        ceded
    }

    /// Lowers the budget's limit when two steps of it are idle.
    pub fn settle(&self, budget: &Budget) {
        let idle = || budget.used_bytes() + 2 * self.step_bytes <= budget.limit_bytes();
        if !idle() {
            return;
        }
        let _division = self.division();
        if !idle() {
            return;
        }
        // The limit falls before the tmpfs grows; what others took at this moment stays theirs.
        let before = budget.limit_bytes();
        let part = self.whole_steps(budget.used_bytes()).max(self.step_bytes);
        budget.set_limit_bytes(part);
        if budget.used_bytes() > part || !self.divide(part) {
            budget.set_limit_bytes(before);
        }
    }

    fn whole_steps(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.step_bytes).saturating_mul(self.step_bytes)
    }

    /// Leaves the shards `part` of the capacity and the files the rest.
    fn divide(&self, part: u64) -> bool {
        let rest = match self.capacity_bytes.checked_sub(part) {
            Some(rest) if rest >= TMPFS_BYTES_MIN => rest,
            _ => return false,
        };
        // A context that the kernel has refused once is of no more use, so each change has its own.
        let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
        let resize = |context: OwnedFd| {
            set_bytes(&context, rest)?;
            fsconfig_reconfigure(&context)
        };
        fspick(&self.root, "", flags).and_then(resize).is_ok()
    }

    fn division(&self) -> MutexGuard<'_, ()> {
        self.division.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(context: &OwnedFd, name: &str, value: &str) -> Result<()> {
    fsconfig_set_string(context, name, value)
}

fn set_bytes(context: &OwnedFd, bytes: u64) -> Result<()> {
    set(context, "size", &bytes.max(TMPFS_BYTES_MIN).to_string())
}

/// Where the last data within a range of a file ends, up to a page late; `None` where the range
/// is a hole.
pub fn last_data_end(file: &File, start: u64, end: u64) -> Result<Option<u64>> {
    let mut last = None;
    let mut from = start;
    while from < end {
        from = match seek(file, SeekFrom::Data(from)) {
            Ok(data) if data < end => seek(file, SeekFrom::Hole(data))?,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        last = Some(from.min(end));
    }
    Ok(last)
}

pub fn has_data(file: &File) -> Result<bool> {
    Ok(next_data(file, 0)?.is_some())
}

/// Where data begins at `from` or later, up to a page early.
pub fn next_data(file: &File, from: u64) -> Result<Option<u64>> {
    match seek(file, SeekFrom::Data(from)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error),
    }
}
