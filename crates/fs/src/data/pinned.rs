//! An open file whose bytes are pinned in a file of this machine's memory.
//!
//! That file is the truth: the kernel may read and write it without asking anybody. Nothing is
//! buffered here; what is left to do is to bring its size and times into the inode's record.

use std::fs::{File, FileTimes, Metadata};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use tidefs_model::Time;
use tidefs_store::{Pin, Store, StoreError};

use super::DataPath;
use super::read_buffers::unshared;
use super::record::{Record, Resized};
use super::state::Stored;
use crate::inode::Inode;
use crate::{Error, FILE_BYTES_MAX, ReadBytes, Seek, SpaceMode};

/// Of a kernel that is built for the slowest clock, of 100 ticks a second.
const KERNEL_TICK_MAX: Duration = Duration::from_millis(10);

/// Of any machine that Linux runs on.
const PAGE_BYTES_MAX: u64 = 64 << 10;

pub(super) struct Pinned<S: Store> {
    path: Arc<DataPath<S>>,
    record: Record<S>,
    file: Arc<File>,
    /// Since it was opened a program may have mapped it for writing.
    pub may_be_mapped: AtomicBool,
    /// One append at a time, so that each begins where the last one ended.
    appending: Mutex<()>,
    /// Held across each change of the record, which must say what the file said last.
    known: Mutex<Known>,
}

struct Known {
    stored: Stored,
    /// Size and modification time of the file when the record was last right.
    size: u64,
    written: Time,
}

