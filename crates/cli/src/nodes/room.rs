//! How a writer that met a full node waits for room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidefs_control::Growth;
use tidefs_manager::AskError;
use tidefs_store::Room;

use super::managed::Supervision;
use crate::control::{self, Answer, Request};
use crate::state::Paths;

/// Between two tries of one writer.
const PAUSE: Duration = Duration::from_millis(50);
/// A writer is told that there is no room after so many tries: two minutes, longer than a node takes
/// to start and to be given data.
const TRIES_MAX: u32 = 120_000 / PAUSE.as_millis() as u32;

/// A writer that still waits has said so again in this time.
const URGENT_FOR: Duration = Duration::from_millis(500);

/// Whether there is any use in waiting for the manager.
pub fn is_hopeful(answer: Result<Growth, AskError>) -> bool {
    match answer {
        Ok(Growth::Possible | Growth::Underway) => true,
        Ok(Growth::AtMaximum { .. } | Growth::NotByItself) => false,
        Err(AskError::Busy | AskError::UnderWay) => true,
        Err(AskError::Stopped) => false,
    }
}

/// Removals that are under way make room sooner than a node does, so the first try alarms nobody.
fn wait(attempt: u32, alarm: impl FnOnce() -> bool) -> bool {
    let hopeful = attempt == 0 || attempt < TRIES_MAX && alarm();
    if hopeful {
        std::thread::sleep(PAUSE);
    }
    hopeful
}

/// Where nobody makes room.
pub struct NoRoom;

impl Room for NoRoom {
    fn wait(&self, _endpoint: &str, _attempt: u32) -> bool {
        false
    }
}

/// When a writer last waited for room, and who wants memory back; moves do not rest then.
#[derive(Clone, Debug, Default)]
pub struct Urgency(Arc<Mutex<Urgent>>);

#[derive(Debug, Default)]
struct Urgent {
    waited: Option<Instant>,
    /// Lenders that want their memory back.
    lenders: u32,
}

impl Urgency {
    fn lock(&self) -> MutexGuard<'_, Urgent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lender waits while `act` is under way.
    pub fn during<T>(&self, act: impl FnOnce() -> T) -> T {
        self.lock().lenders += 1;
        let done = act();
        self.lock().lenders -= 1;
        done
    }

    pub fn mark(&self) {
        self.lock().waited = Some(Instant::now());
    }

    pub fn is_a_lenders(&self) -> bool {
        self.lock().lenders > 0
    }

    pub fn is_there(&self) -> bool {
        let urgent = self.lock();
        urgent.lenders > 0 || urgent.waited.is_some_and(|last| last.elapsed() < URGENT_FOR)
    }
}

/// In the process that owns the nodes.
pub struct ManagedRoom(pub Arc<Supervision>);

impl Room for ManagedRoom {
    fn wait(&self, _endpoint: &str, attempt: u32) -> bool {
        wait(attempt, || self.0.hopes_for_room())
    }
}

/// In a process that serves another mount: asks the one that has the manager.
pub struct AskingRoom(pub Paths);

impl Room for AskingRoom {
    fn wait(&self, _endpoint: &str, attempt: u32) -> bool {
        wait(attempt, || {
            matches!(control::ask(&self.0, &Request::Full), Ok(Answer::Room { hopeful: true }))
        })
    }
}
