//! One request's answer on its way to the kernel.

use std::io::IoSlice;
use std::sync::Arc;

use rustix::io::Errno;

use crate::backing::BackingId;
use crate::device::Device;
use crate::rings::Slot;

/// `struct fuse_out_header`.
pub(crate) const HEAD_BYTES: usize = 16;
/// An answer has a head and at most so many parts behind it.
const PARTS_MAX: usize = 2;

/// How it gets there.
#[derive(Debug)]
enum Way {
    /// It is written to the descriptor from which the request was read.
    Device(Arc<Device>),
    /// It is put where the request came from.
    Ring(Arc<Slot>),
}

/// Sent once. One that is dropped says that the request failed, so that nobody waits for it for ever.
#[derive(Debug)]
pub(crate) struct Answer {
    unique: u64,
    way: Option<Way>,
}

impl Answer {
    pub fn new(unique: u64, device: Arc<Device>) -> Answer {
        Answer { unique, way: Some(Way::Device(device)) }
    }

    pub fn by_ring(unique: u64, slot: Arc<Slot>) -> Answer {
        Answer { unique, way: Some(Way::Ring(slot)) }
    }

    pub fn ok(mut self, parts: &[&[u8]]) {
        self.send(0, parts);
    }

    pub fn error(mut self, error: Errno) {
        self.send(-error.raw_os_error(), &[]);
    }

    /// Hands the kernel a file, for this answer or later ones.
    pub fn register(&self, file: &std::fs::File) -> Result<BackingId, Errno> {
        match &self.way {
            Some(Way::Device(device)) => BackingId::register(device, file),
            Some(Way::Ring(slot)) => BackingId::register(&slot.device, file),
            None => Err(Errno::BADF),
        }
    }

    /// There is no answer to this request. A ring takes the end of it all the same.
    pub fn none(mut self) {
        if let Some(Way::Ring(slot)) = self.way.take() {
            slot.answer(0, &[]);
        }
    }

    /// The request stays unanswered, for whoever has the kernel send it again.
    pub fn leave(mut self) {
        self.way = None;
    }

    fn send(&mut self, error: i32, parts: &[&[u8]]) {
        match self.way.take() {
            Some(Way::Device(device)) => self.write(&device, error, parts),
            Some(Way::Ring(slot)) => slot.answer(error, parts),
            None => {}
        }
    }

    fn write(&self, device: &Device, error: i32, parts: &[&[u8]]) {
        match write(device, self.unique, error, parts) {
            // Nobody waits for it any more, or the mount is gone.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {}
            Err(refused) => {
                tracing::error!(error = %refused, "the kernel takes no answer to a request");
                if write(device, self.unique, -Errno::IO.raw_os_error(), &[]).is_err() {
                    tracing::error!("a request stays without an answer");
                }
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.send(-Errno::IO.raw_os_error(), &[]);
    }
}

fn write(device: &Device, unique: u64, error: i32, parts: &[&[u8]]) -> Result<(), Errno> {
    assert!(parts.len() <= PARTS_MAX, "an answer of too many parts");
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
    let head = head(u32::try_from(bytes).map_err(|_| Errno::TOOBIG)?, error, unique);
    let mut message = [IoSlice::new(&head), IoSlice::new(&[]), IoSlice::new(&[])];
    for (place, part) in message[1..].iter_mut().zip(parts) {
        *place = IoSlice::new(part);
    }
    device.write(&message)
}

/// In front of so many bytes.
pub(crate) fn head(bytes: u32, error: i32, unique: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let all = bytes.saturating_add(HEAD_BYTES as u32);
    head[..4].copy_from_slice(&all.to_ne_bytes());
    head[4..8].copy_from_slice(&error.to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Kernel;

    #[test]
    fn an_answer_has_its_length_and_the_number_of_its_request() {
        let (kernel, device) = Kernel::beside();
        Answer::new(7, device.clone()).ok(&[b"ab", b"cde"]);
        assert_eq!(kernel.answer(), (7, 0, b"abcde".to_vec()));
        Answer::new(8, device).error(Errno::NOENT);
        assert_eq!(kernel.answer(), (8, -2, Vec::new()));
    }

    #[test]
    fn what_is_left_to_be_sent_again_has_no_answer() {
        let (kernel, device) = Kernel::beside();
        Answer::new(1, device.clone()).leave();
        Answer::new(2, device).ok(&[]);
        assert_eq!(kernel.answer(), (2, 0, Vec::new()));
    }

    #[test]
    fn what_is_dropped_unanswered_fails_and_what_has_no_answer_gets_none() {
        let (kernel, device) = Kernel::beside();
        Answer::new(1, device.clone()).none();
        drop(Answer::new(2, device));
        assert_eq!(kernel.answer(), (2, -5, Vec::new()));
    }
}
