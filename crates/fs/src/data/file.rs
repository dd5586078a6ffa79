//! An inode that is open in this mount, whichever way its bytes are kept.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidefs_model::{Ino, ShardKey, Time};
use tidefs_store::{Pin, Store};

use super::DataPath;
use super::append::AppendedAt;
use super::errors::ErrorCursor;
use super::pinned::Pinned;
use super::record::Record;
use super::run::ReadAhead;
use super::state::{OldPages, Outgrown, Stored};
use super::striped::Striped;
use crate::inode::Inode;
use crate::membership::Membership;
use crate::{Error, FILE_BYTES_MAX, ReadBytes, Seek, SpaceMode};

/// The bytes of one inode that is open, or being truncated, in this mount; shared by all its
/// handles.
pub struct OpenFile<S: Store>(Bytes<S>);

enum Bytes<S: Store> {
    /// In the store's stripes, with buffers before them.
    Striped(Arc<Striped<S>>),
    /// In a file of this machine's memory, which the kernel may use by itself.
    Pinned(Pinned<S>),
}

impl<S: Store> OpenFile<S> {
    /// `inode` is the record as the store has it now. `pinned` is the store's file of the bytes.
    pub fn new(
        path: Arc<DataPath<S>>,
        ino: Ino,
        home: ShardKey,
        inode: &Inode,
        pinned: Option<Pin>,
    ) -> OpenFile<S> {
        let record = Record::new(Arc::clone(&path.store), home, ino);
        record.saw(inode.version);
        OpenFile(match pinned {
            Some(pin) => Bytes::Pinned(Pinned::new(path, record, inode, pin)),
            None => Bytes::Striped(Arc::new(Striped::new(path, record, inode))),
        })
    }

    /// The file that the kernel may read and write by itself.
    pub fn pinned(&self) -> Option<Arc<File>> {
        match &self.0 {
            Bytes::Striped(_) => None,
            Bytes::Pinned(pinned) => Some(pinned.file()),
        }
    }

