//! The clocks of the machine, for everything that is handed a clock.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tidefs_model::{Clock, Time};

/// Reads the machine's real-time clock, which people and other machines may set; and the one that
/// counts from when the machine was started.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        SystemTime::now().into()
    }

    fn steady(&self) -> Time {
        let time = clock_gettime(ClockId::Boottime);
        Time(0) + Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
