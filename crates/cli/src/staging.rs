//! Copies between the outside and a mount: what to copy, how far it is, and what came of it.

use std::fs;
use std::io::IsTerminal;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tidefs_model::ByteSize;
use tidefs_stage::{Options, Outcome, Progress, Selection, StageError, transfer};

use crate::apart;
use crate::arguments::stage::Manner;
use crate::failure::Failure;
use crate::say;
use crate::signals::Signals;

/// How often progress is shown on a terminal, and a signal noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is told in plain lines elsewhere.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// One thing to copy.
#[derive(Clone, Debug)]
pub struct Piece {
    pub selection: Selection,
    pub destination: PathBuf,
}

/// What was copied.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub files_copied: u64,
    pub files_unchanged: u64,
    pub files_failed: u64,
    pub bytes_copied: u64,
    pub seconds: f64,
    /// The first of those that failed.
    pub failures: Vec<FailedFile>,
}

#[derive(Debug, Serialize)]
pub struct FailedFile {
    pub source: PathBuf,
    pub reason: String,
}

impl Piece {
    /// To a place in the mount; by its own name where none is given.
    pub fn inward(
        source: &Path,
        destination: Option<&Path>,
        mount: &Path,
    ) -> anyhow::Result<Piece> {
        let name =
            || source.file_name().map(Path::new).context("the source has no name; give DEST");
        let destination = destination.map_or_else(name, Ok)?;
        let destination =
            inside(&as_meant(destination, std::env::current_dir().ok(), mount), mount)?;
        Ok(Piece { selection: Selection::whole(source), destination })
    }

    /// From a place in the mount, or from many that a pattern names.
    pub fn outward(pattern: &str, destination: &Path, mount: &Path) -> anyhow::Result<Piece> {
        let selection = Selection::parse(pattern)?;
        inside(&selection.base, mount)?;
        Ok(Piece { selection: selection.below(mount), destination: destination.to_owned() })
    }
}

/// A destination that leads into the mount from where the caller is, outside of it, is meant so, as with `cp`.
fn as_meant(destination: &Path, caller: Option<PathBuf>, mount: &Path) -> PathBuf {
    let from_there = caller.filter(|it| !it.starts_with(mount)).map(|it| it.join(destination));
    from_there.filter(|it| it.starts_with(mount)).unwrap_or_else(|| destination.to_owned())
}

/// A path from the mount on; one that names the mount itself is taken as well.
fn inside(path: &Path, mount: &Path) -> Result<PathBuf, Failure> {
    let place = mount.join(path);
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    match place.starts_with(mount) && !climbs {
        true if !leads_out(&place, mount) => Ok(place),
        _ => Err(Failure::OutsideOfMount { path: path.to_owned(), mount: mount.to_owned() }),
    }
}

/// Through a symbolic link, as far as the path is there.
fn leads_out(place: &Path, mount: &Path) -> bool {
    let real = place.ancestors().find_map(|it| fs::canonicalize(it).ok());
    match (real, fs::canonicalize(mount)) {
        (Some(real), Ok(mount)) => !real.starts_with(mount),
        _ => false,
    }
}

/// Copies all of it, one piece after the other. A signal that asks to stop ends it, and is given back.
pub fn copy(
    pieces: &[Piece],
    manner: &Manner,
    signals: &Signals,
) -> anyhow::Result<(Report, Option<i32>)> {
    let (progress, began) = (Progress::default(), Instant::now());
    let options =
        Options { workers: workers(manner), checksum: manner.checksum, sync: manner.sync };
    let mut stopped_by = None;
    let ends = manner.deadline.map(|seconds| began + Duration::from_secs(seconds.into()));
    let outcomes: Vec<Result<Outcome, StageError>> = thread::scope(|scope| {
        let copying = scope.spawn(|| {
            apart::begin();
            let copy = |it: &Piece| transfer(&it.selection, &it.destination, &options, &progress);
            pieces.iter().map(copy).collect()
        });
        let mut shown = Shown::begin();
        while !copying.is_finished() {
            if let Some(received) = signals.wait(None, LOOK_EVERY).filter(|it| it.asks_to_stop()) {
                progress.stop();
                stopped_by = Some(received.signal);
            }
            if ends.is_some_and(|ends| Instant::now() >= ends) {
                progress.stop();
            }
            shown.look(&progress);
        }
        copying.join().expect("copying does not panic")
    });
    let mut report = Report { seconds: began.elapsed().as_secs_f64(), ..Report::default() };
    for outcome in outcomes {
        report.add(outcome?);
    }
    Ok((report, stopped_by))
}

