//! Time in which somebody looked at others.
//!
//! A mount is taken for dead when others looked for long and never saw it move. Whoever did not look,
//! since its machine slept, its process was stopped, or the store did not answer, has seen nobody be
//! silent: the others may have slept with it. So a look counts for what lies between looks that come
//! in time, and no more. What is counted too short makes a wait longer, and never wrong.

use std::time::Duration;

use tidefs_model::Time;

/// A look and a half: a busy machine may delay one by as much.
const LOOK_MAX: Duration = Duration::from_millis(1500);

/// A clock that goes on with looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    looked: Time,
    watched: Time,
}

impl Watch {
    /// `now`, here and below: of a clock that nobody sets.
    pub fn begun(now: Time) -> Watch {
        Watch { looked: now, watched: now }
    }

    /// Somebody looks. Answers the time in which somebody looked.
    pub fn look(&mut self, now: Time) -> Time {
        *self = Watch { looked: now, watched: self.at(now) };
        self.watched
    }

    /// The same between looks.
    pub fn at(&self, now: Time) -> Time {
        self.watched + (now - self.looked).min(LOOK_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_looks_counts_up_to_a_bound() {
        let at = |millis| Time(0) + Duration::from_millis(millis);
        let mut watch = Watch::begun(at(5_000));
        assert_eq!([watch.look(at(6_000)), watch.look(at(7_400))], [at(6_000), at(7_400)]);
        assert_eq!(watch.at(at(67_400)), at(8_900));
        assert_eq!(watch.look(at(67_400)), at(8_900), "a minute's sleep");
        assert_eq!(watch.look(at(67_500)), at(9_000));
        assert_eq!(watch.look(at(67_400)), at(9_000), "a look that came late");
    }
}
