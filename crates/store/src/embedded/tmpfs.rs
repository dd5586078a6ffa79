//! Stripes in a tmpfs that is attached nowhere: no path leads to it, and it is gone with the last
//! descriptor, however the process ends.
//!
//! Each inode has one file, named by its number, that is there while one of its stripes holds
//! data or while it is pinned. Stripe `i` lies at offset `i * stripe size`, so that the kernel can
//! serve the file itself. Since the kernel may write to a pinned file at any time, what is stored
//! is asked of the file, never remembered; a hole is a stripe that is not there.
//!
//! The capacity is divided between the tmpfs, whose part the kernel enforces, and the shards,
//! whose part moves by whole steps.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use tidefs_model::{ByteSize, Ino, StripeKey, StripeSize};

use super::budget::Budget;
use super::detached::{Detached, has_data, last_data_end, next_data};
use super::home::{ENDPOINT, Home, full};
use super::lanes::{LANES, Lanes};
use crate::{Pin, StoreError, StripeRead, StripeWrite};

/// Kernel memory that a file takes beside its pages; charged to the shards' part.
const FILE_OVERHEAD_BYTES: u64 = 1_024;

pub struct Tmpfs {
    mount: Detached,
    stripe_size: StripeSize,
    /// The pinned files. Whoever writes to an inode's file holds its lane for reading, whoever
    /// may unlink it for writing, so that no write goes to a file that is no longer there.
    pins: Lanes<HashMap<Ino, Pinned>>,
    pinned: AtomicU64,
    pinned_max: u64,
    files: AtomicU64,
    /// Of the shards, and of what files take beside their pages.
    budget: Arc<Budget>,
}

/// A file and how often it is pinned: mounts come and go by themselves.
#[derive(Debug)]
struct Pinned {
    file: Arc<File>,
    pins: usize,
}

impl Tmpfs {
    pub fn new(
        capacity: ByteSize,
        stripe_size: StripeSize,
        budget: Arc<Budget>,
    ) -> std::io::Result<Tmpfs> {
        let mount = Detached::new(capacity.0, &budget)?;
        Ok(Tmpfs {
            mount,
            stripe_size,
            pins: Lanes::new(),
            pinned: AtomicU64::new(0),
            pinned_max: pinned_max(),
            files: AtomicU64::new(0),
            budget,
        })
    }

    fn offset(&self, key: StripeKey, within: u32) -> u64 {
        self.stripe_size.start_of(key.index) + u64::from(within)
    }

    /// The file of an inode, if there is one.
    fn find(&self, ino: Ino) -> Result<Option<Arc<File>>, StoreError> {
        let pinned = self.pins.read(lane_of(ino)).get(&ino).map(|pinned| Arc::clone(&pinned.file));
        match pinned {
            Some(file) => Ok(Some(file)),
            None => Ok(self.mount.open(ino).map_err(refused)?.map(Arc::new)),
        }
    }

    /// The file of an inode, made if need be. The caller holds the lane.
    fn find_or_make(&self, ino: Ino) -> Result<File, StoreError> {
        if let Some(file) = self.mount.open(ino).map_err(refused)? {
            return Ok(file);
        }
        let reserve = || self.budget.reserve(FILE_OVERHEAD_BYTES);
        let fits = reserve() || (self.cede(FILE_OVERHEAD_BYTES) && reserve());
        if !fits {
            return Err(full());
        }
        match self.mount.make(ino) {
            Ok(Some(file)) => {
                self.files.fetch_add(1, Ordering::Relaxed);
                Ok(file)
            }
            other => {
                self.budget.release(FILE_OVERHEAD_BYTES);
                // Somebody else made it meanwhile, and it stays while the lane is held.
                let made = other.and_then(|_| self.mount.open(ino)).map_err(refused)?;
                made.ok_or_else(|| StoreError::Unavailable { endpoint: ENDPOINT.into() })
            }
        }
    }

