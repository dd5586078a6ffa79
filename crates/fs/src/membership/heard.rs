//! What a mount hears with its heartbeat: what others have left beside the registrations for all mounts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidefs_store::{Batch, Outcome};

use super::QUESTION;
use super::register::number;
use crate::census::standstill::Call;
use crate::keys;

#[derive(Debug, Default)]
pub(crate) struct Heard {
    question: AtomicU64,
    lost_at: AtomicU64,
    call: Mutex<Option<Call>>,
}

impl Heard {
    /// The census that is under way, as far as this mount knows; 0 for none.
    pub fn question(&self) -> u64 {
        self.question.load(Ordering::SeqCst)
    }

    /// How many numbers of inodes had been granted at the last loss that this mount heard of; 0 for none.
    pub fn lost_at(&self) -> u64 {
        self.lost_at.load(Ordering::SeqCst)
    }

    /// All mounts but one are to stand still.
    pub fn call(&self) -> Option<Call> {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for what [`Heard::listen`] takes, behind what the batch reads before.
    pub(super) fn asking(batch: Batch) -> Batch {
        batch.read(QUESTION).read(keys::LOST_AT).read(keys::STANDSTILL)
    }

    /// `before`: how much the batch read before.
    pub(super) fn listen(&self, outcome: &mut Outcome, before: usize) {
        self.question.store(number(outcome.take(before)), Ordering::SeqCst);
        // Where the register was lost itself it says nothing for a moment.
        self.lost_at.fetch_max(number(outcome.take(before + 1)), Ordering::SeqCst);
        let call = outcome.take(before + 2).as_deref().and_then(Call::decode);
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }
}
