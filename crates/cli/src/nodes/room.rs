//! How a writer that met a full node waits for room.

use std::time::Duration;

use tidefs_control::Growth;
use tidefs_manager::Handle;
use tidefs_store::Room;

use crate::control::{self, Answer, Request};
use crate::state::Paths;

/// Between two tries of one writer.
const PAUSE: Duration = Duration::from_millis(25);
/// A writer is told that there is no room after so many tries: two minutes, longer than a node takes
/// to start and to be given data.
const TRIES_MAX: u32 = 120_000 / PAUSE.as_millis() as u32;
/// Removals that are under way make room sooner than a node does.
const TRIES_BEFORE_ALARM: u32 = 2;

/// Whether there is any use in waiting for the manager.
pub fn is_hopeful(growth: Growth) -> bool {
    match growth {
        Growth::Possible | Growth::Underway => true,
        Growth::AtMaximum { .. } | Growth::NotByItself => false,
    }
}

/// Where nobody makes room.
pub struct NoRoom;

impl Room for NoRoom {
    fn wait(&self, _endpoint: &str, _attempt: u32) -> bool {
        false
    }
}

/// In the process of the manager.
pub struct ManagedRoom(pub Handle);

impl Room for ManagedRoom {
    fn wait(&self, _endpoint: &str, attempt: u32) -> bool {
        if attempt >= TRIES_BEFORE_ALARM {
            self.0.alarm_full(None);
        }
        let hopeful = is_hopeful(self.0.growth()) && attempt < TRIES_MAX;
        if hopeful {
            std::thread::sleep(PAUSE);
        }
        hopeful
    }
}

/// In a process that serves another mount: asks the one that has the manager.
pub struct AskingRoom(pub Paths);

impl Room for AskingRoom {
    fn wait(&self, _endpoint: &str, attempt: u32) -> bool {
        let answer = control::ask(&self.0, &Request::Full { alarm: attempt >= TRIES_BEFORE_ALARM });
        let hopeful = matches!(answer, Ok(Answer::Room { hopeful: true })) && attempt < TRIES_MAX;
        if hopeful {
            std::thread::sleep(PAUSE);
        }
        hopeful
    }
}
