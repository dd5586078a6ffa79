//! Copies files from the mount while the command of a run works, each when it has rested.
//!
//! What is copied here need not be right for good: the copy at the end of the run compares all of it, and copies what is missing
//! or has changed since. Nothing that fails here is told, for the same reason.

use std::collections::HashMap;
use std::fs::Metadata;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidefs_stage::{Options, Progress, transfer_some};

use crate::apart;
use crate::staging::Piece;

/// For so long nothing of a file has changed before it is copied.
const RESTED: Duration = Duration::from_secs(5);
/// Between two looks at least; and so many times as long as the last one took, so that looking at many files leaves the
/// workflow its processors.
const EVERY: Duration = Duration::from_secs(1);
const TIMES_AS_LONG: u32 = 10;
/// Threads that copy: the workflow has most of the machine.
const WORKERS: NonZero<usize> = NonZero::new(2).unwrap();
/// Files that are known at a time; others are left to the end of the run.
const KNOWN_MOST: usize = 1 << 18;

/// Works in a thread of its own until it is finished.
pub struct Copier {
    stop: Sender<()>,
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

impl Copier {
    pub fn start(pieces: Vec<Piece>, checksum: bool) -> Copier {
        let (stop, stopped) = channel();
        let progress = Arc::new(Progress::default());
        let options = Options { workers: WORKERS, checksum, sync: false };
        let watched = progress.clone();
        let thread = std::thread::spawn(move || {
            apart::begin();
            let mut known: Vec<_> = pieces.iter().map(|_| Known::default()).collect();
            let mut wait = EVERY;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                for (piece, known) in pieces.iter().zip(&mut known) {
                    copy_rested(piece, known, &options, &watched);
                }
                wait = EVERY.max(began.elapsed() * TIMES_AS_LONG);
            }
        });
        Copier { stop, progress, thread }
    }

    /// What is under way is given up; the copy at the end makes it anew.
    pub fn finish(self) {
        self.progress.stop();
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::warn!(
                "copying files while they are written failed; all are copied at the end"
            );
        }
    }
}

fn copy_rested(piece: &Piece, known: &mut Known, options: &Options, progress: &Progress) {
    let now = Instant::now();
    let mut is_due =
        |path: &Path, metadata: &Metadata| known.is_due(path, Stamp::of(metadata), now);
    let Piece { selection, destination } = piece;
    match transfer_some(selection, destination, options, progress, &mut is_due) {
        Ok(outcome) => {
            outcome.failures.iter().for_each(|it| tracing::info!("not copied yet: {}", it.error));
        }
        // The command may not have come so far as to make it.
        Err(error) => tracing::debug!("nothing is copied yet: {error}"),
    }
    known.looked += 1;
    known.forget_those_that_are_gone();
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Stamp { inode: metadata.ino(), bytes: metadata.len(), changed }
    }
}

/// Since when each file has been as it is, by this host's own clock: other hosts date what they write by theirs.
#[derive(Debug, Default)]
struct Known {
    files: HashMap<PathBuf, Seen>,
    /// Looks until now.
    looked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    stamp: Stamp,
    since: Instant,
    is_copied: bool,
    /// The last look at which it was there.
    at: u64,
}

impl Known {
    /// True once for each state of a file that lasts.
    fn is_due(&mut self, path: &Path, stamp: Stamp, now: Instant) -> bool {
        let new = Seen { stamp, since: now, is_copied: false, at: self.looked };
        let Some(seen) = self.files.get_mut(path) else {
            if self.files.len() < KNOWN_MOST {
                self.files.insert(path.to_owned(), new);
            }
            return false;
        };
        if seen.stamp != stamp {
            *seen = new;
            return false;
        }
        seen.at = self.looked;
        let is_due = !seen.is_copied && now.duration_since(seen.since) >= RESTED;
        seen.is_copied |= is_due;
        is_due
    }

    fn forget_those_that_are_gone(&mut self) {
        let last = self.looked - 1;
        self.files.retain(|_, seen| seen.at >= last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(bytes: u64) -> Stamp {
        Stamp { inode: 1, bytes, changed: (0, 0) }
    }

    #[test]
    fn a_file_is_due_once_when_it_has_rested() {
        let (mut known, begun) = (Known::default(), Instant::now());
        let mut due = |bytes, after: u64| {
            known.is_due(Path::new("a"), stamp(bytes), begun + Duration::from_secs(after))
        };
        assert!(!due(1, 0) && !due(1, 4) && due(1, 5) && !due(1, 6));
        // It grew, and grows again before it has rested.
        assert!(!due(2, 20) && !due(3, 24) && !due(3, 28) && due(3, 29) && !due(3, 60));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let (mut known, now) = (Known::default(), Instant::now());
        for names in [["a", "b"].as_slice(), &["b"], &["b"]] {
            for name in names {
                known.is_due(Path::new(name), stamp(1), now);
            }
            known.looked += 1;
            known.forget_those_that_are_gone();
        }
        assert_eq!(known.files.keys().collect::<Vec<_>>(), [Path::new("b")]);
    }
}
