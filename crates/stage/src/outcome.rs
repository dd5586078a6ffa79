//! What a transfer came to.

use std::path::PathBuf;

use crate::error::StageError;

/// Failures that are kept with their reasons; more are counted.
pub const FAILURES_TOLD: usize = 100;

/// What was not copied, and why.
#[derive(Debug)]
pub struct Failed {
    pub source: PathBuf,
    pub error: StageError,
}

/// What a transfer did. Directories are not counted.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Files and links that were copied.
    pub copied: u64,
    /// Those that were there already as they are in the source.
    pub unchanged: u64,
    /// Bytes that were copied, without holes.
    pub bytes: u64,
    /// Those that were not copied, also those that `failures` has no room for.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failed>,
}

impl Outcome {
    pub fn is_whole(&self) -> bool {
        self.failed == 0
    }

    pub(crate) fn note(&mut self, source: PathBuf, result: Result<Done, StageError>) {
        match result {
            Ok(Done::Copied { bytes }) => {
                self.copied += 1;
                self.bytes += bytes;
            }
            Ok(Done::Unchanged) => self.unchanged += 1,
            Err(error) => {
                self.failed += 1;
                if self.failures.len() < FAILURES_TOLD {
                    self.failures.push(Failed { source, error });
                }
            }
        }
    }

    pub(crate) fn add(&mut self, other: Outcome) {
        self.copied += other.copied;
        self.unchanged += other.unchanged;
        self.bytes += other.bytes;
        self.failed += other.failed;
        let room = FAILURES_TOLD.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
    }
}

/// What became of one file.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    Copied { bytes: u64 },
    Unchanged,
}
