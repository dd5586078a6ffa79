//! Where a manager may be killed, for tests: it ends itself as `kill -9` would before its n-th step.
//!
//! `$TIDEFS_MANAGER_DIES` names a file; a number in it is how many steps the manager has from then
//! on. The file is taken away when it is read. Without the variable nothing of this happens.

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
    left: Mutex<Option<u64>>,
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
        let Some(watched) = &self.0 else { return };
        let mut left = watched.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(text) = std::fs::read_to_string(&watched.file) {
            let _ = std::fs::remove_file(&watched.file);
            *left = text.trim().parse().ok();
        }
        let Some(steps) = left.as_mut() else { return };
        if *steps == 0 {
            tracing::warn!("dies before the step: {what}");
            let _ = kill_process(getpid(), Signal::KILL);
        }
        *steps -= 1;
    }
}

/// The steps of many moves that are made together: the first of each kind counts.
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
        if self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
            self.steps.take(name);
        }
    }
}