fn workers(manner: &Manner) -> NonZero<usize> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let usual = NonZero::new((4 * processors).min(16)).expect("a processor is there");
    manner.workers.unwrap_or(usual)
}

impl Report {
    fn add(&mut self, outcome: Outcome) {
        self.files_copied += outcome.copied;
        self.files_unchanged += outcome.unchanged;
        self.files_failed += outcome.failed;
        self.bytes_copied += outcome.bytes;
        let failures = outcome.failures.into_iter();
        self.failures.extend(
            failures.map(|it| FailedFile { source: it.source, reason: it.error.to_string() }),
        );
    }

    pub fn is_whole(&self) -> bool {
        self.files_failed == 0
    }

    /// In words, with the reasons of what failed.
    pub fn tell(&self) {
        let rate = ByteSize((self.bytes_copied as f64 / self.seconds.max(1e-3)) as u64);
        let Report { files_copied, files_unchanged, files_failed, bytes_copied, seconds, .. } =
            self;
        let there = match files_unchanged {
            0 => String::new(),
            some => format!(", {some} were there already"),
        };
        say::note(format!(
            "{} with {} copied in {seconds:.1} s ({rate}/s){there}",
            count_of_files(*files_copied),
            ByteSize(*bytes_copied)
        ));
        if *files_failed > 0 {
            say::note(format!("not copied: {}", count_of_files(*files_failed)));
            self.failures.iter().for_each(|it| say::note(format!("  {}", it.reason)));
            let others = files_failed.saturating_sub(self.failures.len() as u64);
            if others > 0 {
                say::note(format!("  and {others} others"));
            }
        }
    }
}

fn count_of_files(count: u64) -> String {
    format!("{count} file{}", if count == 1 { "" } else { "s" })
}

/// Progress on a terminal, or in plain lines.
struct Shown {
    bar: Option<ProgressBar>,
    told: Instant,
}

impl Shown {
    fn begin() -> Shown {
        let style = ProgressStyle::with_template("tidefs: {msg}, {elapsed}").expect("it is valid");
        let bar =
            std::io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style));
        Shown { bar, told: Instant::now() }
    }

    fn look(&mut self, progress: &Progress) {
        let ((files, bytes), (found, bytes_found)) = (progress.done(), progress.found());
        let text = format!(
            "{files} of {found} files found so far, {} of {}",
            ByteSize(bytes),
            ByteSize(bytes_found)
        );
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.tick();
            }
            None if self.told.elapsed() >= TELL_EVERY => {
                self.told = Instant::now();
                say::note(text);
            }
            None => {}
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_nowhere_else() {
        let mount = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", mount.path().join("out")).unwrap();
        let to =
            |place: &str| Piece::inward(Path::new("/data/x"), Some(Path::new(place)), mount.path());
        assert!(to("out/x").unwrap_err().to_string().contains("leads out of the mount"));
        assert!(Piece::outward("out/*", Path::new("/back"), mount.path()).is_err());
        assert!(to("in/x").is_ok());
    }

    #[test]
    fn places_are_from_the_mount_on_and_stay_in_it() {
        let mount = Path::new("/mnt/tide");
        let piece = |source: &str, destination: Option<&str>| {
            Piece::inward(Path::new(source), destination.map(Path::new), mount)
        };
        assert_eq!(piece("/data/x", None).unwrap().destination, mount.join("x"));
        assert_eq!(piece("/data/x", Some("a/b")).unwrap().destination, mount.join("a/b"));
        assert_eq!(piece("/data/x", Some("/mnt/tide/a")).unwrap().destination, mount.join("a"));
        for outside in ["/mnt/other", "../x", "a/../../x"] {
            let error = piece("/data/x", Some(outside)).unwrap_err().to_string();
            assert!(error.contains("/mnt/tide"), "{error}");
        }
        let meant = |caller: &str, destination: &str| {
            as_meant(Path::new(destination), Some(caller.into()), mount)
        };
        assert_eq!(meant("/mnt", "./tide/a"), mount.join("a"));
        assert_eq!(meant("/mnt", "a"), Path::new("a"));
        assert_eq!(meant("/mnt/tide/b", "a"), Path::new("a"));
        let piece = Piece::outward("a/*.csv", Path::new("/out"), mount).unwrap();
        assert_eq!(piece.selection.base, mount.join("a"));
        assert!(piece.selection.wants(Path::new("x.csv")));
    }
}
