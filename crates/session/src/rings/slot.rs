//! A place for one request at a time, and its answer on the way back to the thread that hands it to the kernel.
//!
//! The answer lies in the payload where the request has no bytes there, which is where large answers are: of reads
//! and listings. To other requests it is put aside, since the request's bytes may still be in use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use rustix::io::Errno;

use super::room::Room;
use crate::device::Device;

#[derive(Debug)]
pub(crate) struct Slot {
    pub device: Arc<Device>,
    room: Room,
    /// The mount is gone, for all slots of a session.
    over: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who waits for the answer, to hand it to the kernel.
    owner: Option<Thread>,
    /// The request's bytes lie in the payload.
    payload_is_used: bool,
    /// The bytes of an answer that could not go there.
    aside: Vec<u8>,
    done: Option<Done>,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub error: i32,
    pub bytes: u32,
}

impl Slot {
    pub fn new(device: Arc<Device>, room: Room, over: Arc<AtomicBool>) -> Slot {
        Slot { device, room, over, state: Mutex::default() }
    }

    pub fn room(&self) -> &Room {
        &self.room
    }

    /// A request has come, with so many bytes in the payload; the thread that calls will wait for its answer.
    pub fn begin(&self, payload_bytes: usize) {
        let mut state = self.state();
        state.owner = Some(std::thread::current());
        state.payload_is_used = payload_bytes > 0;
        state.done = None;
    }

    /// Once for each request.
    pub fn answer(&self, error: i32, parts: &[&[u8]]) {
        let mut state = self.state();
        let put = match state.payload_is_used {
            true => put_aside(&mut state.aside, parts, self.room.payload_bytes_max()),
            // SAFETY: the request has nothing there, the kernel waits for the answer, and no other answer is written.
            false => unsafe { self.room.write_payload(parts) },
        };
        let done = match put.and_then(|bytes| u32::try_from(bytes).map_err(|_| Errno::TOOBIG)) {
            Ok(bytes) => Done { error, bytes },
            Err(refused) => {
                tracing::error!(error = %refused, "the kernel takes no answer to a request");
                state.aside.clear();
                Done { error: -Errno::IO.raw_os_error(), bytes: 0 }
            }
        };
        state.done = Some(done);
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner.filter(|owner| owner.id() != std::thread::current().id()) {
            owner.unpark();
        }
    }

    /// Waits for the answer and brings it to the payload; for its owner, when the request's bytes are not used any more. `None`: the
    /// mount is gone.
    pub fn wait(&self) -> Option<Done> {
        loop {
            let mut state = self.state();
            if let Some(done) = state.done.take() {
                if state.payload_is_used {
                    // SAFETY: the request's bytes are not used any more, and the kernel waits for the answer.
                    let put = unsafe { self.room.write_payload(&[&state.aside]) };
                    debug_assert!(put.is_ok(), "it was measured when it was put aside");
                    state.aside.clear();
                }
                return Some(done);
            }
            drop(state);
            if self.over.load(Ordering::Acquire) {
                return None;
            }
            std::thread::park();
        }
    }

    /// The mount is gone; nobody waits here any more.
    pub fn wake(&self) {
        if let Some(owner) = &self.state().owner {
            owner.unpark();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put_aside(aside: &mut Vec<u8>, parts: &[&[u8]], bytes_max: usize) -> Result<usize, Errno> {
    aside.clear();
    if parts.iter().map(|part| part.len()).sum::<usize>() > bytes_max {
        return Err(Errno::TOOBIG);
    }
    parts.iter().for_each(|part| aside.extend_from_slice(part));
    Ok(aside.len())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::Kernel;

    fn slot() -> Arc<Slot> {
        let (_, device) = Kernel::beside();
        Arc::new(Slot::new(device, Room::new(8192).unwrap(), Arc::default()))
    }

    #[test]
    fn an_answer_is_put_where_the_request_has_nothing_or_aside() {
        let slot = slot();
        for payload_bytes in [0, 5] {
            slot.begin(payload_bytes);
            slot.answer(0, &[b"ab", b"cd"]);
            assert_eq!(slot.wait(), Some(Done { error: 0, bytes: 4 }));
            let payload = &slot.room().parts()[1];
            assert_eq!(payload[..4], *b"abcd");
            // SAFETY: nobody else has the room.
            unsafe { slot.room().write_payload(&[b"xxxx"]) }.unwrap();
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error() {
        let slot = slot();
        for payload_bytes in [0, 5] {
            slot.begin(payload_bytes);
            slot.answer(0, &[&[0; 8193]]);
            assert_eq!(slot.wait(), Some(Done { error: -5, bytes: 0 }));
        }
    }

    #[test]
    fn an_answer_is_waited_for_until_it_comes_or_the_mount_is_gone() {
        let slot = slot();
        slot.begin(0);
        let other = slot.clone();
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.answer(-4, &[]);
        });
        assert_eq!(slot.wait(), Some(Done { error: -4, bytes: 0 }));
        late.join().unwrap();
        slot.begin(0);
        let other = slot.clone();
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.over.store(true, Ordering::Release);
            other.wake();
        });
        assert_eq!(slot.wait(), None);
        end.join().unwrap();
    }
}
