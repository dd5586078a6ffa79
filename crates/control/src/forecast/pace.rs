//! How finely a run is followed: as finely as nodes come quickly.

use std::time::Duration;

/// What a run's course is judged by where nodes take [`Pace::USUAL_LEAD`], in seconds.
const WINDOW_SECONDS: f64 = 10.0;
const PATIENCE_SECONDS: f64 = 12.0;
const ALARM_SECONDS: f64 = 60.0;
/// Observations are a second apart or less, and a window of fewer than two shows no course.
const PART_LEAST: f64 = 0.4;
/// No growth is over sooner.
const LEAD_LEAST: Duration = Duration::from_millis(500);
/// A growth takes so many times as long as the start of a node: it is decided on after a look, and data
/// move to what has started.
const STARTS: u32 = 8;

/// Times in which a run is looked at, by how long nodes take to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    lead: f64,
    part: f64,
}

impl Pace {
    /// Of a cluster of which nobody has seen a node start.
    pub const USUAL_LEAD: Duration = Duration::from_secs(40);

    /// `lead`: from the wish for nodes to their service, before a growth was seen.
    pub fn of(lead: Duration) -> Pace {
        let lead = lead.max(LEAD_LEAST).as_secs_f64();
        let part = lead / Self::USUAL_LEAD.as_secs_f64();
        Pace { lead, part: part.clamp(PART_LEAST, 1.0) }
    }

    /// `start`: what the start of a node takes, as it was measured.
    pub fn after_start(start: Duration) -> Pace {
        Pace::of(start.saturating_mul(STARTS).min(Self::USUAL_LEAD))
    }

    pub(super) fn lead(self) -> f64 {
        self.lead
    }

    /// The course of a run is judged over so many seconds.
    pub(super) fn window(self) -> f64 {
        WINDOW_SECONDS * self.part
    }

    /// What stands still for so many seconds has ended.
    pub(super) fn patience(self) -> f64 {
        PATIENCE_SECONDS * self.part
    }

    /// A stay of fewer seconds is not seen.
    pub(super) fn unseen(self) -> f64 {
        self.window() + self.patience()
    }

    /// Alarms of full nodes within so many seconds are one.
    pub(super) fn alarm(self) -> f64 {
        ALARM_SECONDS * self.part
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::of(Self::USUAL_LEAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nodes_come_quickly_a_run_is_judged_by_seconds() {
        let usual = Pace::default();
        assert_eq!((usual.lead(), usual.window(), usual.patience()), (40.0, 10.0, 12.0));
        let quick = Pace::of(Duration::from_secs(1));
        assert_eq!((quick.lead(), quick.window(), quick.alarm()), (1.0, 4.0, 24.0));
        // Slow nodes make nobody judge more slowly.
        assert_eq!(Pace::of(Duration::from_secs(400)).window(), 10.0);
        assert_eq!(Pace::of(Duration::ZERO).lead(), 0.5);
        let after = |millis| Pace::after_start(Duration::from_millis(millis)).lead();
        assert_eq!((after(300), after(5_000), after(30_000)), (2.4, 40.0, 40.0));
    }
}