impl<S: Store> Pinned<S> {
    pub fn new(path: Arc<DataPath<S>>, record: Record<S>, inode: &Inode, pin: Pin) -> Pinned<S> {
        let Pin { file, is_first } = pin;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        // It ends where its last stripe does, which is before the end of a sparse file. One that
        // another mount uses has the length that that mount gave it, whatever the record says.
        if is_first
            && length < inode.size
            && let Err(error) = file.set_len(inode.size)
        {
            tracing::error!(%error, ino = %record.ino, "a pinned file could not be given its size");
        }
        let written = file.metadata().map_or(Time::default(), |metadata| mtime_of(&metadata));
        let known = Known { stored: Stored::of(inode), size: inode.size, written };
        let (appending, known) = (Mutex::new(()), Mutex::new(known));
        let may_be_mapped = AtomicBool::new(false);
        Pinned { path, record, file, may_be_mapped, appending, known }
    }

    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub fn read(&self, offset: u64, length: usize) -> Result<ReadBytes, Error> {
        let left = self.size().saturating_sub(offset).min(length as u64) as usize;
        let mut buffer = self.path.read_buffers.lend(left);
        let out = &mut unshared(&mut buffer)[..left];
        let mut filled = 0;
        while filled < left {
            match self.file.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error_of(&error)),
            }
        }
        let mut answer = self.path.read_buffers.answer(buffer, left);
        answer.range.end = filled;
        Ok(answer)
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, offset).map_err(|error| error_of(&error))
    }

    /// The machine's kernel finds the end, since other mounts may append to the same file.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, Error> {
        let _one = self.appending.lock().expect("no panic while appending");
        let offset = self.size();
        if offset + bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let pieces = [IoSlice::new(rest)];
            match rustix::io::pwritev2(&*self.file, &pieces, 0, ReadWriteFlags::APPEND) {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error_of(&error.into())),
            }
        }
        Ok(offset)
    }

    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        self.clear_behind_end(size)?;
        let mut known = self.known();
        self.file.set_len(size).map_err(|error| error_of(&error))?;
        let metadata = self.file.metadata().map_err(|error| error_of(&error))?;
        self.settle(&mut known, &metadata, self.path.clock.now())
    }

    pub fn allocate(&self, range: Range<u64>, mode: SpaceMode) -> Result<(), Error> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (flags, extends) = match mode {
            SpaceMode::Allocate => (FallocateFlags::empty(), true),
            SpaceMode::AllocateKeepSize => (FallocateFlags::KEEP_SIZE, false),
            // A tmpfs has no mode for zeros; a hole reads the same.
            SpaceMode::PunchHole | SpaceMode::ZeroKeepSize => (punch, false),
            SpaceMode::Zero => (punch, true),
        };
        let length = range.end - range.start;
        if extends {
            self.clear_behind_end(range.end)?;
        }
        rustix::fs::fallocate(&*self.file, flags, range.start, length)
            .map_err(|errno| error_of(&errno.into()))?;
        if extends && self.size() < range.end {
            self.file.set_len(range.end).map_err(|error| error_of(&error))?;
        }
        Ok(())
    }

    /// What a program stored through a map behind the end, in the last page, is no part of the file, and
    /// would show when it grows to `size`: a tmpfs does not see to that.
    fn clear_behind_end(&self, size: u64) -> Result<(), Error> {
        let _one = self.appending.lock().expect("no panic while appending");
        let end = self.size();
        let rest = end.next_multiple_of(PAGE_BYTES_MAX) - end;
        if size <= end || rest == 0 {
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&*self.file, punch, end, rest)
            .map_err(|errno| error_of(&errno.into()))
    }

    pub fn seek(&self, offset: u64, seek: Seek) -> Result<u64, Error> {
        let target = match seek {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        rustix::fs::seek(&*self.file, target).map_err(|errno| error_of(&errno.into()))
    }

    /// Brings the record up to what the file says, if it changed since.
    pub fn commit(&self) -> Result<(), Error> {
        let mut known = self.known();
        let Some(metadata) = self.changed(&known) else { return Ok(()) };
        let before = known.size;
        let time = date_of(&metadata, known.stored.mtime);
        self.settle(&mut known, &metadata, time)?;
        let grown = known.size.saturating_sub(before);
        self.path.has_grown(self.record.ino, grown);
        Ok(())
    }

    /// The same before a time is set by hand. The file behind gets it, too: the kernel dates what it
    /// writes by ticks of its clock, so what it wrote before and what it writes from here on may have one
    /// date.
    pub fn settle_times(&self, mtime: Option<Time>) -> Result<(), Error> {
        self.commit()?;
        let Some(mtime) = mtime else { return Ok(()) };
        let mut known = self.known();
        let times = FileTimes::new().set_modified(mtime.into());
        self.file.set_times(times).map_err(|error| error_of(&error))?;
        known.written = mtime;
        Ok(())
    }

    /// What the kernel writes from here on, by itself, is for the next time.
    fn settle(&self, known: &mut Known, metadata: &Metadata, time: Time) -> Result<(), Error> {
        let size = metadata.len();
        // Whatever the record says, the file is right: a pinned file belongs to one mount.
        self.record.set_sparse(stored_bytes(metadata) < size);
        if let Resized::Done(stored) = self.record.resize(size, u64::MAX, None, None, time)? {
            *known = Known { stored, size, written: mtime_of(metadata) };
        }
        Ok(())
    }

    pub fn overlay(&self, inode: &mut Inode) {
        let known = self.known();
        known.stored.overlay(inode);
        if let Some(metadata) = self.changed(&known) {
            inode.size = metadata.len();
            inode.sparse = stored_bytes(&metadata) < inode.size;
            inode.mtime = date_of(&metadata, inode.mtime);
            inode.ctime = inode.ctime.max(inode.mtime);
        }
    }

    /// What the file says, if that is not what the record was last brought up to.
    fn changed(&self, known: &Known) -> Option<Metadata> {
        let metadata = self.file.metadata().ok()?;
        let as_known = metadata.len() == known.size && mtime_of(&metadata) == known.written;
        (!as_known).then_some(metadata)
    }

    pub fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    pub fn version(&self) -> u64 {
        self.known().stored.version
    }

    /// What is stored of it.
    pub fn stored_bytes(&self) -> Result<u64, Error> {
        self.file.metadata().map(|it| stored_bytes(&it)).map_err(|error| error_of(&error))
    }

    #[cfg(test)]
    pub fn is_dirty(&self) -> bool {
        self.changed(&self.known()).is_some()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic while a record is changed")
    }
}

/// Whole pages.
fn stored_bytes(metadata: &Metadata) -> u64 {
    const UNIT: u64 = 512;
    metadata.blocks() * UNIT
}

/// When the file was written, as the kernel says it: by a clock that moves on once a tick. Other changes, the
/// last one `recorded`, have exact dates; what was written within a tick of one is not dated before it.
fn date_of(metadata: &Metadata, recorded: Time) -> Time {
    let written = mtime_of(metadata);
    let is_close = recorded - written < KERNEL_TICK_MAX;
    if is_close { written.max(recorded) } else { written }
}

fn mtime_of(metadata: &Metadata) -> Time {
    Time::from_unix(metadata.mtime(), metadata.mtime_nsec() as u32)
}

/// What the kernel says of its own memory file, as a fact of the file system or of the store.
fn error_of(error: &io::Error) -> Error {
    let endpoint = || "this machine's memory".into();
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::NOMEM) => {
            Error::Store(StoreError::Full { endpoint: endpoint() })
        }
        Some(Errno::FBIG) => Error::FileTooLarge,
        Some(Errno::INVAL) => Error::Invalid,
        Some(Errno::NXIO) => Error::NoSuchOffset,
        Some(Errno::OPNOTSUPP) => Error::NotSupported,
        _ => Error::Store(StoreError::Unavailable { endpoint: endpoint() }),
    }
}