    /// Reads what there is of a range; less than asked for only at the end of the file.
    pub fn read(&self, reader: &ReadAhead, offset: u64, length: usize) -> Result<ReadBytes, Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.read(reader, offset, length),
            Bytes::Pinned(pinned) => pinned.read(offset, length),
        }
    }

    /// Writes `bytes` and answers how many were taken: all, unless whoever writes has gone meanwhile.
    /// An error may be that of an earlier write, which this handle had not been told of; nothing of
    /// this one is done then.
    pub fn write(&self, errors: &ErrorCursor, offset: u64, bytes: &[u8]) -> Result<usize, Error> {
        end_of(offset, bytes.len() as u64)?;
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| striped.write(errors, offset, bytes)),
            Bytes::Pinned(pinned) => pinned.write(offset, bytes).map(|()| bytes.len()),
        }
    }

    /// Writes at the file's end and answers where the bytes that were taken are. Where the append has no
    /// [place](Self::place_alone) yet the store hands one out.
    pub fn append(
        &self,
        errors: &ErrorCursor,
        bytes: &[u8],
        at: &AppendedAt,
    ) -> Result<Range<u64>, Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| striped.append(errors, bytes, at)),
            // It never waits for room, so what was appended is not begun again.
            Bytes::Pinned(pinned) => {
                pinned.append(bytes).map(|offset| offset..offset + bytes.len() as u64)
            }
        }
    }

    /// No other mount can come to append where this one did; see [`tell_appends`](Self::tell_appends).
    pub fn has_told_appends(&self) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => striped.has_told_appends(),
            Bytes::Pinned(_) => true,
        }
    }

    /// Has the store know of what was appended while this mount was alone, and begins to send the bytes.
    pub fn tell_appends(&self) -> Result<(), Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| {
                let has_told = striped.has_told_appends();
                striped.tell_appends()?;
                striped.send_for_others(!has_told);
                Ok(())
            }),
            Bytes::Pinned(_) => Ok(()),
        }
    }

    /// Finds an append's place without asking the store; to be called while no other mount is there or
    /// comes.
    pub fn place_alone(&self, bytes: usize, at: &AppendedAt) {
        match &self.0 {
            Bytes::Striped(striped) => striped.place_alone(bytes, at),
            Bytes::Pinned(_) => {}
        }
    }

    /// Sends everything written, waits until the store has it, then commits size and times to the
    /// inode. Reports the failure of an earlier write that this handle had not been told of.
    pub fn flush(&self, errors: &ErrorCursor) -> Result<(), Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| {
                let flushed = striped.flush(errors, None);
                striped.leave_no_residue();
                flushed
            }),
            Bytes::Pinned(pinned) => pinned.commit(),
        }
    }

    /// The same, with bytes and commit in one round where they are few and this mount is alone.
    pub fn flush_at_once(
        &self,
        errors: &ErrorCursor,
        membership: &Membership,
    ) -> Result<(), Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| {
                let flushed = striped.flush(errors, Some(membership));
                striped.leave_no_residue();
                flushed
            }),
            Bytes::Pinned(pinned) => pinned.commit(),
        }
    }

    /// A handle has yet to hear that something was lost.
    pub fn owes(&self, errors: &ErrorCursor) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().errors.owes(errors),
            Bytes::Pinned(_) => false,
        }
    }

    /// The same without a handle to report to: nobody hears what the last close of all answers.
    pub fn settle(&self, membership: &Membership) -> Result<(), Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| {
                let settled = striped.settle_at_once(membership);
                striped.leave_no_residue();
                settled
            }),
            Bytes::Pinned(pinned) => pinned.commit(),
        }
    }

    /// Does something while all that was written is counted, and nobody reads or writes here.
    ///
    /// # Errors
    /// When something cannot be counted; nothing is done then.
    pub fn stand_still(&self, meanwhile: impl FnOnce()) -> Result<(), Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| striped.stand_still(meanwhile)),
            Bytes::Pinned(_) => {
                meanwhile();
                Ok(())
            }
        }
    }

    /// Up to where failed writes may have left something beyond the end; 0 where nothing is.
    pub fn residue_end(&self) -> u64 {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().residue_end,
            Bytes::Pinned(_) => 0,
        }
    }

    /// So it was when the file was open before.
    pub fn has_residue(&self, end: u64) {
        if let Bytes::Striped(striped) = &self.0 {
            let mut state = striped.state();
            state.residue_end = state.residue_end.max(end);
        }
    }

    /// Does what closing the file would. What fails is left for that to tell.
    pub fn flush_eagerly(&self, membership: &Membership) {
        if let Bytes::Striped(striped) = &self.0
            && let Err(error) = striped.in_a_term(|| striped.settle_at_once(membership))
        {
            tracing::debug!(%error, ino = %striped.ino(), "a file was not made before its close");
        }
    }

    /// Sets the size, and the times with it. What is cut off is zeros when the file grows again.
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        end_of(size, 0)?;
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| striped.truncate(size)),
            Bytes::Pinned(pinned) => pinned.truncate(size),
        }
    }

    pub fn allocate(&self, offset: u64, length: u64, mode: SpaceMode) -> Result<(), Error> {
        let end = end_of(offset, length)?;
        match &self.0 {
            _ if length == 0 => Err(Error::Invalid),
            Bytes::Striped(striped) => striped.in_a_term(|| striped.allocate(offset..end, mode)),
            Bytes::Pinned(pinned) => pinned.allocate(offset..end, mode),
        }
    }

    /// The first offset from `offset` on that lies in data, or in a hole; the end of the file is
    /// one.
    pub fn seek(&self, offset: u64, seek: Seek) -> Result<u64, Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.seek(offset, seek),
            Bytes::Pinned(pinned) => pinned.seek(offset, seek),
        }
    }

    /// How many of its bytes are stored, or about to be.
    pub fn stored_bytes(&self) -> Result<u64, Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.stored_bytes(),
            Bytes::Pinned(pinned) => pinned.stored_bytes(),
        }
    }

    /// Up to where stripes are that are still to be sent.
    pub fn unsent_ends(&self) -> BTreeMap<u64, u32> {
        match &self.0 {
            Bytes::Striped(striped) => striped.ends().1,
            Bytes::Pinned(_) => BTreeMap::new(),
        }
    }

    /// Lays what this mount knows and the record does not say yet over a record from the store.
    pub fn overlay(&self, inode: &mut Inode) {
        match &self.0 {
            Bytes::Striped(striped) => striped.overlay(inode),
            Bytes::Pinned(pinned) => pinned.overlay(inode),
        }
    }

    /// What the record said when it was read or changed last; `None` where the kernel writes by itself.
    pub(crate) fn stored(&self) -> Option<Stored> {
        match &self.0 {
            Bytes::Striped(striped) => Some(striped.state().stored),
            Bytes::Pinned(_) => None,
        }
    }

    /// The record was read again: another mount may have changed the bytes.
    pub fn refresh(&self, inode: &Inode) {
        match &self.0 {
            Bytes::Striped(striped) => striped.refresh(inode),
            Bytes::Pinned(_) => {}
        }
    }

    /// A handle that only reads comes, or goes.
    pub fn count_reader(&self, comes: bool) {
        if let Bytes::Striped(striped) = &self.0 {
            let readers = &mut striped.state().readers;
            *readers = if comes { *readers + 1 } else { readers.saturating_sub(1) };
        }
    }

    /// What the kernel is to drop before it is told how long the file is.
    pub fn outgrown(&self) -> Option<Outgrown> {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().outgrown(),
            Bytes::Pinned(_) => None,
        }
    }

    /// It has been dropped.
    pub fn dropped(&self, outgrown: Outgrown) {
        if let Bytes::Striped(striped) = &self.0 {
            striped.state().dropped(outgrown);
        }
    }

    /// Makes the record the only place that knows the file's times, before they are set by hand; `mtime`
    /// is the one that will be, where it is not now.
    pub fn settle_times(&self, mtime: Option<Time>) -> Result<(), Error> {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| striped.settle()),
            Bytes::Pinned(pinned) => pinned.settle_times(mtime),
        }
    }

    /// The times were set by hand of a file that is still to be made, with all that was written until now. `false`:
    /// the kernel writes it by itself.
    pub fn times_set(&self, mtime: Option<Time>, ctime: Time) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => {
                striped.state().times_set(mtime, ctime);
                true
            }
            Bytes::Pinned(_) => false,
        }
    }

    /// The file has no name any more and its last handle is closed: gives up what was written and
    /// frees its memory, `later` if other mounts may just have found it.
    pub fn discard(&self, later: bool) {
        match &self.0 {
            Bytes::Striped(striped) => striped.in_a_term(|| striped.discard(later)),
            // Its file goes whole with the inode, since programs may still have it mapped.
            Bytes::Pinned(_) => {}
        }
    }

    /// Its length, in bytes, with what is still to be sent.
    pub fn size(&self) -> u64 {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().size(),
            Bytes::Pinned(pinned) => pinned.size(),
        }
    }

    /// Counts the changes of the bytes, as far as the record says.
    pub fn version(&self) -> u64 {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().stored.version,
            Bytes::Pinned(pinned) => pinned.version(),
        }
    }

    /// The version that the kernel's pages of the file have; `None`: others changed the file after
    /// the kernel read some of them.
    pub fn version_kept(&self) -> Option<u64> {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().version_kept(),
            Bytes::Pinned(pinned) => Some(pinned.version()),
        }
    }

    /// The kernel may have pages from before changes that are known by now.
    pub fn doubt_pages(&self) {
        if let Bytes::Striped(striped) = &self.0 {
            striped.state().doubt_pages();
        }
    }

    /// What the kernel is to drop before somebody relies on what it reads.
    pub fn old_pages(&self) -> Option<OldPages> {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().old_pages(),
            Bytes::Pinned(_) => None,
        }
    }

    /// The kernel has dropped it.
    pub fn pages_dropped(&self, old: OldPages) {
        if let Bytes::Striped(striped) = &self.0 {
            striped.state().pages_dropped(old);
        }
    }

    /// Whether the record was read in this time of being alone, so that only this mount has
    /// changed the file since.
    pub fn is_as_of(&self, alone: Option<u64>) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().as_of == alone,
            Bytes::Pinned(_) => true,
        }
    }

    /// A program has it open for reading and writing, which it must to map it for writing.
    pub fn may_be_mapped(&self) {
        let noted = match &self.0 {
            Bytes::Striped(striped) => &striped.may_be_mapped,
            Bytes::Pinned(pinned) => &pinned.may_be_mapped,
        };
        noted.store(true, Ordering::Relaxed);
    }

    /// Programs may store bytes into it, and date it anew, without a word to anybody.
    pub fn changes_silently(&self) -> bool {
        match &self.0 {
            Bytes::Striped(_) => false,
            Bytes::Pinned(pinned) => pinned.may_be_mapped.load(Ordering::Relaxed),
        }
    }

    /// The size of a file that may be mapped for writing; `None` where the kernel serves it by itself.
    pub fn mapped_size(&self) -> Option<u64> {
        match &self.0 {
            Bytes::Striped(striped) if striped.may_be_mapped.load(Ordering::Relaxed) => {
                Some(striped.state().size())
            }
            Bytes::Striped(_) | Bytes::Pinned(_) => None,
        }
    }

    /// The record was read just now, in this time of being alone; `None` with company.
    pub fn set_as_of(&self, alone: Option<u64>) {
        if let Bytes::Striped(striped) = &self.0 {
            striped.state().as_of = alone;
        }
    }

    /// A change of the record may have been made or not.
    pub fn is_record_doubtful(&self) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => striped.record.is_doubtful(),
            Bytes::Pinned(_) => true,
        }
    }

    /// Something written is not in the store yet.
    pub fn has_unsent(&self) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => !striped.state().stripes.is_empty(),
            Bytes::Pinned(_) => false,
        }
    }

    /// Something written is not in the store yet, or not in the record.
    #[cfg(test)]
    pub fn is_dirty(&self) -> bool {
        match &self.0 {
            Bytes::Striped(striped) => striped.state().is_dirty(),
            Bytes::Pinned(pinned) => pinned.is_dirty(),
        }
    }
}

/// A handle's view of the write errors of its file. A file whose bytes are pinned has none: each
/// write is done when it returns.
impl ErrorCursor {
    pub fn new<S: Store>(file: &OpenFile<S>) -> ErrorCursor {
        match &file.0 {
            Bytes::Striped(striped) => striped.state().errors.cursor(),
            Bytes::Pinned(_) => ErrorCursor::default(),
        }
    }

    /// The failure of an earlier write that this handle has not reported yet.
    pub fn report<S: Store>(&self, file: &OpenFile<S>) -> Result<(), Error> {
        match &file.0 {
            Bytes::Striped(striped) => striped.state().errors.report(self),
            Bytes::Pinned(_) => Ok(()),
        }
    }
}

fn end_of(offset: u64, length: u64) -> Result<u64, Error> {
    let end = offset.checked_add(length).filter(|&end| end <= FILE_BYTES_MAX);
    end.ok_or(Error::FileTooLarge)
}
