//! The time as it was when the file system started, and what has passed since.

use serde::{Deserialize, Serialize};
use tidefs_fuse::SystemClock;
use tidefs_model::{Clock, Time};

/// A clock that nobody sets, one for all managers of a file system. Observations are judged by their age,
/// and a machine whose clock is put back would otherwise decide nothing until it has caught up; and a manager
/// goes on with what its predecessor began and dated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteadyClock {
    /// When the machine started, by its clock.
    booted: u64,
}

impl SteadyClock {
    /// As the machine's clock is at this moment.
    pub fn start() -> SteadyClock {
        SteadyClock::by(&SystemClock)
    }

    fn by(machine: &dyn Clock) -> SteadyClock {
        SteadyClock { booted: machine.now().0.wrapping_sub(machine.steady().0) }
    }

    fn at(self, uptime: Time) -> Time {
        Time(self.booted.wrapping_add(uptime.0))
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Time {
        self.at(SystemClock.steady())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine;

    impl Clock for Machine {
        fn now(&self) -> Time {
            Time(1_000)
        }

        fn steady(&self) -> Time {
            Time(1_300)
        }
    }

    #[test]
    fn a_successor_has_the_same_clock_whatever_becomes_of_the_machines() {
        let clock = SteadyClock::by(&Machine);
        assert_eq!((clock.at(Time(1_300)), clock.at(Time(2_300))), (Time(1_000), Time(2_000)));
        let given: SteadyClock =
            serde_json::from_str(&serde_json::to_string(&clock).unwrap()).unwrap();
        assert_eq!(given, clock);
        assert!(given.now() <= given.now());
    }
}