    fn write_held(&self, write: &StripeWrite<'_>) -> Result<(), StoreError> {
        let ino = write.key.ino;
        let at = self.offset(write.key, write.offset);
        let pins = self.pins.read(lane_of(ino));
        let done = match pins.get(&ino) {
            Some(pinned) => pinned.file.write_all_at(write.bytes, at),
            None => self.find_or_make(ino)?.write_all_at(write.bytes, at),
        };
        done.map_err(refused_io)
    }

    /// Unlinks the file of an inode if it holds no data and nobody has pinned it.
    fn sweep(&self, ino: Ino) -> Result<(), StoreError> {
        let pins = self.pins.write(lane_of(ino));
        self.sweep_held(ino, &pins)
    }

    fn sweep_held(&self, ino: Ino, pins: &HashMap<Ino, Pinned>) -> Result<(), StoreError> {
        if pins.contains_key(&ino) {
            return Ok(());
        }
        let Some(file) = self.mount.open(ino).map_err(refused)? else { return Ok(()) };
        if !has_data(&file).map_err(refused)? {
            self.unlink_held(ino)?;
        }
        Ok(())
    }

    /// Unlinks the file of an inode, if there is one. The caller holds the lane for writing.
    fn unlink_held(&self, ino: Ino) -> Result<(), StoreError> {
        if self.mount.unlink(ino).map_err(refused)? {
            self.files.fetch_sub(1, Ordering::Relaxed);
            self.budget.release(FILE_OVERHEAD_BYTES);
        }
        Ok(())
    }

    /// Trims stripes of one inode.
    fn trim_file(&self, ino: Ino, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        let Some(file) = self.find(ino)? else { return Ok(()) };
        for &(key, length) in trims {
            self.trim_stripe(&file, key, length).map_err(refused_io)?;
        }
        if trims.iter().any(|&(_, length)| length == 0) { self.sweep(ino) } else { Ok(()) }
    }

    fn trim_stripe(&self, file: &File, key: StripeKey, length: u32) -> std::io::Result<()> {
        if length >= self.stripe_size.bytes() {
            return Ok(());
        }
        let start = self.offset(key, length);
        let end = self.offset(key, self.stripe_size.bytes());
        // Nothing that others write meanwhile beyond this stripe may be cut off, so the file is
        // shortened only under the lane that they hold.
        let _alone = self.pins.write(lane_of(key.ino));
        let file_bytes = file.metadata()?.len();
        if file_bytes > end {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, hole, start, end - start)?;
        } else if file_bytes > start {
            ftruncate(file, start)?;
        }
        Ok(())
    }
}

