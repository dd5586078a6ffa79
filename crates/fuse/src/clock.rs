//! The clock of the machine, for everything that is handed a clock.

use std::time::SystemTime;

use tidefs_model::{Clock, Time};

/// Reads the machine's real-time clock, which people and other machines may set.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        SystemTime::now().into()
    }
}
