//! Where an axis ends, where its ticks are, and what they are called.

use tidefs_model::ByteSize;

/// An axis from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub end: f64,
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Sizes: ticks at powers of two and their multiples, as memory is bought.
    pub fn bytes(most: u64, ticks: u32) -> Axis {
        let least_step = most.max(1).div_ceil(u64::from(ticks));
        let step = least_step.checked_next_power_of_two().unwrap_or(1 << 63);
        Axis::with_step(most.max(1) as f64, step as f64, |value| ByteSize(value as u64).to_string())
    }

    /// Whole things.
    pub fn count(most: u32, ticks: u32) -> Axis {
        let most = f64::from(most.max(1));
        let step = round_step(most, ticks).max(1.0);
        Axis::with_step(most, step, |value| format!("{value:.0}"))
    }

    /// Fractions in per cent, at least to 100 %.
    pub fn percent(most: f64, ticks: u32) -> Axis {
        let most = (100.0 * most).max(100.0);
        let mut axis =
            Axis::with_step(most, round_step(most, ticks), |value| format!("{value:.0} %"));
        axis.end /= 100.0;
        axis.ticks.iter_mut().for_each(|(value, _)| *value /= 100.0);
        axis
    }

    /// The axis ends at the first tick that covers everything.
    fn with_step(most: f64, step: f64, label: impl Fn(f64) -> String) -> Axis {
        let count = (most / step).ceil().max(1.0) as usize;
        let ticks = (0..=count).map(|at| at as f64 * step).map(|value| (value, label(value)));
        Axis { end: count as f64 * step, ticks: ticks.collect() }
    }
}

/// Time since the start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeAxis {
    /// In seconds, like the ticks.
    pub end: f64,
    pub ticks: Vec<(f64, String)>,
    pub name: &'static str,
}

impl TimeAxis {
    /// Unlike the others it ends where the run ends, and its last tick before that.
    pub fn new(seconds: f64, ticks: u32) -> TimeAxis {
        let end = if seconds > 0.0 { seconds } else { 1.0 };
        let (unit, name) = match end {
            s if s <= 180.0 => (1.0, "seconds since the start"),
            s if s <= 3.0 * 3_600.0 => (60.0, "minutes since the start"),
            s if s <= 72.0 * 3_600.0 => (3_600.0, "hours since the start"),
            _ => (86_400.0, "days since the start"),
        };
        let step = round_step(end / unit, ticks);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let count = (end / unit / step + 1e-9).floor() as usize;
        let label = |value: f64| format!("{value:.decimals$}");
        let tick = |at: usize| (at as f64 * step * unit, label(at as f64 * step));
        TimeAxis { end, ticks: (0..=count).map(tick).collect(), name }
    }
}

/// The smallest step of 1, 2 or 5 times a power of ten that needs at most so many ticks.
fn round_step(most: f64, ticks: u32) -> f64 {
    let least = most / f64::from(ticks);
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[(f64, String)]) -> Vec<&str> {
        ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn sizes_step_by_powers_of_two() {
        let axis = Axis::bytes(1_400 << 20, 5);
        assert_eq!(labels(&axis.ticks), ["0 B", "512 MiB", "1 GiB", "1.50 GiB"]);
        assert_eq!(axis.end, (1_536_u64 << 20) as f64);
        assert_eq!(labels(&Axis::bytes(1 << 30, 4).ticks).last(), Some(&"1 GiB"));
        assert_eq!(labels(&Axis::bytes(0, 5).ticks), ["0 B", "1 B"]);
        assert!(Axis::bytes(u64::MAX, 5).end >= u64::MAX as f64);
    }

    #[test]
    fn counts_are_whole_and_percents_reach_a_hundred() {
        assert_eq!(labels(&Axis::count(3, 4).ticks), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::count(64, 4).ticks), ["0", "20", "40", "60", "80"]);
        assert_eq!(Axis::count(0, 4).end, 1.0);
        let axis = Axis::percent(0.4, 4);
        assert_eq!((labels(&axis.ticks), axis.end), (vec!["0 %", "50 %", "100 %"], 1.0));
        assert_eq!(Axis::percent(1.03, 5).end, 1.5);
    }

    #[test]
    fn time_is_told_in_the_unit_that_suits_it() {
        for (seconds, expected, name) in [
            (0.0, vec!["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"], "seconds since the start"),
            (47.0, vec!["0", "10", "20", "30", "40"], "seconds since the start"),
            (600.0, vec!["0", "2", "4", "6", "8", "10"], "minutes since the start"),
            (4.0 * 3_600.0, vec!["0", "1", "2", "3", "4"], "hours since the start"),
            (1e6, vec!["0", "5", "10"], "days since the start"),
        ] {
            let axis = TimeAxis::new(seconds, 5);
            assert_eq!((labels(&axis.ticks), axis.name), (expected, name), "{seconds} s");
        }
    }
}
