//! One thread of a queue: it takes a request, has it served, waits for the answer, and hands it over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustix::io::Errno;

use super::Rings;
use super::processors::Place;
use super::ring::Commands;
use super::room::Received;
use super::slot::{Done, Slot};
use crate::answer::{Answer, head};
use crate::arguments::Body;
use crate::dispatch::dispatch;
use crate::error::SessionError;
use crate::filesystem::Filesystem;
use crate::operation::{READ, READDIR, READDIRPLUS};

/// What moves more bytes takes long enough to be worth another processor.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Begins with a request that has come to a slot that nobody serves, and goes on with that slot until the mount
/// is gone.
pub fn serve<F: Filesystem>(
    rings: &Rings<F>,
    queue: u16,
    slot: Arc<Slot>,
) -> Result<(), SessionError> {
    let place = Some(Place::on(queue.into()));
    let end = serve_all(&mut Serving { rings, slot, place }, queue);
    end.inspect_err(|error| tracing::error!(%error, queue, "a thread serves its ring no longer"))
}

fn serve_all<F: Filesystem>(serving: &mut Serving<'_, F>, queue: u16) -> Result<(), SessionError> {
    let failed = |source| SessionError::Ring { source };
    let mut commands = Commands::new(1).map_err(failed)?;
    while let Some(commit_id) = serving.serve_one()? {
        commands.commit(&serving.slot.device, queue, commit_id, 0).map_err(failed)?;
        match commands.wait().map_err(failed)? {
            (_, Ok(())) => {}
            (_, Err(error)) if is_gone(error) => return Ok(()),
            (_, Err(error)) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// A thread with a slot.
pub struct Serving<'a, F> {
    pub rings: &'a Rings<F>,
    pub slot: Arc<Slot>,
    /// Where it keeps to one processor.
    pub place: Option<Place>,
}

impl<F: Filesystem> Serving<'_, F> {
    /// By what number the kernel takes the answer. `None`: the mount is gone.
    pub fn serve_one(&mut self) -> Result<Option<u64>, SessionError> {
        // SAFETY: the kernel has just handed the request over; answers keep away from its bytes, since the slot
        // is told of them, and the header is written to when the request is not used any more.
        let received = unsafe { self.slot.room().request() };
        let Some(Received { by, commit_id, numbers, payload }) = received else {
            return Err(SessionError::Malformed { bytes: 0 });
        };
        match &mut self.place {
            Some(place) if is_large(by.opcode, numbers, payload) => place.go_anywhere(),
            Some(place) => place.go_home(),
            None => {}
        }
        self.slot.begin(payload.len());
        let body = Body::Apart { numbers, payload };
        let answer = Answer::by_ring(by.unique, self.slot.clone());
        let layer = &*self.rings.layer;
        if catch_unwind(AssertUnwindSafe(|| dispatch(layer, &by, body, answer))).is_err() {
            // It was dropped with its answer, which says that it failed.
            tracing::error!(opcode = by.opcode, "a request panicked");
        }
        let Some(Done { error, bytes }) = self.slot.wait() else { return Ok(None) };
        // SAFETY: the request is not used any more, and the kernel waits for the answer.
        unsafe { self.slot.room().write_head(&head(bytes, error, by.unique), bytes) };
        Ok(Some(commit_id))
    }
}

/// What the kernel says of a command when the mount is gone.
pub fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV | Errno::CANCELED)
}

fn is_large(opcode: u32, numbers: &[u8], payload: &[u8]) -> bool {
    /// Where a read says of how many bytes.
    const SIZE_AT: usize = 16;
    let asked = match opcode {
        READ | READDIR | READDIRPLUS => numbers.get(SIZE_AT..SIZE_AT + 4),
        _ => None,
    };
    let asked = asked.and_then(|size| size.try_into().ok()).map_or(0, u32::from_ne_bytes);
    payload.len().max(asked as usize) > SMALL_BYTES_MAX
}