impl Home for Tmpfs {
    fn read(&self, read: &mut StripeRead<'_>) -> Result<(), StoreError> {
        let mut filled = 0;
        if let Some(file) = self.find(read.key.ino)? {
            let at = self.offset(read.key, read.offset);
            while filled < read.buffer.len() {
                match file.read_at(&mut read.buffer[filled..], at + filled as u64) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) => return Err(refused_io(error)),
                }
            }
        }
        read.buffer[filled..].fill(0);
        Ok(())
    }

    fn write(&self, write: &StripeWrite<'_>) -> Result<(), StoreError> {
        let done = self.write_held(write);
        if done.is_err() {
            // A file made for nothing must not stay.
            self.sweep(write.key.ino)?;
        }
        done
    }

    fn trim(&self, trims: &[(StripeKey, u32)]) -> Result<(), StoreError> {
        trims
            .chunk_by(|one, next| one.0.ino == next.0.ino)
            .try_for_each(|trims| self.trim_file(trims[0].0.ino, trims))
    }

    fn length(&self, key: StripeKey) -> Result<u32, StoreError> {
        let Some(file) = self.find(key.ino)? else { return Ok(0) };
        let start = self.offset(key, 0);
        let end = self.offset(key, self.stripe_size.bytes());
        let last = last_data_end(&file, start, end).map_err(refused)?;
        Ok(last.map_or(0, |last| (last - start) as u32))
    }

    fn keys(&self, lane: u16) -> Result<Vec<StripeKey>, StoreError> {
        let mut keys = Vec::new();
        let of_lane = |ino: &Ino| usize::from(lane_of(*ino)) % LANES == usize::from(lane);
        for ino in self.mount.inos().map_err(refused)?.into_iter().filter(of_lane) {
            let Some(file) = self.find(ino)? else { continue };
            let mut from = 0;
            while let Some(data) = next_data(&file, from).map_err(refused)? {
                let index = self.stripe_size.index_of(data);
                keys.push(StripeKey { ino, index });
                from = self.stripe_size.start_of(index) + u64::from(self.stripe_size.bytes());
            }
        }
        Ok(keys)
    }

    fn used_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.mount.used_bytes().map_err(refused)? + self.budget.used_bytes())
    }

    /// Every file has a stripe or more, and a stripe is full or the last of a file, mostly.
    fn stripes(&self) -> u64 {
        let full_stripes =
            self.mount.used_bytes().unwrap_or(0) / u64::from(self.stripe_size.bytes());
        full_stripes.max(self.files.load(Ordering::Relaxed))
    }

    fn cede(&self, bytes: u64) -> bool {
        self.mount.cede(&self.budget, bytes)
    }

    fn settle(&self) {
        self.mount.settle(&self.budget);
    }

    fn pin(&self, ino: Ino) -> Option<Pin> {
        let mut pins = self.pins.write(lane_of(ino));
        if let Some(pinned) = pins.get_mut(&ino) {
            pinned.pins += 1;
            return Some(Pin { file: Arc::clone(&pinned.file), is_first: false });
        }
        if self.pinned.fetch_add(1, Ordering::Relaxed) >= self.pinned_max {
            self.pinned.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        match self.find_or_make(ino) {
            Ok(file) => {
                let file = Arc::new(file);
                pins.insert(ino, Pinned { file: Arc::clone(&file), pins: 1 });
                Some(Pin { file, is_first: true })
            }
            Err(error) => {
                tracing::debug!(%ino, %error, "no file to pin");
                self.pinned.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn remove(&self, ino: Ino) -> Result<bool, StoreError> {
        let mut pins = self.pins.write(lane_of(ino));
        if pins.remove(&ino).is_some() {
            self.pinned.fetch_sub(1, Ordering::Relaxed);
        }
        self.unlink_held(ino)?;
        Ok(true)
    }

    fn unpin(&self, ino: Ino) {
        let mut pins = self.pins.write(lane_of(ino));
        let Some(pinned) = pins.get_mut(&ino) else { return };
        pinned.pins -= 1;
        if pinned.pins > 0 {
            return;
        }
        let file = Arc::clone(&pinned.file);
        pins.remove(&ino);
        self.pinned.fetch_sub(1, Ordering::Relaxed);
        // A program may have mapped a file that has a length, and write to it later.
        if file.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return;
        }
        if let Err(error) = self.sweep_held(ino, &pins) {
            tracing::warn!(%ino, %error, "an empty file stays in memory");
        }
    }
}

/// Pinned files stay open: they take at most half of the descriptors that the process may have.
fn pinned_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX) / 2
}

fn lane_of(ino: Ino) -> u16 {
    StripeKey { ino, index: 0 }.partition().number()
}

fn refused_io(error: std::io::Error) -> StoreError {
    refused(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
}

/// Only room and length are facts that a caller can act on; the rest is this process's trouble,
/// such as having no descriptor left.
fn refused(error: rustix::io::Errno) -> StoreError {
    use rustix::io::Errno;
    match error {
        Errno::NOSPC | Errno::NOMEM | Errno::DQUOT => full(),
        other => {
            tracing::error!(error = %other, "the memory behind the embedded store failed");
            StoreError::Unavailable { endpoint: ENDPOINT.into() }
        }
    }
}

#[cfg(test)]
mod tests;
