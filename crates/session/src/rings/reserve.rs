//! Slots of all queues that no thread serves yet. The kernel uses them when all threads of a queue are busy, since it
//! uses first what was the last to be free. What comes to one is taken over by a new thread together with the slot,
//! and another slot takes its place, so that there are always some.

use std::sync::Arc;

use super::Rings;
use super::ring::Commands;
use super::room::Room;
use super::serve::{Serving, is_gone};
use super::slot::Slot;
use crate::error::SessionError;
use crate::filesystem::Filesystem;

/// More requests than that come to no queue before this thread has run.
const SLOTS_A_QUEUE: usize = 64;
/// Of a processor that is not there.
const SLOTS_OF_ABSENT: usize = 1;

pub struct Reserve<F> {
    rings: Arc<Rings<F>>,
    commands: Commands,
    slots: Vec<(u16, Arc<Slot>)>,
}

impl<F: Filesystem> Reserve<F> {
    /// By the thread that will serve it. When it returns, requests come by rings.
    pub fn begin(rings: Arc<Rings<F>>, online: &[usize]) -> Result<Reserve<F>, SessionError> {
        let queues = 0..rings.queues;
        let all: Vec<u16> = queues
            .flat_map(|queue| {
                let is_there = online.contains(&usize::from(queue));
                let count = if is_there { SLOTS_A_QUEUE } else { SLOTS_OF_ABSENT };
                std::iter::repeat_n(queue, count)
            })
            .collect();
        let commands =
            Commands::new(all.len() as u32).map_err(|source| SessionError::Ring { source })?;
        let mut reserve = Reserve { rings, commands, slots: Vec::with_capacity(all.len()) };
        for (which, queue) in all.into_iter().enumerate() {
            let slot = reserve.register(queue, which)?;
            reserve.slots.push((queue, slot));
        }
        Ok(reserve)
    }

    fn register(&mut self, queue: u16, which: usize) -> Result<Arc<Slot>, SessionError> {
        let failed = |source| SessionError::Ring { source };
        let room = Room::new(self.rings.payload_bytes).map_err(failed)?;
        let device = self.rings.device.clone();
        let slot = Arc::new(Slot::new(device, room, self.rings.over.clone()));
        self.commands.register(&slot.device, queue, slot.room(), which as u64).map_err(failed)?;
        Ok(slot)
    }

    /// Until the mount is gone.
    pub fn serve(&mut self) -> Result<(), SessionError> {
        loop {
            let came = self.commands.wait().map_err(|source| SessionError::Ring { source })?;
            match came {
                (which, Ok(())) => self.hand_over(which as usize)?,
                (_, Err(error)) if is_gone(error) => return Ok(()),
                (_, Err(source)) => return Err(SessionError::Ring { source }),
            }
        }
    }

    /// A request has come. Where no thread can be had, all that come to the reserve wait for each other.
    fn hand_over(&mut self, which: usize) -> Result<(), SessionError> {
        let (queue, slot) = self.slots[which].clone();
        match self.rings.add(queue, slot.clone()) {
            Ok(()) => self.slots[which].1 = self.register(queue, which)?,
            Err(error) => {
                tracing::warn!(%error, "requests may have to wait for each other");
                let served = Serving { rings: &self.rings, slot, place: None }.serve_one()?;
                // Without an answer the mount is gone, as the next command will say.
                if let Some(commit_id) = served {
                    let device = &self.rings.device;
                    self.commands
                        .commit(device, queue, commit_id, which as u64)
                        .map_err(|source| SessionError::Ring { source })?;
                }
            }
        }
        Ok(())
    }
}
