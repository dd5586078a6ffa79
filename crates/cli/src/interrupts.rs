//! Ctrl-C at a run whose command goes on: whoever pressed it is told once how to end it.
//!
//! The terminal sends it to the command as well, which may take its time to end, or take it for an order of its own, as
//! interpreters do. So one alone ends nothing here.

use std::time::{Duration, Instant};

/// For the command to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many within so long are meant for the run.
const MEANT: usize = 3;
const WITHIN: Duration = Duration::from_secs(5);

/// Those that came.
#[derive(Debug, Default)]
pub struct Interrupts {
    first: Option<Instant>,
    /// The last ones, fewer than are meant.
    last: Vec<Instant>,
    is_told: bool,
}

impl Interrupts {
    /// One more; `true`: the command is to end.
    pub fn came(&mut self, now: Instant) -> bool {
        self.first.get_or_insert(now);
        self.last.retain(|&before| now.saturating_duration_since(before) < WITHIN);
        self.last.push(now);
        let is_meant = self.last.len() >= MEANT;
        if is_meant {
            self.is_told = true;
            self.last.clear();
        }
        is_meant
    }

    /// What is to be said to whoever waits for the command's end, once.
    pub fn word(&mut self, now: Instant) -> Option<String> {
        let first = self.first.filter(|_| !self.is_told)?;
        if now.saturating_duration_since(first) < PATIENCE {
            return None;
        }
        self.is_told = true;
        Some(format!(
            "the command goes on after Ctrl-C; to have it end, press it {MEANT} times within {} s",
            WITHIN.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_presses_once_and_waits_is_told_once() {
        let (mut interrupts, start) = (Interrupts::default(), Instant::now());
        assert_eq!(interrupts.word(start + WITHIN), None, "nobody pressed anything");
        assert!(!interrupts.came(start));
        assert_eq!(interrupts.word(start), None, "the command may end yet");
        let said = interrupts.word(start + PATIENCE).expect("it goes on");
        assert!(said.contains("3 times within 5 s"), "{said}");
        assert!(!interrupts.came(start + 2 * WITHIN));
        assert_eq!(interrupts.word(start + 3 * WITHIN), None, "that was said");
    }

    #[test]
    fn three_at_once_end_the_command_and_three_over_a_day_do_not() {
        let (mut interrupts, start) = (Interrupts::default(), Instant::now());
        let second = |count: u64| start + Duration::from_secs(count);
        assert!(![0, 3, 6, 9, 20].into_iter().any(|at| interrupts.came(second(at))));
        assert!(!interrupts.came(second(40)) && !interrupts.came(second(41)));
        assert!(interrupts.came(second(42)));
        assert_eq!(interrupts.word(second(60)), None, "it was ended, which is said");
    }
}
