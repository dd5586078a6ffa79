//! Space, holes and copies inside files, which depend on where a file ends.

use tidefs_store::Store;

use crate::error::Error;
use crate::fs::Fs;
use crate::handles::FileHandle;
use crate::ops::{Handle, Seek, SpaceMode};

impl<S: Store> Fs<S> {
    /// `clear_privileges`: as with [`Fs::write`], but it need not be asked for where there are none.
    pub fn allocate(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        mode: SpaceMode,
        clear_privileges: bool,
    ) -> Result<(), Error> {
        if length == 0 {
            return Err(Error::Invalid);
        }
        let end = offset.checked_add(length).ok_or(Error::FileTooLarge)?;
        if end > crate::FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        self.through(handle, |handle| {
            if !handle.mode.write {
                return Err(Error::BadHandle);
            }
            self.end_privileges(&handle.node, clear_privileges)?;
            self.catch_up(handle)?;
            handle.file.allocate(offset, length, mode)
        })
    }

    /// The first offset from `offset` on that lies in data, or in a hole.
    pub fn seek(&self, handle: Handle, offset: u64, seek: Seek) -> Result<u64, Error> {
        self.through(handle, |handle| {
            self.catch_up(handle)?;
            let found = handle.file.seek(offset, seek);
            // Of a file that was freed all is a hole.
            self.make_sure_of(&handle.node, &handle.file)?;
            found
        })
    }

    /// Copies bytes from file to file; answers how many, which are fewer at the source's end and where
    /// something fails after the first ones: whoever asks for the rest is told.
    /// `clear_privileges`: of the target, as with [`Fs::allocate`].
    pub fn copy_range(
        &self,
        source: Handle,
        source_offset: u64,
        target: Handle,
        target_offset: u64,
        length: u64,
        clear_privileges: bool,
    ) -> Result<u64, Error> {
        self.through_both([source, target], |handles| {
            let offsets = (source_offset, target_offset);
            self.copy_between(handles, offsets, length, clear_privileges)
        })
    }

    fn copy_between(
        &self,
        [reader, writer]: [&FileHandle<S>; 2],
        (source_offset, target_offset): (u64, u64),
        length: u64,
        clear_privileges: bool,
    ) -> Result<u64, Error> {
        const STEP: usize = 1 << 20;
        if !reader.mode.read || !writer.mode.write || writer.mode.append {
            return Err(Error::BadHandle);
        }
        self.catch_up(reader)?;
        writer.node.is_there()?;
        let mut copied = 0;
        while copied < length {
            let step = STEP.min(usize::try_from(length - copied).unwrap_or(STEP));
            let (from, to) = (source_offset + copied, target_offset + copied);
            let told = writer.errors.told();
            match self.copy_step(reader, from, step, |bytes| {
                if copied == 0 {
                    self.end_privileges(&writer.node, clear_privileges)?;
                }
                writer.file.write(&writer.errors, to, bytes)
            }) {
                Ok((found, taken)) => {
                    copied += taken as u64;
                    if found == 0 || taken < found {
                        break;
                    }
                }
                Err(_) if copied > 0 => {
                    writer.errors.tell_since(told);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.counters.wrote(copied as usize);
        Ok(copied)
    }

    /// For what depends on where the file ends: others may have changed that since its record was
    /// read last, with company or before it left.
    pub(crate) fn catch_up(&self, handle: &FileHandle<S>) -> Result<(), Error> {
        let alone = self.time_alone();
        if alone.is_some() && handle.file.is_as_of(alone) || handle.file.pinned().is_some() {
            return Ok(());
        }
        self.look_again(handle)?;
        handle.file.set_as_of(alone);
        handle.node.is_there()
    }

    /// Others may have changed the file since its record was read last.
    pub(crate) fn look_again(&self, handle: &FileHandle<S>) -> Result<(), Error> {
        let is_unmade = self.store.is_to_be_made(handle.node.home, handle.node.ino);
        match self.record_as_stored(&handle.node)? {
            Some(inode) => handle.file.refresh(&inode),
            None if is_unmade => {}
            None => self.may_be_gone(&handle.node),
        }
        Ok(())
    }

    /// Copies what one read answers: how many bytes it found, and how many were taken.
    fn copy_step(
        &self,
        reader: &FileHandle<S>,
        from: u64,
        length: usize,
        write: impl FnOnce(&[u8]) -> Result<usize, Error>,
    ) -> Result<(usize, usize), Error> {
        let bytes = self.read_what_is_there(reader, from, length)?;
        match bytes.as_slice() {
            [] => Ok((0, 0)),
            bytes => Ok((bytes.len(), write(bytes)?)),
        }
    }
}
