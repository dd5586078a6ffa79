//! Bytes that have arrived on a connection and are not yet part of an answer.
//!
//! A bulk reply that the caller wants in a buffer of its own is copied only as far as its first
//! bytes arrived together with its header; the rest is received into place.

use std::io::IoSliceMut;

use crate::fault::Fault;
use crate::stream::Stream;
use crate::wire::{BulkStart, Malformed, Reply, Scanner, bulk_start, parse};

/// Room for new bytes before each receive: many small replies, or the start of a large one.
const ROOM_BYTES: usize = 16 << 10;
/// A buffer that grew beyond this for one large reply is given back after it.
const KEPT_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Default)]
pub struct Inbound {
    buffer: Vec<u8>,
    /// The bytes that matter: `buffer[start..end]`.
    start: usize,
    end: usize,
    scanner: Scanner,
    landing: Landing,
}

/// How far the reply that is being received into a caller's buffer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Landing {
    /// Its header has not been seen.
    #[default]
    Ahead,
    /// `done` of `bytes` bytes are in place; a line end follows.
    Under { bytes: usize, done: usize },
}

/// The reply to a request whose answer was to be put in a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Landed {
    /// So many bytes of the buffer were filled.
    Bytes(usize),
    /// The server said something else.
    Other(Reply),
}

impl Inbound {
    pub fn is_empty(&self) -> bool {
        self.start == self.end && self.landing == Landing::Ahead
    }

    /// The next reply, if all of it has arrived.
    pub fn take_reply(&mut self) -> Result<Option<Reply>, Fault> {
        let bytes = &self.buffer[self.start..self.end];
        let Some(length) = self.scanner.scan(bytes)? else { return Ok(None) };
        let (reply, parsed) = parse(&bytes[..length])?;
        if parsed != length {
            return Err(Malformed::Truncated.into());
        }
        self.consume(length);
        Ok(Some(reply))
    }

    /// The next reply, if all of it has arrived, with its bytes in `buffer`.
    pub fn take_landed(&mut self, buffer: &mut [u8]) -> Result<Option<Landed>, Fault> {
        if self.landing == Landing::Ahead {
            match bulk_start(&self.buffer[self.start..self.end])? {
                BulkStart::Incomplete => return Ok(None),
                BulkStart::Other => return Ok(self.take_reply()?.map(Landed::Other)),
                BulkStart::Bulk { bytes, .. } if bytes > buffer.len() => {
                    return Err(Malformed::Length.into());
                }
                BulkStart::Bulk { header, bytes } => {
                    self.consume(header);
                    self.landing = Landing::Under { bytes, done: 0 };
                }
            }
        }
        let Landing::Under { bytes, done } = self.landing else { return Ok(None) };
        let ready = (self.end - self.start).min(bytes - done);
        buffer[done..done + ready].copy_from_slice(&self.buffer[self.start..self.start + ready]);
        self.consume(ready);
        self.landing = Landing::Under { bytes, done: done + ready };
        if done + ready < bytes || self.end - self.start < 2 {
            return Ok(None);
        }
        if self.buffer[self.start..self.start + 2] != *b"\r\n" {
            return Err(Malformed::LineEnd.into());
        }
        self.consume(2);
        self.landing = Landing::Ahead;
        Ok(Some(Landed::Bytes(bytes)))
    }

    /// Receives what is there; when nothing is, waits until the next look at the time
    /// unless `at_once`.
    /// `buffer` is where the next reply is to land, or empty. `None`: nothing came.
    pub fn fill(
        &mut self,
        stream: &Stream,
        buffer: &mut [u8],
        at_once: bool,
    ) -> Result<Option<usize>, Fault> {
        self.make_room();
        let rest = match self.landing {
            Landing::Under { bytes, done } => &mut buffer[done..bytes],
            Landing::Ahead => &mut [],
        };
        let wanted = rest.len();
        let received = {
            let room = &mut self.buffer[self.end..];
            let mut both = [IoSliceMut::new(rest), IoSliceMut::new(room)];
            let slices = if wanted == 0 { &mut both[1..] } else { &mut both[..] };
            stream.receive(slices, at_once)?
        };
        let Some(received) = received else { return Ok(None) };
        if let Landing::Under { done, .. } = &mut self.landing {
            *done += received.min(wanted);
        }
        self.end += received.saturating_sub(wanted);
        Ok(Some(received))
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT_BYTES_MAX {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end >= ROOM_BYTES {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        // By doubling, so that a large reply is moved a bounded number of times.
        let needed = (self.end + ROOM_BYTES).max(self.end * 2);
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }
}
