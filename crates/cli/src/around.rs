//! What `run` copies before and after its command, and what it says of files that nobody keeps.

mod as_written;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidefs_model::ByteSize;
use tidefs_stage::{Remaining, Selection, StageError};

use crate::apart::apart;
use crate::arguments::stage::{Around, Manner, parts};
use crate::failure::Failure;
use crate::say;
use crate::signals::Signals;
use crate::staging::{self, Piece};

pub use as_written::Copier;

/// How long the look for files that end with the run may take.
const LOOK_MAX: Duration = Duration::from_secs(2);

pub struct Staging<'o> {
    around: &'o Around,
    is_quiet: bool,
    mount: &'o Path,
}

impl<'o> Staging<'o> {
    /// Refuses, before anything starts, what could not be carried out in the end.
    pub fn check(around: &'o Around, is_quiet: bool, mount: &'o Path) -> anyhow::Result<Self> {
        let staging = Staging { around, is_quiet, mount };
        for Piece { selection, .. } in staging.inward()? {
            let path = selection.base;
            std::fs::symlink_metadata(&path)
                .map_err(|cause| StageError::Unreadable { path, cause })?;
        }
        staging.outward_texts().try_for_each(|text| staging.outward(text).map(|_| ()))?;
        Ok(staging)
    }

    pub fn mount(&self) -> &'o Path {
        self.mount
    }

    fn inward(&self) -> anyhow::Result<Vec<Piece>> {
        let piece = |text: &String| {
            let (source, destination) = parts(text);
            Piece::inward(Path::new(source), destination.map(Path::new), self.mount)
        };
        apart(|| self.around.stage_in.iter().map(piece).collect())
    }

    /// What is to be copied from the mount at the end.
    fn outward_texts(&self) -> impl Iterator<Item = &'o String> {
        self.around.stage_out.iter().chain(&self.around.stage_out_as_written)
    }

    fn outward(&self, text: &str) -> anyhow::Result<Piece> {
        let (source, destination) = parts(text);
        let destination = Path::new(destination.unwrap_or_default());
        apart(|| Piece::outward(source, destination, self.mount))
    }

    fn manner(&self) -> Manner {
        Manner { checksum: self.around.stage_checksum, ..Manner::default() }
    }

    /// Before the command.
    pub fn bring(&self, signals: &Signals) -> anyhow::Result<()> {
        let pieces = self.inward()?;
        if pieces.is_empty() {
            return Ok(());
        }
        let (report, stopped_by) = staging::copy(&pieces, &self.manner(), signals)?;
        if let Some(signal) = stopped_by {
            return Err(Failure::Interrupted(signal).into());
        }
        if !self.is_quiet || !report.is_whole() {
            report.tell();
        }
        match report.files_failed {
            0 => Ok(()),
            files => Err(Failure::StageInFailed { files }.into()),
        }
    }

    /// While the command runs.
    pub fn copy_as_written(&self) -> Option<Copier> {
        let texts = self.around.stage_out_as_written.iter();
        let pieces: Vec<_> = texts.filter_map(|text| self.outward(text).ok()).collect();
        (!pieces.is_empty()).then(|| Copier::start(pieces, self.around.stage_checksum))
    }

    /// Whatever the command came to. Answers whether all that was asked for was copied.
    pub fn fetch(&self, signals: &Signals) -> bool {
        let (mut is_whole, began) = (true, Instant::now());
        for text in self.outward_texts() {
            let gone = u32::try_from(began.elapsed().as_secs()).unwrap_or(u32::MAX);
            let deadline = self.around.stage_out_deadline.map(|all| all.saturating_sub(gone));
            let manner = Manner { deadline, ..self.manner() };
            let copied =
                self.outward(text).and_then(|piece| staging::copy(&[piece], &manner, signals));
            match copied {
                Ok((report, _)) => {
                    is_whole &= report.is_whole();
                    if !self.is_quiet || !report.is_whole() {
                        report.tell();
                    }
                }
                Err(error) => {
                    is_whole = false;
                    say::note(format!("{text}: {error:#}"));
                }
            }
        }
        if !self.is_quiet {
            self.tell_of_the_rest();
        }
        is_whole
    }

    /// The places of these.
    pub fn kept(&self) -> Vec<Selection> {
        let outward = self.outward_texts().filter_map(|text| self.outward(text).ok());
        outward.map(|piece| piece.selection).collect()
    }

    fn tell_of_the_rest(&self) {
        let kept = self.kept();
        let inward = self.inward().unwrap_or_default().into_iter();
        let copies: Vec<(PathBuf, PathBuf)> =
            inward.map(|piece| (piece.selection.base, piece.destination)).collect();
        let until = Instant::now() + LOOK_MAX;
        let remaining = apart(|| Remaining::find(self.mount, &kept, &copies, until));
        if let Some(said) = told(&remaining) {
            say::note(said);
        }
    }
}

fn told(remaining: &Remaining) -> Option<String> {
    let Remaining { files, bytes, is_more } = *remaining;
    let files = match (files, is_more) {
        (0, false) => return None,
        (1, false) => "1 file".to_owned(),
        (some, false) => format!("{some} files"),
        (some, true) => format!("at least {some} files"),
    };
    let (size, keep) = (ByteSize(bytes), "--stage-out SRC:DEST would have kept what SRC names");
    Some(format!("{files} with {size} ended with the run, since nobody asked to keep them; {keep}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_with_a_run_is_counted() {
        let told = |files, is_more| told(&Remaining { files, bytes: 2 << 20, is_more });
        assert_eq!(told(0, false), None);
        assert!(told(1, false).unwrap().starts_with("1 file with 2 MiB ended"));
        assert!(told(7, true).unwrap().starts_with("at least 7 files with 2 MiB"));
    }
}
