//! The kernel's connection: one descriptor of it, from which requests are read and to which answers to
//! these requests, and notices, are written.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

use crate::error::SessionError;

const PATH: &str = "/dev/fuse";
/// Of the kernel's numbers for device controls.
pub(crate) const GROUP: u8 = 229;

/// What came of an attempt to read a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Request,
    /// What had been asked for is not wanted any more, or the thread was called away.
    Nothing,
    /// The mount is gone.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl Device {
    pub fn new(connection: OwnedFd) -> Device {
        Device(connection)
    }

    /// Reads one request, over what the buffer has.
    pub fn read(&self, buffer: &mut Vec<u8>) -> Result<Read, SessionError> {
        buffer.clear();
        match rustix::io::read(&self.0, spare_capacity(buffer)) {
            Ok(0) | Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Read::Gone),
            Ok(_) => Ok(Read::Request),
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => Ok(Read::Nothing),
            Err(source) => Err(SessionError::Read { source }),
        }
    }

    /// One more name of the same descriptor, with the same requests under way.
    pub fn connection(&self) -> Result<OwnedFd, SessionError> {
        self.0.try_clone().map_err(|source| SessionError::Descriptor { source })
    }

    /// One message, of several parts.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| rustix::io::writev(&self.0, parts)).map(drop)
    }

    /// Another descriptor of the same connection, with requests of its own under way.
    pub fn another(&self) -> Result<Device, SessionError> {
        let failed = |source: Errno| SessionError::Descriptor { source: source.into() };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = open(PATH, flags, Mode::empty()).map_err(failed)?;
        const CLONE: u32 = opcode::read::<u32>(GROUP, 0);
        // SAFETY: FUSE_DEV_IOC_CLONE reads a number of 32 bits, that of a descriptor.
        let clone = unsafe { Setter::<CLONE, u32>::new(self.0.as_raw_fd() as u32) };
        // SAFETY: as above.
        unsafe { ioctl(&device, clone) }.map_err(failed)?;
        Ok(Device(device))
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
