//! Files that the kernel is handed, to read and write them by itself.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

use crate::device::{Device, GROUP};

/// A file that the kernel knows; it forgets it when this is dropped, as far as no handle uses it.
#[derive(Debug)]
pub struct BackingId {
    device: Arc<Device>,
    pub(crate) id: u32,
}

impl BackingId {
    pub(crate) fn register(device: &Arc<Device>, file: impl AsFd) -> Result<BackingId, Errno> {
        let map = Map { file: file.as_fd().as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the descriptor is open for the time of the call.
        let id = unsafe { ioctl(&**device, Open(map)) }?;
        Ok(BackingId { device: device.clone(), id })
    }
}

impl Drop for BackingId {
    fn drop(&mut self) {
        const CLOSE: u32 = opcode::write::<u32>(GROUP, 2);
        // SAFETY: FUSE_DEV_IOC_BACKING_CLOSE reads a number of 32 bits.
        let closed = unsafe { ioctl(&*self.device, Setter::<CLOSE, u32>::new(self.id)) };
        if let Err(error) = closed {
            // With the mount the kernel has forgotten all of them.
            tracing::debug!(%error, "the kernel keeps a file that it was handed");
        }
    }
}

/// `struct fuse_backing_map`.
#[repr(C)]
struct Map {
    file: i32,
    flags: u32,
    padding: u64,
}

/// FUSE_DEV_IOC_BACKING_OPEN, which returns the number of the file.
struct Open(Map);

// SAFETY: the kernel reads a `Map`, writes nothing, and returns a number.
unsafe impl Ioctl for Open {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::write::<Map>(GROUP, 1)
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(
        returned: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> Result<u32, Errno> {
        u32::try_from(returned).map_err(|_| Errno::INVAL)
    }
}
