//! Memory that is shared with the kernel: where it puts a request, and finds the answer.

use std::io::IoSlice;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::answer;
use crate::request::Request;

/// `struct fuse_uring_req_header`: the head of the request and later of the answer, the numbers
/// of the request, and how they are handed over.
const NUMBERS_AT: usize = 128;
const NUMBERS_BYTES: usize = 128;
const COMMIT_ID_AT: usize = 264;
const PAYLOAD_BYTES_AT: usize = 272;
const HEADER_BYTES: usize = 288;
/// The payload begins at a page of its own.
const PAYLOAD_AT: usize = 4096;

/// Of one request at a time.
#[derive(Debug)]
pub struct Room {
    start: NonNull<u8>,
    payload_bytes: usize,
}

// SAFETY: it is memory that belongs to nobody else; who may look at which part of it, and when, is said at
// each access.
unsafe impl Send for Room {}
// SAFETY: as above.
unsafe impl Sync for Room {}

impl Room {
    /// Pages of it are taken from the kernel when they are first used.
    pub fn new(payload_bytes: usize) -> Result<Room, Errno> {
        let (protection, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let bytes = PAYLOAD_AT + payload_bytes;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, kind) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Room { start, payload_bytes })
    }

    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes
    }

    /// For the kernel: where the header lies, and the payload.
    pub fn parts(&self) -> [IoSlice<'_>; 2] {
        // SAFETY: both lie within the mapping, which lives as long as this. They are only handed to the kernel.
        unsafe { [self.slice(0, HEADER_BYTES), self.slice(PAYLOAD_AT, self.payload_bytes)] }
            .map(IoSlice::new)
    }

    /// The request that lies here, with the number by which its answer is handed over.
    ///
    /// # Safety
    /// The kernel has handed it over, and nobody writes to the room while it is used: no answer goes to the payload
    /// where the request has bytes there.
    pub unsafe fn request(&self) -> Option<Received<'_>> {
        // SAFETY: as the caller promises.
        let header = unsafe { self.slice(0, HEADER_BYTES) };
        let by = Request::parse_head(&header[..Request::HEAD_BYTES])?;
        let bytes = u32::from_ne_bytes(header[PAYLOAD_BYTES_AT..][..4].try_into().ok()?) as usize;
        let commit_id = u64::from_ne_bytes(header[COMMIT_ID_AT..][..8].try_into().ok()?);
        if bytes > self.payload_bytes {
            return None;
        }
        // SAFETY: as the caller promises; it is no longer than the payload.
        let payload = unsafe { self.slice(PAYLOAD_AT, bytes) };
        let numbers = &header[NUMBERS_AT..NUMBERS_AT + NUMBERS_BYTES];
        Some(Received { by, commit_id, numbers, payload })
    }

    /// # Safety
    /// Nobody uses the payload meanwhile.
    pub unsafe fn write_payload(&self, parts: &[&[u8]]) -> Result<usize, Errno> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if bytes > self.payload_bytes {
            return Err(Errno::TOOBIG);
        }
        let mut at = PAYLOAD_AT;
        for part in parts {
            // SAFETY: all parts together fit; they are not in the payload, since nobody uses that.
            unsafe { self.start.add(at).copy_from_nonoverlapping(pointer(part), part.len()) };
            at += part.len();
        }
        Ok(bytes)
    }

    /// # Safety
    /// Nobody uses the header meanwhile.
    pub unsafe fn write_head(&self, head: &[u8; answer::HEAD_BYTES], payload_bytes: u32) {
        let length = payload_bytes.to_ne_bytes();
        // SAFETY: both lie within the header.
        unsafe {
            self.start.copy_from_nonoverlapping(pointer(head), head.len());
            let at = self.start.add(PAYLOAD_BYTES_AT);
            at.copy_from_nonoverlapping(pointer(&length), length.len());
        }
    }

    /// # Safety
    /// It lies within the mapping, and nobody writes there while it is used.
    unsafe fn slice(&self, at: usize, length: usize) -> &[u8] {
        // SAFETY: as the caller promises; a mapping is zeros from the start.
        unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), length) }
    }
}

fn pointer(bytes: &[u8]) -> NonNull<u8> {
    NonNull::from(bytes).cast()
}

impl Drop for Room {
    fn drop(&mut self) {
        let bytes = PAYLOAD_AT + self.payload_bytes;
        // SAFETY: it is the whole of the mapping, which nobody uses any more.
        if let Err(error) = unsafe { munmap(self.start.as_ptr().cast(), bytes) } {
            tracing::debug!(%error, "memory is not given back");
        }
    }
}

/// A request in its room.
#[derive(Debug)]
pub struct Received<'a> {
    pub by: Request,
    pub commit_id: u64,
    pub numbers: &'a [u8],
    pub payload: &'a [u8],
}
