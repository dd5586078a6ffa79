//! Where a manager may be killed, for tests: it ends itself as `kill -9` would before its n-th step.
//!
//! `$TIDEFS_MANAGER_DIES` names a file; a number in it is how many steps the manager has from then
//! on. Of the moves that are made together the first step of each kind counts, or each one where the
//! number is followed by `each`. The file is taken away when it is read. Without the variable nothing of
//! this happens.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Signal, getpid, kill_process};
use tidefs_valkey::StepKind;

/// The variable that names the file.
const FILE: &str = "TIDEFS_MANAGER_DIES";

/// Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct Steps(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    file: PathBuf,
    left: Mutex<Option<Left>>,
}

/// How long a manager lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    steps: u64,
    /// Every step of a move is one.
    each: bool,
}

impl Left {
    fn parse(text: &str) -> Option<Left> {
        let mut words = text.split_whitespace();
        let steps = words.next()?.parse().ok()?;
        Some(Left { steps, each: words.next() == Some("each") })
    }
}

impl Steps {
    pub fn from_environment() -> Steps {
        let watched = |file: std::ffi::OsString| {
            Arc::new(Watched { file: file.into(), left: Mutex::default() })
        };
        Steps(std::env::var_os(FILE).map(watched))
    }

    /// A step is about to be taken.
    pub fn take(&self, what: &str) {
        self.take_one(what, true);
    }

    fn take_one(&self, what: &str, is_first: bool) {
        let Some(watched) = &self.0 else { return };
        let mut left = watched.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(text) = std::fs::read_to_string(&watched.file) {
            let _ = std::fs::remove_file(&watched.file);
            *left = Left::parse(&text);
        }
        let Some(left) = left.as_mut().filter(|left| is_first || left.each) else { return };
        if left.steps == 0 {
            tracing::warn!("dies before the step: {what}");
            let _ = kill_process(getpid(), Signal::KILL);
        }
        left.steps -= 1;
    }
}

/// The steps of many moves that are made together.
pub struct Moves<'s> {
    steps: &'s Steps,
    seen: Mutex<BTreeSet<&'static str>>,
}

impl Moves<'_> {
    pub fn new(steps: &Steps) -> Moves<'_> {
        Moves { steps, seen: Mutex::default() }
    }

    pub fn saw(&self, kind: StepKind) {
        let name = match kind {
            StepKind::Opened => "carry",
            StepKind::Carried => "take over",
            StepKind::TakenOver => "close",
            StepKind::Closed => "go on moving",
        };
        let is_first = self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        self.steps.take_one(name, is_first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_how_long_a_manager_lives() {
        assert_eq!(Left::parse("7"), Some(Left { steps: 7, each: false }));
        assert_eq!(Left::parse("0 each\n"), Some(Left { steps: 0, each: true }));
        assert_eq!((Left::parse(""), Left::parse("each")), (None, None));
    }
}
