//! A time that is longer than the file system has been there, on whichever of its hosts it is asked for: what counters
//! that were lost are made anew from. No wall clock has a part in it.

use serde::{Deserialize, Serialize};
use tidefs_fuse::SystemClock;
use tidefs_model::{Clock, Time};

/// How long the machine on which the file system began has been up. A host that takes the file system over goes on
/// counting from what it was told of that, or from how long itself has been up, where that is longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeClock {
    /// Nanoseconds by which it is ahead of how long this machine has been up.
    ahead: u64,
}

impl AgeClock {
    pub fn now(self) -> Time {
        self.at(SystemClock.steady())
    }

    fn at(self, uptime: Time) -> Time {
        Time(uptime.0.saturating_add(self.ahead))
    }

    /// With what another machine said, in answer to what this one had asked when it was up for `asked`. The answer may
    /// lie here for any time before it is read, so the time at which it comes is no measure: what is counted between the
    /// question and the answer counts twice, and nothing is left out.
    pub fn told(self, age: Time, asked: Time) -> AgeClock {
        AgeClock { ahead: self.ahead.max(age.0.saturating_sub(asked.0)) }
    }
}

#[cfg(test)]
mod tests {
    use tidefs_model::Granted;

    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    /// What was granted since a loss is below what is made of the next one.
    #[test]
    fn a_successor_that_has_been_up_for_less_counts_on() {
        let first = AgeClock::default();
        let heir = AgeClock::default().told(first.at(Time(100 * HOUR)), Time(2 * HOUR));
        let lost = Granted::by(first.at(Time(101 * HOUR)));
        let again = Granted::by(heir.at(Time(3 * HOUR + 1)));
        assert!(again.inos > lost.inos && again.serials >= lost.serials);
        let next = AgeClock::default().told(heir.at(Time(5 * HOUR)), Time(1));
        assert_eq!(next.at(Time(1)), Time(103 * HOUR), "and so does who comes after it");
    }

    #[test]
    fn a_successor_that_has_been_up_for_longer_counts_from_that() {
        let heir = AgeClock::default().told(Time(2 * HOUR), Time(100 * HOUR));
        assert_eq!(heir.at(Time(101 * HOUR)), Time(101 * HOUR));
    }

    #[test]
    fn an_answer_that_is_read_late_counts_from_when_it_was_asked_for() {
        let before = AgeClock::default().told(Time(9 * HOUR), Time(HOUR));
        let stopped =
            AgeClock::default().told(Time(9 * HOUR), Time(HOUR)).told(Time(0), Time(7 * HOUR));
        assert_eq!(stopped, before, "and nothing that is told later takes it back");
    }
}
