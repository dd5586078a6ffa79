//! While the input comes: the course of a workflow begins when it is there.

/// Input that is on its way, in bytes and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Staging {
    /// So many bytes were told.
    input: f64,
    /// The most that was there, and since when.
    highest: (f64, f64),
}

/// When the input was there, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Staged {
    pub at: f64,
    pub bytes: f64,
}

impl Staging {
    /// `None` where nothing was told of an input, or something is there already.
    pub fn of(input: f64, now: f64, bytes: f64, still: f64) -> Option<Staging> {
        (input > still && bytes <= still).then_some(Staging { input, highest: (bytes, now) })
    }

    /// Takes in what is in use: the input is there when it is as much as was told, or when what came
    /// of it stands still for so long.
    pub fn observe(&mut self, now: f64, bytes: f64, still: f64, patience: f64) -> Option<Staged> {
        if bytes > self.highest.0 + still {
            self.highest = (bytes, now);
        }
        if bytes >= self.input - still {
            return Some(Staged { at: now, bytes });
        }
        let (highest, since) = self.highest;
        let has_ended = highest > still && now - since >= patience;
        has_ended.then_some(Staged { at: since, bytes })
    }

    /// Bytes of it that are still to come.
    pub fn left(&self, bytes: f64) -> f64 {
        (self.input - bytes).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_there_when_it_is_complete_or_no_more_comes() {
        let staging = || Staging::of(100.0, 0.0, 0.0, 1.0).expect("input was told");
        let mut whole = staging();
        assert_eq!(whole.observe(1.0, 60.0, 1.0, 5.0), None);
        assert_eq!(whole.left(60.0), 40.0);
        let staged = Staged { at: 2.0, bytes: 99.5 };
        assert_eq!(whole.observe(2.0, 99.5, 1.0, 5.0), Some(staged));
        let mut part = staging();
        // Nothing at all is no input that has come.
        assert_eq!(part.observe(50.0, 0.0, 1.0, 5.0), None);
        assert_eq!(part.observe(51.0, 60.0, 1.0, 5.0), None);
        let staged = Staged { at: 51.0, bytes: 60.0 };
        assert_eq!(part.observe(56.0, 60.0, 1.0, 5.0), Some(staged));
    }

    #[test]
    fn what_is_there_already_is_not_awaited() {
        assert_eq!(Staging::of(100.0, 0.0, 40.0, 1.0), None);
        assert_eq!(Staging::of(0.5, 0.0, 0.0, 1.0), None);
    }
}
