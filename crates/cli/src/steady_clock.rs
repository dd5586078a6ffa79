//! The time as it was when the manager started, and what has passed since.

use std::time::{Instant, SystemTime};

use tidefs_model::{Clock, Time};

/// A clock that nobody sets. Observations are judged by their age, and a machine whose clock is put
/// back would otherwise decide nothing until it has caught up.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    begun: Time,
    since: Instant,
}

impl SteadyClock {
    /// As the machine's clock is at this moment.
    pub fn start() -> SteadyClock {
        SteadyClock { begun: SystemTime::now().into(), since: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Time {
        self.begun + self.since.elapsed()
    }
}
