//! The two commands by which a thread and the kernel hand requests to each other over io_uring.

use std::os::fd::{AsFd, AsRawFd};

use io_uring::opcode::UringCmd80;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, types};
use rustix::io::Errno;

use super::room::Room;
use crate::device::Device;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Where the number of vectors stands in a submission (`len`).
const LENGTH_AT: usize = 24;

type Ring = IoUring<Entry128, cqueue::Entry>;

/// Of one thread, which makes it and alone uses it.
pub struct Commands {
    ring: Ring,
}

impl Commands {
    /// For so many requests at a time.
    pub fn new(requests: u32) -> Result<Commands, Errno> {
        let mut builder = Ring::builder();
        // The thread that is woken does the kernel's part of the work itself.
        builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
        let ring = builder.build(requests).map_err(|error| number(&error))?;
        Ok(Commands { ring })
    }

    /// Gives the kernel a room for requests of one of its queues. What comes of it comes with `which`.
    pub fn register(
        &mut self,
        device: &Device,
        queue: u16,
        room: &Room,
        which: u64,
    ) -> Result<(), Errno> {
        let parts = room.parts();
        let command = UringCmd80::new(descriptor(device), REGISTER)
            .cmd(request(0, queue))
            .addr(Some(parts.as_ptr().addr() as u64))
            .build()
            .user_data(which);
        self.push(with_length(command, parts.len() as u32))?;
        // Before the vectors are gone, which the kernel copies.
        self.ring.submit().map(drop).map_err(|error| number(&error))
    }

    /// Hands an answer to the kernel that lies in its room, and asks for the next request.
    pub fn commit(
        &mut self,
        device: &Device,
        queue: u16,
        commit_id: u64,
        which: u64,
    ) -> Result<(), Errno> {
        let command = UringCmd80::new(descriptor(device), COMMIT_AND_FETCH)
            .cmd(request(commit_id, queue))
            .build()
            .user_data(which);
        self.push(command)
    }

    /// Submits what there is and waits. `which` has a request, or failed.
    pub fn wait(&mut self) -> Result<(u64, Result<(), Errno>), Errno> {
        loop {
            // An answer is handed over before another request is taken.
            let is_submitted = self.ring.submission().is_empty();
            let done = if is_submitted { self.ring.completion().next() } else { None };
            if let Some(done) = done {
                let result = match done.result() {
                    0.. => Ok(()),
                    error => Err(Errno::from_raw_os_error(-error)),
                };
                return Ok((done.user_data(), result));
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if number(&error) == Errno::INTR => {}
                Err(error) => return Err(number(&error)),
            }
        }
    }

    fn push(&mut self, command: Entry128) -> Result<(), Errno> {
        // SAFETY: what the command refers to is a room that lives until its thread has left the ring, and vectors that
        // the kernel copies when it is submitted.
        unsafe { self.ring.submission().push(&command) }.map_err(|_| Errno::BUSY)
    }
}

fn descriptor(device: &Device) -> types::Fd {
    types::Fd(device.as_fd().as_raw_fd())
}

/// `struct fuse_uring_cmd_req`.
fn request(commit_id: u64, queue: u16) -> [u8; 80] {
    let mut request = [0; 80];
    request[8..16].copy_from_slice(&commit_id.to_ne_bytes());
    request[16..18].copy_from_slice(&queue.to_ne_bytes());
    request
}

/// The library has no name for it in commands of this kind.
fn with_length(command: Entry128, length: u32) -> Entry128 {
    // SAFETY: a submission of 128 bytes is numbers, each of which may have any value.
    let mut bytes: [u8; 128] = unsafe { std::mem::transmute(command) };
    bytes[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_ne_bytes());
    // SAFETY: as above.
    unsafe { std::mem::transmute(bytes) }
}

fn number(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
