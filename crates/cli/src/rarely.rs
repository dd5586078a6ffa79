//! What anybody can have said again and again: it is said once in a while, with how often it was left out, so that a log
//! holds what else happens.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two of one kind.
const EVERY: Duration = Duration::from_secs(60);

/// One kind of saying.
#[derive(Default)]
pub struct Rarely(Mutex<Said>);

#[derive(Default)]
struct Said {
    last: Option<Instant>,
    left_out: u64,
}

impl Rarely {
    /// Says it, if it is time to, with what is to follow it: how often it was not said.
    pub fn say(&self, now: Instant, say: impl FnOnce(&str)) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            said.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut said.left_out);
        said.last = Some(now);
        drop(said);
        match left_out {
            0 => say(""),
            _ => say(&format!(" (and {left_out} times more since this was said last)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let rarely = Rarely::default();
        let begun = Instant::now();
        let mut said = Vec::new();
        for second in 0..=130 {
            let now = begun + Duration::from_secs(second);
            rarely.say(now, |more| said.push(format!("{second}{more}")));
        }
        let counted =
            |second: u64| format!("{second} (and 59 times more since this was said last)");
        assert_eq!(said, ["0".to_owned(), counted(60), counted(120)]);
    }
}
